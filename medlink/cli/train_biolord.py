"""``medlink train biolord``: the phases of BioLORD, one command each, and all of them by a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from medlink.cli import biolord_phases as phases
from medlink.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

_RECIPE: dict[str, tuple[Any, str]] = {
    "epochs": (int, "Passes over the data."),
    "batch_size": (int, "Rows of a step, over all processes."),
    "mini_batch": (int, "Rows embedded at a time with cached gradients; 0: the whole batch."),
    "learning_rate": (float, "Peak of the learning rate."),
    "warmup": (float, "Share of the steps that warm up."),
    "weight_decay": (float, "Weight decay of AdamW."),
    "max_grad_norm": (float, "Length to which a gradient is cut; 0: not at all."),
    "max_tokens": (int, "Tokens of a text that the model reads; 0: as many as it did before."),
    "evaluate_steps": (str, "Steps between two looks at --dev, or 'epoch'."),
    "patience": (int, "Looks at --dev without a better one after which training stops; 0: never."),
    "precision": (click.Choice(["auto", "fp32", "bf16", "fp16"]), "Number type."),
    "seed": (int, "Seed of all that is random."),
    "temperature": (float, "Temperature of InfoNCE."),
    "loss": (click.Choice(["cosine", "cosent"]), "Squared error of cosines, or their order."),
    "dimension": (int, "Principal components of the targets."),
    "runs": (int, "Encoders to train, each by a seed of its own."),
    "filter": (str, "Encoder that tells which pairs align: 'builtin', folder, hub model; '': none."),
    "low": (float, "Its cosine below which a pair counts nothing."),
    "high": (float, "Its cosine above which a pair counts fully."),
    "project": (bool, "Add a linear layer to a student of another width than the teacher's."),
    "feature_dropout": (float, "Share of n-grams left out of a name."),
    "held_out": (int, "Names kept from training to measure on."),
}
_PAIRS: dict[str, tuple[Any, str]] = {
    "pairs": (int, "Pairs in an epoch."),
    "definition_share": (float, "Share of pairs with a definition."),
    "name_share": (float, "Share of pairs of two names."),
    "definition_repeats": (int, "How often a definition comes where --pairs is not given."),
    "open_share": (float, "Share of descriptions that begin with 'something'."),
    "semantic_type_share": (float, "Share of descriptions that begin with a semantic type."),
}
_COMMON: dict[str, str] = {
    "mini_batch": "0",
    "warmup": "0.05",
    "max_grad_norm": "1",
    "max_tokens": "0",
    "evaluate_steps": "epoch",
    "patience": "0",
    "precision": "auto",
    "seed": "1",
}


def _options(table: Mapping[str, tuple[Any, str]], defaults: Mapping[str, str]) -> Callable[[F], F]:
    """Options of a recipe, their defaults stated in the help and left to the recipe; a bool is a flag."""

    def add(command: F) -> F:
        """Add them."""
        for name in reversed(list(defaults)):
            kind, text = table[name]
            option = f"--{name.replace('_', '-')}"
            if kind is bool:
                command = click.option(option, is_flag=True, default=None, help=text)(command)
            else:
                command = click.option(option, type=kind, help=f"{text}  [{defaults[name]}]")(command)
        return command

    return add


def _recipe(common: Mapping[str, str] = _COMMON, **defaults: str) -> Callable[[F], F]:
    """Options of the recipe of a phase with their defaults, those that are common to several too, and of the run."""

    def add(command: F) -> F:
        """Add them."""
        run = (
            click.option("--dev", type=click.Path(path_type=Path), help="Rated pairs whose best cosines are kept."),
            click.option(
                "--checkpoint-steps",
                default=1000,
                show_default=True,
                type=click.IntRange(min=1),
                help="Steps between checkpoints.",
            ),
            click.option(
                "--workers",
                default=0,
                show_default=True,
                type=click.IntRange(min=0),
                help="Processes that prepare batches.",
            ),
            click.option("--resume", is_flag=True, help="Go on from the newest checkpoint of OUT."),
        )
        for option in reversed(run):
            command = option(command)
        return _options(_RECIPE, {**defaults, **common})(command)

    return add


def _knowledge_base(command: F) -> F:
    """The knowledge base and what of it is trained on."""
    for option in (
        click.option(
            "--without", type=click.Path(path_type=Path), help="File of concept ids to leave out, one a line."
        ),
        click.option("--language", "languages", multiple=True, help="Language of the names; may be repeated.  [all]"),
        click.argument("kb", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _definitions(command: F) -> F:
    """Further definitions."""
    for option in (
        click.option("--definitions-system", "system", help="System whose codes are the ids in --definitions."),
        click.option(
            "--definitions",
            multiple=True,
            type=click.Path(path_type=Path),
            help="Table of concept_id and definition; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def _out(command: F) -> F:
    """Where the encoder goes."""
    return click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the encoder.")(
        command
    )


def _start(flag: str, text: str) -> Callable[[F], F]:
    """The encoder to begin with."""
    return click.option(flag, "start", required=True, help=f"{text}: folder or hub model.")


_teacher = click.option("--teacher", required=True, help="Encoder whose embeddings are learned: folder or hub model.")


def _split(options: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Take the options of a table that were given out of all of them."""
    given = {name: options.pop(name) for name in list(options) if name in table}
    return {name: value for name, value in given.items() if value is not None}


def _given(options: dict[str, Any], dev: Path | None) -> dict[str, Any]:
    """Take the values of the recipe that were given out of all options.

    Raises:
        ConfigError: one of them means nothing without a development measure, and there is none.
    """
    given = _split(options, _RECIPE)
    for name in phases.OF_DEV:
        if name in given and dev is None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is given without --dev",
                remedy="name rated pairs with --dev, or leave it out",
            )
    if given.get("evaluate_steps", "").isdecimal():
        given["evaluate_steps"] = int(given["evaluate_steps"])
    return given


