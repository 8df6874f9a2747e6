"""Embeddings of the names of a part: new ones from the encoder, those of names that stayed from older parts.

They go into a file, a shard at a time. A build that is killed leaves the file, and the next build of the same names
with the same encoder continues after the last whole shard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from medlink.files.folders import remove
from medlink.index.arrays import Array
from medlink.index.names import NameTable
from medlink.models import Encoder

if TYPE_CHECKING:
    from medlink.index.part import Part

_CHUNK = 4096
SHARD = 1 << 15
"""Names that are embedded at a time, and lost at most when a build is killed."""
_NONE = -1


def embedded(
    table: NameTable,
    encoder: Encoder,
    folder: Path,
    known: Sequence[Part] = (),
    progress: Callable[[str, int, int], None] | None = None,
    dtype: DTypeLike = np.float32,
) -> Array:
    """Embeddings ``(rows, dimension)`` of names, memory-mapped, each as it is written in its first entry.

    Those of names that an older part writes so too are taken from it; where it keeps 16 bits for a weight, rounded to
    these. An older part of another encoder is an error of the caller.

    Args:
        table: the names.
        encoder: what embeds the others.
        folder: where the file is kept; what is there of other names, or of another encoder, is removed.
        known: older parts, of the same encoder; the first that has a name is asked.
        progress: called with what is being done, how many of the names are left to do, and how many there were.
        dtype: of the file.
    """
    path = folder / f"{_key(table, encoder, known, dtype)}.shards"
    for other in folder.glob("*.shards"):
        if other != path:
            remove(other)
    folder.mkdir(parents=True, exist_ok=True)
    same = [same_rows(table, part.names) for part in known]
    size = encoder.dimension * np.dtype(dtype).itemsize
    done = path.stat().st_size // size // SHARD * SHARD if path.exists() else 0
    left = np.ones(len(table), dtype=bool)
    for rows in same:
        left[rows != _NONE] = False
    total, embedded_now = int(np.count_nonzero(left)), int(np.count_nonzero(left[:done]))
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.truncate(done * size)
        file.seek(done * size)
        for start in range(done, len(table), SHARD):
            rows = np.arange(start, min(start + SHARD, len(table)))
            vectors = _shard(table, encoder, rows, known, [one[rows] for one in same])
            file.write(vectors.astype(dtype, copy=False).data)
            file.flush()
            os.fsync(file.fileno())
            if progress and (fresh := int(np.count_nonzero(left[rows]))):
                embedded_now += fresh
                progress("names embedded", embedded_now, total)
    if not len(table):
        return np.zeros((0, encoder.dimension), dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=(len(table), encoder.dimension)).view(np.ndarray)


def on_disk(folder: Path, dimension: int, dtype: DTypeLike) -> int:
    """How many embeddings are in the file of a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.shards")) // (dimension * np.dtype(dtype).itemsize)


def _key(table: NameTable, encoder: Encoder, known: Sequence[Part], dtype: DTypeLike) -> str:
    """Hash of all that embeddings depend on."""
    digest = blake2b(f"{encoder.fingerprint} {np.dtype(dtype).str} {len(table)}".encode(), digest_size=8)
    for part in known:
        # a file of an index is named by what it holds
        digest.update(f" {part.folder.resolve().name}".encode())
    for start in range(0, len(table), SHARD):
        rows = np.arange(start, min(start + SHARD, len(table)))
        digest.update("\0".join(table.texts.many(table.rows.ends[rows])).encode())
    return digest.hexdigest()


def _shard(
    table: NameTable, encoder: Encoder, rows: Array, known: Sequence[Part], same: Sequence[Array]
) -> NDArray[np.float32]:
    """Embeddings of some names; ``same`` are the rows of the older parts that hold the same spelling."""
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    left = np.ones(len(rows), dtype=bool)
    for part, others in zip(known, same, strict=True):
        found = np.flatnonzero((others != _NONE) & left)
        vectors[found] = part.vectors.vectors(others[found])
        left[found] = False
    new = np.flatnonzero(left)
    if len(new):
        vectors[new] = encoder.encode(table.texts.many(table.rows.ends[rows[new]]))
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
