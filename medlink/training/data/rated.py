"""Readers of rated pairs (concepts, sentences) and of triplets, in the layouts in which they are published."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TypeVar

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, first_line, open_table

StrPath = str | PathLike[str]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two texts and what people said of them.

    Attributes:
        one, other: the texts.
        rating: their rating, higher for nearer; the scale is that of the file.
        ids: ids of the two concepts, ``""`` where the file has none.
        row: line number.
    """

    one: str
    other: str
    rating: float
    ids: tuple[str, str]
    row: int


@dataclass(frozen=True, slots=True)
class Triplet:
    """A premise with a text that it entails and one that it contradicts; ``row`` is the line of the first of them."""

    premise: str
    entailed: str
    contradicted: str
    row: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Columns of a published layout; a rating in several columns is their mean."""

    texts: tuple[str, str]
    ratings: tuple[str, ...]
    ids: tuple[str, str]


# EHR-Rel-A and -B; MayoSRS and UMNSRS; MiniMayoSRS; GLUE STS-B; SICK; plain
_LAYOUTS = (
    _Layout(("snomed_label_1", "snomed_label_2"), ("mean_rating",), ("snomed_id_1", "snomed_id_2")),
    _Layout(("term1", "term2"), ("mean",), ("cui1", "cui2")),
    _Layout(("term1", "term2"), ("physicians", "coders"), ("cui1", "cui2")),
    _Layout(("sentence1", "sentence2"), ("score",), ("id1", "id2")),
    _Layout(("sentence_a", "sentence_b"), ("relatedness_score",), ("id_a", "id_b")),
    _Layout(("text_1", "text_2"), ("score",), ("id_1", "id_2")),
)
_TRIPLET = ("premise", "entailed", "contradicted")
_NLI = ("sentence1", "sentence2", "gold_label")
_LABELS = ("entailment", "contradiction")


def read_pairs(path: StrPath, problems: Problems) -> list[RatedPair]:
    """Read rated pairs; the header says which layout it is.

    EHR-Rel (``snomed_label_1``, ``snomed_label_2``, ``mean_rating``), MayoSRS and UMNSRS (``Term1``, ``Term2``,
    ``Mean``), MiniMayoSRS (``Physicians`` and ``Coders``, whose mean counts), STS-B as in GLUE (``sentence1``,
    ``sentence2``, ``score``), SICK (``sentence_A``, ``sentence_B``, ``relatedness_score``), plain (``text_1``,
    ``text_2``, ``score``, and ``id_1``, ``id_2`` where there are ids), or three columns text, text, number without a
    header, as the translations of STS-B have them.

    Args:
        path: TSV without quoting or CSV with it, plain or ``.gz``.
        problems: where rows without a text or a number are counted.

    Raises:
        InputError: the file cannot be read, has none of these layouts, has no good row, or too many rows are bad.
    """
    table = open_table(path, problems)
    layout = next((one for one in _LAYOUTS if table.has((*one.texts, *one.ratings))), None)
    if layout is not None:
        texts, ratings = table.places(layout.texts), table.places(layout.ratings)
        ids = table.places(layout.ids) if table.has(layout.ids) else []
        rows = table.rows
    elif len(table.first) == 3 and _number(table.first[2]) is not None:
        texts, ratings, ids, rows = [0, 1], [2], [], table.with_first()
    else:
        raise table.unknown("the columns of rated pairs")
    return _filled(_pairs(table, rows, texts, ratings, ids), table.lines)


def _pairs(
    table: Table, rows: Iterable[tuple[int, list[str]]], texts: list[int], ratings: list[int], ids: list[int]
) -> Iterator[RatedPair]:
    for line, cells in rows:
        one, other = (" ".join(cells[at].split()) for at in texts)
        numbers = [_number(cells[at]) for at in ratings]
        known = [number for number in numbers if number is not None]
        if not one or not other:
            table.lines.bad("empty text", line)
        elif len(known) < len(numbers):
            table.lines.bad("rating that is not a number", line)
        else:
            first, second = (cells[at].strip() for at in ids) if ids else ("", "")
            yield RatedPair(one, other, sum(known) / len(known), (first, second), line)


def has_triplets(path: StrPath) -> bool:
    """Whether a file holds triplets or labelled pairs of premise and hypothesis, not rated pairs.

    Raises:
        InputError: the file cannot be read.
    """
    if first_line(path).lstrip().startswith("{"):
        return True
    table = open_table(path, Problems(1.0))
    return table.has(_TRIPLET) or table.has(_NLI)


def read_triplets(path: StrPath, problems: Problems) -> list[Triplet]:
    """Read triplets: a table ``premise``, ``entailed``, ``contradicted``, or labelled pairs in the layout of MedNLI.

    Labelled pairs are JSON lines or a table with ``sentence1`` (the premise), ``sentence2`` and ``gold_label``
    (``entailment``, ``neutral``, ``contradiction``). BioLORD 2022, section 4.4: of each premise that has both, every
    entailed hypothesis is set against every contradicted one.

    Args:
        path: the file, plain or ``.gz``.
        problems: where rows without a text or with broken JSON are counted.

    Raises:
        InputError: the file cannot be read, has no such layout, holds no triplet, or too many rows are bad.
    """
    if first_line(path).lstrip().startswith("{"):
        lines = LineFile(path, problems)
        return _filled(_joined(_labelled_json(lines)), lines)
    table = open_table(path, problems)
    if table.has(_TRIPLET):
        return _filled(_triplets(table), table.lines)
    if not table.has(_NLI):
        raise table.unknown("the columns of triplets")
    return _filled(_joined(_labelled_rows(table)), table.lines)


def _triplets(table: Table) -> Iterator[Triplet]:
    places = table.places(_TRIPLET)
    for line, cells in table.rows:
        texts = [" ".join(cells[at].split()) for at in places]
        if all(texts):
            yield Triplet(texts[0], texts[1], texts[2], line)
        else:
            table.lines.bad("empty text", line)


Labelled = tuple[int, str, str, str]


def _labelled_rows(table: Table) -> Iterator[Labelled]:
    places = table.places(_NLI)
    for line, cells in table.rows:
        premise, hypothesis, label = (" ".join(cells[at].split()) for at in places)
        if premise and hypothesis:
            yield line, premise, hypothesis, label
        else:
            table.lines.bad("empty text", line)


def _labelled_json(lines: LineFile) -> Iterator[Labelled]:
    for line, text in lines:
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError:
            row = None
        values = [row.get(column) for column in _NLI] if isinstance(row, dict) else []
        cells = [" ".join(value.split()) for value in values if isinstance(value, str)]
        if len(cells) == len(_NLI) and all(cells):
            yield line, cells[0], cells[1], cells[2]
        else:
            lines.bad(f"no JSON with {', '.join(_NLI)}", line)


def _joined(labelled: Iterable[Labelled]) -> Iterator[Triplet]:
    """Every entailed hypothesis of a premise with every contradicted one."""
    premises: dict[str, tuple[int, dict[str, list[str]]]] = {}
    for line, premise, hypothesis, label in labelled:
        _, found = premises.setdefault(premise, (line, {label: [] for label in _LABELS}))
        if label in found:
            found[label].append(hypothesis)
    for premise, (line, found) in premises.items():
        for entailed in found["entailment"]:
            for contradicted in found["contradiction"]:
                yield Triplet(premise, entailed, contradicted, line)


def _filled(items: Iterator[Item], lines: LineFile) -> list[Item]:
    """All items, which must not be none."""
    found = list(items)
    if not found:
        raise InputError("there is no pair or triplet in it", path=lines.path, remedy="give a file with rows")
    return found


def _number(text: str) -> float | None:
    """A finite number, ``None`` for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