def _trainer(start: str, options: dict[str, Any]) -> Any:
    """The trainer, by the options of a run."""
    from medlink.training import BioLordTrainer

    run = {name: options.pop(name) for name in ("resume", "checkpoint_steps", "workers")}
    return BioLordTrainer(start, lambda line: click.echo(line, err=True), **run)


@click.group("biolord")
def biolord() -> None:
    """Train a transformer by BioLORD: sts, contrastive, distill, soup, multilingual, static; run does 1 to 5."""


@biolord.command("sts")
@click.argument("tables", nargs=-1, required=True, type=click.Path(path_type=Path))
@_out
@_start("--start", "Encoder to start from")
@_recipe(epochs="10", batch_size="64", learning_rate="6e-06", weight_decay="0.01", loss="cosine")
def sts(tables: tuple[Path, ...], out: Path, start: str, dev: Path | None, **options: Any) -> None:
    """Phase 1: fine-tune on TABLES of rated sentence pairs, before the contrastive phase and after it."""
    recipe = _given(options, dev)
    named = phases.rated_tables([str(table) for table in tables], Path())
    click.echo(phases.train_sts(_trainer(start, options), named, out, recipe, dev))


@biolord.command("contrastive")
@_knowledge_base
@_definitions
@_out
@_start("--start", "Encoder to start from")
@_options(
    _PAIRS,
    {
        "pairs": "each definition --definition-repeats times",
        "definition_share": "0.15",
        "name_share": "0",
        "definition_repeats": "50",
        "open_share": "0.333",
        "semantic_type_share": "0.333",
    },
)
@click.option(
    "--pair-workers", default=0, show_default=True, type=click.IntRange(min=0), help="Processes that make pairs."
)
@_recipe(epochs="1", batch_size="64", learning_rate="2e-05", weight_decay="0.01", temperature="0.05")
def contrastive(out: Path, start: str, dev: Path | None, pair_workers: int, **options: Any) -> None:
    """Phase 2: InfoNCE on the names in KB and what it says of their concepts: definitions and relations in words."""
    recipe, pairs = _given(options, dev), _split(options, _PAIRS)
    trainer = _trainer(start, options)
    click.echo(phases.train_contrastive(trainer, phases.Data(**options), out, pairs, recipe, dev, pair_workers))


@biolord.command("distill")
@_knowledge_base
@_definitions
@_out
@_teacher
@_start("--base", "Encoder to start from, as it was before the contrastive phase")
@_recipe(epochs="1", batch_size="64", learning_rate="2e-05", weight_decay="0.01", dimension="64", runs="3")
def distill(out: Path, teacher: str, start: str, dev: Path | None, **options: Any) -> None:
    """Phase 3: teach the base, by several seeds, where the contrastive model puts the concepts of KB."""
    recipe = _given(options, dev)
    trainer = _trainer(start, options)
    click.echo(phases.train_distill(trainer, phases.Data(**options), teacher, out, recipe, dev))


@biolord.command("soup")
@click.argument("encoders", nargs=-1, required=True, type=click.Path(path_type=Path))
@_out
def soup(encoders: tuple[Path, ...], out: Path) -> None:
    """Phase 4: average the weights of ENCODERS: folders of encoders, or of encoders that 'distill' made."""
    click.echo(phases.average(encoders, out))


@biolord.command("multilingual")
@_knowledge_base
@_out
@_teacher
@_start("--student", "Multilingual encoder that learns")
@click.option("--alignments", type=click.Path(path_type=Path), help="Table of source, target and language, TSV.")
@_recipe(
    epochs="5",
    batch_size="64",
    learning_rate="2e-05",
    weight_decay="0.01",
    filter="builtin",
    low="found from the pairs",
    high="found from the pairs",
    project="no",
)
def multilingual(
    out: Path, teacher: str, start: str, alignments: Path | None, dev: Path | None, **options: Any
) -> None:
    """Phase 5: teach a student the teacher's embeddings of the English names in KB, for all names of a concept.

    --language names the languages that are learned besides English.
    """
    recipe = _given(options, dev)
    trainer = _trainer(start, options)
    click.echo(phases.train_multilingual(trainer, phases.Data(**options), teacher, out, recipe, dev, alignments))


@biolord.command("static")
@_knowledge_base
@_out
@_start("--teacher", "Encoder that is distilled")
@click.option("--student", help="Static encoder to begin with: 'builtin' or a folder.  [random weights]")
@_recipe(
    # a static encoder has no use for the others
    {name: default for name, default in _COMMON.items() if name not in ("mini_batch", "max_tokens")},
    epochs="12",
    batch_size="128",
    learning_rate="0.005",
    weight_decay="0",
    feature_dropout="0",
    held_out="1000",
)
def static(out: Path, start: str, student: str | None, dev: Path | None, **options: Any) -> None:
    """Phase 6: distil a transformer into the small static encoder, and measure on names in KB what that loses."""
    recipe = _given(options, dev)
    trainer = _trainer(start, options)
    click.echo(phases.train_static(trainer, phases.Data(**options), out, recipe, dev, student))


@biolord.command("run")
@click.argument("recipe", type=click.Path(path_type=Path))
def run(recipe: Path) -> None:
    """Phases 1 to 5 in order as the TOML file RECIPE says, each into a folder of its own; resumes where it stopped."""
    from medlink.cli.biolord_run import run_recipe

    run_recipe(recipe, lambda line: click.echo(line, err=True), click.echo)
