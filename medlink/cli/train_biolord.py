"""``medlink train biolord``: one command for each phase of BioLORD, and one for a recipe of all phases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, combine, make_settings, pooling_option, settings_options
from medlink.cli.output import say
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.recipes import (
    CoderPlusPlusRecipe,
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PhaseRecipe,
    RunOptions,
    StaticStudentRecipe,
    StsRecipe,
    check_dev_options,
)

F = TypeVar("F", bound=Callable[..., Any])

_out = click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder.")
_teacher = click.option(
    "--teacher", required=True, type=PATH_OR_NAME, help="Encoder to imitate: folder, or hf:NAME of the hub."
)
_knowledge_base = combine(
    click.argument("kb", type=PATH),
    click.option("--language", "languages", multiple=True, help="Language of the names; may be repeated.  [all]"),
    click.option("--without", type=PATH, help="File of concept ids to leave out, one a line."),
)
_definitions = combine(
    click.option(
        "--definitions", multiple=True, type=PATH, help="Table of concept_id and definition; may be repeated."
    ),
    click.option("--definitions-system", "system", help="System whose codes are the ids in --definitions."),
)
_DATA = ("kb", "definitions", "system", "languages", "without")


def static_defaults(kind: type[ContrastiveRecipe | CoderPlusPlusRecipe]) -> dict[str, str]:
    """Return the help texts of the options whose default differs for a static encoder."""
    paper, static = kind().to_dict(), kind.static().to_dict()
    texts = {name: (f"{value:.3g}" if isinstance(value, float) else value) for name, value in paper.items()}
    return {name: f"{texts[name]}; static {static[name]}" for name in paper if paper[name] != static[name]}


def _start(*aliases: str, help_: str = "Encoder that is trained further", where: str = "folder") -> Callable[[F], F]:
    """Make the option that names the encoder to train; ``aliases`` are older names of the option."""
    text = f"{help_}: {where}, or hf:NAME of the hub."
    return combine(
        click.option("--start", *aliases, "start", required=True, type=PATH_OR_NAME, help=text), pooling_option("start")
    )


@click.group("biolord", cls=Commands)
def biolord() -> None:
    """Train an encoder by BioLORD: sts, contrastive, distill, soup, multilingual, static; run runs phases 1 to 5."""


def _phase(kind: type[PhaseRecipe], *parameters: Callable[[Any], Any], **defaults: str) -> Callable[[F], F]:
    """Add the command of a phase, with the name and the docstring of a function that does nothing.

    The command calls ``run_NAME`` of :mod:`medlink.training.biolord.phases`. ``defaults`` are texts for the help.
    """

    def add(function: F) -> F:
        def command(dev: Path | None, **options: Any) -> None:
            recipe = make_settings(kind, options)
            check_dev_options(recipe, dev)
            names = ("tables", "teacher", "alignments")
            given: dict[str, Any] = {name: options[name] for name in names if name in options}
            if kind is ContrastiveRecipe:
                given["pairs"] = make_settings(PairRecipe, options)
            from medlink.training.biolord import phases

            if "kb" in options:
                selected = {key: options[key] for key in _DATA if key in options}
                given["data"] = phases.TrainingData(**selected, progress=say)
            job = phases.Job(options["out"], make_settings(RunOptions, options), say, dev)
            click.echo(getattr(phases, f"run_{function.__name__}")(job, options["start"], recipe, **given))

        # a static encoder does not use them
        unused = ("mini_batch", "max_tokens") if kind is StaticStudentRecipe else ()
        recipe_options = settings_options(kind, exclude=unused, defaults=defaults)
        dev_option = click.option("--dev", type=PATH, help="Rated pairs that choose the best checkpoint.")
        add_options = combine(*parameters, recipe_options, dev_option, settings_options(RunOptions))
        biolord.command(function.__name__, help=function.__doc__)(add_options(command))
        return function

    return add


@_phase(StsRecipe, click.argument("tables", nargs=-1, required=True, type=PATH), _out, _start())
def sts() -> None:
    """Phase 1: fine-tune on TABLES of rated sentence pairs, before the contrastive phase and after it."""


_pairs = settings_options(
    PairRecipe, exclude=["seed"], defaults={"pairs": "each definition --definition-repeats times"}
)


@_phase(
    ContrastiveRecipe, _knowledge_base, _definitions, _out, _start(where="'builtin', folder"), _pairs,
    **static_defaults(ContrastiveRecipe),
)  # fmt: skip
def contrastive() -> None:
    """Phase 2: InfoNCE on the names in KB with definitions and verbalised relations of their concepts.

    A default in brackets is for a transformer; after 'static' is the default for a static encoder such as the built-in
    encoder.
    """


@_phase(
    DistillationRecipe, _knowledge_base, _definitions, _out, _teacher,
    _start("--base", help_="Encoder that is trained, as it was before the contrastive phase"),
    head_rate="that of the rest",
)  # fmt: skip
def distill() -> None:
    """Phase 3: distil the contrastive model's embeddings of the concepts of KB into the start, by several seeds."""


@biolord.command("soup")
@click.argument("encoders", nargs=-1, required=True, type=PATH)
@_out
def soup(encoders: tuple[Path, ...], out: Path) -> None:
    """Phase 4: average the weights of ENCODERS, which are folders of encoders or output folders of 'distill'."""
    from medlink.training.biolord import phases

    click.echo(phases.run_soup(encoders, out))


@_phase(
    MultilingualRecipe, _knowledge_base, _out, _teacher,
    _start("--student", help_="Multilingual encoder that learns"),
    click.option("--alignments", type=PATH, help="Table of source, target and language, TSV."),
    low="found from the pairs", high="found from the pairs",
)  # fmt: skip
def multilingual() -> None:
    """Phase 5: train the start to embed all names of a concept in KB as the teacher embeds its English names.

    --language names the languages to learn besides English.
    """


@_phase(
    StaticStudentRecipe, _knowledge_base, _out, _teacher,
    click.option(
        "--start", "--student", "start", type=PATH_OR_NAME,
        help="Static encoder that learns: 'builtin', folder.  [random weights]",
    ),
)  # fmt: skip
def static() -> None:
    """Phase 6: distil a transformer into the small static encoder, and measure the lost accuracy on names in KB."""


@biolord.command("run")
@click.argument("recipe", type=PATH)
def run(recipe: Path) -> None:
    """Run phases 1 to 5 by the TOML file RECIPE, each into its own folder; resume where an earlier run stopped."""
    from medlink.training.biolord import run_recipe

    last = run_recipe(recipe, progress=say)
    click.echo(f"{last.parent}: complete, {last.name} is the last encoder")
