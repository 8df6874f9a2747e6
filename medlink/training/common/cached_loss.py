"""A loss over the whole batch, however many processes embed it and however few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.util import all_gather
from torch import Tensor

from medlink.training.common.length_batches import by_length, embed
from medlink.training.common.resumable import processes_here


class EmbeddingLoss(Protocol):
    """A loss of sentence-transformers that is a function of embeddings first."""

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The mean loss of n rows from the ``(n, d)`` embeddings of each column."""


class WholeBatchLoss(CachedLossMixin, torch.nn.Module):
    """A loss over the whole batch, however many processes embed it and however few rows at a time.

    The rows of the other processes are constants here; each process thus has the gradient of its own rows, and the sum
    over the processes is that of the batch. Few rows at a time are embedded with cached gradients (Gao et al. 2021,
    "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2).

    Args:
        model: what embeds.
        loss: a function of the embeddings, averaged over the rows.
        mini_batch: rows embedded at a time; 0 embeds them at once.
    """

    def __init__(self, model: torch.nn.Module, loss: torch.nn.Module, mini_batch: int) -> None:
        super().__init__()
        if not hasattr(loss, "compute_loss_from_embeddings"):
            raise TypeError(
                f"{type(loss).__name__} is no function of embeddings: it has no compute_loss_from_embeddings"
            )
        self.model, self.loss, self.mini_batch_size = model, loss, mini_batch
        self._places: Sequence[Tensor] = ()

    def forward(self, sentence_features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of this process's rows of each column among all of them, under the labels of all n rows."""
        if not self.mini_batch_size:
            return self._of([embed(self.model, features) for features in sentence_features], labels)
        # the library cuts the padding off each part
        columns, self._places = zip(*(by_length(features) for features in sentence_features), strict=True)
        loss: Tensor = self.forward_cached(columns, labels)
        return loss

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss from embeddings in parts, and, if asked for, its gradient in them."""
        assert labels is not None
        columns = [torch.cat(parts)[places] for parts, places in zip(reps, self._places, strict=True)]
        loss = self._of(columns, labels)
        if with_backward:
            torch.autograd.backward(loss)
            return loss.detach()
        return loss

    def _of(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss in full precision, which sums over a large batch need."""
        with torch.autocast(embeddings[0].device.type, enabled=False):
            whole = [_gathered(embedding.float())[: len(labels)] for embedding in embeddings]
            loss: Tensor = self.loss.compute_loss_from_embeddings(whole, labels)  # type: ignore[operator]  # an EmbeddingLoss
            return loss


def _gathered(rows: Tensor) -> Tensor:
    """The rows of all processes in their order; the gradient of ours is multiplied, as it is divided by averaging."""
    count = processes_here().num_processes
    if count == 1:
        return rows
    everyone: Tensor = all_gather(rows * count - (rows * (count - 1)).detach())
    return everyone
