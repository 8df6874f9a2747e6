"""The records of a lexicon, and the readers of its tables; errors name file, line and remedy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medlink.errors import InputError
from medlink.language.languages import Row, rows
from medlink.language.tags import language_tag
from medlink.language.text import normalise

PARTS = {"a": "adjective", "v": "verb", "d": "adverb"}
GENDERS = ("m", "f", "n", "pl")
MARKS = {
    "lat": "Latin", "lay": "lay", "old": "old", "abbr": "shortened", "am": "American", "br": "British",
    "ep": "eponym", "tm": "trade name", "af": "of a patient", "amb": "ambiguous",
}  # fmt: skip
"""Marks of a member, in the order of display."""
KINDS = (
    "finding", "change", "body", "function", "substance", "organism", "procedure", "quality", "person", "circumstance",
    "measure", "general",
)  # fmt: skip
"""Kinds of meanings. A *change* turns another word into a finding (*loss*, *enlarged*); a *quality* (*left*) does
not."""
OF_TERMS = {
    "disease": "finding", "procedure": "procedure", "anatomy": "body", "test": "procedure", "drug": "substance",
    "device": "procedure", "text": "general", "other": "general",
}  # fmt: skip
"""The kind of meaning for kinds of terms; all other kinds have the same name."""
HEADWORDS = "en"
"""Language of the names that identify entries."""
FIRST, LAST, WHOLE = "first", "last", "whole"
"""Position of a member in a word: *hepato-*, *-itis*, *liver*."""

FAMILIES, TERMS, AFFIXES, OPPOSITES = "families.tsv", "terms.tsv", "affixes.tsv", "opposites.tsv"
ABBREVIATIONS, FUNCTION_WORDS, NAMES = "abbreviations_{}.tsv", "function_words.tsv", "names.tsv"
INFLECTED, SENSES, SAME, COMPOSITIONS = "inflected.tsv", "senses.tsv", "same.tsv", "compositions.tsv"
"""Tables of a folder; the table of abbreviations has the tag of its language in its name."""
_KINDS = ("disease", "finding", "procedure", "anatomy", "test", "drug", "device", "organism", "text", "person")
TERM_KINDS = frozenset((*_KINDS, "other"))
ABBREVIATION_KINDS = frozenset((*_KINDS, "dose", "place", "unit"))
FIELDS = frozenset((
    "any", "cardiology", "vascular", "pulmonology", "gastroenterology", "nephrology", "urology", "gynaecology",
    "obstetrics", "neonatology", "paediatrics", "neurology", "psychiatry", "oncology", "haematology", "endocrinology",
    "infectiology", "immunology", "rheumatology", "orthopaedics", "surgery", "anaesthesia", "intensive", "dermatology",
    "ophthalmology", "ent", "dentistry", "radiology", "laboratory", "pathology", "genetics", "medication", "nursing",
    "administration", "rehabilitation", "emergency",
))  # fmt: skip
"""Specialties and departments in which an abbreviation has a meaning."""
_COLUMNS = {
    FAMILIES: ("family",),
    TERMS: ("term", "kind"),
    AFFIXES: ("affix", "kind"),
    OPPOSITES: ("kind", "one", "other"),
    FUNCTION_WORDS: ("word", "language", "kind"),
    NAMES: ("name", "kind"),
    INFLECTED: ("form", "language", "lemma"),
    SENSES: ("word", "language", "family", "beside"),
    SAME: ("one", "other"),
    COMPOSITIONS: ("family", "parts"),
}
_OF_ABBREVIATIONS = ("abbreviation", "long", "english", "kind", "weight", "field", "safe")
_BETWEEN = " | "
_NO_LANGUAGE = ("kind", "note")
_TAGS = {*GENDERS, *PARTS, *MARKS}
_MEMBER = re.compile(r"([^{}|]*[^{}|\s]) *(?:\{([^{}]*)\})?")
ROUNDING = 0.010001
"""Amount by which a sum of weights may exceed 1."""


@dataclass(frozen=True, slots=True)
class Member:
    """A word of a family, or an expression of a term, in one language."""

    form: str  # as in a dictionary, without the hyphen that marks its place
    language: str
    place: str = WHOLE
    part: str = ""  # part of speech; empty for a noun
    gender: tuple[str, ...] = ()  # some of GENDERS
    plurals: tuple[str, ...] = ()  # irregular plurals; in German, all plurals
    marks: frozenset[str] = frozenset()  # some of MARKS

    @property
    def hyphened(self) -> str:
        """The form as in the table, with the hyphen that marks its place."""
        return {FIRST: f"{self.form}-", LAST: f"-{self.form}", WHOLE: self.form}[self.place]

    def __str__(self) -> str:
        remarks = [*self.gender, *([f"pl. {'/'.join(self.plurals)}"] if self.plurals else []), PARTS.get(self.part, "")]
        remarks += [text for mark, text in MARKS.items() if mark in self.marks]
        listed = ", ".join(filter(None, remarks))
        return f"{self.hyphened} ({listed})" if listed else self.hyphened


@dataclass(frozen=True, slots=True)
class LexiconEntry:
    """One meaning with its members in each language: a family of words, a term, or an affix.

    ``name`` is the English headword, with the sense in brackets if the word has several. For a family, ``kind`` is one
    of :data:`KINDS` or empty; for a term or an affix, it is one of the kinds of their tables.
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
    """One meaning of an abbreviation in the notes of one language."""

    forms: tuple[str, ...]  # its spellings
    language: str
    long: str
    english: str  # the name that a terminology has for the long form
    kind: str
    weight: float  # estimated share of the uses in clinical notes with this meaning
    fields: tuple[str, ...]
    safe: bool  # whether it has this meaning without any context
    note: str = ""

    @property
    def short_forms(self) -> tuple[str, ...]:
        """The forms without dots and blanks, each once."""
        return tuple(dict.fromkeys(map(shortened, self.forms)))


