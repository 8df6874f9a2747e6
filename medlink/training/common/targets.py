"""The vectors that texts are to be embedded by: sums of a teacher's embeddings, and their principal components.

They lie in ``.npy`` files that are mapped, so that memory holds a few thousand at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.training.data.text_store import TextStore, read_targets

_ENCODED = 4096
_ROWS = 8192


def sum_embeddings(
    store: TextStore, encode: Callable[[Sequence[str]], NDArray[np.float32]], dimension: int, path: Path
) -> NDArray[np.float32]:
    """Write the vectors of a store: row r is the sum of ``share * encode(text)`` over the entries of row r.

    With the shares of :func:`medlink.training.biolord.distillation.concept_entries` a row is the target of
    BioLORD-2023, section "Self-distillation phase". Each distinct text is encoded once.

    Args:
        store: n rows.
        encode: texts to float32 ``(texts, d)``, with d the ``dimension``.
        path: an ``.npy`` file, from which the ``(n, d)`` float32 that are returned are mapped.

    Raises:
        EncoderError: an embedding is NaN or infinite.
        OSError: the disk is full.

    >>> import tempfile
    >>> from medlink.training.data.text_store import Entry
    >>> folder = Path(tempfile.mkdtemp())
    >>> store = TextStore.build(folder / "a.sqlite", [Entry("x", 0, 0.5), Entry("xyz", 0, 0.5), Entry("x", 1)])
    >>> sum_embeddings(store, lambda texts: np.array([[len(t)] for t in texts], np.float32), 1, folder / "a.npy")[:, 0]
    memmap([2., 1.], dtype=float32)
    """
    rows = _new_rows(path, store.rows, dimension)
    for texts, numbers, of_row, share in store.taught(_ENCODED):
        vectors = encode(texts)
        if not np.isfinite(vectors).all():
            raise EncoderError("an embedding of the teacher is NaN or infinite", remedy="name another teacher")
        np.add.at(rows, of_row, (share[:, None] * vectors[numbers]).astype(np.float32))
    rows.flush()
    del rows
    return read_targets(path)


@dataclass(frozen=True, slots=True)
class Projection:
    """A linear map ``(rows - mean) @ axes.T`` from d to k numbers; ``axes`` ``(k, d)`` are orthonormal.

    ``mean`` is ``(d,)``, ``kept`` the share of the variance that the axes keep.
    """

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]
    kept: float

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """``(n, d)`` to ``(n, k)`` float32."""
        return np.asarray((rows - self.mean) @ self.axes.T, dtype=np.float32)


def principal_components(rows: NDArray[Any], count: int, *, centre: bool = True) -> Projection:
    """The directions in which ``(n, d)`` rows differ most (principal component analysis, Pearson 1901).

    BioLORD-2023, section "Self-distillation phase", reduces the targets to 64 dimensions by it. Exact, as the
    eigenvectors of the covariance, which is summed in double precision over a few thousand rows at a time. (Of
    scikit-learn's classes one takes all rows at once, and the other, which takes parts, is not exact.) The sign of an
    axis is such that its largest entry by absolute value, the first of several, is above 0; the axes come in descending
    order of what they keep.

    Args:
        count: k, at most d; with ``centre`` at most n - 1, else at most n.
        centre: take the mean off first. Without it the axes keep most of the inner products instead of most of the
            variance (truncated singular value decomposition), and ``mean`` is 0.

    Raises:
        ConfigError: there are fewer dimensions or rows than ``count`` needs.

    >>> found = principal_components(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 1)
    >>> found.mean.tolist(), found.axes.tolist(), found.kept
    ([2.0, 1.0], [[1.0, 0.0]], 1.0)
    """
    from scipy.linalg import eigh

    n, d = rows.shape
    check_components(count, n, d, centre=centre)
    parts = [slice(start, start + _ROWS) for start in range(0, n, _ROWS)]
    mean = np.zeros(d)
    if centre:
        mean = sum((rows[part].sum(axis=0, dtype=np.float64) for part in parts), mean) / n
    scatter = np.zeros((d, d))
    for part in parts:
        difference = rows[part].astype(np.float64) - mean
        scatter += difference.T @ difference
    values, vectors = eigh(scatter, subset_by_index=[d - count, d - 1])
    axes = np.ascontiguousarray(vectors[:, ::-1].T)
    largest = axes[np.arange(count), np.abs(axes).argmax(axis=1)]
    axes *= np.sign(largest)[:, None]
    whole = float(np.trace(scatter))
    return Projection(mean, axes, float(values.sum()) / whole if whole > 0 else 1.0)


def ridge(
    batches: Iterable[tuple[NDArray[Any], NDArray[Any]]], penalty: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The linear map of least squared error with a penalty on its weights (ridge regression, Hoerl and Kennard 1970).

    ``W = Y'X (X'X + c I)^-1`` of rows whose mean was taken off, in double precision, from sums over the batches. The
    bias ``mean(y) - W mean(x)`` is not penalised. The factor ``c`` is ``penalty`` times the mean of the diagonal of
    ``X'X``, so that it means the same for rows of any number and length.

    Args:
        batches: inputs ``(n, d)`` and what they are to be mapped to, ``(n, k)``.
        penalty: above 0.

    Returns:
        Weights ``(k, d)`` and bias ``(k,)``.

    Raises:
        EncoderError: all inputs are the same, NaN or infinite.

    >>> x, y = np.array([[-1.0], [0.0], [1.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> weights, bias = ridge([(x, y)], penalty=1.0)  # X'X is 2, X'Y is 4
    >>> weights.tolist(), bias.tolist()
    ([[1.0]], [3.0])
    """
    from scipy.linalg import solve

    remedy = "name another encoder to start from"
    unfit = EncoderError("the embeddings to fit a head on do not differ, or are NaN or infinite", remedy=remedy)
    sums: Any = 0
    for x, y in batches:
        rows = np.column_stack([np.ones(len(x)), x, y]).astype(np.float64)
        if not np.isfinite(rows).all():
            raise unfit
        sums = sums + rows[:, : x.shape[1] + 1].T @ rows
    d, n = len(sums) - 1, sums[0, 0]
    means = sums[0, 1:] / n
    centred = sums[1:, 1:] - n * np.outer(means[:d], means)
    spread = np.trace(centred[:, :d]) / d
    # what rounding leaves of embeddings that are all the same
    if spread <= 1e-12 * np.trace(sums[1:, 1 : d + 1]):
        raise unfit
    inner = centred[:, :d] + penalty * spread * np.eye(d)
    weights = solve(inner, centred[:, d:], assume_a="pos").T
    return weights, means[d:] - weights @ means[:d]


def check_components(count: int, n: int, d: int, *, centre: bool = True) -> None:
    """Refuse more principal components than n rows of d numbers have."""
    most = min(d, n - 1 if centre else n)
    if not 1 <= count <= most:
        remedy = f"give at most {most} dimensions" if most > 0 else "name a knowledge base of several concepts"
        raise ConfigError(f"{count} dimensions from {n} targets of {d}", remedy=remedy)


def project(rows: NDArray[Any], projection: Projection, path: Path, *, unit: bool = False) -> NDArray[np.float32]:
    """Write ``(n, k)`` float32 rows, as a projection maps them, to an ``.npy`` file, which is mapped.

    ``unit`` scales them to length 1. An :class:`OSError` says that the disk is full.
    """
    out = _new_rows(path, len(rows), len(projection.axes))
    for start in range(0, len(rows), _ROWS):
        some = projection(rows[start : start + _ROWS])
        out[start : start + _ROWS] = to_unit(some) if unit else some
    out.flush()
    del out
    return read_targets(path)


def to_unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows ``(n, d)`` scaled to length 1; a row of length 0 stays.

    >>> to_unit(np.array([[3, 4], [0, 0]], dtype=np.float32)).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def _new_rows(path: Path, rows: int, dimension: int) -> np.memmap[Any, np.dtype[np.float32]]:
    """A mapped file of zeros. Its room is taken here: a disk that fills up under a mapping would end the process."""
    mapped: np.memmap[Any, np.dtype[np.float32]] = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        path, mode="w+", dtype=np.float32, shape=(rows, dimension)
    )
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return mapped
