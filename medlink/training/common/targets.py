"""Regression on a teacher: texts and target vectors in the folder of the run, and the loss.

Targets are sums of a teacher's embeddings, or their principal components; memory holds a few thousand at a time.
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
from medlink.training.common.checkpoints import read_errors
from medlink.training.common.run import Run, new_folder
from medlink.training.common.trainable import limit_tokens
from medlink.training.data.text_store import TargetBatches, TextEntry, TextStore, read_targets
from medlink.training.recipes import PhaseRecipe, Recipe

_TEXTS = 4096  # embedded at a time
_ROWS = 8192  # read at a time
_HEAD_PENALTY = 0.01  # training continues on the head, so at first it need not fit every direction of the embeddings
_VECTORS, _FACTS = "vectors.npy", "facts.json"


def store_texts(run: Run, entries: Callable[[], Iterable[TextEntry]]) -> TextStore:
    """Write the texts; a resumed run writes them again, to check that they are the same."""
    if run.is_main:
        TextStore.build(run.folder / "texts", entries())
    run.wait()
    return TextStore(run.folder / "texts")


def store_targets(run: Run, make: Callable[[Path], Mapping[str, Any]], name: str = "targets") -> dict[str, Any]:
    """Let ``make`` write vectors to an ``.npy`` file, unless the run did so before; return its facts about them."""
    folder = run.folder / name
    if run.is_main and not folder.exists():
        with new_folder(folder, f"the {name}") as draft:
            write_json(draft / _FACTS, dict(make(draft / _VECTORS)))
    run.wait()
    with read_errors(folder / _FACTS):
        facts: dict[str, Any] = read_json(folder / _FACTS)
    return facts


def compute_teacher_targets(
    run: Run, store: TextStore, recipe: Recipe, name: str | Path, components: int | None = None, **bound: Any
) -> tuple[int, dict[str, Any]]:
    """Embed the texts with a teacher, bind the run to all inputs, and return the teacher's dimension and facts.

    The targets are reduced to ``components`` principal components, if given.

    Raises:
        ConfigError: there are fewer dimensions or rows than components, or the run began with other inputs.
        EncoderError: an embedding is NaN or infinite, the disk is full, or stored targets are damaged.
    """
    teacher = load_encoder(name) if run.is_main else None
    if teacher is not None and components is not None:
        check_components(components, store.rows, teacher.dimension)
    run.bind(recipe, data=store.digest, teacher=teacher and teacher.fingerprint, **bound)

    def make(path: Path) -> dict[str, Any]:
        assert teacher is not None
        run.progress(f"embedding the texts of {store.rows} targets by the teacher")
        facts = {"teacher": f"`{teacher.fingerprint}`", "width": teacher.dimension}
        full = path if components is None else path.with_name("whole.npy")
        rows = sum_embeddings(store, teacher.encode, teacher.dimension, full)
        if components is not None:
            projection = principal_components(rows, components)
            write_projection(rows, projection, path)
            full.unlink()
            facts["variance kept by the targets"] = f"{projection.explained_variance:.4f}"
        return facts

    facts = store_targets(run, make)
    return facts.pop("width"), facts


def fit_head(run: Run, model: SentenceTransformer, store: TextStore, max_tokens: int) -> tuple[Tensor, Tensor]:
    """Fit the linear map from the embeddings of a model to the targets by :func:`fit_ridge`.

    Returns weights ``(k, d)`` and bias ``(k,)``. ``max_tokens`` is the limit in training.
    """

    def make(path: Path) -> dict[str, Any]:
        run.progress("fitting the head to the targets")
        targets = read_targets(run.folder / "targets" / _VECTORS)
        limit_tokens(model, max_tokens)
        parts = ((model.encode(texts), targets[rows]) for texts, rows in store.parts(_TEXTS))
        weights, bias = fit_ridge(parts, _HEAD_PENALTY)
        np.save(path, np.column_stack([weights, bias]).astype(np.float32))
        return {}

    store_targets(run, make, "head")
    head = torch.from_numpy(np.array(read_targets(run.folder / "head" / _VECTORS)))
    return head[:, :-1], head[:, -1]


def fit_to_targets(
    run: Run, model: SentenceTransformer, store: TextStore, recipe: PhaseRecipe, name: str = "run"
) -> dict[str, Any]:
    """Train a model in place to embed the texts as their targets; checkpoints are in the folder ``name``."""
    targets = run.folder / "targets" / _VECTORS
    batches = TargetBatches(store, targets, batch_size=recipe.batch_size, seed=recipe.seed)
    return run.fit(model, batches, WeightedMSELoss(), recipe, name)


class WeightedMSELoss(torch.nn.Module):
    """Mean squared error of n texts with a weight for each, ``sum_i w_i |e_i - t_i|^2 / (n d)``.

    BioLORD-2023, section "Self-distillation phase" (all weights 1) and section "Cross-lingual distillation", after
    Reimers and Gurevych 2020. The paper removes unaligned pairs beforehand; here the weight of a pair is the degree of
    its alignment, and uncertain pairs make a small step. The labels ``(n, d + 1)`` are target and weight of each text.

    >>> e, labels = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.5]])
    >>> float(WeightedMSELoss().compute_loss_from_embeddings([e], labels))  # (4 + 16 / 2) / 4
    3.0
    """

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        (rows,) = embeddings
        return ((rows - labels[:, :-1]).square() * labels[:, -1:]).mean()


def sum_embeddings(
    store: TextStore, encode: Callable[[Sequence[str]], NDArray[np.float32]], dimension: int, path: Path
) -> NDArray[np.float32]:
    """Write the target vectors of a store: row r is the sum of ``share * encode(text)`` over the entries of row r.

    With the shares of :func:`medlink.training.biolord.distillation.concept_entries`, a row is the target of
    BioLORD-2023, section "Self-distillation phase". The result ``(n, d)`` is mapped from the ``.npy`` file ``path``.
    Raises EncoderError if an embedding is NaN or infinite.
    """
    rows = _create_rows(path, store.rows, dimension)
    for texts, text_index, row, share in store.iter_teacher_texts(_TEXTS):
        vectors = encode(texts)
        if not np.isfinite(vectors).all():
            raise EncoderError("an embedding of the teacher is NaN or infinite", remedy="name another teacher")
        np.add.at(rows, row, (share[:, None] * vectors[text_index]).astype(np.float32))
    rows.flush()
    del rows
    return read_targets(path)


class Projection(NamedTuple):
    """A linear map ``(rows - mean) @ axes.T`` from d to k numbers; the rows of ``axes`` ``(k, d)`` are orthonormal."""

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]
    explained_variance: float

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """``(n, d)`` to ``(n, k)`` float32."""
        return np.asarray((rows - self.mean) @ self.axes.T, dtype=np.float32)


def principal_components(rows: NDArray[Any], count: int, *, centre: bool = True) -> Projection:
    """Compute the ``count`` principal components (Pearson 1901) of ``(n, d)`` rows, read a few thousand at a time.

    BioLORD-2023, section "Self-distillation phase", reduces the targets to 64 dimensions in this way. The result is
    exact. (In scikit-learn, ``PCA`` takes all rows at once, and ``IncrementalPCA`` is not exact.) Axes descend by
    variance; the largest entry of an axis, the first of several, is positive. Without ``centre``, the axes preserve
    inner products instead of variance (truncated singular value decomposition), and the mean is 0. Raises ConfigError
    as :func:`check_components` does.
    """
    from scipy.linalg import eigh

    n, d = rows.shape
    check_components(count, n, d, centre=centre)
    parts = [rows[start : start + _ROWS] for start in range(0, n, _ROWS)]
    mean, scatter = np.zeros(d), np.zeros((d, d))
    if centre:
        mean = sum((part.sum(axis=0, dtype=np.float64) for part in parts), mean) / n
    for part in parts:
        difference = part.astype(np.float64) - mean
        scatter += difference.T @ difference
    values, vectors = eigh(scatter, subset_by_index=[d - count, d - 1])
    axes = np.ascontiguousarray(vectors[:, ::-1].T)
    largest = axes[np.arange(count), np.abs(axes).argmax(axis=1)]
    axes *= np.sign(largest)[:, None]
    total = float(np.trace(scatter))
    return Projection(mean, axes, float(values.sum()) / total if total > 0 else 1.0)


def fit_ridge(
    batches: Iterable[tuple[NDArray[Any], NDArray[Any]]], penalty: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a ridge regression (Hoerl and Kennard 1970) in one pass over batches of inputs ``(n, d)`` and outputs
    ``(n, k)``; return weights ``(k, d)`` and bias ``(k,)``.

    ``W = Y'X (X'X + c I)^-1`` of centred rows, in double precision. The bias ``mean(y) - W mean(x)`` is not penalised.
    ``c`` is ``penalty``, above 0, times the mean of the diagonal of ``X'X``, so the number and length of the rows do
    not matter. Raises EncoderError if all inputs are the same, NaN or infinite.
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
    variance = np.trace(centred[:, :d]) / d
    # rounding leaves some of it where all embeddings are the same
    if variance <= 1e-12 * np.trace(sums[1:, 1 : d + 1]):
        raise unfit
    inner = centred[:, :d] + penalty * variance * np.eye(d)
    weights = solve(inner, centred[:, d:], assume_a="pos").T
    return weights, means[d:] - weights @ means[:d]


def check_components(count: int, n: int, d: int, *, centre: bool = True) -> None:
    """Raise ConfigError for more principal components than n rows of d numbers have."""
    most = min(d, n - 1 if centre else n)
    if not 1 <= count <= most:
        remedy = f"give at most {most} dimensions" if most > 0 else "name a knowledge base of several concepts"
        raise ConfigError(f"{count} dimensions from {n} targets of {d}", remedy=remedy)


def write_projection(
    rows: NDArray[Any], projection: Projection, path: Path, *, unit: bool = False
) -> NDArray[np.float32]:
    """Write projected rows ``(n, k)`` to a mapped ``.npy`` file; ``unit`` scales them to length 1."""
    out = _create_rows(path, len(rows), len(projection.axes))
    for start in range(0, len(rows), _ROWS):
        projected = projection(rows[start : start + _ROWS])
        out[start : start + _ROWS] = to_unit(projected) if unit else projected
    out.flush()
    del out
    return read_targets(path)


def to_unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows ``(n, d)`` to length 1; a row of length 0 stays."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def _create_rows(path: Path, rows: int, dimension: int) -> np.memmap[Any, np.dtype[np.float32]]:
    """Map a file of zeros, with its space allocated: a disk that fills up under a mapping kills the process."""
    mapped: np.memmap[Any, np.dtype[np.float32]] = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        path, mode="w+", dtype=np.float32, shape=(rows, dimension)
    )
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return mapped
