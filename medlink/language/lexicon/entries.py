"""What a lexicon is made of: members of families and terms, abbreviations, opposites."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

PARTS = {"a": "adjective", "v": "verb", "d": "adverb"}
GENDERS = ("m", "f", "n", "pl")
MARKS = {
    "lat": "Latin",
    "lay": "lay",
    "old": "old",
    "abbr": "shortened",
    "am": "American",
    "br": "British",
    "ep": "eponym",
    "tm": "trade name",
    "af": "of a patient",
    "amb": "ambiguous",
}
"""Marks of a member, in the order in which they are shown."""
KINDS = (
    "finding", "change", "body", "function", "substance", "organism", "procedure", "quality", "person", "circumstance",
    "measure", "general",
)  # fmt: skip
"""Kinds of meanings. A *change* makes a finding of what it is said of (*loss*, *enlarged*); a *quality* does not
(*left*, *mild*)."""
OF_TERMS = {
    "disease": "finding",
    "procedure": "procedure",
    "anatomy": "body",
    "test": "procedure",
    "drug": "substance",
    "device": "procedure",
    "text": "general",
    "other": "general",
}
"""Kinds of meanings by those of terms, where they differ or are no kind of a meaning."""
HEADWORDS = "en"
"""Language of the names of entries."""
FIRST, LAST, WHOLE = "first", "last", "whole"
"""Where in a word a member stands: *hepato-*, *-itis*, *liver*."""


@dataclass(frozen=True, slots=True)
class Member:
    """A word of a family, or an expression of a term, in one language.

    ``form`` is written as in a dictionary, without the hyphen that says its ``place``. ``part`` is that of speech, a
    noun where it is empty; ``gender`` one of ``m``, ``f``, ``n`` and ``pl``; ``plurals`` stand where they are
    irregular, and always in German; ``marks`` are those of :data:`MARKS`.
    """

    form: str
    language: str
    place: str = WHOLE
    part: str = ""
    gender: tuple[str, ...] = ()
    plurals: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()

    @property
    def hyphened(self) -> str:
        """The form as it stands in the table, with the hyphen that says its place."""
        return {FIRST: f"{self.form}-", LAST: f"-{self.form}", WHOLE: self.form}[self.place]

    def __str__(self) -> str:
        said = [*self.gender, *([f"pl. {'/'.join(self.plurals)}"] if self.plurals else []), PARTS.get(self.part, "")]
        said += [text for mark, text in MARKS.items() if mark in self.marks]
        told = ", ".join(filter(None, said))
        return f"{self.hyphened} ({told})" if told else self.hyphened


@dataclass(frozen=True, slots=True)
class Entry:
    """One meaning with its members in each language: a family of words, a term, or an affix.

    ``name`` is the English headword, with the sense in brackets where there are several. ``kind`` is one of
    :data:`KINDS` for a family, and may be empty; that of a term or an affix is one of its table.
    """

    table: str
    name: str
    members: tuple[Member, ...]
    kind: str = ""
    note: str = ""

    @property
    def languages(self) -> list[str]:
        """The languages of the members, in the order of their columns."""
        return list(dict.fromkeys(member.language for member in self.members))


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """One meaning of an abbreviation in the notes of one language.

    ``forms`` are how it is written; ``english`` is the name of a terminology for ``long``; ``weight`` the estimated
    share of its uses in clinical notes that mean this; ``safe`` says that it may be read so without any context.
    """

    forms: tuple[str, ...]
    language: str
    long: str
    english: str
    kind: str
    weight: float
    fields: tuple[str, ...]
    safe: bool
    note: str = ""

    @property
    def short_forms(self) -> tuple[str, ...]:
        """The forms without dots and blanks, each once."""
        return tuple(dict.fromkeys(map(shortened, self.forms)))


def shortened(text: str) -> str:
    """An abbreviation without dots and blanks.

    >>> shortened("Z. n."), shortened("i.v.")
    ('Zn', 'iv')
    """
    return re.sub(r"[.\s]", "", text)


class Sense(NamedTuple):
    """What an ambiguous word means where one of the words ``beside`` stands in the same name; by default, without any.

    ``family`` is ``-`` where none of its families is meant.
    """

    word: str
    language: str
    family: str
    beside: tuple[str, ...]


class Opposite(NamedTuple):
    """Two entries, by name, that exclude each other in one place of a phrase."""

    kind: str
    one: str
    other: str


def to_dict(found: Entry | Abbreviation) -> dict[str, Any]:
    """Plain data, ready for JSON."""
    values = asdict(found)
    for member in values.get("members", ()):
        member["marks"] = sorted(member["marks"])
    return values
