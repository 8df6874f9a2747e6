"""Pairs of names that share a concept, counted without listing them.

Names and concepts are an incidence matrix, ``(n, concepts)`` SciPy CSR of int64 ones (:func:`incidence`). A name may
belong to several concepts; a pair that shares several is one pair all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError

Groups = Sequence[str | Collection[str] | Collection[int]]
"""For each name its concept, or its concepts."""
_CHUNK = 1 << 18
_ROWS = 512


def incidence(groups: Groups) -> Any:
    """Which of n names belongs to which concept; columns follow the sorted ids.

    Raises:
        ConfigError: a name has no concept.

    >>> incidence(["B", ("A", "B")]).toarray().tolist()
    [[0, 1], [1, 1]]
    """
    sets: list[set[Any]] = [{group} if isinstance(group, str) else set(group) for group in groups]
    if not all(sets):
        raise ConfigError(f"name {sets.index(set())} belongs to no concept", remedy="leave such names out")
    number = {name: column for column, name in enumerate(sorted(set().union(*sets)))}
    return from_rows([sorted(number[name] for name in ids) for ids in sets], len(number))


def from_rows(rows: Sequence[Collection[int]], width: int) -> Any:
    """The sparse matrix with ones at the columns of each row."""
    from scipy.sparse import csr_array

    columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), shape=(len(rows), width))


def split_columns(matrix: Any, label: NDArray[np.int64]) -> Any:
    """Part each concept by an integer label of its names, 0 or more, such as a cluster or a language.

    Two rows share a column of the result if they share a concept and have the same label.

    >>> split_columns(incidence(["A", "A", "A"]), np.array([0, 1, 0])).toarray().tolist()
    [[1, 0], [0, 1], [1, 0]]
    """
    labels = np.repeat(label, np.diff(matrix.indptr))
    key = matrix.indices.astype(np.int64) * (int(label.max(initial=0)) + 1) + labels
    used, columns = np.unique(key, return_inverse=True)
    return type(matrix)((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], len(used)))


def related(matrix: Any) -> NDArray[np.int64]:
    """``(n,)`` how many names share a concept with each name, itself included: n more than twice the pairs in all.

    The sizes of its concepts, less what names that share more than one concept with it were counted too often. Only
    names of several concepts can be such, and only among them are pairs formed: time and memory are linear in names
    as long as concepts are bounded.

    >>> related(incidence([("A", "B"), ("A", "B"), "A", "C"])).tolist()
    [3, 3, 3, 1]
    """
    counts: NDArray[np.int64] = np.asarray(matrix @ matrix.sum(axis=0), dtype=np.int64)
    several = np.flatnonzero(np.diff(matrix.indptr) > 1)
    few = matrix[several]
    others = few.T.tocsr()
    for start in range(0, len(several), _ROWS):
        shared = few[start : start + _ROWS] @ others
        shared.data -= 1
        counts[several[start : start + _ROWS]] -= np.asarray(shared.sum(axis=1), dtype=np.int64)
    return counts


def share(matrix: Any, one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """``(p,)`` whether the names in rows ``one (p,)`` and ``other (p,)`` share a concept.

    >>> share(incidence([("A", "B"), "B", "A"]), np.array([0, 1]), np.array([1, 2])).tolist()
    [True, False]
    """
    same = np.zeros(len(one), dtype=bool)
    for start in range(0, len(one), _CHUNK):
        part = slice(start, start + _CHUNK)
        same[part] = np.asarray(matrix[one[part]].multiply(matrix[other[part]]).sum(axis=1)) > 0
    return same


def harmonic(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Harmonic mean, 0 where both are 0: F1 of precision and recall.

    >>> harmonic(np.array([1.0, 0.0]), np.array([0.5, 0.0])).round(4).tolist()
    [0.6667, 0.0]
    """
    return share_of(2 * one * other, one + other)


def share_of(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """``part / whole``, 0 where the whole is 0.

    >>> share_of(np.array([1, 0]), np.array([4, 0])).tolist()
    [0.25, 0.0]
    """
    part = np.asarray(part, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros_like(part), where=np.asarray(whole) > 0)
