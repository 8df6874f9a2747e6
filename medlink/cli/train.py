"""``medlink train``: encoders from the names of a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, given, lexicon_folders, pooling, settings_options
from medlink.cli.output import say
from medlink.cli.train_biolord import biolord, where_static_differs
from medlink.cli.train_grounding import concept_map, grounding
from medlink.cli.train_mlte import mlte
from medlink.cli.train_ranker import ranker
from medlink.errors import ConfigError, needs_extra
from medlink.files.problems import counted
from medlink.models.static.encoder import StaticConfig
from medlink.records import Name
from medlink.training.recipes import CoderPlusPlusRecipe, StaticRecipe

MADE = ("de", "en", "es")
"""Languages in which names can be made."""
_TOLD = 50_000  # names between two lines of progress
_OUT = click.option("-o", "--out", required=True, type=PATH, help="Folder of the encoder.")


def _names(kb: Path) -> list[Name]:
    from medlink.kb import KnowledgeBase
    from medlink.training.data.selection import Selection

    with KnowledgeBase(kb) as store:
        return list(Selection(store).names())


@click.group(cls=Commands)
def train() -> None:
    """Train an encoder on the names of a knowledge base."""


for _command in (biolord, grounding, concept_map, mlte, ranker):
    train.add_command(_command)


@train.command("names")
@click.argument("kb", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Table of the names, for 'medlink kb build --table'.")
@click.option(
    "--language",
    "languages",
    multiple=True,
    type=click.Choice(MADE),
    default=("de", "es"),
    show_default=True,
    help="Language of the names; may be repeated.",
)
@click.option(
    "--per-concept", default=3, show_default=True, type=click.IntRange(min=1), help="English names taken of a concept."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Of all that is drawn.")
@lexicon_folders
def names(
    kb: Path, out: Path, languages: tuple[str, ...], per_concept: int, seed: int, folders: tuple[Path, ...]
) -> None:
    """Make names in other languages from the English ones in KB by the lexicon, to train on beside those of KB.

    The lexicon's own words and terms are in the table too, each meaning as a concept LEX:number.
    """
    from medlink.files.whole import whole_text
    from medlink.language.lexicon import Lexicon
    from medlink.training.data.synthesis import LEXICON, made_names

    count = own = 0
    with whole_text(out, "the table") as file:
        file.write("concept_id\tname\tlanguage\n")
        made = made_names(_names(kb), Lexicon(folders), languages, per_concept, seed)
        for count, name in enumerate(made, 1):
            file.write(f"{name.concept_id}\t{name.text}\t{name.language}\n")
            own += name.source == LEXICON
            if count % _TOLD == 0:
                say(f"{count:,} names")
    click.echo(f"{out}: {counted(count, 'name')}, {count - own:,} made of those of {kb} and {own:,} of the lexicon")


@train.command("static")
@click.argument("kb", type=PATH)
@_OUT
@click.option("--coarse", type=PATH, help="Knowledge base whose concepts are codes: names under one are near, not one.")
@lexicon_folders
@settings_options(StaticRecipe)
@settings_options(StaticConfig)
def static(kb: Path, out: Path, coarse: Path | None, folders: tuple[Path, ...], **options: Any) -> None:
    """Train the small static encoder on the names in KB: those of one concept against those of others."""
    for name in ("coarse_share", "coarse_temperature"):
        if coarse is None and options[name] is not None:
            remedy = f"name a knowledge base as coarse, or leave {name} out"
            raise ConfigError(f"{name} is {options[name]} and there are no coarse names", remedy=remedy)
    config, recipe = StaticConfig(**given(options, StaticConfig)), StaticRecipe(**given(options, StaticRecipe))
    if folders and not config.families:
        raise ConfigError("--lexicon and --no-families exclude each other", remedy="leave one of them out")
    with needs_extra("train", "training"):
        from medlink.training.static.trainer import StaticTrainer

    from medlink.language.lexicon.forms import forms_of

    names, near = _names(kb), _names(coarse) if coarse else ()
    forms = forms_of(folders) if config.families else None
    encoder = StaticTrainer(names, config, recipe, near, forms).train(out, progress=say)
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
        averaged = StaticEncoder(
            averaged.config.replace(marker_weight=marker_weight), averaged.tensors, forms=averaged.forms
        )
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
@pooling("start")
@settings_options(CoderPlusPlusRecipe, defaults=where_static_differs(CoderPlusPlusRecipe))
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
    from medlink.kb import KnowledgeBase
    from medlink.training import CoderPlusPlusTrainer
    from medlink.training.data.selection import Selection

    with KnowledgeBase(kb) as store:
        trainer = CoderPlusPlusTrainer(Selection(store).names(), start)
    trainer.recipe = trainer.recipe.replace(**given(recipe, CoderPlusPlusRecipe))
    encoder = trainer.train(out, resume=resume, checkpoint_steps=checkpoint_steps, workers=workers, progress=say)
    click.echo(f"{out}: encoder {encoder.fingerprint}, trained on {trainer.terms.names} names")
