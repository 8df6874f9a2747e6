"""What is odd in a table that a person wrote: counted, said in a note, and taken as it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from medlink.errors import ConfigError
from medlink.language.tags import named_tag
from medlink.records import FSN

KNOWN_TYPES = ("preferred", "synonym", FSN, "lay", "abbreviation", "exact", "broad", "narrow", "related")
_SHOWN = 5  # unknown types, and columns that are perhaps meant for others, that are named
_ODD = (
    (
        re.compile(r"[|;\n]"),
        "a |, a ; or a line end inside, and each counts as one name",
        "where they are several names, give each a row of its own with the same id",
    ),
    (
        re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffd]"),
        "a character inside that commands, is not seen or was lost",
        "write them anew",
    ),
    (re.compile(r"(?s).{501}"), "more than 500 characters", "give a text on the concept in the column 'definition'"),
)
_ANY = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _, _ in _ODD[:2]))
# What others call the columns that may be left out, and the names of a concept in columns of their own. They are not
# taken for the columns: a table would be read otherwise than its header says.
_WORDS = {
    "language": ("lang", "lng", "sprache", "idioma", "lengua", "langue", "locale", "language_code"),
    "type": ("typ", "tipo", "tty", "term_type", "name_type"),
    "definition": ("def", "description", "beschreibung", "definición", "descripción"),
    "parent": ("parents", "parent_id", "broader", "is_a", "isa", "oberbegriff", "padre", "superclass"),
    "semantic_type": ("sty", "semantic", "semtype", "semantic_group", "category", "kategorie", "categoría"),
    "name": ("synonym", "synonyms", "synonyme", "sinónimo", "sinónimos", "alias", "aliases", "names", "alt_label"),
}
_ALIKE = 82  # of 100, where one letter in five may be another


class Remarks:
    """Counts odd names, and types of names that nobody knows, with the line of the first."""

    def __init__(self) -> None:
        self._types: Counter[str] = Counter()
        self._odd = [0] * len(_ODD)
        self._first: dict[int, int] = {}

    def type(self, kind: str, line: int) -> None:
        """Count a type that is not known."""
        self._first.setdefault(-1, line)
        self._types[kind if kind in self._types or len(self._types) < _SHOWN else "others"] += 1

    def name(self, text: str, line: int) -> None:
        """Count a name if it is odd."""
        if len(text) > 500 or _ANY.search(text):
            for at, (pattern, _, _) in enumerate(_ODD):
                if pattern.search(text):
                    self._first.setdefault(at, line)
                    self._odd[at] += 1

    def notes(self, path: Path) -> Iterator[str]:
        """What was counted."""
        if self._types:
            shown = ", ".join(f"{kind[:40]} ({count:,})" for kind, count in self._types.items())
            meant = ((kind, _alike(kind, {known: known for known in KNOWN_TYPES})) for kind in self._types)
            remedies = [f"write {known} where {kind[:40]} is meant so" for kind, known in meant if known]
            remedy = "; ".join(remedies) or "write one of these, or leave them"
            said = f"names of unknown types, which count as synonyms: {shown}; known are {', '.join(KNOWN_TYPES)}"
            yield f"{path}:{self._first[-1]}: {said}. Remedy: {remedy}"
        for at, (count, (_, what, remedy)) in enumerate(zip(self._odd, _ODD, strict=True)):
            if count:
                has = "1 name has" if count == 1 else f"{count:,} names have"
                yield f"{path}:{self._first[at]}: {has} {what}. Remedy: {remedy}"


def unknown_language(language: str) -> str:
    """A language that is none, with its tag where it is the name of one."""
    try:
        named_tag(language)
    except ConfigError as error:
        meant = (error.remedy or "").startswith("write")
        return f"{language[:40]!r}" + f"; {error.remedy}" * meant
    return repr(language)


def columns_left_out(path: Path, header: Sequence[str], taken: Collection[str]) -> Iterator[str]:
    """A note on the columns of a header that are left out, with what each was perhaps meant for."""
    unused = [column for column in header if column not in taken]
    if not unused:
        return
    remedies = []
    for column in unused:
        meant = _alike(column, {word: known for known, others in _WORDS.items() for word in (known, *others)})
        if meant == "name":
            remedies.append(f"give each name of {column!r} a row of its own with the same id")
        elif meant and meant not in header:
            remedies.append(f"rename {column!r} to {meant!r} if it is that")
    named = [column for column in unused if column]
    if len(named) < len(unused):
        named.append(f"{len(unused) - len(named)} without a name")
    more = f". Remedy: {'; '.join(remedies[:_SHOWN])}" if remedies else ""
    yield f"{path}:1: columns left out: {', '.join(named)[:300]}{more}"


def _alike(written: str, words: dict[str, str]) -> str | None:
    from rapidfuzz import fuzz, process  # for a table with other words alone

    found = process.extractOne(written, list(words), scorer=fuzz.ratio, processor=str.lower, score_cutoff=_ALIKE)
    return None if found is None else words[found[0]]