def shortened(text: str) -> str:
    """Return an abbreviation without dots and blanks.

    >>> shortened("Z. n."), shortened("i.v.")
    ('Zn', 'iv')
    """
    return re.sub(r"[.\s]", "", text)


class Sense(NamedTuple):
    """The meaning of an ambiguous word next to one of the words ``beside``, or without such words its default meaning.

    ``family`` is ``-`` if the word has no meaning there.
    """

    word: str
    language: str
    family: str
    beside: tuple[str, ...]


class Opposite(NamedTuple):
    """The names of two entries that exclude each other in the same place of a phrase."""

    kind: str
    one: str
    other: str


def to_dict(record: LexiconEntry | Abbreviation) -> dict[str, Any]:
    """Convert to plain data for JSON."""
    values = asdict(record)
    for member in values.get("members", ()):
        member["marks"] = sorted(member["marks"])
    return values


class Tables:
    """The rows of one folder; ``named`` has the rows that refer to an entry by its name."""

    def __init__(self) -> None:
        self.entries, self.abbreviations, self.opposites = list[LexiconEntry](), list[Abbreviation](), list[Opposite]()
        self.function_words, self.inflected = list[tuple[str, str, str]](), list[tuple[str, str, str]]()
        self.names, self.same, self.senses = list[tuple[str, str]](), list[tuple[str, str]](), list[Sense]()
        self.compositions, self.named = list[tuple[str, tuple[str, ...]]](), list[tuple[Row, str]]()

    @property
    def count(self) -> int:
        return sum(map(len, vars(self).values())) - len(self.named)


