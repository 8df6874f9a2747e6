"""The contrastive phase of BioLORD: names of concepts against their descriptions, other concepts as negatives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from medlink.errors import ConfigError
from medlink.models import StaticEncoder, load_encoder
from medlink.training.common.losses import info_nce
from medlink.training.common.run import Run
from medlink.training.common.trainable import make_trainable
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.recipes import ContrastiveRecipe

CARD = {
    "title": "Encoder trained by BioLORD: contrastive phase",
    "summary": "InfoNCE on names and descriptions of their concepts (Remy et al. 2022, section 3; 2024, section "
    "Contrastive phase)",
    "command": "medlink train biolord contrastive",
}


class InfoNceLoss(torch.nn.Module):
    """:func:`~medlink.training.common.losses.info_nce` of names against texts, as a loss of sentence-transformers.

    Inputs are a column of n names and a column of n texts. The labels ``(n, n)`` are those of
    :class:`~medlink.training.data.pairs.PairBatches`.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the loss of the ``(n, d)`` embeddings of both columns."""
        names, texts = (functional.normalize(column, dim=-1) for column in embeddings)
        return info_nce(names, texts, labels, self.temperature)


def train_contrastive(
    run: Run, pairs: KnowledgeBasePairs, start: str | Path, recipe: ContrastiveRecipe, *, about: Mapping[str, Any] = {}
) -> None:
    """Train by InfoNCE on names and descriptions of their concepts; ``about`` has facts for the model card.

    Raises ConfigError if a batch needs more concepts than there are, or the recipe does not fit the kind of encoder.
    """
    encoder = load_encoder(start)
    for name in ("mini_batch", "max_tokens") if isinstance(encoder, StaticEncoder) else ():
        if getattr(recipe, name):
            remedy = "leave it at 0; a static encoder embeds a whole batch of whole texts"
            raise ConfigError(f"{name} is for a transformer", remedy=remedy)
    batches = pairs.batches(recipe.batch_size)
    data = {**about, "pairs of an epoch": pairs.pairs_per_epoch}
    part = make_trainable(encoder, recipe.feature_dropout)
    run.train(part, batches, InfoNceLoss(recipe.temperature), recipe, data, **CARD)
