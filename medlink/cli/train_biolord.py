"""``medlink train biolord``: the phases of BioLORD, one command each, and all of them by a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, given, number, pooling, settings_options, together
from medlink.cli.output import say
from medlink.training.recipes import (
    CoderPlusPlusRecipe,
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PairRecipe,
    PhaseRecipe,
    RunOptions,
    StaticStudentRecipe,
    StsRecipe,
    check_measured,
)

if TYPE_CHECKING:
    from medlink.training.biolord.phases import Job, TrainingData

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=PhaseRecipe)


_out = click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder.")
_dev = click.option("--dev", type=PATH, help="Rated pairs whose best cosines are kept.")
_teacher = click.option(
    "--teacher", required=True, type=PATH_OR_NAME, help="Encoder that is imitated: folder, or hf:NAME of the hub."
)
_knowledge_base = together(
    click.argument("kb", type=PATH),
    click.option("--language", "languages", multiple=True, help="Language of the names; may be repeated.  [all]"),
    click.option("--without", type=PATH, help="File of concept ids to leave out, one a line."),
)
_definitions = together(
    click.option(
        "--definitions", multiple=True, type=PATH, help="Table of concept_id and definition; may be repeated."
    ),
    click.option("--definitions-system", "system", help="System whose codes are the ids in --definitions."),
)


def where_static_differs(kind: type[ContrastiveRecipe | CoderPlusPlusRecipe]) -> dict[str, str]:
    """Defaults of a recipe as the help shows them, where those for a static encoder differ."""
    paper, static = kind().to_dict(), kind.static().to_dict()
    both = {name: (f"{value:.3g}" if isinstance(value, float) else value) for name, value in paper.items()}
    return {name: f"{both[name]}; static {static[name]}" for name in paper if paper[name] != static[name]}


def _start(*also: str, help_: str = "Encoder that is trained further", where: str = "folder") -> Callable[[F], F]:
    """The encoder that is trained; under other names, too, that it had."""
    text = f"{help_}: {where}, or hf:NAME of the hub."
    return together(
        click.option("--start", *also, "start", required=True, type=PATH_OR_NAME, help=text), pooling("start")
    )


def _recipe(kind: type[PhaseRecipe], **shown: str) -> Callable[[F], F]:
    # a static encoder has no use for them
    without = ("mini_batch", "max_tokens") if kind is StaticStudentRecipe else ()
    return together(settings_options(kind, leave_out=without, defaults=shown), _dev, settings_options(RunOptions))


def _read(kind: type[R], options: Mapping[str, Any]) -> R:
    recipe = kind(**given(options, kind))
    check_measured(recipe, options["dev"])
    return recipe


def _job(options: Mapping[str, Any]) -> Job:
    from medlink.training.biolord.phases import Job

    return Job(options["out"], RunOptions(**given(options, RunOptions)), say, options["dev"])


def _data(options: Mapping[str, Any]) -> TrainingData:
    from medlink.training.biolord.phases import TrainingData

    names = ("kb", "definitions", "system", "languages", "without")
    return TrainingData(**{name: options[name] for name in names if name in options}, progress=say)


@click.group("biolord", cls=Commands)
def biolord() -> None:
    """Train an encoder by BioLORD: sts, contrastive, distill, soup, multilingual, static; run does 1 to 5."""


@biolord.command("sts")
@click.argument("tables", nargs=-1, required=True, type=PATH)
@_out
@_start()
@_recipe(StsRecipe)
def sts(tables: tuple[Path, ...], start: str, **options: Any) -> None:
    """Phase 1: fine-tune on TABLES of rated sentence pairs, before the contrastive phase and after it."""
    recipe = _read(StsRecipe, options)
    from medlink.training.biolord import phases

    named = phases.rated_tables([str(table) for table in tables], Path())
    click.echo(phases.run_sts(_job(options), named, start, recipe))


@biolord.command("contrastive")
@_knowledge_base
@_definitions
@_out
@_start(where="'builtin', folder")
@settings_options(PairRecipe, leave_out=["seed"], defaults={"pairs": "each definition --definition-repeats times"})
@number("--pair-workers", 0, "Processes that make pairs.")
@_recipe(ContrastiveRecipe, **where_static_differs(ContrastiveRecipe))
def contrastive(start: str, pair_workers: int, seed: int | None, **options: Any) -> None:
    """Phase 2: InfoNCE on the names in KB and what it says of their concepts: definitions and relations in words.

    A default in brackets is for a transformer; after 'static', that for a static encoder such as the built-in one.
    """
    pairs = PairRecipe(**given(options, PairRecipe))
    recipe = _read(ContrastiveRecipe, {**options, "seed": seed})
    from medlink.training.biolord import phases

    click.echo(phases.run_contrastive(_job(options), _data(options), start, recipe, pairs, pair_workers))


@biolord.command("distill")
@_knowledge_base
@_definitions
@_out
@_teacher
@_start("--base", help_="Encoder that is trained, as it was before the contrastive phase")
@_recipe(DistillationRecipe, head_rate="that of the rest")
def distill(teacher: str, start: str, **options: Any) -> None:
    """Phase 3: teach the start, by several seeds, where the contrastive model puts the concepts of KB."""
    recipe = _read(DistillationRecipe, options)
    from medlink.training.biolord import phases

    click.echo(phases.run_distill(_job(options), _data(options), start, recipe, teacher))


@biolord.command("soup")
@click.argument("encoders", nargs=-1, required=True, type=PATH)
@_out
def soup(encoders: tuple[Path, ...], out: Path) -> None:
    """Phase 4: average the weights of ENCODERS: folders of encoders, or of encoders that 'distill' made."""
    from medlink.training.biolord import phases

    click.echo(phases.run_soup(encoders, out))


@biolord.command("multilingual")
@_knowledge_base
@_out
@_teacher
@_start("--student", help_="Multilingual encoder that learns")
@click.option("--alignments", type=PATH, help="Table of source, target and language, TSV.")
@_recipe(MultilingualRecipe, low="found from the pairs", high="found from the pairs")
def multilingual(teacher: str, start: str, alignments: Path | None, **options: Any) -> None:
    """Phase 5: teach the start the teacher's embeddings of the English names in KB, for all names of a concept.

    --language names the languages that are learned besides English.
    """
    recipe = _read(MultilingualRecipe, options)
    from medlink.training.biolord import phases

    click.echo(phases.run_multilingual(_job(options), _data(options), start, recipe, teacher, alignments))


@biolord.command("static")
@_knowledge_base
@_out
@_teacher
@click.option(
    "--start", "--student", "start", type=PATH_OR_NAME,
    help="Static encoder that learns: 'builtin', folder.  [random weights]",
)  # fmt: skip
@_recipe(StaticStudentRecipe)
def static(teacher: str, start: str | None, **options: Any) -> None:
    """Phase 6: distil a transformer into the small static encoder, and measure on names in KB what that loses."""
    recipe = _read(StaticStudentRecipe, options)
    from medlink.training.biolord import phases

    click.echo(phases.run_static(_job(options), _data(options), start, recipe, teacher))


@biolord.command("run")
@click.argument("recipe", type=PATH)
def run(recipe: Path) -> None:
    """Phases 1 to 5 in order as the TOML file RECIPE says, each into a folder of its own; resumes where it stopped."""
    from medlink.training.biolord import run_recipe

    last = run_recipe(recipe, progress=say)
    click.echo(f"{last.parent}: complete, {last.name} is the last encoder")
