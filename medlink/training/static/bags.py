"""N-gram features of many texts, computed once, from which trainers of static encoders draw batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.language.lexicon.forms import LexiconForms
from medlink.models.ngrams import Bags as NgramBags
from medlink.models.static.encoder import Features, StaticConfig, features
from medlink.models.static.meaning_features import MeaningHasher
from medlink.models.static.module import StaticEmbedding, as_tensors
from medlink.training.data.batches import chunked
from medlink.training.data.ragged import Ragged

KINDS = len(Features._fields)
_TEXTS = 20_000  # computed at a time
_EMBEDDED = 4096  # embedded at a time


def compute_bags(
    texts: Iterable[str], config: StaticConfig, forms: LexiconForms | None
) -> Iterator[list[tuple[NDArray[Any], NDArray[np.int64]]]]:
    """Yield, for each kind of feature, the table rows of each text and their number, some thousand texts at a time.

    Word families need the ``forms`` of the lexicon.
    """
    hasher = None if forms is None else MeaningHasher(forms)
    for part in chunked(texts, _TEXTS):
        yield [(bags.values, np.diff(bags.offsets)) for bags in features(part, config, hasher)]


class Bags:
    """N-gram features of n texts: a group of table rows for each text, for each kind of features."""

    def __init__(self, parts: Sequence[Ragged]) -> None:
        self._parts = parts

    @classmethod
    def of(cls, texts: Sequence[str], config: StaticConfig, forms: LexiconForms | None = None) -> Bags:
        """Compute the features of texts in memory."""
        columns = zip(*compute_bags(texts, config, forms), strict=True)
        joined = (tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in columns)
        return cls([Ragged(np.append(0, np.cumsum(sizes)), values.astype(np.int32)) for values, sizes in joined])

    def __len__(self) -> int:
        return len(self._parts[0])

    def take(self, texts: NDArray[Any]) -> Features:
        """Return the features of n texts by number, ``(n,)``, or of parts of n texts, ``(n, p)``, -1 for none."""
        bags = []
        for part in self._parts:
            values, lengths = part.gather(texts.reshape(-1))
            ends = np.cumsum(lengths.reshape(len(texts), -1).sum(axis=1))
            bags.append(NgramBags(np.append(0, ends), values))
        return Features(*bags)

    def __call__(self, texts: NDArray[Any]) -> dict[str, Tensor]:
        """Like :meth:`take`, but return inputs of :class:`~medlink.models.static.module.StaticEmbedding`."""
        return as_tensors(self.take(texts))

    def embed(self, module: StaticEmbedding) -> NDArray[np.float32]:
        """Embed all texts ``(n, d)`` with the current weights and without dropout."""
        out = np.empty((len(self), module.shape.dimension), dtype=np.float32)
        was_training = module.training
        module.eval()
        with torch.no_grad():
            for start in range(0, len(out), _EMBEDDED):
                texts = np.arange(start, min(start + _EMBEDDED, len(out)))
                out[texts] = module(self(texts))["sentence_embedding"].numpy()
        module.train(was_training)
        return out
