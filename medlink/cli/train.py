"""``medlink train``: encoders, regressors and rankers; BioLORD is in :mod:`medlink.cli.train_biolord`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from medlink.cli.options import (
    PATH,
    PATH_OR_NAME,
    Commands,
    combine,
    explicit_options,
    integer_option,
    lexicon_option,
    make_settings,
    pooling_option,
    settings_options,
)
from medlink.cli.output import say
from medlink.cli.train_biolord import biolord, static_defaults
from medlink.errors import ConfigError, needs_extra
from medlink.files.problems import Problems, pluralize
from medlink.files.resources import RESOURCES
from medlink.models.static.encoder import StaticConfig
from medlink.records import Name
from medlink.training.grounding.synonyms import SetOptions, read_sets, split
from medlink.training.recipes import (
    CoderPlusPlusRecipe,
    GroundingRecipe,
    MlteRecipe,
    PhaseRecipe,
    RankerRecipe,
    RunOptions,
    StaticRecipe,
    check_dev_options,
)

F = TypeVar("F", bound=Callable[..., Any])
# languages into which English names are translated
_TRANSLATED = sorted(rules.stem for rules in (RESOURCES / "synthesis").glob("*.json"))
_PROGRESS_STEP = 50_000  # names


def _out(what: str = "Folder of the encoder.") -> Callable[[F], F]:
    return click.option("-o", "--out", required=True, type=PATH, help=what)


def _start(what: str, **default: Any) -> Callable[[F], F]:
    default = default or {"required": True}
    return click.option("--start", type=PATH_OR_NAME, show_default=True, help=what, **default)


_grounded = combine(
    click.argument("kb", type=PATH),
    _out(),
    _start("Encoder below, which is not trained: 'builtin', a folder, or hf:NAME of the hub.", default="builtin"),
    pooling_option("start"),
    click.option("--hold-out", is_flag=True, help="Leave out what 'medlink evaluate synonyms' measures."),
    settings_options(SetOptions),
)
"""Options of the trainers of conceptual grounding."""


def _names(kb: Path) -> Iterator[Name]:
    from medlink.kb import KnowledgeBase
    from medlink.training.data.selection import Selection

    with KnowledgeBase(kb) as store:
        return Selection(store).names()


@click.group(cls=Commands)
def train() -> None:
    """Train an encoder on the names of a knowledge base."""


train.add_command(biolord)


@train.command("grounding")
@_grounded
@settings_options(GroundingRecipe, exclude=("mini_batch", "max_tokens", "evaluate_steps"))
@settings_options(RunOptions)
def grounding(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Train a network above an encoder by conceptual grounding: names move near synonyms and near their concept."""
    _ground(kb, out, start, hold_out, make_settings(GroundingRecipe, options), options)


@train.command("map")
@_grounded
def concept_map(kb: Path, out: Path, start: str, hold_out: bool, **options: Any) -> None:
    """Add a linear map from names to their concepts to an encoder, without training: seconds on a CPU."""
    _ground(kb, out, start, hold_out, GroundingRecipe.map_only(), options)


def _ground(
    kb: Path, out: Path, start: str, hold_out: bool, recipe: GroundingRecipe, options: Mapping[str, Any]
) -> None:
    values = explicit_options(options, SetOptions)
    if not hold_out and (unused := sorted(values.keys() - {"languages", "fuse"})):
        raise ConfigError(f"{unused[0]} is given and nothing is held out", remedy="add --hold-out, or leave it out")
    set_options = SetOptions(**values)
    sets = read_sets(kb, set_options)
    sets = split(sets, set_options).train if hold_out else sets
    from medlink.training import ConceptualGroundingTrainer

    trainer = ConceptualGroundingTrainer(sets, start, recipe)
    encoder = trainer.train(out, progress=say, **explicit_options(options, RunOptions))
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {len(sets)} concepts")


