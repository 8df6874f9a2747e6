"""Readers of rated pairs (concepts, sentences) and of triplets, in the layouts in which they are published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from typing import Any, TypeVar

from medlink.errors import InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Rows, Table, open_table, read_first_line

StrPath = str | PathLike[str]
Item = TypeVar("Item")
_LAYOUTS = (  # columns of texts, ratings and ids
    (("snomed_label_1", "snomed_label_2"), ("mean_rating",), ("snomed_id_1", "snomed_id_2")),  # EHR-Rel
    (("term1", "term2"), ("mean",), ("cui1", "cui2")),  # MayoSRS, UMNSRS
    (("term1", "term2"), ("physicians", "coders"), ("cui1", "cui2")),  # MiniMayoSRS
    (("sentence1", "sentence2"), ("score",), ("id1", "id2")),  # GLUE STS-B
    (("sentence_a", "sentence_b"), ("relatedness_score",), ("id_a", "id_b")),  # SICK
    (("text_1", "text_2"), ("score",), ("id_1", "id_2")),
)
_TRIPLET = ("premise", "entailed", "contradicted")
_NLI = ("sentence1", "sentence2", "gold_label")


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two texts and their human rating on the scale of the file, higher for more similar texts.

    ``ids`` are the ids of the two concepts, ``""`` where the file has none. ``row`` is the line number, and ``extra``
    is the cells of the extra columns.
    """

    text_1: str
    text_2: str
    rating: float
    ids: tuple[str, str]
    row: int
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Triplet:
    """A premise with a text that it entails and a text that it contradicts; ``row`` is the line of the premise."""

    premise: str
    entailed: str
    contradicted: str
    row: int


def read_pairs(path: StrPath, problems: Problems, extra: Sequence[str] = ()) -> list[RatedPair]:
    """Read rated pairs; the header determines the layout.

    The layouts are those of EHR-Rel, MayoSRS, UMNSRS, MiniMayoSRS (whose rating is the mean of ``Physicians`` and
    ``Coders``), STS-B as in GLUE, and SICK; plain (``text_1``, ``text_2``, ``score``, optionally ``id_1``, ``id_2``);
    or three columns text, text, number without a header, as in the translations of STS-B.

    The file is TSV without quoting or CSV with it, plain or ``.gz``. ``problems`` counts rows without a text or a
    number. ``extra`` names further columns to read. Raises InputError if the file cannot be read, has none of these
    layouts or lacks a column of ``extra``, has no good row, or too many rows are bad.
    """
    table = open_table(path, problems)
    extra_at = table.column_indices(extra) if extra else []
    for texts, ratings, ids in _LAYOUTS:
        if table.has_columns((*texts, *ratings)):
            ids_at = table.column_indices(ids) if table.has_columns(ids) else []
            columns = table.column_indices(texts), table.column_indices(ratings), ids_at, extra_at
            return _non_empty(_iter_pairs(table, table.rows, *columns), table.lines)
    if len(table.first) == 3 and math.isfinite(_to_number(table.first[2])):
        return _non_empty(_iter_pairs(table, table.iter_all_rows(), [0, 1], [2], [], []), table.lines)
    raise table.layout_error("the columns of rated pairs")


def _iter_pairs(
    table: Table, rows: Rows, texts: list[int], ratings: list[int], ids: list[int], extra: list[int]
) -> Iterator[RatedPair]:
    for line, cells, (text_1, text_2) in _with_texts(table, rows, texts):
        rating = sum(_to_number(cells[at]) for at in ratings) / len(ratings)
        if math.isfinite(rating):
            id_1, id_2 = (cells[at].strip() for at in ids) if ids else ("", "")
            yield RatedPair(text_1, text_2, rating, (id_1, id_2), line, tuple(cells[at].strip() for at in extra))
        else:
            table.lines.bad_row("rating that is not a number", line)


def has_triplets(path: StrPath) -> bool:
    """Return whether a file holds triplets or labelled pairs of premise and hypothesis, not rated pairs.

    Raises InputError if the file cannot be read.
    """
    if read_first_line(path).lstrip().startswith("{"):
        return True
    table = open_table(path, Problems(1.0))
    return table.has_columns(_TRIPLET) or table.has_columns(_NLI)


def read_triplets(path: StrPath, problems: Problems) -> list[Triplet]:
    """Read triplets: a table ``premise``, ``entailed``, ``contradicted``, or labelled pairs in the layout of MedNLI.

    Labelled pairs are JSON lines or a table with ``sentence1`` (the premise), ``sentence2`` and ``gold_label``
    (``entailment``, ``neutral``, ``contradiction``). BioLORD 2022, section 4.4: each entailed hypothesis of a premise
    forms a triplet with each contradicted hypothesis. Raises InputError if the file cannot be read, has no such layout,
    holds no triplet, or too many rows are bad.
    """
    if read_first_line(path).lstrip().startswith("{"):
        lines = LineFile(path, problems)
        return _non_empty(_join_labelled(_labelled_json(lines)), lines)
    table = open_table(path, problems)
    if table.has_columns(_TRIPLET):
        rows = _with_texts(table, table.rows, table.column_indices(_TRIPLET))
        return _non_empty((Triplet(texts[0], texts[1], texts[2], line) for line, _, texts in rows), table.lines)
    if not table.has_columns(_NLI):
        raise table.layout_error("the columns of triplets")
    *texts_at, label = table.column_indices(_NLI)
    rows = _with_texts(table, table.rows, texts_at)
    return _non_empty(_join_labelled((line, *texts, cells[label].strip()) for line, cells, texts in rows), table.lines)


def _with_texts(table: Table, rows: Rows, columns: list[int]) -> Iterator[tuple[int, list[str], list[str]]]:
    for line, cells in rows:
        texts = [" ".join(cells[at].split()) for at in columns]
        if all(texts):
            yield line, cells, texts
        else:
            table.lines.bad_row("empty text", line)


def _labelled_json(lines: LineFile) -> Iterator[tuple[Any, ...]]:
    for line, row in read_json_lines(lines):
        values = [" ".join(value.split()) for column in _NLI if isinstance(value := row.get(column), str)]
        if len(values) == len(_NLI) and all(values):
            yield line, *values
        else:
            lines.bad_row(f"no text under {', '.join(_NLI)}", line)


def _join_labelled(pairs: Iterable[tuple[Any, ...]]) -> Iterator[Triplet]:
    """Join pairs of line, premise, hypothesis and label."""
    premises: dict[str, tuple[int, dict[str, list[str]]]] = {}
    for line, premise, hypothesis, label in pairs:
        _, by_label = premises.setdefault(premise, (line, {"entailment": [], "contradiction": []}))
        if label in by_label:
            by_label[label].append(hypothesis)
    for premise, (line, by_label) in premises.items():
        for entailed, contradicted in product(by_label["entailment"], by_label["contradiction"]):
            yield Triplet(premise, entailed, contradicted, line)


def _non_empty(items: Iterator[Item], lines: LineFile) -> list[Item]:
    rows = list(items)
    if not rows:
        raise InputError("there is no pair or triplet in it", path=lines.path, remedy="give a file with rows")
    return rows


def _to_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
