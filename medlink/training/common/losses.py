"""Losses of embeddings, and the embedding of batches in parts of similar length and by several processes.

A loss is a module with a method ``compute_loss_from_embeddings``, which takes the ``(n, d)`` embeddings of each column,
and the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.util import all_gather
from torch import Tensor
from torch.nn import functional

Features = dict[str, Tensor]
"""Inputs of a model for n texts: tensors of n rows, with an ``attention_mask`` if rows were padded to one length."""

# Padded tokens of a part. On two cores, with batches of 64 pairs of a name and a text: 52 pairs a second in parts of
# 512, 49 in parts of 256, 46 in parts of 1024, 27 without parts. A GPU gains more from many rows than from short ones.
_MAX_TOKENS = {"cpu": 512}


class EmbeddingLoss(CachedLossMixin, torch.nn.Module):
    """A loss of embeddings as a loss of sentence-transformers, in full precision.

    ``mini_batch`` rows are embedded at a time, which limits memory; 0 embeds all. Gradients are cached (Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2), so they equal those
    of the whole batch. If several processes share the batch (``shared``), the labels are those of all n rows, and the
    rows of the other processes are constants. Each process then has the gradient of its own rows, and the sum over the
    processes is that of the batch; ``loss`` must be a mean over the rows.
    """

    def __init__(self, model: torch.nn.Module, loss: torch.nn.Module, mini_batch: int, *, shared: bool) -> None:
        super().__init__()
        self.model, self.loss, self.mini_batch_size, self._shared = model, loss, mini_batch, shared
        self._positions: Sequence[Tensor] = ()

    def forward(self, sentence_features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Return the loss of this process's rows of each column, under the labels."""
        if not self.mini_batch_size:
            return self._in_full([embed(self.model, features) for features in sentence_features], labels)
        # the library cuts the padding off each part
        columns, self._positions = zip(*(sort_by_length(features) for features in sentence_features), strict=True)
        loss: Tensor = self.forward_cached(columns, labels)
        return loss

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Return the loss from embeddings in parts, optionally with its gradient."""
        assert labels is not None
        columns = [torch.cat(parts)[positions] for parts, positions in zip(reps, self._positions, strict=True)]
        loss = self._in_full(columns, labels)
        if with_backward:
            torch.autograd.backward(loss)
            return loss.detach()
        return loss

    def _in_full(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        # sums over a large batch, and exponents, need 32 bits
        with torch.autocast(embeddings[0].device.type, enabled=False):
            columns = [embedding.float() for embedding in embeddings]
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


def preprocess_texts(model: SentenceTransformer, texts: Sequence[str]) -> Features:
    """Make the inputs of a model for n texts."""
    return {name: value for name, value in model.preprocess(texts).items() if isinstance(value, Tensor)}


def copy_without_weights(model: SentenceTransformer) -> SentenceTransformer:
    """Return a copy that only preprocesses texts, for worker processes without the weights."""
    tensors = [*model.parameters(), *model.buffers()]
    return deepcopy(model, {id(tensor): tensor.detach().to("meta") for tensor in tensors})


def embed(model: torch.nn.Module, features: Features) -> Tensor:
    """Embed n texts, ``(n, d)``, in parts of a size that suits the device.

    The parts change only the random numbers of dropout.
    """
    mask = features.get("attention_mask")
    max_tokens = None if mask is None else _MAX_TOKENS.get(mask.device.type)
    if max_tokens is None:
        whole: Tensor = model(features)["sentence_embedding"]
        return whole
    rows, positions = sort_by_length(features)
    return torch.cat([model(part)["sentence_embedding"] for part in _split(rows, max_tokens)])[positions]


def sort_by_length(features: Features) -> tuple[Features, Tensor]:
    """Sort rows from the shortest to the longest; also return the ``(n,)`` new position of each row.

    >>> rows, positions = sort_by_length({"attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])})
    >>> rows["attention_mask"].tolist(), positions.tolist()
    ([[1, 0, 0], [1, 1, 0], [1, 1, 1]], [2, 0, 1])
    """
    order = _widths(features["attention_mask"]).argsort(stable=True)
    return {name: value[order] for name, value in features.items()}, order.argsort()


def _widths(mask: Tensor) -> Tensor:
    return (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(dim=1)


def _split(features: Features, max_tokens: int) -> Iterator[Features]:
    mask = features["attention_mask"]
    widths = _widths(mask).clamp(min=1).tolist()
    start = 0
    while start < len(widths):
        stop = start + 1
        while stop < len(widths) and widths[stop] * (stop + 1 - start) <= max_tokens:
            stop += 1
        width = widths[stop - 1]
        yield {
            name: value[start:stop, :width] if value.shape[1:2] == mask.shape[1:] else value[start:stop]
            for name, value in features.items()
        }
        start = stop


def info_nce(
    anchors: Tensor, positives: Tensor, same: Tensor, temperature: float, *, both_ways: bool = False
) -> Tensor:
    """Compute InfoNCE with in-batch negatives and a mask of false negatives.

    van den Oord et al. 2018, equation 4, as in BioLORD 2022, section 3.2, and BioLORD 2023, section "Contrastive
    phase"; neither writes the loss out. With s the cosines divided by the temperature it is the mean over i of
    ``-log(exp(s_ii) / sum_j exp(s_ij))``, j over the unmasked positives. The mask is ours.

    Args:
        anchors, positives: ``(n, d)`` unit vectors; row i of the positives belongs to anchor i.
        same: ``(n, n)`` bool, whether positive j is no negative of anchor i; the diagonal is ignored.
        temperature: divisor of the cosines, above 0.
        both_ways: average this and the same loss with anchors and positives exchanged.

    Raises:
        ValueError: ``same`` is not ``(n, n)``, or there are no rows.

    >>> apart, none = torch.eye(2), torch.zeros(2, 2).bool()
    >>> round(float(info_nce(apart, apart, none, 1.0)), 4)  # log(1 + exp(-1))
    0.3133
    """
    n = len(anchors)
    if same.shape != (n, n) or not n:
        raise ValueError(f"a mask of shape {tuple(same.shape)} for {n} rows")
    itself = torch.eye(n, dtype=torch.bool, device=same.device)
    scores = (anchors @ positives.T / temperature).masked_fill(same & ~itself, -torch.inf)
    own = torch.arange(n, device=scores.device)
    loss = functional.cross_entropy(scores, own)
    return (loss + functional.cross_entropy(scores.T, own)) / 2 if both_ways else loss
