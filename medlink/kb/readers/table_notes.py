"""Notes on suspicious names, unknown types and unused columns of a hand-written table; none stops the load."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from medlink.errors import ConfigError
from medlink.language.tags import named_tag
from medlink.records import FSN

KNOWN_TYPES = ("preferred", "synonym", FSN, "lay", "abbreviation", "exact", "broad", "narrow", "related")
_MAX_NAMED = 5  # unknown types, and columns, in a note
_SUSPICIOUS = (
    (
        re.compile(r"[|;\n]"),
        "a |, a ; or a line end inside, and each counts as one name",
        "where they are several names, move the further ones to the column 'synonyms', or to rows with the same id",
    ),
    (
        re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffd]"),
        "a control, invisible or replacement character inside",
        "type them again",
    ),
    (re.compile(r"(?s).{501}"), "more than 500 characters", "give a text on the concept in the column 'definition'"),
)
_ANY = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _, _ in _SUSPICIOUS[:2]))
# Other words for optional columns, and for columns of further names. They only lead to a note: the header of a table
# decides how it is read.
_COLUMN_WORDS = {
    "language": ("lang", "lng", "langue", "locale", "language_code"),
    "type": ("typ", "tipo", "tty", "term_type", "name_type", "namenstyp", "tipo de nombre"),
    "definition": ("def", "description", "beschreibung", "definición", "descripción"),
    "parent": ("parents", "parent_id", "broader", "is_a", "isa", "oberbegriff", "padre", "superclass"),
    "semantic_type": (
        "sty", "semantic", "semtype", "semantic_group", "semantischer typ", "tipo semántico",
        "category", "kategorie", "categoría",
    ),
    "name": ("synonym", "synonyms", "synonyme", "sinónimo", "sinónimos", "alias", "aliases", "names", "alt_label"),
}  # fmt: skip
_MIN_SIMILARITY = 82  # of 100: one letter in five may differ


class TableNotes:
    """Counts suspicious names and unknown name types, each with the line where it first occurs."""

    def __init__(self) -> None:
        self._types: Counter[str] = Counter()
        self._suspicious: Counter[int] = Counter()
        self._first: dict[int, int] = {}

    def add_unknown_type(self, kind: str, line: int) -> None:
        self._first.setdefault(-1, line)
        self._types[kind if kind in self._types or len(self._types) < _MAX_NAMED else "others"] += 1

    def check_name(self, text: str, line: int) -> None:
        if len(text) > 500 or _ANY.search(text):
            for index, (pattern, _, _) in enumerate(_SUSPICIOUS):
                if pattern.search(text):
                    self._first.setdefault(index, line)
                    self._suspicious[index] += 1

    def notes(self, path: Path) -> Iterator[str]:
        if self._types:
            listed = ", ".join(f"{kind[:40]} ({count:,})" for kind, count in self._types.items())
            meant = ((kind, _closest(kind, {known: known for known in KNOWN_TYPES})) for kind in self._types)
            remedies = [f"write {known} if {kind[:40]} means that" for kind, known in meant if known]
            remedy = "; ".join(remedies) or "write one of these, or leave them"
            message = f"names of unknown types, which count as synonyms: {listed}; known are {', '.join(KNOWN_TYPES)}"
            yield f"{path}:{self._first[-1]}: {message}. Remedy: {remedy}"
        for index, count in sorted(self._suspicious.items()):
            _, what, remedy = _SUSPICIOUS[index]
            has = "1 name has" if count == 1 else f"{count:,} names have"
            yield f"{path}:{self._first[index]}: {has} {what}. Remedy: {remedy}"


def unknown_language(language: str) -> str:
    """Describe an invalid language tag; the name of a language is followed by its tag."""
    try:
        named_tag(language)
    except ConfigError as error:
        is_language_name = (error.remedy or "").startswith("write")
        return f"{language[:40]!r}" + f"; {error.remedy}" * is_language_name
    return repr(language)


def unused_column_notes(path: Path, header: Sequence[str], used: Collection[str]) -> Iterator[str]:
    """Yield a note on unused columns, with the column that each may be meant for."""
    unused = [column for column in header if column not in used]
    if not unused:
        return
    remedies = []
    for column in unused:
        meant = _closest(column, {word: known for known, others in _COLUMN_WORDS.items() for word in (known, *others)})
        if meant == "name":
            remedies.append(f"give each name of {column!r} a row with the same id, or join it to the column 'synonyms'")
        elif meant and meant not in header:
            remedies.append(f"rename {column!r} to {meant!r} if it is that")
    named = [column for column in unused if column]
    if len(named) < len(unused):
        named.append(f"{len(unused) - len(named)} without a name")
    more = f". Remedy: {'; '.join(remedies[:_MAX_NAMED])}" if remedies else ""
    yield f"{path}:1: columns left out: {', '.join(named)[:300]}{more}"


def _closest(written: str, words: dict[str, str]) -> str | None:
    from rapidfuzz import fuzz, process  # needed only for a table with unknown words

    match = process.extractOne(
        written, list(words), scorer=fuzz.ratio, processor=str.lower, score_cutoff=_MIN_SIMILARITY
    )
    return None if match is None else words[match[0]]
