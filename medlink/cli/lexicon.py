"""``medlink lexicon``: show what the lexicon knows of a word, describe it, check a folder of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medlink.cli.options import PATH, Commands, json_output, lexicon_folders, one_language
from medlink.errors import InputError
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.language.tags import base

if TYPE_CHECKING:
    from medlink.language.lexicon import Abbreviation, Entry, Lexicon

_SHOWN = 20  # collisions that are shown
_NEAR, _ALIKE = 5, 75  # how many near words are named, and how near they are, of 100


@click.group(cls=Commands)
def lexicon() -> None:
    """Show what medlink knows of the words of clinicians, or check a folder of your own."""


@lexicon.command()
@click.argument("word")
@one_language("Language of WORD, such as de; all when left out.")
@lexicon_folders
@json_output
def show(word: str, language: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """Show the families, terms and meanings of WORD: a word, an expression, an abbreviation or a part of a word.

    Before a part that begins with a hyphen goes --, as in: medlink lexicon show -- -itis

    The exit code is 1 where the lexicon does not know WORD; words that are spelt nearly so are then named.
    """
    from medlink.language.lexicon import Lexicon, to_dict

    known = Lexicon(folders)
    entries = list(dict.fromkeys(entry for entry, _ in known.find(word, language)))
    short = known.expand(word, language)
    if as_json:
        found = {"entries": list(map(to_dict, entries)), "abbreviations": list(map(to_dict, short))}
        click.echo(visible(json.dumps(found, ensure_ascii=False)))
    if not entries and not short:
        held = {tag for found in known.counts().values() for tag in found} - {"entries"}
        if language is not None and base(language) not in map(base, held):
            others = f"it has {', '.join(sorted(held))}"
            raise InputError(f"the lexicon has nothing in {language}", remedy=f"name another language; {others}")
        near = _near(known, word, language)
        remedy = f"try {', '.join(near)}" if near else "add it to a table of your own (docs/how-to/own-words.md)"
        raise InputError(f"the lexicon does not know {word!r}", remedy=remedy)
    if not as_json:
        shown = [*map(_told, short), *("\n".join(_lines(known, entry)) for entry in entries)]
        click.echo("\n".join(visible(line) for part in shown for line in part.split("\n")))


def _near(known: Lexicon, word: str, language: str | None) -> list[str]:
    """What the lexicon has that is spelt nearly as a word, the nearest first."""
    from rapidfuzz import fuzz, process

    asked = None if language is None else base(language)
    members = ((member.language, member.form) for entry in known.entries for member in entry.members)
    short = ((one.language, form) for one in known.abbreviations for form in one.forms)
    forms = {form.casefold(): form for tag, form in chain(members, short) if asked in (None, base(tag))}
    found = process.extract(word.casefold(), list(forms), scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=_NEAR)
    return [forms[form] for form, _, _ in found]


def _lines(known: Lexicon, entry: Entry) -> Iterator[str]:
    """An entry as text: its members by language, its note, its opposites."""
    yield f"{entry.name}  ({', '.join(filter(None, (entry.table, entry.kind)))})"
    for language in entry.languages:
        members = [str(member) for member in entry.members if member.language == language]
        yield f"  {language}  {' | '.join(members)}"
    if entry.note:
        yield f"  note: {entry.note}"
    others = [one.other if one.one == entry.name else one.one for one in known.opposed(entry.name)]
    if others:
        yield f"  opposite: {', '.join(dict.fromkeys(others))}"


def _told(one: Abbreviation) -> str:
    """A meaning of an abbreviation as text."""
    english = f" = {one.english}" if one.english else ""
    safe = "safe without context" if one.safe else "only in context"
    fields = ", ".join(one.fields)
    note = f"; {one.note}" if one.note else ""
    head = f"{one.forms[0]}  {one.long}{english}  (abbreviation, {one.language}, {one.kind})"
    return f"{head}\n  {one.weight:.0%} of its uses, {safe}; in: {fields}{note}"


@lexicon.command()
@lexicon_folders
@json_output
def info(folders: tuple[Path, ...], as_json: bool) -> None:
    """Count the entries of each table, and their members by language."""
    from medlink.language.lexicon import Lexicon

    counts = Lexicon(folders).counts()
    if as_json:
        click.echo(json.dumps(counts, indent=2))
        return
    for table, found in counts.items():
        entries = found.pop("entries")
        members = ", ".join(f"{language} {count:,}" for language, count in sorted(found.items()))
        click.echo(f"{table}: {entries:,} entr{'y' if entries == 1 else 'ies'}" + (f" ({members})" if members else ""))


@lexicon.command()
@click.argument("folder", type=PATH)
def check(folder: Path) -> None:
    """Read the tables of FOLDER, and name words that stand in several families without the mark 'amb'.

    The exit code is 1 where there are such words, or where a row cannot be read or contradicts another one.
    """
    from medlink.files.tables import open_table
    from medlink.language.lexicon import Lexicon
    from medlink.language.lexicon.tables import FAMILIES

    known = Lexicon([folder])
    for form, language, own_weight, shipped in known.overweight(folder):
        click.echo(
            visible(
                f"{form} ({language}): its own meanings have a weight of {own_weight:.2f} and those of medlink, "
                f"which stay beside them, of {shipped:.2f}"
            )
        )
    # what ships has none
    own = known.collisions()
    path = folder / FAMILIES
    lines = {cells[0].strip(): line for line, cells in open_table(path, separator="\t").rows} if own else {}
    for (language, form), names in sorted(own.items())[:_SHOWN]:
        others = [name if name in lines else f"{name} of medlink" for name in names]
        line = max(lines.get(name, 0) for name in names)
        click.echo(visible(f"{path}:{line}: {form} ({language}) stands in {' and in '.join(others)}"))
    if len(own) > _SHOWN:
        click.echo(f"and {len(own) - _SHOWN:,} more")
    if own:
        raise InputError(
            f"{counted(len(own), 'form')} stand{'s' * (len(own) == 1)} in several families",
            path=folder,
            remedy="mark each {amb}, or take it out of all families but one",
        )
    click.echo(visible(f"{folder}: every row can be read, and no form stands in several families unmarked"))
