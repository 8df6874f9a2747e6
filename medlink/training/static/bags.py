"""Precomputed n-gram features of many texts, from which the trainers of static encoders draw batches."""

from __future__ import annotations

from collections.abc import Sequence
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

_TEXTS = 20_000  # computed at a time
_EMBEDDED = 4096  # embedded at a time


class Bags:
    """N-gram features of n texts for encoders of shape ``config``; word families need the ``forms`` of the lexicon."""

    def __init__(self, texts: Sequence[str], config: StaticConfig, forms: LexiconForms | None = None) -> None:
        reader = None if forms is None else MeaningHasher(forms)
        chunks = [features(texts[i : i + _TEXTS], config, reader) for i in range(0, max(1, len(texts)), _TEXTS)]
        self._parts = [_join(parts, config.rows) for parts in zip(*chunks, strict=True)]

    def __len__(self) -> int:
        return int(self._parts[0].shape[0])

    def take(self, texts: NDArray[np.int64]) -> Features:
        """Return the features of texts, given by number, with 32-bit table rows."""
        selected = (part[texts] for part in self._parts)
        return Features(*(NgramBags(part.indptr.astype(np.int64), part.indices) for part in selected))

    def __call__(self, texts: NDArray[np.int64]) -> dict[str, Tensor]:
        """As :meth:`take`, as inputs of :class:`~medlink.models.static.module.StaticEmbedding`."""
        return as_tensors(self.take(texts))

    def embed(self, module: StaticEmbedding, texts: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Embed texts ``(n, d)`` by their numbers, by default all, with the current weights and without dropout."""
        texts = np.arange(len(self)) if texts is None else texts
        out = np.empty((len(texts), module.shape.dimension), dtype=np.float32)
        device, was_training = module.table.weight.device, module.training
        module.eval()
        with torch.no_grad():
            for start in range(0, len(texts), _EMBEDDED):
                part = slice(start, start + _EMBEDDED)
                inputs = {key: value.to(device) for key, value in self(texts[part]).items()}
                out[part] = module(inputs)["sentence_embedding"].float().cpu().numpy()
        module.train(was_training)
        return out


def _join(chunks: Sequence[NgramBags], width: int) -> Any:
    """A sparse matrix with a row for each text, whose columns are table rows; it is only sliced.

    Columns may repeat, in any order; the values have no meaning.
    """
    from scipy.sparse import csr_matrix

    lengths = np.concatenate([np.diff(chunk.offsets) for chunk in chunks])
    columns = np.concatenate([chunk.values.astype(np.int32) for chunk in chunks])
    indptr = np.cumsum(np.append(0, lengths))
    return csr_matrix((np.zeros(len(columns), np.int8), columns, indptr), shape=(len(lengths), width))