def read_folder(folder: Path) -> Tables:
    """Read all tables; raises InputError without folder, tables or a column, or for a row that cannot be read."""
    if folder.is_file():
        remedy = f"name the folder it is in: {folder.parent}"
        raise InputError("is a file, a folder is needed", path=folder, remedy=remedy)
    if not folder.is_dir():
        raise InputError("no such folder", path=folder, remedy="name a folder with tables of a lexicon")
    abbreviations = sorted(folder.glob(ABBREVIATIONS.format("*")))
    if not abbreviations and not any((folder / name).is_file() for name in _COLUMNS):
        wanted = ", ".join((*_COLUMNS, ABBREVIATIONS.format("de")))
        raise InputError(f"looked for {wanted}; found none of them", path=folder, remedy="name the tables like this")
    for path in sorted(folder.glob("*.tsv")):
        if path.name not in _COLUMNS and path not in abbreviations:
            remedy = f"name it as one of {', '.join(_COLUMNS)}"
            raise InputError("is not a table of a lexicon", path=path, remedy=remedy)
    tables = Tables()
    for name in (FAMILIES, TERMS, AFFIXES):
        tables.entries += _entries(folder / name)
    for path in abbreviations:
        language = _language(path.stem.removeprefix(ABBREVIATIONS.partition("{")[0]), path)
        tables.abbreviations += read_abbreviations(path, language)
    for row in _rows(folder / OPPOSITES):
        tables.opposites.append(Opposite(row["kind"], row["one"], row["other"]))
        tables.named += [(row, row["one"]), (row, row["other"])]
    tables.function_words = [(_language_of(row), row["word"], row["kind"]) for row in _rows(folder / FUNCTION_WORDS)]
    tables.names = [(row["name"], row["kind"]) for row in _rows(folder / NAMES)]
    tables.inflected = [(_language_of(row), normalise(row["form"]), row["lemma"]) for row in _rows(folder / INFLECTED)]
    for row in _rows(folder / SAME):
        tables.same.append((row["one"], row["other"]))
        tables.named += [(row, row["one"]), (row, row["other"])]
    for row in _rows(folder / COMPOSITIONS):
        parts = _listed(row["parts"])
        if not parts:
            raise row.error("no parts", "write the names of families, with | between them, or remove the row")
        tables.compositions.append((row["family"], parts))
        tables.named += [(row, name) for name in (row["family"], *parts)]
    for row in _rows(folder / SENSES):
        if not row["word"]:
            raise row.error("no word", "write the ambiguous word, or remove the row")
        tables.senses.append(Sense(row["word"], _language_of(row), row["family"], _listed(row["beside"])))
        if row["family"] != "-":
            tables.named.append((row, row["family"]))
    return tables


def _listed(cell: str, separator: str = "|") -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, cell.split(separator))))


def _rows(path: Path) -> Iterator[Row]:
    return rows(path if path.is_file() else None, *_COLUMNS.get(path.name, _OF_ABBREVIATIONS), in_front=True)


def _one_of(words: Iterable[str], *, or_none: bool = False) -> str:
    return f"write one of {', '.join(sorted(words))}" + (", or leave the cell empty" if or_none else "")


def _language(tag: str, path: Path, line: int | None = None) -> str:
    known = language_tag(tag)
    if known is None:
        remedy = "name columns and files by BCP 47 tags, such as de"
        raise InputError(f"{tag!r} is not a language", path=path, line=line, remedy=remedy)
    return known


def _language_of(row: Row) -> str:
    return _language(row["language"], row.path, row.line)


def _entries(path: Path) -> Iterator[LexiconEntry]:
    lines: dict[str, int] = {}
    for row in _rows(path):
        table, *columns = row
        name, kind = row[table], row.get("kind", "")
        members = tuple(
            _member(cell, language, row)
            for column in columns
            if column not in _NO_LANGUAGE
            for language in [_language(column, path, 1)]
            for cell in row[column].split(_BETWEEN)
            if cell
        )
        if table == "term" and kind not in TERM_KINDS:
            raise row.error(f"unknown kind {kind!r}", _one_of(TERM_KINDS))
        if table == "family" and kind not in ("", *KINDS):
            raise row.error(f"unknown kind {kind!r}", _one_of(KINDS, or_none=True))
        if not name:
            raise row.error("no name", f"write what it means into the column {table}, in English")
        if not members:
            raise row.error("no member in any language", "write a word into the column of its language, such as de")
        if first := lines.get(name):
            remedy = f"put all members into line {first}, or give one of the two another name"
            raise row.error(f"{name!r} is in line {first} already", remedy)
        lines[name] = row.line
        yield LexiconEntry(table, name, members, kind, row.get("note", ""))


