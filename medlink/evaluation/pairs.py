"""Pairs of names that share a concept, counted without listing them.

Names and concepts are an incidence matrix. A name may belong to several concepts; a pair that shares several is one
pair all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError

_CHUNK = 1 << 18
_ROWS = 512


def incidence(groups: Sequence[str | Collection[str]]) -> Any:
    """Which name belongs to which concept, as a sparse matrix.

    Args:
        groups: for each of n names the id of its concept, or the ids of its concepts, at least one.

    Returns:
        ``(n, concepts)`` SciPy CSR array of int64 ones; columns follow the sorted ids.

    Raises:
        ConfigError: a name has no concept.

    >>> incidence(["B", ("A", "B")]).toarray().tolist()
    [[0, 1], [1, 1]]
    """
    sets = [{group} if isinstance(group, str) else set(group) for group in groups]
    sizes = np.array([len(ids) for ids in sets], dtype=np.int64)
    if not sizes.all():
        raise ConfigError(f"name {int(np.argmin(sizes))} belongs to no concept", remedy="leave such names out")
    number = {name: column for column, name in enumerate(sorted(set().union(*sets)))}
    columns = np.array([number[name] for ids in sets for name in sorted(ids)], dtype=np.int64)
    return from_columns(columns, sizes)


def from_columns(columns: NDArray[np.int64], sizes: NDArray[np.int64]) -> Any:
    """The sparse matrix whose row i holds ones at the next ``sizes[i]`` of ``columns``, each once in a row."""
    from scipy.sparse import csr_array

    width = int(columns.max(initial=-1)) + 1
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return csr_array((np.ones(len(columns), dtype=np.int64), columns, indptr), shape=(len(sizes), width))


def split_columns(matrix: Any, label: NDArray[np.int64]) -> Any:
    """Part each concept of an incidence matrix by a label of its names, such as a cluster or a language.

    Two rows share a column of the result if they share a concept and have the same label.

    Args:
        matrix: ``(n, concepts)`` from :func:`incidence`.
        label: ``(n,)`` integers, 0 or more.

    >>> split_columns(incidence(["A", "A", "A"]), np.array([0, 1, 0])).toarray().tolist()
    [[1, 0], [0, 1], [1, 0]]
    """
    sizes = np.diff(matrix.indptr)
    key = matrix.indices.astype(np.int64) * (int(label.max(initial=0)) + 1) + np.repeat(label, sizes)
    return from_columns(np.unique(key, return_inverse=True)[1], sizes)


def related(matrix: Any) -> NDArray[np.int64]:
    """How many names share a concept with each name, itself included.

    The sizes of its concepts, less what names that share more than one concept with it were counted too often. Only
    names of several concepts can be such, and only among them are pairs formed: time and memory are linear in names
    as long as concepts are bounded.

    Args:
        matrix: ``(n, concepts)`` from :func:`incidence`.

    Returns:
        ``(n,)`` counts; ``(sum - n) / 2`` is the number of pairs that share a concept.

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
    """Whether two names share a concept.

    Args:
        matrix: ``(n, concepts)`` from :func:`incidence`.
        one: ``(p,)`` rows.
        other: ``(p,)`` rows.

    Returns:
        ``(p,)`` booleans.

    >>> share(incidence([("A", "B"), "B", "A"]), np.array([0, 1]), np.array([1, 2])).tolist()
    [True, False]
    """
    sizes, first = np.diff(matrix.indptr), matrix.indices[matrix.indptr[:-1]]
    same = np.empty(len(one), dtype=bool)
    for start in range(0, len(one), _CHUNK):
        a, b = one[start : start + _CHUNK], other[start : start + _CHUNK]
        part = first[a] == first[b]
        # What names of several concepts share is only seen by comparing them all.
        several = np.flatnonzero(((sizes[a] > 1) | (sizes[b] > 1)) & ~part)
        part[several] = np.asarray(matrix[a[several]].multiply(matrix[b[several]]).sum(axis=1)) > 0
        same[start : start + _CHUNK] = part
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
