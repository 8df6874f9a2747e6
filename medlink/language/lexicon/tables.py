"""The tables of a lexicon, row by row: a wrong cell is one error that names file, line and remedy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.tables import Table, open_table
from medlink.language.lexicon.entries import (
    FIRST,
    GENDERS,
    KINDS,
    LAST,
    MARKS,
    PARTS,
    WHOLE,
    Abbreviation,
    Entry,
    Member,
    Opposite,
    Sense,
)
from medlink.language.tags import language_tag

FAMILIES, TERMS, AFFIXES, OPPOSITES = "families.tsv", "terms.tsv", "affixes.tsv", "opposites.tsv"
ABBREVIATIONS, FUNCTION_WORDS, NAMES = "abbreviations_{}.tsv", "function_words.tsv", "names.tsv"
INFLECTED, SENSES, SAME = "inflected.tsv", "senses.tsv", "same.tsv"
"""Tables of a folder; that of abbreviations has the tag of its language in its name."""
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
"""Specialties and parts of a hospital in which an abbreviation has a meaning."""
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
}
_OF_ABBREVIATIONS = ("abbreviation", "long", "english", "kind", "weight", "field", "safe")
_BETWEEN = " | "
_NO_LANGUAGE = ("kind", "note")
_MEMBER = re.compile(r"([^{}|]*[^{}|\s]) *(?:\{([^{}]*)\})?")
ROUNDING = 0.010001
"""By how much weights that add up to 1 may be above it."""


class Rows(NamedTuple):
    """The rows of one folder, read."""

    entries: list[Entry]
    abbreviations: list[Abbreviation]
    opposites: list[tuple[int, Opposite]]
    function_words: list[tuple[str, str, str]]
    names: list[tuple[str, str]]
    inflected: list[tuple[str, str, str]]
    senses: list[tuple[int, Sense]]
    same: list[tuple[int, tuple[str, str]]]


def read_folder(folder: Path) -> Rows:
    """Everything that the tables of a folder hold.

    Opposites stand with their lines, function words as language, word and kind, names as name and kind, inflected forms
    as language, form and lemma.

    Raises:
        InputError: the folder, all tables or a column are missing, or a row cannot be read.
    """
    if folder.is_file():
        raise InputError(
            "is a file, a folder is needed", path=folder, remedy=f"name the folder it is in: {folder.parent}"
        )
    if not folder.is_dir():
        raise InputError("no such folder", path=folder, remedy="name a folder with tables of a lexicon")
    short = sorted(folder.glob(ABBREVIATIONS.format("*")))
    if not short and not any((folder / name).is_file() for name in _COLUMNS):
        wanted = ", ".join((*_COLUMNS, ABBREVIATIONS.format("de")))
        raise InputError(f"looked for {wanted}; found none of them", path=folder, remedy="name the tables so")
    for path in sorted(folder.glob("*.tsv")):
        if path.name not in _COLUMNS and path not in short:
            raise InputError("is no table of a lexicon", path=path, remedy=f"name it as one of {', '.join(_COLUMNS)}")
    rows = Rows([], [], [], [], [], [], [], [])
    for name in (FAMILIES, TERMS, AFFIXES):
        rows.entries.extend(_entries(folder / name))
    for path in short:
        language = _language(path.stem.removeprefix(ABBREVIATIONS.partition("{")[0]), path)
        rows.abbreviations.extend(read_abbreviations(path, language))
    for _, line, row in _rows(folder / OPPOSITES):
        rows.opposites.append((line, Opposite(row["kind"], row["one"], row["other"])))
    for table, line, row in _rows(folder / FUNCTION_WORDS):
        rows.function_words.append((_language(row["language"], table.lines.path, line), row["word"], row["kind"]))
    rows.names.extend((row["name"], row["kind"]) for _, _, row in _rows(folder / NAMES))
    for table, line, row in _rows(folder / INFLECTED):
        rows.inflected.append((_language(row["language"], table.lines.path, line), row["form"], row["lemma"]))
    for table, line, row in _rows(folder / SENSES):
        beside = tuple(one.strip() for one in row["beside"].split("|") if one.strip())
        if not row["word"]:
            raise _bad(table, line, "no word", "write the ambiguous word, or take the row out")
        language = _language(row["language"], table.lines.path, line)
        rows.senses.append((line, Sense(row["word"], language, row["family"], beside)))
    rows.same.extend((line, (row["one"], row["other"])) for _, line, row in _rows(folder / SAME))
    return rows


def _rows(path: Path) -> Iterator[tuple[Table, int, dict[str, str]]]:
    """The rows of a table with their line numbers; none where there is no such file."""
    if not path.is_file():
        return
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    columns = _COLUMNS.get(path.name, _OF_ABBREVIATIONS)
    table.places(columns)
    if table.header[0] != columns[0]:
        raise table.error(f"the first column is {table.first[0]!r}", f"begin with the column {columns[0]}")
    for line, cells in table.rows:
        yield table, line, dict(zip(table.header, map(str.strip, cells), strict=True))


def _bad(table: Table, line: int, message: str, remedy: str) -> InputError:
    return InputError(message, path=table.lines.path, line=line, remedy=remedy)


def _one_of(words: Iterable[str], *, or_none: bool = False) -> str:
    """The remedy of a word that is none of those that a cell may hold."""
    return f"write one of {', '.join(sorted(words))}" + (", or leave the cell empty" if or_none else "")


def _language(tag: str, path: StrPath, line: int | None = None) -> str:
    found = language_tag(tag)
    if found is None:
        raise InputError(
            f"{tag!r} is no language", path=path, line=line, remedy="name columns and files by BCP 47 tags, such as de"
        )
    return found


def _entries(path: Path) -> Iterator[Entry]:
    """Families, terms or affixes, each name once."""
    lines: dict[str, int] = {}
    for table, line, row in _rows(path):
        entry = _entry(table, line, row)
        if first := lines.get(entry.name):
            remedy = f"put all members into line {first}, or give one of the two another name"
            raise _bad(table, line, f"{entry.name!r} stands in line {first} already", remedy)
        lines[entry.name] = line
        yield entry


def _entry(table: Table, line: int, row: Mapping[str, str]) -> Entry:
    """A family, a term or an affix as it stands in a row."""
    kind = row.get("kind", "")
    members = [
        _member(one, _language(column, table.lines.path, 1), table, line)
        for column in table.header[1:]
        if column not in _NO_LANGUAGE
        for one in row[column].split(_BETWEEN)
        if one
    ]
    name = row[table.header[0]]
    if table.header[0] == "term" and kind not in TERM_KINDS:
        raise _bad(table, line, f"unknown kind {kind!r}", _one_of(TERM_KINDS))
    if table.header[0] == "family" and kind not in ("", *KINDS):
        raise _bad(table, line, f"unknown kind {kind!r}", _one_of(KINDS, or_none=True))
    if not name:
        raise _bad(table, line, "no name", f"write what it means into the column {table.header[0]}, in English")
    if not members:
        raise _bad(table, line, "no member in any language", "write a word into the column of its language, such as de")
    return Entry(table.header[0], name, tuple(members), kind, row.get("note", ""))


def _member(text: str, language: str, table: Table, line: int) -> Member:
    """A member as it stands in a cell: its form, and tags in braces."""
    found = _MEMBER.fullmatch(text.strip())
    if found is None:
        remedy = "write it as 'Wort {f,pl=Wörter}': tags in one pair of braces behind it, ' | ' before the next member"
        raise _bad(table, line, f"a member cannot be read: {text.strip()!r}", remedy)
    form, place = found[1], WHOLE
    if len(form) > 1 and form.endswith("-"):
        form, place = form[:-1], FIRST
    elif len(form) > 1 and form.startswith("-"):
        form, place = form[1:], LAST
    part, genders, plurals, marks = "", [], [], set()
    for tag in filter(None, map(str.strip, (found[2] or "").split(","))):
        if tag.startswith("pl="):
            plurals += [plural.strip() for plural in tag.removeprefix("pl=").split("/")]
            if not all(plurals):
                remedy = "write the plural behind 'pl=', or leave 'pl=' out; '/' stands between two plurals"
                raise _bad(table, line, f"empty plural of {form!r}", remedy)
        elif tag in GENDERS:
            genders.append(tag)
        elif tag in PARTS:
            part = tag
        elif tag in MARKS:
            marks.add(tag)
        else:
            remedy = f"{_one_of((*GENDERS, *PARTS, *MARKS))}, or pl= with the plural"
            raise _bad(table, line, f"unknown tag {tag!r} of {form!r}", remedy)
    return Member(form, language, place, part, tuple(genders), tuple(plurals), frozenset(marks))


def shortened(text: str) -> str:
    """An abbreviation without dots and blanks.

    >>> shortened("Z. n."), shortened("i.v.")
    ('Zn', 'iv')
    """
    return re.sub(r"[.\s]", "", text)


def read_abbreviations(path: Path, language: str) -> Iterator[Abbreviation]:
    """Meanings of abbreviations; the shares of one add up to 1 at most, and one of them at most is safe."""
    weights: dict[str, float] = defaultdict(float)
    safe: dict[str, int] = {}
    for table, line, row in _rows(path):
        one = _abbreviation(table, line, row, language)
        for form in dict.fromkeys(map(shortened, one.forms)):
            weights[form] += one.weight
            if weights[form] > 1 + ROUNDING:
                message = f"the weights of {form!r} add up to {weights[form]:.2f}, at most 1 expected"
                raise _bad(table, line, message, "lower the weights: each is the share of its uses that mean this")
            if one.safe and form in safe:
                message = f"{form!r} is safe in line {safe[form]} already: one meaning at most may be"
                raise _bad(table, line, message, "write no into the column safe of all its meanings but one")
            if one.safe:
                safe[form] = line
        yield one


def _abbreviation(table: Table, line: int, row: Mapping[str, str], language: str) -> Abbreviation:
    """A meaning as it stands in a row."""
    fields = tuple(field.strip() for field in row["field"].split(","))
    unknown = [field for field in fields if field not in FIELDS]
    try:
        weight = float(row["weight"])
    except ValueError:
        weight = 0.0
    wrong = (
        (not row["abbreviation"] or not row["long"], "no abbreviation or no long form", "write both"),
        (row["kind"] not in ABBREVIATION_KINDS, f"unknown kind {row['kind']!r}", _one_of(ABBREVIATION_KINDS)),
        (bool(unknown), f"unknown field {', '.join(map(repr, unknown))}", _one_of(FIELDS)),
        (
            not 0 < weight <= 1,
            f"the weight is {row['weight']!r}, above 0 and at most 1 expected",
            "write the share of its uses that mean this, such as 0.8",
        ),
        (
            row["safe"] not in ("yes", "no"),
            f"safe is {row['safe']!r}, yes or no expected",
            "write yes where it means this without any context, else no",
        ),
    )
    for is_wrong, message, remedy in wrong:
        if is_wrong:
            raise _bad(table, line, message, remedy)
    forms = tuple(form.strip() for form in row["abbreviation"].split(_BETWEEN))
    safe, note = row["safe"] == "yes", row.get("note", "")
    return Abbreviation(forms, language, row["long"], row["english"], row["kind"], weight, fields, safe, note)