def _member(text: str, language: str, row: Row) -> Member:
    match = _MEMBER.fullmatch(text.strip())
    if match is None:
        remedy = "write it as 'Wort {f,pl=Wörter}': tags in one pair of braces after it, ' | ' before the next member"
        raise row.error(f"a member cannot be read: {text.strip()!r}", remedy)
    form, place = match[1], WHOLE
    if len(form) > 1 and form.endswith("-"):
        form, place = form[:-1], FIRST
    elif len(form) > 1 and form.startswith("-"):
        form, place = form[1:], LAST
    tags = _listed(match[2] or "", ",")
    listed = [tag.removeprefix("pl=").split("/") for tag in tags if tag.startswith("pl=")]
    plurals = tuple(plural.strip() for several in listed for plural in several)
    if not all(plurals):
        remedy = "write the plural after 'pl=', or leave 'pl=' out; '/' separates two plurals"
        raise row.error(f"empty plural of {form!r}", remedy)
    for tag in tags:
        if not tag.startswith("pl=") and tag not in _TAGS:
            raise row.error(f"unknown tag {tag!r} of {form!r}", f"{_one_of(_TAGS)}, or pl= with the plural")
    part = next((tag for tag in reversed(tags) if tag in PARTS), "")
    genders = tuple(tag for tag in tags if tag in GENDERS)
    return Member(form, language, place, part, genders, plurals, frozenset(tags).intersection(MARKS))


def read_abbreviations(path: Path, language: str) -> Iterator[Abbreviation]:
    """Read the meanings of abbreviations: for each the weights sum to at most 1, and at most one meaning is safe."""
    weights: dict[str, float] = defaultdict(float)
    safe: dict[str, int] = {}
    for row in _rows(path):
        short = _abbreviation(row, language)
        for form in short.short_forms:
            weights[form] += short.weight
            if weights[form] > 1 + ROUNDING:
                message = f"the weights of {form!r} add up to {weights[form]:.2f}, at most 1 expected"
                raise row.error(message, "lower the weights: each is the share of its uses that mean this")
            if short.safe and safe.setdefault(form, row.line) != row.line:
                message = f"{form!r} is safe in line {safe[form]} already: one meaning at most may be"
                raise row.error(message, "write no into the column safe of all its meanings but one")
        yield short


def _abbreviation(row: Row, language: str) -> Abbreviation:
    weight, fields = share(row["weight"]), tuple(field.strip() for field in row["field"].split(","))
    unknown = ", ".join(repr(field) for field in fields if field not in FIELDS)
    if not row["abbreviation"] or not row["long"]:
        raise row.error("no abbreviation or no long form", "write both")
    if row["kind"] not in ABBREVIATION_KINDS:
        raise row.error(f"unknown kind {row['kind']!r}", _one_of(ABBREVIATION_KINDS))
    if unknown:
        raise row.error(f"unknown field {unknown}", _one_of(FIELDS))
    if not weight:
        message = f"the weight is {row['weight']!r}, above 0 and at most 1 expected"
        raise row.error(message, "write the share of its uses that mean this, such as 0.8")
    if row["safe"] not in ("yes", "no"):
        remedy = "write yes where it means this without any context, else no"
        raise row.error(f"safe is {row['safe']!r}, yes or no expected", remedy)
    forms = tuple(form.strip() for form in row["abbreviation"].split(_BETWEEN))
    safe, note = row["safe"] == "yes", row.get("note", "")
    return Abbreviation(forms, language, row["long"], row["english"], row["kind"], weight, fields, safe, note)


def share(cell: str) -> float:
    """Parse a number above 0 and at most 1; 0 for any other cell."""
    try:
        weight = float(cell)
    except ValueError:
        return 0.0
    return weight if 0 < weight <= 1 else 0.0
