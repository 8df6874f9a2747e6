"""Regression on a teacher: texts and their targets, kept in the folder of the run, and the loss.

Three phases of BioLORD are of this kind: self-distillation, cross-lingual distillation and the static student. Targets
are sums of a teacher's embeddings, or principal components of them, in ``.npy`` files that are mapped, so that memory
holds a few thousand at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from medlink.errors import ConfigError, EncoderError
from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.training.common.fit import Figures, reading
from medlink.training.common.run import Run, new_folder
from medlink.training.common.trainable import cut_at
from medlink.training.data.text_store import Entry, TargetBatches, TextStore, read_targets
from medlink.training.recipes import PhaseRecipe, Recipe

_ENCODED = 4096  # texts at a time
_ROWS = 8192
_PENALTY = 0.01  # of the head that is fitted: it learns on, and need not fit the last of the embeddings' directions
_VECTORS, _FACTS = "vectors.npy", "facts.json"


def keep_texts(run: Run, entries: Callable[[], Iterable[Entry]]) -> TextStore:
    """Write the texts; anew when a run is resumed, to see that they are still the same."""
    if run.first:
        TextStore.build(run.folder / "texts", entries())
    run.wait()
    return TextStore(run.folder / "texts")


def keep_targets(run: Run, make: Callable[[Path], Mapping[str, Any]], name: str = "targets") -> dict[str, Any]:
    """Make the targets, or keep those that the run, bound to all that they are made of, made before.

    ``make`` writes the vectors into an ``.npy`` file in the folder ``name``; what it says of them is returned.
    """
    folder = run.folder / name
    if run.first and not folder.exists():
        with new_folder(folder, f"the {name}") as draft:
            write_json(draft / _FACTS, dict(make(draft / _VECTORS)))
    run.wait()
    with reading(folder / _FACTS):
        said: dict[str, Any] = read_json(folder / _FACTS)
    return said


def teach(
    run: Run, store: TextStore, recipe: Recipe, name: str | Path, components: int | None = None, **facts: Any
) -> tuple[int, dict[str, Any]]:
    """Embed the texts by a teacher, which is then let go; gives its width and facts for the card.

    The run is bound to recipe, texts, teacher and ``facts``. The targets are reduced to so many principal
    ``components``.

    Raises:
        ConfigError: there are fewer dimensions or rows than components, or the run began with something else.
        EncoderError: an embedding is NaN or infinite, the disk is full, or what was kept is damaged.
    """
    teacher = load_encoder(name) if run.first else None
    if teacher is not None and components is not None:
        check_components(components, store.rows, teacher.dimension)
    run.bind(recipe, data=store.digest, teacher=teacher and teacher.fingerprint, **facts)

    def make(path: Path) -> dict[str, Any]:
        assert teacher is not None
        run.progress(f"embedding the texts of {store.rows} targets by the teacher")
        said = {"teacher": f"`{teacher.fingerprint}`", "width": teacher.dimension}
        if components is None:
            sum_embeddings(store, teacher.encode, teacher.dimension, path)
            return said
        whole = path.with_name("whole.npy")
        rows = sum_embeddings(store, teacher.encode, teacher.dimension, whole)
        projection = principal_components(rows, components)
        project(rows, projection, path)
        del rows
        whole.unlink()
        return {**said, "variance kept by the targets": f"{projection.kept:.4f}"}

    said = keep_targets(run, make)
    return said.pop("width"), said


def fit_head(run: Run, model: SentenceTransformer, store: TextStore, max_tokens: int) -> tuple[Tensor, Tensor]:
    """The linear map from the embeddings of a model to the targets, by :func:`ridge`.

    Gives weights ``(k, d)`` and bias ``(k,)``. ``max_tokens`` are those that training reads.
    """

    def make(path: Path) -> dict[str, Any]:
        run.progress("fitting the head to the targets")
        targets = read_targets(run.folder / "targets" / _VECTORS)
        cut_at(model, max_tokens)
        parts = store.batches(np.arange(len(store), dtype=np.int32), _ENCODED)
        weights, bias = ridge(((model.encode(texts), targets[rows]) for texts, rows, _ in parts), _PENALTY)
        np.save(path, np.column_stack([weights, bias]).astype(np.float32))
        return {}

    keep_targets(run, make, "head")
    kept = torch.from_numpy(np.array(read_targets(run.folder / "head" / _VECTORS)))
    return kept[:, :-1], kept[:, -1]


def regress(run: Run, model: SentenceTransformer, store: TextStore, recipe: PhaseRecipe, name: str = "run") -> Figures:
    """Train a model in place to embed the texts by their targets; the checkpoints lie in a folder ``name``."""
    targets = run.folder / "targets" / _VECTORS
    batches = TargetBatches(store, targets, batch_size=recipe.batch_size, seed=recipe.seed)
    return run.fit(model, batches, TargetLoss(), recipe, name)


class TargetLoss(torch.nn.Module):
    """Mean squared error with a weight for each row, ``sum_i w_i |e_i - t_i|^2 / (n d)``.

    BioLORD-2023, section "Self-distillation phase" (all weights 1) and section "Cross-lingual distillation", after
    Reimers and Gurevych 2020. The paper leaves unaligned pairs out beforehand; here the error of a pair counts as much
    as its sense aligns. The sum is divided by n and not by the sum of the weights, so that a batch of doubtful pairs
    makes a small step.

    Inputs: one column of n texts; labels ``(n, d + 1)``, the target and then the weight, from 0 to 1, of each text.

    >>> e, labels = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.5]])
    >>> float(TargetLoss().compute_loss_from_embeddings([e], labels))  # (4 + 16 / 2) / 4
    3.0
    """

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the embeddings of the one column."""
        (found,) = embeddings
        return ((found - labels[:, :-1]).square() * labels[:, -1:]).mean()


def sum_embeddings(
    store: TextStore, encode: Callable[[Sequence[str]], NDArray[np.float32]], dimension: int, path: Path
) -> NDArray[np.float32]:
    """Write the vectors of a store: row r is the sum of ``share * encode(text)`` over the entries of row r.

    With the shares of :func:`medlink.training.biolord.distillation.concept_entries` a row is the target of
    BioLORD-2023, section "Self-distillation phase". Each distinct text is encoded once. The ``(n, d)`` float32 that are
    returned are mapped from the ``.npy`` file ``path``. EncoderError: an embedding is NaN or infinite.
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


class Projection(NamedTuple):
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
    """Refuse (ConfigError) more principal components than n rows of d numbers have."""
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
    """Rows ``(n, d)`` scaled to length 1; a row of length 0 stays."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def _new_rows(path: Path, rows: int, dimension: int) -> np.memmap[Any, np.dtype[np.float32]]:
    """A mapped file of zeros. Its room is taken here: a disk that fills up under a mapping would end the process."""
    mapped: np.memmap[Any, np.dtype[np.float32]] = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        path, mode="w+", dtype=np.float32, shape=(rows, dimension)
    )
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return mapped
