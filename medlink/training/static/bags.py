"""Features of many texts, computed once and drawn from many times: what every trainer of a static encoder needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.language.lexicon.forms import Forms
from medlink.models.static.encoder import Features, StaticConfig, features
from medlink.models.static.meanings import MeaningReader
from medlink.models.static.module import StaticEmbedding, as_tensors

_CHUNK = 20_000
_EMBEDDED_AT_ONCE = 4096


class Bags:
    """Table rows of n texts, for the shape ``config``; ``forms`` are of the lexicon, if it has word families."""

    def __init__(self, texts: Sequence[str], config: StaticConfig, forms: Forms | None = None) -> None:
        reader = None if forms is None else MeaningReader(forms)
        chunks = [features(texts[i : i + _CHUNK], config, reader) for i in range(0, len(texts), _CHUNK)]
        chunks = chunks or [features([], config, reader)]
        self._rows = _joined([(chunk.indptr, chunk.rows) for chunk in chunks], config.rows)
        self._markers = _joined([(chunk.marker_indptr, chunk.marker_rows) for chunk in chunks], config.rows)
        self._families = _joined([(chunk.family_indptr, chunk.family_rows) for chunk in chunks], config.rows)

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def take(self, texts: NDArray[np.int64]) -> Features:
        """Features of the given texts, one after the other; their rows are 32-bit numbers."""
        taken = (part[texts] for part in (self._rows, self._markers, self._families))
        return Features(*(array for part in taken for array in (part.indptr.astype(np.int64), part.indices)))

    def __call__(self, texts: NDArray[np.int64]) -> dict[str, Tensor]:
        """The same as the tensors that :class:`~medlink.models.static.module.StaticEmbedding` reads."""
        return as_tensors(self.take(texts))

    def embedded(self, module: StaticEmbedding, texts: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Embeddings ``(n, d)`` of the given texts, or all, as a module stands, without dropout."""
        texts = np.arange(len(self)) if texts is None else texts
        out = np.empty((len(texts), module.shape.dimension), dtype=np.float32)
        device, was_training = module.table.weight.device, module.training
        module.eval()
        with torch.no_grad():
            for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
                some = slice(start, start + _EMBEDDED_AT_ONCE)
                moved = {key: value.to(device) for key, value in self(texts[some]).items()}
                out[some] = module(moved)["sentence_embedding"].float().cpu().numpy()
        module.train(was_training)
        return out


def _joined(chunks: list[tuple[NDArray[np.int64], NDArray[np.int64]]], width: int) -> Any:
    """A sparse matrix with a row for each text of all chunks; its columns are rows of the table, its values no matter.

    Columns may come twice, and in any order: it is sliced and never computed with.
    """
    from scipy.sparse import csr_matrix

    lengths = np.concatenate([np.diff(indptr) for indptr, _ in chunks])
    columns = np.concatenate([rows.astype(np.int32) for _, rows in chunks])
    indptr = np.cumsum(np.append(0, lengths))
    return csr_matrix((np.zeros(len(columns), np.int8), columns, indptr), shape=(len(lengths), width))
