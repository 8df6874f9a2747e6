"""``medlink train``: encoders from the names of a knowledge base."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def train() -> None:
    """Train an encoder on the names of a knowledge base."""


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
@click.option("--seed", default=1, show_default=True, help="Seed of all that is random.")
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
    from medlink.models.static_trainer import StaticRecipe, StaticTrainer

    _check(out)
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
    from medlink.models.averaging import average as mean

    _check(out)
    averaged = mean([StaticEncoder.load(folder) for folder in encoders])
    averaged.save(out)
    click.echo(f"{out}: static encoder {averaged.fingerprint}, the mean of {len(encoders)}")


def _check(out: Path) -> None:
    """Refuse to write among files that are not an encoder's."""
    from medlink.errors import ConfigError

    if out.exists() and any(out.iterdir()) and not (out / "modules.json").exists():
        raise ConfigError("the folder is not empty and holds no encoder", path=out, remedy="name another folder")
