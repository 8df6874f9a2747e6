"""The layers of the static encoder above its table, for training: what all its trainable forms share."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Layers(Protocol):
    """What stands above the table."""

    norm: torch.nn.LayerNorm
    up: torch.nn.Linear
    down: torch.nn.Linear


def compose(x: Tensor, m: Tensor, layers: Layers, marker_weight: float) -> Tensor:
    """Embeddings from sums of table rows: the second line of the formula of :mod:`medlink.models.static.encoder`.

    Args:
        x: ``(n, d)`` weighted means of the n-gram vectors.
        m: ``(n, d)`` sums of the marker vectors, 0 for a text without markers.
        layers: the residual feed-forward net.
        marker_weight: share of the markers' direction beside the length 1 of the rest.

    Returns:
        ``(n, d)`` unit vectors.
    """
    change = layers.down(functional.gelu(layers.up(layers.norm(x)), approximate="tanh"))
    y = functional.normalize(x + change, dim=-1)
    return functional.normalize(y + marker_weight * functional.normalize(m, dim=-1), dim=-1)


class Net(torch.nn.Module):
    """The layers alone.

    Args:
        dimension: width d of the embeddings.
        hidden: width of the feed-forward net.
    """

    def __init__(self, dimension: int, hidden: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(dimension)
        self.up = torch.nn.Linear(dimension, hidden)
        self.down = torch.nn.Linear(hidden, dimension)
