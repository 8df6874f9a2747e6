"""Write the abbreviations of a description in full: *ALAT*, *Ramipril/HCT*."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from medlink.files.resources import RESOURCES
from medlink.language.lexicon.abbreviation_table import most_frequent
from medlink.language.lexicon.tables import shortened

TEST, DRUG, ORGANISM, PROCEDURE = "test", "drug", "organism", "procedure"
_FIELDS = {TEST: "laboratory"}  # fields in which meanings of other kinds count as well
_LENGTHS = (5, 3, 1)  # pieces of an abbreviation, with the blanks between them
_ENGLISH = "en"
_LEAST = {TEST: 0.3, DRUG: 0.3, ORGANISM: 0.6}  # share of the uses of an abbreviation with such a meaning
_BRACKETS = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_BETWEEN = re.compile(r"[\s/,-]+")
_EDGES = " ,;:-/"


def expand(text: str, language: str, *kinds: str) -> Iterator[tuple[str, str]]:
    """Yield a text with its abbreviations of some kinds written in full, in its language and in English; nothing if it
    has none.

    Text in brackets is left out, because it repeats the name in other words.

    >>> list(expand("Ramipril/HCT", "de", DRUG))
    [('Ramipril/Hydrochlorothiazid', 'de'), ('Ramipril/hydrochlorothiazide', 'en')]
    >>> list(expand("ALT (SGPT)", "en", TEST))[0]
    ('alanine aminotransferase', 'en')
    """
    own = [_own_names(language, kind) for kind in kinds]
    all_names = [*own, *(_most_frequent(language, kind) for kind in kinds if kind in _LEAST)]
    bare = _BRACKETS.sub("", text).strip(_EDGES) or text

    def find(form: str, tables: Sequence[Mapping[str, _Names]] = all_names) -> _Names | None:
        return next((table[key] for key in (shortened(form),) for table in tables if key in table), None)

    whole = find(text) or find(bare)
    if whole is not None:
        yield whole.long, language
        yield whole.english, _ENGLISH
        return
    ends = [0, *(end for match in _BETWEEN.finditer(bare) for end in match.span()), len(bare)]
    pieces = [bare[start:stop] for start, stop in pairwise(ends)]
    found, at = list[_Names](), 0
    while at < len(pieces):
        spans = (pieces[at : at + length] for length in _LENGTHS if at % 2 == 0)  # else it is a separator
        is_part = "-" in "".join([*pieces[at - 1 : at], *pieces[at + 1 : at + 2]])  # of a compound
        names, length = next(
            ((names, len(span)) for span in spans if (names := find("".join(span), own if is_part else all_names))),
            (_Names(pieces[at], pieces[at]), 1),
        )
        found.append(names)
        at += length
    if len(found) < len(pieces) or [one.long for one in found] != pieces:
        yield "".join(one.long for one in found), language
        yield "".join(one.english for one in found), _ENGLISH


class _Names(NamedTuple):
    long: str
    english: str


@cache
def _most_frequent(language: str, kind: str) -> dict[str, _Names]:
    known = most_frequent(language, kind, _FIELDS.get(kind))
    return {
        form: _Names(one.long, one.english or one.long) for form, one in known.items() if one.weight >= _LEAST[kind]
    }


@cache
def _own_names(language: str, kind: str) -> dict[str, _Names]:
    """Names by their short forms in the lists of a language, and in those of all."""
    table = (RESOURCES / "mapping" / "names.tsv").read_text("utf-8")
    names = dict[str, _Names]()
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    for forms, tag, of, long, english in sorted(rows, key=lambda row: row[1]):  # those of the language win
        if of == kind and tag in (language, ""):
            names.update(dict.fromkeys(map(shortened, forms.split(" | ")), _Names(long or english, english)))
    return names