@train.command("mlte")
@click.argument("tables", nargs=-1, required=True, type=PATH)
@_out("Folder of the regressor.")
@_start("Transformer whose blocks are read: folder, or hf:NAME of the hub.")
@pooling_option("start")
@click.option("--dev", type=PATH, help="Rated pairs that choose beta, and the epoch of the fine-tuning.")
@click.option("--extra", "extras", multiple=True, help="Column of TABLES that is a further input; may be repeated.")
@settings_options(MlteRecipe)
@settings_options(RunOptions)
def mlte(
    tables: tuple[Path, ...], out: Path, start: str, dev: Path | None, extras: tuple[str, ...], **options: Any
) -> None:
    """Train a regressor or classifier of text pairs on TABLES of rated pairs, all on one scale, by MLTE."""
    values = explicit_options(options, MlteRecipe)
    if not values.get("fine_tune"):
        for name in sorted(values.keys() & ({"dropout", *PhaseRecipe.model_fields} - {"seed"})):
            raise ConfigError(f"{name} is given without fine_tune", remedy=f"give fine_tune, or leave {name} out")
    recipe = MlteRecipe(**values)
    check_dev_options(recipe, dev)
    from medlink.training import MlteTrainer
    from medlink.training.biolord.phases import load_rated_pairs

    pairs = [pair for table in tables for pair in load_rated_pairs(table, say, extras)]
    measured = None if dev is None else load_rated_pairs(dev, say, extras)
    trainer = MlteTrainer(pairs, start, recipe, dev=measured, extras=extras)
    regressor = trainer.train(out, **explicit_options(options, RunOptions), progress=say)
    figures = regressor.record["figures"]
    best = f", {max(figures['dev by beta']):.4f} on the development pairs" if dev else ""
    click.echo(f"{out}: {recipe.kind} of pairs, trained on {len(pairs):,}, beta {figures['beta']:g}{best}")


@train.command("ranker")
@click.argument("bundle", type=PATH)
@click.argument("gold", nargs=-1, required=True, type=PATH)
@_out("Folder of the ranker.")
@_start("Transformer to start from: folder, or hf:NAME of the hub.")
@settings_options(RankerRecipe)
def ranker(bundle: Path, gold: tuple[Path, ...], out: Path, start: str, **options: Any) -> None:
    """Train a re-ranker for BUNDLE on GOLD: tables, decisions of medlink review, or lines of medlink link.

    The re-ranker learns which of the linker's own candidates is right. Use it with 'medlink link --ranker OUT'.
    """
    recipe = make_settings(RankerRecipe, options)
    from medlink.linking import Linker
    from medlink.linking.fit import collect_groups
    from medlink.training import RankerTrainer
    from medlink.training.ranker.gold import read_gold

    problems = Problems(adjustable=False)
    examples = [example for path in gold for example in read_gold(path, problems)]
    for line in problems.summary_lines():
        say(line)
    groups = collect_groups(
        Linker(bundle), examples, recipe.candidates, context=recipe.context, definitions=recipe.definitions
    )
    if len(groups) < len(examples):
        say(f"{pluralize(len(examples) - len(groups), 'mention')} left out: the bundle has none of their concepts")
    figures = RankerTrainer(groups, start, recipe).train(out, progress=say)
    click.echo(
        f"{out}: ranker trained on {pluralize(figures['trained'], 'mention')}; of {figures['held']:,} held back "
        f"{figures['right after']:.4f} are right first, {figures['right before']:.4f} without it"
    )


@train.command("names")
@click.argument("kb", type=PATH)
@_out("Table of the names, for 'medlink kb build --table'.")
@click.option(
    "--language", "languages", multiple=True, type=click.Choice(sorted(("en", *_TRANSLATED))), default=_TRANSLATED,
    show_default=True, help="Language of the names; may be repeated.",
)  # fmt: skip
@integer_option("--per-concept", 3, "English names of a concept to translate.", minimum=1)
@integer_option("--seed", 1, "Seed of the random draws.")
@lexicon_option
def names(
    kb: Path, out: Path, languages: tuple[str, ...], per_concept: int, seed: int, folders: tuple[Path, ...]
) -> None:
    """Translate English names of KB with the lexicon, as further training names.

    The table also has the lexicon's own words and terms, with each meaning as a concept LEX:number.
    """
    from medlink.files.atomic import atomic_text_writer
    from medlink.language.lexicon import Lexicon
    from medlink.training.data.synthesis import LEXICON, iter_synthetic_names

    count = own = 0
    with atomic_text_writer(out, "the table") as file:
        file.write("concept_id\tname\tlanguage\n")
        synthetic = iter_synthetic_names(_names(kb), Lexicon(folders), languages, per_concept, seed)
        for count, name in enumerate(synthetic, 1):
            file.write(f"{name.concept_id}\t{name.text}\t{name.language}\n")
            own += name.source == LEXICON
            if count % _PROGRESS_STEP == 0:
                say(f"{count:,} names")
    click.echo(f"{out}: {pluralize(count, 'name')}, {count - own:,} made of those of {kb} and {own:,} of the lexicon")


