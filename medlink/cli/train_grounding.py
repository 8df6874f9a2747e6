"""``medlink train grounding`` and ``medlink train map``: names near their concepts, above an encoder that stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, settings_options
from medlink.errors import ConfigError
from medlink.training.common.recipes import RunOptions
from medlink.training.grounding.recipe import GroundingRecipe
from medlink.training.grounding.synonyms import SetOptions

if TYPE_CHECKING:
    from medlink.training.grounding.synonyms import Sets

F = TypeVar("F", bound=Callable[..., Any])


def _common(command: F) -> F:
    """What both commands take: names, how they are fused and split, the encoder below, and the folder to write."""
    start = "Encoder below, which is not trained: 'builtin', a folder, or hf:NAME of the hub."
    options = [
        click.argument("kb", type=PATH),
        click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder."),
        click.option("--start", type=PATH_OR_NAME, default="builtin", show_default=True, help=start),
        click.option("--hold-out", is_flag=True, help="Leave out what 'medlink evaluate synonyms' measures."),
        settings_options(SetOptions),
    ]
    return reduce(lambda done, option: option(done), reversed(options), command)


def _sets(kb: Path, hold_out: bool, options: dict[str, Any]) -> Sets:
    """Names to train on."""
    from medlink.training.grounding.synonyms import read_sets, split

    chosen = given(options, SetOptions)
    if not hold_out and (of_split := sorted(chosen.keys() - {"languages", "fuse"})):
        raise ConfigError(f"{of_split[0]} is given and nothing is held out", remedy="add --hold-out, or leave it out")
    sets = read_sets(kb, SetOptions(**chosen))
    return split(sets, SetOptions(**chosen)).train if hold_out else sets


@click.command("grounding")
@_common
@settings_options(GroundingRecipe, leave_out=("mini_batch", "max_tokens", "evaluate_steps"))
@settings_options(RunOptions)
def grounding(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Train a network above an encoder by conceptual grounding: names near synonyms and near their concept."""
    recipe = GroundingRecipe(**given(options, GroundingRecipe))
    from medlink.training import ConceptualGroundingTrainer

    trainer = ConceptualGroundingTrainer(_sets(kb, hold_out, options), start, recipe)
    encoder = trainer.train(out, progress=lambda line: click.echo(line, err=True), **given(options, RunOptions))
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {len(trainer.sets)} concepts")


@click.command("map")
@_common
def concept_map(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Put the linear map of names to their concepts above an encoder: seconds on a CPU, nothing is trained."""
    from medlink.training.grounding.trainer import train_map

    sets = _sets(kb, hold_out, options)
    click.echo(f"{out}: encoder {train_map(sets, start, out).fingerprint}, fitted on {len(sets)} concepts")
