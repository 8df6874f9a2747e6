"""Embeddings of the names of a part: new ones from the encoder, those of names that stayed from older parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medlink.index.names import NameTable
from medlink.models import Encoder

if TYPE_CHECKING:
    from medlink.index.part import Part

_CHUNK = 4096
_NONE = -1


def embedded(
    table: NameTable,
    encoder: Encoder,
    known: Sequence[Part] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Embeddings ``(rows, dimension)`` of names, each as it is written in its first entry.

    Those of names that an older part writes so too are taken from it; where it keeps 16 bits for a weight, rounded to
    these. An older part of another encoder is an error of the caller.

    Args:
        table: the names.
        encoder: what embeds the others.
        known: older parts, of the same encoder; the first that has a name is asked.
        progress: called with what is being done, how many of the names are left to do, and how many there were.
    """
    vectors = np.empty((len(table), encoder.dimension), dtype=np.float32)
    left = np.ones(len(table), dtype=bool)
    for part in known:
        rows = same_rows(table, part.names)
        found = np.flatnonzero((rows != _NONE) & left)
        for start in range(0, len(found), _CHUNK):
            some = found[start : start + _CHUNK]
            vectors[some] = part.vectors.vectors(rows[some])
        left[found] = False
    new = np.flatnonzero(left)
    for start in range(0, len(new), _CHUNK):
        some = new[start : start + _CHUNK]
        vectors[some] = encoder.encode(table.texts.many(table.rows.ends[some]))
        if progress:
            progress("names embedded", min(start + _CHUNK, len(new)), len(new))
    return vectors


def same_rows(table: NameTable, other: NameTable) -> NDArray[np.int64]:
    """The row of another table ``(rows,)`` whose name is written as that of each row of one, -1 where there is none.

    Both are sorted by exact form, so that each is read once, from its beginning to its end.
    """
    found = np.full(len(table), _NONE, dtype=np.int64)
    others = _written(other)
    there = next(others, None)
    for row, norm, text in _written(table):
        while there is not None and there[1] < norm:
            there = next(others, None)
        if there is not None and there[1:] == (norm, text):
            found[row] = there[0]
    return found


def _written(table: NameTable) -> Iterator[tuple[int, str, str]]:
    """Row, exact form, and the text of the first entry."""
    for start in range(0, len(table), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(table)))
        yield from zip(rows.tolist(), table.norms.many(rows), table.texts.many(table.rows.ends[rows]), strict=True)
