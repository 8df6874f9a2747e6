"""Losses of embeddings, and the embedding of texts in parts and by several processes.

A loss is a module with a method ``compute_loss_from_embeddings``, which takes the ``(n, d)`` embeddings of each column,
and the labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.util import all_gather
from torch import Tensor
from torch.nn import functional

from medlink.training.common.inputs import InputParts


class EmbeddingLoss(CachedLossMixin, torch.nn.Module):
    """A loss of embeddings as a loss of sentence-transformers, in full precision.

    ``mini_batch`` rows are embedded at a time, which limits memory; 0 embeds all. Cached gradients (Gao et al. 2021,
    "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2) equal those of the whole
    batch. If several processes share the batch (``shared``), the labels are for all n rows, ``loss`` must be a mean
    over the rows, and each process has the gradient of its own rows; their sum is that of the batch.
    """

    def __init__(self, model: torch.nn.Module, loss: torch.nn.Module, mini_batch: int, *, shared: bool) -> None:
        super().__init__()
        self.model, self.loss, self.mini_batch_size, self._shared = model, loss, mini_batch, shared
        self._positions: Tensor | None = None
        self._columns = 1

    def forward(self, texts: tuple[InputParts, int], labels: Tensor) -> Tensor:
        """Return the loss; ``texts`` are the inputs, column by column, and the number of columns."""
        inputs, self._columns = texts
        if not self.mini_batch_size:
            return self._in_full(embed(self.model, inputs), labels)
        # the library cuts one part into mini-batches, and the padding off each
        self._positions = inputs.positions
        loss: Tensor = self.forward_cached(inputs.parts, labels)
        return loss

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Return the loss from embeddings in parts, optionally with its gradient."""
        assert labels is not None
        loss = self._in_full(_in_order(reps[0], self._positions), labels)
        if with_backward:
            torch.autograd.backward(loss)
            return loss.detach()
        return loss

    def _in_full(self, rows: Tensor, labels: Tensor) -> Tensor:
        # sums over a large batch, and exponents, need 32 bits
        with torch.autocast(rows.device.type, enabled=False):
            columns = list(rows.float().chunk(self._columns))
            if self._shared:
                columns = [_gather_rows(column)[: len(labels)] for column in columns]
            loss: Tensor = self.loss.compute_loss_from_embeddings(columns, labels)  # type: ignore[operator]  # a method
            return loss


def _gather_rows(rows: Tensor) -> Tensor:
    count = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    if count == 1:
        return rows
    # the library averages the gradients of the processes, and the loss needs their sum
    of_all: Tensor = all_gather(rows * count - (rows * (count - 1)).detach())
    return of_all


def embed(model: torch.nn.Module, inputs: InputParts) -> Tensor:
    """Embed n texts, ``(n, d)``, part by part; the parts change only the random numbers of dropout."""
    return _in_order([model(dict(part))["sentence_embedding"] for part in inputs.parts], inputs.positions)


def _in_order(parts: Sequence[Tensor], positions: Tensor | None) -> Tensor:
    rows = torch.cat(list(parts))
    return rows if positions is None else rows[positions]


def info_nce(
    anchors: Tensor, positives: Tensor, same: Tensor, temperature: float, *, both_ways: bool = False
) -> Tensor:
    """Compute InfoNCE with in-batch negatives and a mask of false negatives.

    van den Oord et al. 2018, equation 4, as in BioLORD 2022, section 3.2, and BioLORD 2023, section "Contrastive
    phase"; neither states the loss. With the cosines divided by the temperature as s, it is the mean over i of
    ``-log(exp(s_ii) / sum_j exp(s_ij))``, with j over the unmasked positives. The mask is not in the papers.

    Args:
        anchors, positives: unit vectors ``(n, d)``; row i of the positives belongs to anchor i.
        same: ``(n, n)`` bool, whether positive j is not a negative of anchor i; the diagonal is ignored.
        both_ways: average this and the same loss with anchors and positives exchanged.

    >>> apart, none = torch.eye(2), torch.zeros(2, 2).bool()
    >>> round(float(info_nce(apart, apart, none, 1.0)), 4)  # log(1 + exp(-1))
    0.3133
    """
    itself = torch.eye(len(anchors), dtype=torch.bool, device=same.device)
    scores = (anchors @ positives.T / temperature).masked_fill(same & ~itself, -torch.inf)
    own = torch.arange(len(anchors), device=scores.device)
    loss = functional.cross_entropy(scores, own)
    return (loss + functional.cross_entropy(scores.T, own)) / 2 if both_ways else loss
