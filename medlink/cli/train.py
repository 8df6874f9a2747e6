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
@click.option("--epochs", default=16, show_default=True, type=click.IntRange(min=1), help="Passes over all names.")
@click.option(
    "--hard-epochs",
    default=5,
    show_default=True,
    type=click.IntRange(min=0),
    help="Last epochs whose batches hold near neighbours.",
)
@click.option("--batch-size", default=512, show_default=True, type=click.IntRange(min=2), help="Pairs in a batch.")
@click.option("--seed", default=1, show_default=True, help="Seed of all that is random.")
def static(kb: Path, out: Path, epochs: int, hard_epochs: int, batch_size: int, seed: int) -> None:
    """Train the small static encoder on the names in KB: those of one concept against those of others."""
    from medlink.errors import ConfigError
    from medlink.kb import KnowledgeBase
    from medlink.models.static_trainer import StaticRecipe, StaticTrainer

    if out.exists() and any(out.iterdir()) and not (out / "modules.json").exists():
        raise ConfigError("the folder is not empty and holds no encoder", path=out, remedy="name another folder")
    with KnowledgeBase(kb) as store:
        names = list(store.iter_names())
    recipe = StaticRecipe(epochs=epochs, hard_epochs=min(hard_epochs, epochs), batch_size=batch_size, seed=seed)
    encoder = StaticTrainer(names, recipe=recipe, log=lambda line: click.echo(line, err=True)).train()
    encoder.save(out)
    click.echo(f"{out}: static encoder {encoder.fingerprint}, trained on {len(names)} names")
