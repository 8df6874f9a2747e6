"""Write the abbreviations of a description in full: *ALAT*, *Ramipril/HCT*."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows
from medlink.language.lexicon.abbreviation_table import most_frequent
from medlink.language.lexicon.tables import shortened

TEST, DRUG, ORGANISM, PROCEDURE = "test", "drug", "organism", "procedure"
_FIELDS = {TEST: "laboratory"}  # fields in which meanings of other kinds count as well
_LENGTHS = (5, 3, 1)  # pieces of an abbreviation, with the blanks between them
_ENGLISH = "en"
_LEAST = {TEST: 0.3, DRUG: 0.3, ORGANISM: 0.6}  # least share of uses with a meaning of this kind
_BRACKETS = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_BETWEEN = re.compile(r"[\s/,-]+")
_EDGES = " ,;:-/"


def expand(text: str, language: str, *kinds: str) -> Iterator[tuple[str, str]]:
    """Yield a text with its abbreviations of some kinds written in full, in its language and in English; nothing if it
    has none.

    Text in brackets is left out, because it repeats the name in other words.
    """
    own = [_own_names(language, kind) for kind in kinds]
    tables = [*own, *(_most_frequent(language, kind) for kind in kinds if kind in _LEAST)]
    bare = _BRACKETS.sub("", text).strip(_EDGES) or text
    whole = _find(text, tables) or _find(bare, tables)
    found = [whole] if whole else list(_pieces_in_full(bare, own, tables))
    if whole or "".join(one.long for one in found) != bare:
        yield "".join(one.long for one in found), language
        yield "".join(one.english for one in found), _ENGLISH


class _Names(NamedTuple):
    long: str
    english: str


_Table = Mapping[str, _Names]  # by short forms


def _find(form: str, tables: Sequence[_Table]) -> _Names | None:
    short = shortened(form)
    return next((table[short] for table in tables if short in table), None)


def _pieces_in_full(text: str, own: Sequence[_Table], tables: Sequence[_Table]) -> Iterator[_Names]:
    """Yield the pieces of a text and their separators, the longest abbreviations in full; in a compound by ``own``."""
    ends = [0, *(end for match in _BETWEEN.finditer(text) for end in match.span()), len(text)]
    pieces, at = [text[start:stop] for start, stop in pairwise(ends)], 0
    while at < len(pieces):
        is_in_compound = "-" in "".join([*pieces[at - 1 : at], *pieces[at + 1 : at + 2]])
        names, length = _Names(pieces[at], pieces[at]), 1
        for longer in _LENGTHS if at % 2 == 0 else ():  # every second piece is a separator
            if known := _find("".join(pieces[at : at + longer]), own if is_in_compound else tables):
                names, length = known, len(pieces[at : at + longer])
                break
        yield names
        at += length


@cache
def _most_frequent(language: str, kind: str) -> dict[str, _Names]:
    known = most_frequent(language, kind, _FIELDS.get(kind))
    return {
        form: _Names(one.long, one.english or one.long) for form, one in known.items() if one.weight >= _LEAST[kind]
    }


@cache
def _own_names(language: str, kind: str) -> dict[str, _Names]:
    """Names by their short forms, in lists of a language and of all languages."""
    names = dict[str, _Names]()
    table = rows(RESOURCES / "mapping" / "names.tsv", "forms", "language", "kind", "name", "english", "source")
    for row in sorted(table, key=lambda row: row["language"]):  # names of the language win over those for all languages
        if row["kind"] == kind and row["language"] in (language, ""):
            own = _Names(row["name"] or row["english"], row["english"])
            names.update(dict.fromkeys(map(shortened, row["forms"].split(" | ")), own))
    return names
