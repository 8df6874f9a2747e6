"""``medlink train ranker``: a cross-encoder that orders the candidates of a linker anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, settings_options
from medlink.cli.output import say
from medlink.errors import needs_extra
from medlink.files.problems import Problems, counted
from medlink.training.recipes import RankerRecipe


@click.command("ranker")
@click.argument("bundle", type=PATH)
@click.argument("gold", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the ranker.")
@click.option(
    "--start",
    required=True,
    type=PATH_OR_NAME,
    help="Transformer to start from: folder, or hf:NAME of the hub.",
)
@settings_options(RankerRecipe)
def ranker(bundle: Path, gold: tuple[Path, ...], out: Path, start: str, **options: Any) -> None:
    """Train a re-ranker for BUNDLE on GOLD: tables, decisions of medlink review, or lines of medlink link.

    The re-ranker learns which of the linker's own candidates is right. Use it with 'medlink link --ranker OUT'.
    """
    recipe = RankerRecipe(**given(options, RankerRecipe))
    with needs_extra("train", "training"):
        from medlink.training.ranker.trainer import RankerTrainer

    from medlink.linking import Linker
    from medlink.linking.fit import gather_groups
    from medlink.training.ranker.gold import read_gold

    problems = Problems(adjustable=False)
    examples = [one for path in gold for one in read_gold(path, problems)]
    for sentence in problems.left_out():
        say(sentence)
    linker = Linker(bundle)
    kinds = {"context": recipe.context, "definitions": recipe.definitions}
    groups = gather_groups(linker, examples, recipe.candidates, **kinds)
    if len(groups) < len(examples):
        say(f"{counted(len(examples) - len(groups), 'mention')} left out: the bundle has none of their concepts")
    figures = RankerTrainer(groups, start, recipe).train(out, progress=say)
    click.echo(
        f"{out}: ranker trained on {counted(figures['trained'], 'mention')}; of {figures['held']:,} held back "
        f"{figures['right after']:.4f} are right first, {figures['right before']:.4f} without it"
    )
