"""The contrastive phase of BioLORD: names of concepts against their descriptions, other concepts as negatives."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.errors import ConfigError
from medlink.language.text import normalise
from medlink.models import StaticEncoder, load_encoder
from medlink.training.common.losses import info_nce
from medlink.training.common.run import Run
from medlink.training.common.trainable import make_trainable
from medlink.training.data.batches import Batch
from medlink.training.data.pairs import KnowledgeBasePairs, Pair
from medlink.training.recipes import ContrastiveRecipe

CARD = {
    "title": "Encoder trained by BioLORD: contrastive phase",
    "summary": "InfoNCE on names and descriptions of their concepts (Remy et al. 2022, section 3; 2024, section "
    "Contrastive phase)",
    "command": "medlink train biolord contrastive",
}


class InfoNceLoss(torch.nn.Module):
    """:func:`~medlink.training.common.losses.info_nce` of names against texts, as a loss of sentence-transformers.

    Inputs are a column of n names and a column of n texts. The labels ``(n, n)`` are the mask that
    :func:`false_negatives` makes.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the loss of the ``(n, d)`` embeddings of both columns."""
        names, texts = (functional.normalize(column, dim=-1) for column in embeddings)
        return info_nce(names, texts, labels, self.temperature)


def false_negatives(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Make the mask ``(n, n)`` that is true where text j of a batch is no negative of name i, and on the diagonal.

    The negatives of BioLORD 2022, section 3, are all other pairs of the batch. Here a text is no negative of a name if
    their pairs share concept, name or text, or if the text equals the name. Equal texts have one exact form
    (:func:`medlink.language.text.normalise`).
    """
    numbers: dict[str, int] = {}

    def encode(values: Iterable[str]) -> NDArray[np.int64]:
        return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)

    concepts = encode(pair.concept_id for pair in pairs)
    names, texts = encode(normalise(pair.name) for pair in pairs), encode(normalise(pair.text) for pair in pairs)
    same: NDArray[np.bool_] = names[:, None] == texts
    for values in (concepts, names, texts):
        same |= values[:, None] == values
    np.fill_diagonal(same, True)
    return same


class PairBatches:
    """Batches of ``size`` pairs: a column of names, one of texts, and :func:`false_negatives` as the label."""

    def __init__(self, source: KnowledgeBasePairs, size: int) -> None:
        self._source, self._size = source, size
        self.digest = hashlib.sha256(f"{source.digest} {size}".encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """Return the number of batches; the pairs after the last whole one are not used."""
        return max(1, self._source.pairs_per_epoch // self._size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number ``start`` on, without making earlier batches."""
        for pairs in itertools.islice(self._source.batches(epoch, self._size, start), self.batches_per_epoch() - start):
            yield Batch(([pair.name for pair in pairs], [pair.text for pair in pairs]), false_negatives(pairs))


def train_contrastive(
    run: Run,
    pairs: KnowledgeBasePairs,
    start: str | Path,
    recipe: ContrastiveRecipe,
    *,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Train by InfoNCE on names and descriptions of their concepts; ``about`` has facts for the model card.

    ConfigError: a batch needs more concepts than there are, or the recipe does not fit the kind of encoder.
    """
    encoder = load_encoder(start)
    for name in ("mini_batch", "max_tokens") if isinstance(encoder, StaticEncoder) else ():
        if getattr(recipe, name):
            remedy = "leave it at 0; a static encoder embeds a whole batch of whole texts"
            raise ConfigError(f"{name} is for a transformer", remedy=remedy)
    batches = PairBatches(pairs, recipe.batch_size)
    data = {**(about or {}), "pairs of an epoch": pairs.pairs_per_epoch}
    part = make_trainable(encoder, recipe.feature_dropout)
    run.train(part, batches, InfoNceLoss(recipe.temperature), recipe, data, **CARD)
