"""``medlink lexicon``: show the entries of a word, count entries, check a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medlink.cli.options import PATH, Commands, json_option, language_option, lexicon_option
from medlink.cli.output import print_lines
from medlink.errors import InputError
from medlink.files.escapes import escape_controls
from medlink.files.json import json_line
from medlink.files.problems import pluralize
from medlink.language.tags import base

if TYPE_CHECKING:
    from medlink.language.lexicon import Abbreviation, Lexicon, LexiconEntry

_MAX_COLLISIONS = 20
_MAX_SUGGESTIONS, _MIN_SIMILARITY = 5, 75  # of 100


@click.group(cls=Commands)
def lexicon() -> None:
    """Show the lexicon of clinical words, or check a folder of your own."""


@lexicon.command()
@click.argument("word")
@language_option("Language of WORD, such as de; all when left out.")
@lexicon_option
@json_option
def show(word: str, language: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """Show the families, terms and meanings of WORD: a word, an expression, an abbreviation or a part of a word.

    Write -- before a part that begins with a hyphen: medlink lexicon show -- -itis

    The exit code is 1 if the lexicon does not know WORD; the message suggests words of similar spelling.
    """
    from medlink.language.lexicon import Lexicon, to_dict

    known = Lexicon(folders)
    entries = list(dict.fromkeys(entry for entry, _ in known.find(word, language)))
    short = known.expand(word, language)
    if as_json:
        data = {"entries": list(map(to_dict, entries)), "abbreviations": list(map(to_dict, short))}
        click.echo(json_line(data), nl=False)
    if not entries and not short:
        languages = {tag for counts in known.counts().values() for tag in counts} - {"entries"}
        if language is not None and base(language) not in map(base, languages):
            others = f"it has {', '.join(sorted(languages))}"
            raise InputError(f"the lexicon has nothing in {language}", remedy=f"name another language; {others}")
        similar = _suggest(known, word, language)
        remedy = f"try {', '.join(similar)}" if similar else "add it to a table of your own (docs/how-to/own-words.md)"
        raise InputError(f"the lexicon does not know {word!r}", remedy=remedy)
    if not as_json:
        lines = chain(*map(_format_abbreviation, short), *(_format_entry(known, entry) for entry in entries))
        print_lines(lines)


def _suggest(known: Lexicon, word: str, language: str | None) -> list[str]:
    """List forms of similar spelling, the most similar first."""
    from rapidfuzz import fuzz, process

    wanted = None if language is None else base(language)
    members = ((member.language, member.form) for entry in known.entries for member in entry.members)
    short = ((abbreviation.language, form) for abbreviation in known.abbreviations for form in abbreviation.forms)
    forms = {form.casefold(): form for tag, form in chain(members, short) if wanted in (None, base(tag))}
    matches = process.extract(
        word.casefold(), list(forms), scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY, limit=_MAX_SUGGESTIONS
    )
    return [forms[form] for form, _, _ in matches]


def _format_entry(known: Lexicon, entry: LexiconEntry) -> Iterator[str]:
    yield f"{entry.name}  ({', '.join(filter(None, (entry.table, entry.kind)))})"
    for language in entry.languages:
        members = [str(member) for member in entry.members if member.language == language]
        yield f"  {language}  {' | '.join(members)}"
    if entry.note:
        yield f"  note: {entry.note}"
    others = [pair.other if pair.one == entry.name else pair.one for pair in known.opposed(entry.name)]
    if others:
        yield f"  opposite: {', '.join(dict.fromkeys(others))}"


def _format_abbreviation(short: Abbreviation) -> Iterator[str]:
    english = f" = {short.english}" if short.english else ""
    safe = "safe without context" if short.safe else "only in context"
    note = f"; {short.note}" if short.note else ""
    yield f"{short.forms[0]}  {short.long}{english}  (abbreviation, {short.language}, {short.kind})"
    yield f"  {short.weight:.0%} of its uses, {safe}; in: {', '.join(short.fields)}{note}"


@lexicon.command()
@lexicon_option
@json_option
def info(folders: tuple[Path, ...], as_json: bool) -> None:
    """Count the entries of each table, and their members by language."""
    from medlink.language.lexicon import Lexicon

    counts = Lexicon(folders).counts()
    if as_json:
        click.echo(json.dumps(counts, indent=2))
        return
    for table, by_language in counts.items():
        entries = by_language.pop("entries")
        members = ", ".join(f"{language} {count:,}" for language, count in sorted(by_language.items()))
        click.echo(f"{table}: {entries:,} entr{'y' if entries == 1 else 'ies'}" + (f" ({members})" if members else ""))


@lexicon.command()
@click.argument("folder", type=PATH)
def check(folder: Path) -> None:
    """Read the tables of FOLDER, and name words that are in several families without the mark 'amb'.

    The exit code is 1 if there are such words, or if a row cannot be read or contradicts another row.
    """
    from medlink.files.tables import open_table
    from medlink.language.lexicon import Lexicon
    from medlink.language.lexicon.tables import FAMILIES

    known = Lexicon([folder])
    print_lines(
        f"{form} ({language}): its own meanings have a weight of {own_weight:.2f} and those of medlink, "
        f"which stay beside them, of {shipped:.2f}"
        for form, language, own_weight, shipped in known.overweight(folder)
    )
    own = known.collisions()  # the tables of medlink have none
    path = folder / FAMILIES
    lines = {cells[0].strip(): line for line, cells in open_table(path, separator="\t").rows} if own else {}
    for (language, form), names in sorted(own.items())[:_MAX_COLLISIONS]:
        others = [name if name in lines else f"{name} of medlink" for name in names]
        line = max(lines.get(name, 0) for name in names)
        click.echo(escape_controls(f"{path}:{line}: {form} ({language}) is in {' and in '.join(others)}"))
    if len(own) > _MAX_COLLISIONS:
        click.echo(f"and {len(own) - _MAX_COLLISIONS:,} more")
    if own:
        message = f"{pluralize(len(own), 'form')} {'is' if len(own) == 1 else 'are'} in several families"
        raise InputError(message, path=folder, remedy="mark each {amb}, or remove it from all families but one")
    click.echo(escape_controls(f"{folder}: every row can be read, and no form is in several families unmarked"))
