"""``medlink train mlte``: a regressor or classifier of pairs of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, pooling, settings_options
from medlink.cli.output import say
from medlink.errors import ConfigError, needs_extra
from medlink.training.recipes import MlteRecipe, PhaseRecipe, RunOptions, check_measured


@click.command("mlte")
@click.argument("tables", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the regressor.")
@click.option(
    "--start",
    required=True,
    type=PATH_OR_NAME,
    help="Transformer whose blocks are read: folder, or hf:NAME of the hub.",
)
@pooling("start")
@click.option("--dev", type=PATH, help="Rated pairs that choose beta, and the epoch of the fine-tuning.")
@click.option("--extra", "extras", multiple=True, help="Column of TABLES that is known of a pair; may be repeated.")
@settings_options(MlteRecipe)
@settings_options(RunOptions)
def mlte(
    tables: tuple[Path, ...], out: Path, start: str, dev: Path | None, extras: tuple[str, ...], **options: Any
) -> None:
    """Train a regressor or classifier of text pairs on TABLES of rated pairs, all on one scale, by MLTE."""
    said = given(options, MlteRecipe)
    if not said.get("fine_tune"):
        for name in sorted(said.keys() & ({"dropout", *PhaseRecipe.model_fields} - {"seed"})):
            remedy = f"give fine_tune, or leave {name} out"
            raise ConfigError(f"{name} is of the fine-tuning, and there is none", remedy=remedy)
    recipe = MlteRecipe(**said)
    check_measured(recipe, dev)
    with needs_extra("train", "training"):
        from medlink.training import MlteTrainer
        from medlink.training.biolord.phases import rated_pairs

    pairs = [pair for table in tables for pair in rated_pairs(table, say, extras)]
    measured = None if dev is None else rated_pairs(dev, say, extras)
    trainer = MlteTrainer(pairs, start, recipe, dev=measured, extras=extras)
    regressor = trainer.train(out, **dict(RunOptions(**given(options, RunOptions))), progress=say)
    figures = regressor.record["figures"]
    best = f", {max(figures['dev by beta']):.4f} on the development pairs" if dev else ""
    click.echo(f"{out}: {recipe.kind} of pairs, trained on {len(pairs):,}, beta {figures['beta']:g}{best}")
