"""Regression on a teacher: texts and their targets kept in the folder of the run, and the loss.

Three phases of BioLORD are of this kind: self-distillation, cross-lingual distillation and the static student.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.training.common import checkpoint
from medlink.training.common.batch_trainer import Figures
from medlink.training.common.recipes import PhaseRecipe, Recipe
from medlink.training.common.run import Run
from medlink.training.common.targets import check_components, principal_components, project, ridge, sum_embeddings
from medlink.training.common.trainable import cut_at
from medlink.training.data.text_store import Entry, TargetBatches, TextStore, read_targets

_FITTED = 4096  # texts at a time
_PENALTY = 0.01  # of the head that is fitted: it learns on, and need not fit the last of the embeddings' directions
_VECTORS, _FACTS = "vectors.npy", "facts.json"


def keep_texts(run: Run, entries: Callable[[], Iterable[Entry]]) -> TextStore:
    """Write the texts; anew when a run is resumed, to see that they are still the same."""
    path = run.folder / "texts.sqlite"
    if run.first:
        TextStore.build(path, entries())
    run.wait()
    return TextStore(path)


def keep_targets(run: Run, make: Callable[[Path], Mapping[str, Any]], name: str = "targets") -> dict[str, Any]:
    """Make the targets, or keep those that the run made before.

    Args:
        run: bound to all that the targets are made of.
        make: writes the vectors into an ``.npy`` file, and says what is worth knowing of them, which is returned.
        name: of the folder that they are in.
    """
    folder = run.folder / name
    if run.first and not folder.exists():
        with checkpoint.new_folder(folder, f"the {name}") as draft:
            write_json(draft / _FACTS, dict(make(draft / _VECTORS)))
    run.wait()
    with checkpoint.reading(folder / _FACTS):
        said: dict[str, Any] = read_json(folder / _FACTS)
    return said


def teach(
    run: Run, store: TextStore, recipe: Recipe, name: str | Path, components: int | None = None, **facts: Any
) -> tuple[int, dict[str, Any]]:
    """Embed the texts by a teacher, which is then let go; gives its width and facts for the card.

    Args:
        run: is bound to recipe, texts, teacher and ``facts``.
        store, recipe, name: the texts, how to train, and the teacher.
        components: principal components that the targets are reduced to.

    Raises:
        ConfigError: there are fewer dimensions or rows than components, or the run began with something else.
        EncoderError: an embedding is NaN or infinite, the disk is full, or what was kept is damaged.
    """
    teacher = load_encoder(name) if run.first else None
    if teacher is not None and components is not None:
        check_components(components, store.rows, teacher.dimension)
    run.bind(recipe, data=store.digest, teacher=teacher and teacher.fingerprint, **facts)

    def make(path: Path) -> dict[str, Any]:
        """Write the targets; what the card says of them."""
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
    """The linear map from the embeddings of a model to the targets, by :func:`~medlink.training.common.targets.ridge`.

    Gives weights ``(k, d)`` and bias ``(k,)``. ``max_tokens`` are those that training reads.
    """

    def make(path: Path) -> dict[str, Any]:
        """Write the head; what the card says of it."""
        run.progress("fitting the head to the targets")
        targets = read_targets(run.folder / "targets" / _VECTORS)
        cut_at(model, max_tokens)
        parts = store.batches(np.arange(len(store), dtype=np.int32), _FITTED)
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


def weighted_squared_error(embeddings: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean squared error with a weight for each row, ``sum_i w_i |e_i - t_i|^2 / (n d)``.

    BioLORD-2023, section "Self-distillation phase" (all weights 1) and section "Cross-lingual distillation", after
    Reimers and Gurevych 2020. The paper leaves unaligned pairs out beforehand; here the error of a pair counts as much
    as its sense aligns. The sum is divided by n and not by the sum of the weights, so that a batch of doubtful pairs
    makes a small step. Embeddings and targets are ``(n, d)``, weights ``(n,)`` from 0 to 1.

    >>> import torch
    >>> e, t = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    >>> float(weighted_squared_error(e, t, torch.tensor([1.0, 0.5])))  # (4 + 16 / 2) / 4
    3.0
    """
    return ((embeddings - targets).square() * weights[:, None]).mean()


class TargetLoss(torch.nn.Module):
    """:func:`weighted_squared_error` of the ``(n, d)`` embeddings of a model.

    Inputs: one column of n texts; labels ``(n, d + 1)``, the target and then the weight of each text.
    """

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the embeddings of the one column."""
        (found,) = embeddings
        return weighted_squared_error(found, labels[:, :-1], labels[:, -1])
