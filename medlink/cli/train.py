"""``medlink train``: encoders from the names of a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, given, settings_options
from medlink.cli.train_biolord import biolord
from medlink.errors import needs_extra
from medlink.models.static.encoder import StaticConfig
from medlink.records import Name
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.static.recipes import StaticRecipe

_OUT = click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder.")


def _defaults() -> dict[str, str]:
    """Defaults of CODER++ where those for a static encoder differ."""
    paper, static = CoderPlusPlusRecipe().to_dict(), CoderPlusPlusRecipe.static().to_dict()
    both = {name: (f"{value:.3g}" if isinstance(value, float) else value) for name, value in paper.items()}
    return {name: f"{both[name]}; static {static[name]}" for name in paper if paper[name] != static[name]}


def _names(kb: Path) -> list[Name]:
    from medlink.kb import KnowledgeBase
    from medlink.training.data.selection import Selection

    with KnowledgeBase(kb) as store:
        return list(Selection(store).names())


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.group(cls=Commands)
def train() -> None:
    """Train an encoder on the names of a knowledge base."""


train.add_command(biolord)


@train.command("static")
@click.argument("kb", type=PATH)
@_OUT
@settings_options(StaticRecipe)
@settings_options(StaticConfig)
def static(kb: Path, out: Path, **options: Any) -> None:
    """Train the small static encoder on the names in KB: those of one concept against those of others."""
    config, recipe = StaticConfig(**given(options, StaticConfig)), StaticRecipe(**given(options, StaticRecipe))
    with needs_extra("train", "training"):
        from medlink.training.static.trainer import StaticTrainer

    names = _names(kb)
    encoder = StaticTrainer(names, config, recipe).train(out, progress=_say)
    click.echo(f"{out}: static encoder {encoder.fingerprint}, trained on {len(names)} names")


@train.command("average")
@click.argument("encoders", nargs=-1, required=True, type=PATH)
@_OUT
@click.option(
    "--marker-weight",
    type=click.FloatRange(min=0),
    help="Weight of numbers, numerals and single letters in the average.  [default: that of the encoders]",
)
def average(encoders: tuple[Path, ...], out: Path, marker_weight: float | None) -> None:
    """Average the weights of static ENCODERS that were trained with one seed and different recipes."""
    from medlink.models import StaticEncoder
    from medlink.models.encoders import check_folder
    from medlink.training.common.averaging import average as mean

    check_folder(out)
    averaged = mean([StaticEncoder.load(folder) for folder in encoders])
    if marker_weight is not None:
        averaged = StaticEncoder(averaged.config.replace(marker_weight=marker_weight), averaged.tensors)
    averaged.save(out)
    click.echo(f"{out}: static encoder {averaged.fingerprint}, the mean of {len(encoders)}")


@train.command("coderpp")
@click.argument("kb", type=PATH)
@_OUT
@click.option(
    "--start",
    type=PATH_OR_NAME,
    default="builtin",
    show_default=True,
    help="Encoder to start from: 'builtin', a folder, or hf:NAME of the hub.",
)
@settings_options(CoderPlusPlusRecipe, defaults=_defaults())
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
    from medlink.training import CoderPlusPlusTrainer

    names = _names(kb)
    trainer = CoderPlusPlusTrainer(names, start)
    trainer.recipe = trainer.recipe.replace(**given(recipe, CoderPlusPlusRecipe))
    encoder = trainer.train(out, resume=resume, checkpoint_steps=checkpoint_steps, workers=workers, progress=_say)
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {len(names)} names")
