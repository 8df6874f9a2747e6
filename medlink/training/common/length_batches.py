"""Embedding the texts of a batch in parts of like length, so that short ones are not padded to the longest."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

Features = dict[str, Tensor]
"""What a model reads of n texts: tensors of n rows, with an ``attention_mask`` if rows were padded to one length."""

# Padded tokens. On two cores, with batches of 64 pairs of a name and what is said of it: 52 pairs a second in parts of
# 512, 49 in parts of 256, 46 in parts of 1024, 27 without parts. A GPU has more use for many rows than for short ones.
_AT_ONCE = {"cpu": 512}


def embed(model: torch.nn.Module, features: Features) -> Tensor:
    """Embeddings of n texts, in parts that suit the machine. No part changes an embedding, but what a dropout meets.

    Args:
        model: a sentence-transformers model.
        features: of n texts.

    Returns:
        ``(n, d)``.
    """
    mask = features.get("attention_mask")
    at_once = None if mask is None else _AT_ONCE.get(mask.device.type)
    if at_once is None:
        whole: Tensor = model(features)["sentence_embedding"]
        return whole
    rows, places = by_length(features)
    return torch.cat([model(part)["sentence_embedding"] for part in _parts(rows, at_once)])[places]


def by_length(features: Features) -> tuple[Features, Tensor]:
    """Rows from the shortest to the longest.

    Args:
        features: of n texts, with an ``attention_mask``.

    Returns:
        The features in that order, and the ``(n,)`` place in it that each row has now.

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
