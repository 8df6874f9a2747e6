"""Squared error of embeddings against target vectors, each text with a weight of its own."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor


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
    >>> float(weighted_squared_error(e, t, torch.ones(2)))
    5.0
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
