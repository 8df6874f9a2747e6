"""The contrastive phase of BioLORD: names of concepts against what is said of them, other concepts as negatives."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
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
from medlink.training.common.trainable import trainable
from medlink.training.data.batches import Batch
from medlink.training.data.pairs import KnowledgeBasePairs, Pair
from medlink.training.recipes import ContrastiveRecipe

CARD = {
    "title": "Encoder trained by BioLORD: contrastive phase",
    "summary": "InfoNCE on names and what is said of their concepts (Remy et al. 2022, section 3; 2024, section "
    "Contrastive phase)",
    "command": "medlink train biolord contrastive",
}


class InfoNceLoss(torch.nn.Module):
    """:func:`~medlink.training.common.losses.info_nce` of names against texts, as a loss of sentence-transformers.

    Inputs: a column of n names, one of n texts; labels ``(n, n)``, the mask that :func:`no_negatives` makes.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the ``(n, d)`` embeddings of both columns."""
        names, texts = (functional.normalize(column, dim=-1) for column in embeddings)
        return info_nce(names, texts, labels, self.temperature)


def no_negatives(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Which texts of a batch are no negatives of which names: ``(n, n)``, names in rows, true on the diagonal.

    The negatives of BioLORD 2022, section 3, are all other pairs of the batch. Here a text is no negative of a name
    where the two pairs are of one concept, or share a name or a text, or the text is the name; in any spelling that
    :func:`medlink.language.text.normalise` makes one.
    """
    numbers: dict[str, int] = {}
    ids, spelt = [pair.concept_id for pair in pairs], [normalise(text) for p in pairs for text in (p.name, p.text)]
    concepts, both = (
        np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
        for values in (ids, spelt)
    )
    names, texts = both.reshape(-1, 2).T
    same: NDArray[np.bool_] = names[:, None] == texts
    for values in (concepts, names, texts):
        same |= values[:, None] == values
    np.fill_diagonal(same, True)
    return same


class PairBatches:
    """Batches of ``size`` pairs: a column of names, one of texts, and :func:`no_negatives` as the label."""

    def __init__(self, source: KnowledgeBasePairs, size: int) -> None:
        self._source, self._size = source, size
        self.digest = hashlib.sha256(f"{source.digest} {size}".encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """How many there are; the pairs left over after the last whole one are not trained on."""
        return max(1, self._source.pairs_per_epoch // self._size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one on; those before are not made."""
        for pairs in itertools.islice(self._source.batches(epoch, self._size, start), self.batches_per_epoch() - start):
            yield Batch(([pair.name for pair in pairs], [pair.text for pair in pairs]), no_negatives(pairs))


def train_contrastive(
    run: Run,
    pairs: KnowledgeBasePairs,
    start: str | Path,
    recipe: ContrastiveRecipe,
    *,
    about: Mapping[str, Any] | None = None,
) -> None:
    """InfoNCE on names and what is said of their concepts; ``about`` goes into the card.

    ConfigError: a batch needs more concepts than there are, or the recipe does not fit the kind of encoder.
    """
    encoder = load_encoder(start)
    for name in ("mini_batch", "max_tokens") if isinstance(encoder, StaticEncoder) else ():
        if getattr(recipe, name):
            remedy = "leave it at 0; a static encoder embeds a whole batch of whole texts"
            raise ConfigError(f"{name} is for a transformer", remedy=remedy)
    batches = PairBatches(pairs, recipe.batch_size)
    data = {**(about or {}), "pairs of an epoch": pairs.pairs_per_epoch}
    part = trainable(encoder, recipe.feature_dropout)
    run.train(part, batches, InfoNceLoss(recipe.temperature), recipe, data, **CARD)
