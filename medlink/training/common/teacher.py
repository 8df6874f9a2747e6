"""Regression on a teacher: texts and their targets kept in the folder of the run, and the loss.

Three phases of BioLORD are of this kind: self-distillation, cross-lingual distillation and the static student.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from medlink.files.json import read_json, write_json
from medlink.training.common import checkpoint
from medlink.training.common.batch_trainer import Figures
from medlink.training.common.recipes import PhaseRecipe
from medlink.training.common.run import Run
from medlink.training.data.text_store import Entry, TargetBatches, TextStore

_VECTORS, _FACTS = "vectors.npy", "facts.json"


def keep_texts(run: Run, entries: Callable[[], Iterable[Entry]]) -> TextStore:
    """Write the texts; anew when a run is resumed, to see that they are still the same."""
    path = run.folder / "texts.sqlite"
    if run.first:
        TextStore.build(path, entries())
    run.wait()
    return TextStore(path)


def keep_targets(run: Run, make: Callable[[Path], Mapping[str, Any]]) -> dict[str, Any]:
    """Make the targets, or keep those that the run made before.

    Args:
        run: bound to all that the targets are made of.
        make: writes the vectors into an ``.npy`` file, and says what is worth knowing of them. What else it leaves
            beside the file stays there.

    Returns:
        What ``make`` said.

    Raises:
        EncoderError: the disk is full, or what was kept is damaged.
    """
    folder = run.folder / "targets"
    if run.first and not folder.exists():
        with checkpoint.new_folder(folder, "the targets") as draft:
            write_json(draft / _FACTS, dict(make(draft / _VECTORS)))
    run.wait()
    with checkpoint.reading(folder / _FACTS):
        said: dict[str, Any] = read_json(folder / _FACTS)
    return said


def regress(run: Run, model: SentenceTransformer, store: TextStore, recipe: PhaseRecipe, name: str = "run") -> Figures:
    """Train a model in place to embed the texts by their targets; the checkpoints lie in a folder ``name``."""
    targets = run.folder / "targets" / _VECTORS
    batches = TargetBatches(store, targets, "", batch_size=recipe.batch_size, seed=recipe.seed)
    return run.fit(model, batches, TargetLoss(model), recipe, name)


def weighted_squared_error(embeddings: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean squared error with a weight for each row.

    BioLORD-2023, section "Self-distillation phase" (all weights 1) and section "Cross-lingual distillation", after
    Reimers and Gurevych 2020. The paper leaves unaligned pairs out beforehand; here the error of a pair counts as much
    as its sense aligns: ``sum_i w_i |e_i - t_i|^2 / (n d)``. The sum is divided by n and not by the sum of the weights,
    so that a batch of doubtful pairs makes a small step.

    Args:
        embeddings: e, ``(n, d)``.
        targets: t, ``(n, d)``.
        weights: w, ``(n,)``, from 0 to 1.

    Returns:
        The loss, a scalar.

    >>> e, t = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    >>> float(weighted_squared_error(e, t, torch.tensor([1.0, 0.5])))  # (4 + 16 / 2) / 4
    3.0
    """
    return ((embeddings - targets).square() * weights[:, None]).mean()


class TargetLoss(torch.nn.Module):
    """:func:`weighted_squared_error` of a model.

    Args:
        model: what embeds; its embeddings are ``(n, d)``.

    Inputs: one column of n texts; labels ``(n, d + 1)``, the target and then the weight of each text.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of one batch, a scalar."""
        return self.compute_loss_from_embeddings(
            [self.model(features)["sentence_embedding"] for features in sentence_features], labels
        )

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss from the embeddings of the one column."""
        (found,) = embeddings
        return weighted_squared_error(found, labels[:, :-1], labels[:, -1])