@train.command("static")
@click.argument("kb", type=PATH)
@_out()
@click.option("--coarse", type=PATH, help="Knowledge base of codes: names under one code are near, not synonyms.")
@lexicon_option
@settings_options(StaticRecipe)
@settings_options(StaticConfig)
def static(kb: Path, out: Path, coarse: Path | None, folders: tuple[Path, ...], **options: Any) -> None:
    """Train the small static encoder on the names in KB: names of one concept against names of others."""
    for name in ("coarse_share", "coarse_temperature"):
        if coarse is None and options[name] is not None:
            remedy = f"name a knowledge base as coarse, or leave {name} out"
            raise ConfigError(f"{name} is {options[name]} and there are no coarse names", remedy=remedy)
    config, recipe = make_settings(StaticConfig, options), make_settings(StaticRecipe, options)
    if folders and not config.families:
        raise ConfigError("--lexicon and --no-families exclude each other", remedy="leave one of them out")
    with needs_extra("train", "training"):
        from medlink.training.static.trainer import StaticTrainer

    from medlink.language.lexicon.forms import load_forms

    names, near = list(_names(kb)), list(_names(coarse)) if coarse else ()
    forms = load_forms(folders) if config.families else None
    encoder = StaticTrainer(names, config, recipe, near, forms).train(out, progress=say)
    click.echo(f"{out}: static encoder {encoder.fingerprint}, trained on {len(names)} names")


@train.command("average")
@click.argument("encoders", nargs=-1, required=True, type=PATH)
@_out()
@click.option(
    "--marker-weight", type=click.FloatRange(min=0),
    help="Weight of numbers, numerals and single letters in the average.  [default: that of the encoders]",
)  # fmt: skip
def average(encoders: tuple[Path, ...], out: Path, marker_weight: float | None) -> None:
    """Average the weights of static ENCODERS that were trained with one seed and different recipes."""
    from medlink.models import StaticEncoder
    from medlink.models.encoders import check_folder
    from medlink.training.common.averaging import average as mean

    check_folder(out)
    averaged = mean([StaticEncoder.load(folder) for folder in encoders])
    if marker_weight is not None:
        config = averaged.config.replace(marker_weight=marker_weight)
        averaged = StaticEncoder(config, averaged.tensors, forms=averaged.forms)
    averaged.save(out)
    click.echo(f"{out}: static encoder {averaged.fingerprint}, the mean of {len(encoders)}")


@train.command("coderpp")
@click.argument("kb", type=PATH)
@_out()
@_start("Encoder to start from: 'builtin', a folder, or hf:NAME of the hub.", default="builtin")
@pooling_option("start")
@settings_options(CoderPlusPlusRecipe, defaults=static_defaults(CoderPlusPlusRecipe))
@settings_options(RunOptions)
def coderpp(kb: Path, out: Path, start: str, **options: Any) -> None:
    """Train an encoder on the names in KB by CODER++, with hard positives and hard negatives that are renewed as it
    learns.

    A default in brackets is the paper's; after 'static' is the default for a static encoder such as the built-in
    encoder.
    """
    names = _names(kb)
    from medlink.training import CoderPlusPlusTrainer

    trainer = CoderPlusPlusTrainer(names, start)
    trainer.recipe = trainer.recipe.replace(**explicit_options(options, CoderPlusPlusRecipe))
    encoder = trainer.train(out, **explicit_options(options, RunOptions), progress=say)
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {trainer.terms.names} names")
