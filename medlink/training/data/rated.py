"""Readers of rated pairs (concepts, sentences) and of triplets, in the layouts in which they are published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from typing import TypeVar

from medlink.errors import InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Rows, Table, first_line, open_table

StrPath = str | PathLike[str]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two texts and what people said of them.

    ``rating`` is higher for nearer, on the scale of the file. ``ids`` are those of the two concepts, ``""`` where the
    file has none; ``row`` is the line number, ``extra`` the cells of further columns that were asked for.
    """

    one: str
    other: str
    rating: float
    ids: tuple[str, str]
    row: int
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Triplet:
    """A premise with a text that it entails and one that it contradicts; ``row`` is the line of the first of them."""

    premise: str
    entailed: str
    contradicted: str
    row: int


# EHR-Rel; MayoSRS and UMNSRS; MiniMayoSRS; GLUE STS-B; SICK; plain. Columns of the texts, of the ratings, whose
# mean counts, and of the ids
_LAYOUTS = (
    (("snomed_label_1", "snomed_label_2"), ("mean_rating",), ("snomed_id_1", "snomed_id_2")),
    (("term1", "term2"), ("mean",), ("cui1", "cui2")),
    (("term1", "term2"), ("physicians", "coders"), ("cui1", "cui2")),
    (("sentence1", "sentence2"), ("score",), ("id1", "id2")),
    (("sentence_a", "sentence_b"), ("relatedness_score",), ("id_a", "id_b")),
    (("text_1", "text_2"), ("score",), ("id_1", "id_2")),
)
_TRIPLET = ("premise", "entailed", "contradicted")
_NLI = ("sentence1", "sentence2", "gold_label")
Labelled = tuple[int, str, str, str]
"""Line, premise, hypothesis and label."""


def read_pairs(path: StrPath, problems: Problems, extra: Sequence[str] = ()) -> list[RatedPair]:
    """Read rated pairs; the header says which layout it is.

    EHR-Rel (``snomed_label_1``, ``snomed_label_2``, ``mean_rating``), MayoSRS and UMNSRS (``Term1``, ``Term2``,
    ``Mean``), MiniMayoSRS (``Physicians`` and ``Coders``, whose mean counts), STS-B as in GLUE (``sentence1``,
    ``sentence2``, ``score``), SICK (``sentence_A``, ``sentence_B``, ``relatedness_score``), plain (``text_1``,
    ``text_2``, ``score``, and ``id_1``, ``id_2`` where there are ids), or three columns text, text, number without a
    header, as the translations of STS-B have them.

    The file is TSV without quoting or CSV with it, plain or ``.gz``; rows without a text or a number are counted in
    ``problems``. ``extra`` names further columns that are read.

    Raises:
        InputError: the file cannot be read, has none of these layouts or lacks a column of ``extra``, has no good row,
            or too many rows are bad.
    """
    table = open_table(path, problems)
    further = table.places(extra) if extra else []
    for texts, ratings, ids in _LAYOUTS:
        if table.has((*texts, *ratings)):
            own_ids = table.places(ids) if table.has(ids) else []
            found = _pairs(table, table.rows, table.places(texts), table.places(ratings), own_ids, further)
            return _filled(found, table.lines)
    if len(table.first) == 3 and math.isfinite(_number(table.first[2])):
        return _filled(_pairs(table, table.with_first(), [0, 1], [2], [], []), table.lines)
    raise table.unknown("the columns of rated pairs")


def _pairs(
    table: Table, rows: Rows, texts: list[int], ratings: list[int], ids: list[int], further: list[int]
) -> Iterator[RatedPair]:
    for line, cells, (one, other) in _with_texts(table, rows, texts):
        rating = sum(_number(cells[at]) for at in ratings) / len(ratings)
        if math.isfinite(rating):
            first, second = (cells[at].strip() for at in ids) if ids else ("", "")
            yield RatedPair(one, other, rating, (first, second), line, tuple(cells[at].strip() for at in further))
        else:
            table.lines.bad("rating that is not a number", line)


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

    Raises:
        InputError: the file cannot be read, has no such layout, holds no triplet, or too many rows are bad.
    """
    if first_line(path).lstrip().startswith("{"):
        lines = LineFile(path, problems)
        return _filled(_joined(_labelled_json(lines)), lines)
    table = open_table(path, problems)
    if table.has(_TRIPLET):
        read = _with_texts(table, table.rows, table.places(_TRIPLET))
        return _filled((Triplet(texts[0], texts[1], texts[2], line) for line, _, texts in read), table.lines)
    if not table.has(_NLI):
        raise table.unknown("the columns of triplets")
    *places, label = table.places(_NLI)
    read = _with_texts(table, table.rows, places)
    labelled = ((line, texts[0], texts[1], cells[label].strip()) for line, cells, texts in read)
    return _filled(_joined(labelled), table.lines)


def _with_texts(table: Table, rows: Rows, places: list[int]) -> Iterator[tuple[int, list[str], list[str]]]:
    for line, cells in rows:
        texts = [" ".join(cells[at].split()) for at in places]
        if all(texts):
            yield line, cells, texts
        else:
            table.lines.bad("empty text", line)


def _labelled_json(lines: LineFile) -> Iterator[Labelled]:
    for line, row in read_json_lines(lines):
        values = [" ".join(value.split()) for column in _NLI if isinstance(value := row.get(column), str)]
        if len(values) == len(_NLI) and all(values):
            yield line, values[0], values[1], values[2]
        else:
            lines.bad(f"no text under {', '.join(_NLI)}", line)


def _joined(labelled: Iterable[Labelled]) -> Iterator[Triplet]:
    premises: dict[str, tuple[int, dict[str, list[str]]]] = {}
    for line, premise, hypothesis, label in labelled:
        _, found = premises.setdefault(premise, (line, {"entailment": [], "contradiction": []}))
        if label in found:
            found[label].append(hypothesis)
    for premise, (line, found) in premises.items():
        for entailed, contradicted in product(found["entailment"], found["contradiction"]):
            yield Triplet(premise, entailed, contradicted, line)


def _filled(items: Iterator[Item], lines: LineFile) -> list[Item]:
    """All items, which must not be none."""
    found = list(items)
    if not found:
        raise InputError("there is no pair or triplet in it", path=lines.path, remedy="give a file with rows")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
