"""The vectors that texts are to be embedded by: sums of a teacher's embeddings, and their principal components."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.training.data.text_store import ConceptTexts, Entry, TextStore, read_targets

_ENCODED = 4096
_ROWS = 8192
_ROOM = "make room, or name a folder on another disk, and run again with --resume"


def concept_entries(concepts: Iterator[ConceptTexts]) -> Iterator[Entry]:
    """The texts of self-distillation: a row for each concept, half of it from its names, half from its definitions.

    BioLORD-2023, section "Self-distillation phase": the target of a concept's name and definition is the average of the
    contrastive model's embeddings of the two. Where a concept has several of either, those share the half evenly;
    where it has only one kind, that makes the whole.

    Args:
        concepts: one at a time.

    Raises:
        ConfigError: no concept has a definition, or none has a name.

    >>> concepts = [ConceptTexts("A", ("cold", "coryza"), ("An infection.",)), ConceptTexts("B", ("stroke",))]
    >>> for entry in concept_entries(iter(concepts)):
    ...     print(entry.row, entry.share, entry.text)
    0 0.25 cold
    0 0.25 coryza
    0 0.5 An infection.
    1 1.0 stroke
    """
    names = definitions = 0
    for row, concept in enumerate(concepts):
        kinds = [texts for texts in (concept.names, concept.definitions) if texts]
        for texts in kinds:
            for text in texts:
                yield Entry(text, row, 1 / len(kinds) / len(texts))
        names, definitions = names + len(concept.names), definitions + len(concept.definitions)
    if not names:
        raise ConfigError("no concept has a name", remedy="name a knowledge base that has names")
    if not definitions:
        raise ConfigError(
            "no concept has a definition",
            remedy="add a table of definitions or descriptions, or distil from a knowledge base that has some",
        )


def sum_embeddings(
    store: TextStore, encode: Callable[[Sequence[str]], NDArray[np.float32]], dimension: int, path: Path
) -> NDArray[np.float32]:
    """Write the vectors of a store: row r is the sum of ``share * encode(text)`` over the entries of row r.

    With the shares of :func:`concept_entries` a row is the target of BioLORD-2023, section "Self-distillation phase".
    Each distinct text is encoded once. The rows lie in a file and are added to where they lie, so that memory holds a
    few thousand embeddings at a time.

    Args:
        store: n rows.
        encode: texts to float32 ``(texts, dimension)``.
        dimension: d, width of the embeddings.
        path: an ``.npy`` file that appears whole.

    Returns:
        ``(n, d)`` float32, mapped from the file.

    Raises:
        EncoderError: an embedding is no number, or the disk is full.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> store = TextStore.build(folder / "a.sqlite", [Entry("x", 0, 0.5), Entry("xyz", 0, 0.5), Entry("x", 1)])
    >>> sum_embeddings(store, lambda texts: np.array([[len(t)] for t in texts], np.float32), 1, folder / "a.npy")[:, 0]
    memmap([2., 1.], dtype=float32)
    """
    with appearing(path) as beside:
        rows = _new_rows(beside, store.rows, dimension)
        for texts, numbers, of_row, share in store.taught(_ENCODED):
            vectors = encode(texts)
            if not np.isfinite(vectors).all():
                raise EncoderError("the teacher embeds a text by no numbers", remedy="name another teacher")
            np.add.at(rows, of_row, (share[:, None] * vectors[numbers]).astype(np.float32))
        rows.flush()
        del rows
    return read_targets(path)


@dataclass(frozen=True, slots=True)
class Projection:
    """A linear map from d to k numbers: ``(rows - mean) @ axes.T``.

    ``mean`` is ``(d,)``, ``axes`` ``(k, d)`` with orthonormal rows, ``kept`` the share of the variance that they keep.
    """

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]
    kept: float

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """``(n, d)`` to ``(n, k)`` float32."""
        return np.asarray((rows - self.mean) @ self.axes.T, dtype=np.float32)


def principal_components(rows: NDArray[Any], count: int, *, centre: bool = True) -> Projection:
    """The directions in which rows differ most (principal component analysis, Pearson 1901).

    BioLORD-2023, section "Self-distillation phase", reduces the targets to 64 dimensions by it. Exact, as the
    eigenvectors of the covariance, which is summed in double precision over a few thousand rows at a time, so that rows
    mapped from a file need no memory. (Of scikit-learn's classes one takes all rows at once, and the other, which takes
    parts, is not exact.) The sign of an axis is such that its largest entry by absolute value, the first of several, is
    above 0.

    Args:
        rows: ``(n, d)``.
        count: k, at most d; with ``centre`` at most n - 1, else at most n.
        centre: take the mean off first. Without it the axes keep most of the inner products instead of most of the
            variance (truncated singular value decomposition), and ``mean`` is 0.

    Returns:
        The projection; its axes come in descending order of what they keep.

    Raises:
        ConfigError: there are fewer dimensions or rows than ``count`` needs.

    >>> found = principal_components(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 1)
    >>> found.mean.tolist(), found.axes.tolist(), found.kept
    ([2.0, 1.0], [[1.0, 0.0]], 1.0)
    """
    from scipy.linalg import eigh

    n, d = rows.shape
    most = min(d, n - 1 if centre else n)
    if not 1 <= count <= most:
        raise ConfigError(
            f"{count} dimensions from {n} targets of {d}",
            remedy=f"give at most {most} dimensions" if most > 0 else "name a knowledge base of several concepts",
        )
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


def project(rows: NDArray[Any], projection: Projection, path: Path, *, unit: bool = False) -> NDArray[np.float32]:
    """Write rows as a projection maps them to an ``.npy`` file that appears whole.

    Args:
        rows: ``(n, d)``, read a few thousand at a time.
        projection: d to k.
        path: the file.
        unit: scale each result to length 1; a row of length 0 stays.

    Returns:
        ``(n, k)`` float32, mapped from the file.

    Raises:
        EncoderError: the disk is full.
    """
    with appearing(path) as beside:
        out = _new_rows(beside, len(rows), len(projection.axes))
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


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A place beside a file, which takes the file's place when the block ends without an error.

    Raises:
        EncoderError: the disk is full or cannot be written.
    """
    beside = path.with_name(f"{path.name}.writing")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise EncoderError(
            f"the targets cannot be written: {error.strerror or error}", path=path, remedy=_ROOM
        ) from error
    finally:
        beside.unlink(missing_ok=True)
