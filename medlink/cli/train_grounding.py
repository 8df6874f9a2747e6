"""``medlink train grounding`` and ``medlink train map``: names near their concepts, above an encoder that stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, pooling, settings_options
from medlink.cli.output import say
from medlink.errors import ConfigError
from medlink.training.grounding.synonyms import SetOptions, read_sets, split
from medlink.training.recipes import GroundingRecipe, RunOptions

F = TypeVar("F", bound=Callable[..., Any])


def _common(command: F) -> F:
    """What both commands take: names, how they are fused and split, the encoder below, and the folder to write."""
    start = "Encoder below, which is not trained: 'builtin', a folder, or hf:NAME of the hub."
    options = [
        click.argument("kb", type=PATH),
        click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder."),
        click.option("--start", type=PATH_OR_NAME, default="builtin", show_default=True, help=start),
        pooling("start"),
        click.option("--hold-out", is_flag=True, help="Leave out what 'medlink evaluate synonyms' measures."),
        settings_options(SetOptions),
    ]
    return reduce(lambda done, option: option(done), reversed(options), command)


def _train(
    kb: Path, out: Path, start: str, hold_out: bool, recipe: GroundingRecipe, options: Mapping[str, Any]
) -> None:
    """Read the names and train."""
    chosen = given(options, SetOptions)
    if not hold_out and (of_split := sorted(chosen.keys() - {"languages", "fuse"})):
        raise ConfigError(f"{of_split[0]} is given and nothing is held out", remedy="add --hold-out, or leave it out")
    from medlink.training import ConceptualGroundingTrainer

    sets = read_sets(kb, SetOptions(**chosen))
    sets = split(sets, SetOptions(**chosen)).train if hold_out else sets
    run = given(options, RunOptions)
    trainer = ConceptualGroundingTrainer(sets, start, recipe)
    encoder = trainer.train(out, progress=say, **run)
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {len(sets)} concepts")


@click.command("grounding")
@_common
@settings_options(GroundingRecipe, leave_out=("mini_batch", "max_tokens", "evaluate_steps"))
@settings_options(RunOptions)
def grounding(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Train a network above an encoder by conceptual grounding: names near synonyms and near their concept."""
    _train(kb, out, start, hold_out, GroundingRecipe(**given(options, GroundingRecipe)), options)


@click.command("map")
@_common
def concept_map(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Put the linear map of names to their concepts above an encoder: seconds on a CPU, nothing is trained."""
    _train(kb, out, start, hold_out, GroundingRecipe.map_alone(), options)
