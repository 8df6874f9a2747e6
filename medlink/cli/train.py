"""``medlink train``: encoders from the names of a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.train_biolord import biolord


@click.group()
def train() -> None:
    """Train an encoder on the names of a knowledge base."""


train.add_command(biolord)


@train.command("static")
@click.argument("kb", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the encoder.")
@click.option("--epochs", default=8, show_default=True, type=click.IntRange(min=1), help="Passes over all names.")
@click.option(
    "--hard-epochs",
    default=3,
    show_default=True,
    type=click.IntRange(min=0),
    help="Last epochs whose batches hold near neighbours.",
)
@click.option("--batch-size", default=512, show_default=True, type=click.IntRange(min=2), help="Pairs in a batch.")
@click.option(
    "--feature-dropout",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0, 0.9),
    help="Share of n-grams left out.",
)
@click.option(
    "--language-boost",
    default=4,
    show_default=True,
    type=click.IntRange(min=1),
    help="How often a name of a small language is an anchor per epoch, at most.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of all that is random.",
)
def static(
    kb: Path,
    out: Path,
    epochs: int,
    hard_epochs: int,
    batch_size: int,
    feature_dropout: float,
    language_boost: int,
    seed: int,
) -> None:
    """Train the small static encoder on the names in KB: those of one concept against those of others."""
    from medlink.kb import KnowledgeBase
    from medlink.models.encoders import check_folder
    from medlink.training.static.trainer import StaticRecipe, StaticTrainer

    check_folder(out)
    with KnowledgeBase(kb) as store:
        names = list(store.iter_names())
    recipe = StaticRecipe(
        epochs=epochs,
        hard_epochs=min(hard_epochs, epochs),
        batch_size=batch_size,
        feature_dropout=feature_dropout,
        language_boost=language_boost,
        seed=seed,
    )
    encoder = StaticTrainer(names, recipe=recipe, log=lambda line: click.echo(line, err=True)).train()
    encoder.save(out)
    click.echo(f"{out}: static encoder {encoder.fingerprint}, trained on {len(names)} names")


@train.command("average")
@click.argument("encoders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the averaged encoder.")
def average(encoders: tuple[Path, ...], out: Path) -> None:
    """Average the weights of static ENCODERS that were trained with one seed and different recipes."""
    from medlink.models import StaticEncoder
    from medlink.models.encoders import check_folder
    from medlink.training.common.averaging import average as mean

    check_folder(out)
    averaged = mean([StaticEncoder.load(folder) for folder in encoders])
    averaged.save(out)
    click.echo(f"{out}: static encoder {averaged.fingerprint}, the mean of {len(encoders)}")


@train.command("coderpp")
@click.argument("kb", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the encoder.")
@click.option(
    "--start", default="builtin", show_default=True, help="Encoder to start from: 'builtin', folder, hub model."
)
@click.option("--positives", type=int, help="Terms of its concept that join an anchor.  [30]")
@click.option("--neighbours", type=int, help="Nearest terms that join an anchor.  [30]")
@click.option("--anchors", type=int, help="Anchors in a batch.  [16; static 64]")
@click.option("--accumulation", type=int, help="Batches in a step.  [8; static 1]")
@click.option("--epochs", type=int, help="Passes over all terms.  [20; static 3]")
@click.option("--refresh", help="Find the neighbours anew each 'epoch', 'never', or every N steps.  [epoch]")
@click.option("--max-tokens", type=int, help="Tokens of a term that a transformer reads.  [32]")
@click.option("--learning-rate", type=float, help="Peak of the learning rate.  [4e-05; static 0.001]")
@click.option("--warmup", type=float, help="Share of the steps that warm up.  [0.0083; static 0.05]")
@click.option("--weight-decay", type=float, help="Weight decay of AdamW.  [0.01; static 0]")
@click.option("--alpha", type=float, help="Sharpness of the loss on positives.  [2]")
@click.option("--beta", type=float, help="Sharpness of the loss on negatives.  [50]")
@click.option("--threshold", type=float, help="Lambda of the loss, a cosine.  [0.5; static 0.7]")
@click.option("--epsilon", type=float, help="Margin of the pair mining, in cosine.  [0.1]")
@click.option("--feature-dropout", type=float, help="Share of n-grams left out of a static encoder.  [0; static 0.5]")
@click.option("--precision", type=click.Choice(["auto", "fp32", "bf16", "fp16"]), help="Number type.  [auto]")
@click.option("--seed", type=int, help="Seed of all that is random.  [1]")
@click.option(
    "--checkpoint-steps", default=1000, show_default=True, type=click.IntRange(min=1), help="Steps between checkpoints."
)
@click.option(
    "--workers", default=0, show_default=True, type=click.IntRange(min=0), help="Processes that prepare batches."
)
@click.option("--resume", is_flag=True, help="Go on from the newest checkpoint of OUT.")
def coderpp(kb: Path, out: Path, start: str, checkpoint_steps: int, workers: int, resume: bool, **recipe: Any) -> None:
    """Train an encoder on the names in KB by CODER++: hard positives and hard negatives, found anew as it learns.

    A default in brackets is the paper's; after 'static', that for a static encoder such as the built-in one.
    """
    from dataclasses import replace

    from medlink.kb import KnowledgeBase
    from medlink.training import CoderPlusPlusTrainer

    given = {name: value for name, value in recipe.items() if value is not None}
    if given.get("refresh", "").isdecimal():
        given["refresh"] = int(given["refresh"])
    with KnowledgeBase(kb) as store:
        names = list(store.iter_names())
    trainer = CoderPlusPlusTrainer(names, start, log=lambda line: click.echo(line, err=True))
    trainer.recipe = replace(trainer.recipe, **given)
    encoder = trainer.train(out, resume=resume, checkpoint_steps=checkpoint_steps, workers=workers)
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {len(names)} names")
