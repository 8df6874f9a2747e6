"""Losses whose batch is embedded in parts of texts of like length, so that short ones are not padded to the longest.

The rows may be embedded by several processes, or a few at a time with cached gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import deepcopy

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.util import all_gather
from torch import Tensor

from medlink.training.common.resumable import processes_here

Features = dict[str, Tensor]
"""What a model reads of n texts: tensors of n rows, with an ``attention_mask`` if rows were padded to one length."""

# Padded tokens. On two cores, with batches of 64 pairs of a name and what is said of it: 52 pairs a second in parts of
# 512, 49 in parts of 256, 46 in parts of 1024, 27 without parts. A GPU has more use for many rows than for short ones.
_AT_ONCE = {"cpu": 512}


class MiniBatchLoss(CachedLossMixin, torch.nn.Module, ABC):
    """A loss of embeddings; with ``mini_batch`` few rows at a time are embedded, so that memory is that of these.

    Gradients are cached (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
    section 3.2): they are those of the whole batch.
    """

    def __init__(self, model: torch.nn.Module, mini_batch: int) -> None:
        super().__init__()
        self.model, self.mini_batch_size = model, mini_batch
        self._places: Sequence[Tensor] = ()

    def forward(self, sentence_features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of this process's rows of each column, under the labels."""
        if not self.mini_batch_size:
            return self._in_full([embed(self.model, features) for features in sentence_features], labels)
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
        loss = self._in_full(columns, labels)
        if with_backward:
            torch.autograd.backward(loss)
            return loss.detach()
        return loss

    def _in_full(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss in full precision, which sums over a large batch, and of exponents, need."""
        with torch.autocast(embeddings[0].device.type, enabled=False):
            return self._of([embedding.float() for embedding in embeddings], labels)

    @abstractmethod
    def _of(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the ``(n, d)`` embeddings of each column."""


class WholeBatchLoss(MiniBatchLoss):
    """A loss over the whole batch; the rows of the other processes are constants here.

    Each process thus has the gradient of its own rows, and the sum over the processes is that of the batch. ``loss`` is
    averaged over the rows and has a ``compute_loss_from_embeddings`` of the ``(n, d)`` embeddings of each column; the
    labels are those of all n rows.
    """

    def __init__(self, model: torch.nn.Module, loss: torch.nn.Module, mini_batch: int) -> None:
        super().__init__(model, mini_batch)
        if not hasattr(loss, "compute_loss_from_embeddings"):
            name = type(loss).__name__
            raise TypeError(f"{name} is no function of embeddings: it has no compute_loss_from_embeddings")
        self.loss = loss

    def _of(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        whole = [_gathered(embedding)[: len(labels)] for embedding in embeddings]
        loss: Tensor = self.loss.compute_loss_from_embeddings(whole, labels)  # type: ignore[operator]  # checked above
        return loss


def _gathered(rows: Tensor) -> Tensor:
    """The rows of all processes in their order; the gradient of ours is multiplied, as it is divided by averaging."""
    count = processes_here().num_processes
    if count == 1:
        return rows
    everyone: Tensor = all_gather(rows * count - (rows * (count - 1)).detach())
    return everyone


def features_of(model: SentenceTransformer, texts: Sequence[str]) -> Features:
    """What a model reads of n texts."""
    return {name: value for name, value in model.preprocess(texts).items() if isinstance(value, Tensor)}


def reader(model: SentenceTransformer) -> SentenceTransformer:
    """A model that reads texts as this one does and holds no weights: processes that only read need not copy them."""
    tensors = [*model.parameters(), *model.buffers()]
    return deepcopy(model, {id(tensor): tensor.detach().to("meta") for tensor in tensors})


def embed(model: torch.nn.Module, features: Features) -> Tensor:
    """Embeddings ``(n, d)`` of n texts by a sentence-transformers model, in parts that suit the machine.

    No part changes an embedding, but what a dropout meets.
    """
    mask = features.get("attention_mask")
    at_once = None if mask is None else _AT_ONCE.get(mask.device.type)
    if at_once is None:
        whole: Tensor = model(features)["sentence_embedding"]
        return whole
    rows, places = by_length(features)
    return torch.cat([model(part)["sentence_embedding"] for part in _parts(rows, at_once)])[places]


def by_length(features: Features) -> tuple[Features, Tensor]:
    """Rows from the shortest to the longest, and the ``(n,)`` place in that order that each row has now.

    >>> rows, places = by_length({"attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])})
    >>> rows["attention_mask"].tolist(), places.tolist()
    ([[1, 0, 0], [1, 1, 0], [1, 1, 1]], [2, 0, 1])
    """
    order = _widths(features["attention_mask"]).argsort(stable=True)
    return {name: value[order] for name, value in features.items()}, order.argsort()


def _widths(mask: Tensor) -> Tensor:
    """The last column that is read of each row, counted from 1; it is the last of all where padding comes first."""
    return (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(dim=1)


def _parts(features: Features, at_once: int) -> Iterator[Features]:
    """Consecutive rows from :func:`by_length`, without the columns that are padding in all of them."""
    mask = features["attention_mask"]
    widths = _widths(mask).clamp(min=1).tolist()
    start = 0
    while start < len(widths):
        stop = start + 1
        while stop < len(widths) and widths[stop] * (stop + 1 - start) <= at_once:
            stop += 1
        yield {
            name: value[start:stop, : widths[stop - 1]] if value.shape[1:2] == mask.shape[1:] else value[start:stop]
            for name, value in features.items()
        }
        start = stop
