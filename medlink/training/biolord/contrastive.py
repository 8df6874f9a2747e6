"""The contrastive phase of BioLORD: names of concepts against what is said of them, other concepts as negatives."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.language.text import normalise
from medlink.models.transformer import fingerprint_of
from medlink.training.biolord.recipes import ContrastiveRecipe
from medlink.training.common.batches import Batch
from medlink.training.common.losses import info_nce
from medlink.training.common.run import Run, transformer
from medlink.training.data.pairs import Pair, PairSource

CARD = {
    "title": "Encoder trained by BioLORD: contrastive phase",
    "summary": "InfoNCE on names and what is said of their concepts (Remy et al. 2022, section 3; 2024, section "
    "Contrastive phase)",
    "command": "medlink train biolord contrastive",
}


class InfoNceLoss(torch.nn.Module):
    """:func:`~medlink.training.common.losses.info_nce` of names against texts, as a loss of sentence-transformers.

    Args:
        model: a sentence-transformers model.
        temperature: what cosines are divided by.

    Inputs: a column of n names, one of n texts; labels ``(n, n)``, the mask that :func:`no_negatives` makes.
    """

    def __init__(self, model: torch.nn.Module, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, sentence_features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of one batch, a scalar."""
        columns = [self.model(features)["sentence_embedding"] for features in sentence_features]
        return self.compute_loss_from_embeddings(columns, labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss from the embeddings of names and of texts."""
        names, texts = (functional.normalize(column, dim=-1) for column in embeddings)
        return info_nce(names, texts, labels, self.temperature)


def no_negatives(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Which texts of a batch are no negatives of which names.

    The negatives of BioLORD 2022, section 3, are all other pairs of the batch. Here a text is no negative of a name
    where the two pairs are of one concept, or share a name or a text, or the text is the name; in any spelling that
    :func:`medlink.language.text.normalise` makes one.

    Args:
        pairs: n pairs.

    Returns:
        ``(n, n)`` bool, names in rows and texts in columns, true on the diagonal.

    >>> cold, chill = Pair("A", "cold", "an illness", "definition"), Pair("B", "chill", "Cold", "name")
    >>> no_negatives([cold, chill]).astype(int).tolist()
    [[1, 1], [0, 1]]
    """
    numbers: dict[str, int] = {}
    concepts, names, texts = (
        np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
        for values in (
            [f"{pair.concept_id}\t" for pair in pairs],
            [normalise(pair.name) for pair in pairs],
            [normalise(pair.text) for pair in pairs],
        )
    )
    same: NDArray[np.bool_] = names[:, None] == texts
    for values in (concepts, names, texts):
        same |= values[:, None] == values
    np.fill_diagonal(same, True)
    return same


class PairStream(PairSource, Protocol):
    """Pairs that can be begun anywhere, such as :class:`medlink.training.data.pairs.KnowledgeBasePairs`."""

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        """Batches of an epoch, from the one of number ``start`` on."""
        ...


class PairBatches:
    """Batches of pairs: a column of names, one of texts, and :func:`no_negatives` as the label.

    Args:
        source: where the pairs come from.
        size: pairs in a batch.
    """

    def __init__(self, source: PairStream, size: int) -> None:
        self._source, self._size = source, size
        self.digest = hashlib.sha256(f"{source.digest} {size}".encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """How many there are; the pairs left over after the last whole one are not trained on."""
        return max(1, self._source.pairs_per_epoch // self._size)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch."""
        return self.epoch_from(epoch, 0)

    def epoch_from(self, epoch: int, start: int) -> Iterator[Batch]:
        """The batches of an epoch from one on; those before are not made."""
        for pairs in itertools.islice(self._source.batches(epoch, self._size, start), self.batches_per_epoch() - start):
            yield Batch(([pair.name for pair in pairs], [pair.text for pair in pairs]), no_negatives(pairs))


def train_contrastive(
    run: Run,
    pairs: PairStream,
    start: str | Path,
    recipe: ContrastiveRecipe,
    *,
    about: Mapping[str, Any] | None = None,
) -> None:
    """InfoNCE on names and what is said of their concepts.

    Args:
        run: of the folder of the encoder.
        pairs: where the pairs come from.
        start: the transformer to train.
        recipe: how.
        about: facts about the pairs, for the card.

    Raises:
        ConfigError: a batch needs more concepts than there are.
        EncoderError: as :meth:`~medlink.training.common.run.Run.fit` says.
    """
    model = transformer(start)
    before = fingerprint_of(model)
    batches = PairBatches(pairs, recipe.batch_size)
    run.bind(recipe, data=batches.digest, start=before)
    figures = run.fit(model, batches, InfoNceLoss(model, recipe.temperature), recipe)
    data = {
        **(about or {}),
        "pairs of an epoch": pairs.pairs_per_epoch,
        "SHA-256 of the data and their settings": f"`{batches.digest}`",
    }
    run.write(model, **CARD, start=before, data=data, recipe=recipe, figures=figures.facts())
