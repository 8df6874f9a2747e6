"""Features of many texts, computed once and drawn from many times: what every trainer of a static encoder needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.models.static.encoder import Features, StaticConfig, features
from medlink.models.static.module import StaticEmbedding, as_tensors

_CHUNK = 20_000
_EMBEDDED_AT_ONCE = 4096


class Bags:
    """Table rows of many texts.

    Args:
        texts: n texts.
        config: shape of the encoder.

    >>> bags = Bags(["liver", "type 2"], StaticConfig())
    >>> len(bags), np.diff(bags.take(np.array([1, 0, 1])).marker_indptr).tolist()
    (2, [2, 0, 2])
    """

    def __init__(self, texts: Sequence[str], config: StaticConfig) -> None:
        chunks = [features(texts[i : i + _CHUNK], config) for i in range(0, len(texts), _CHUNK)]
        chunks = chunks or [features([], config)]
        # four bytes do for a row: a table of two thousand million would not fit into memory
        self._rows = np.concatenate([chunk.rows for chunk in chunks]).astype(np.int32)
        self._ends = _joined([chunk.indptr for chunk in chunks])
        self._marker_rows = np.concatenate([chunk.marker_rows for chunk in chunks]).astype(np.int32)
        self._marker_ends = _joined([chunk.marker_indptr for chunk in chunks])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def take(self, texts: NDArray[np.int64]) -> Features:
        """Features of the given texts, one after the other; their rows are 32-bit numbers."""
        indptr, places = _places(self._ends, texts)
        marker_indptr, marker_places = _places(self._marker_ends, texts)
        rows: Any = self._rows[places]
        marker_rows: Any = self._marker_rows[marker_places]
        return Features(indptr, rows, marker_indptr, marker_rows)

    def __call__(self, texts: NDArray[np.int64]) -> dict[str, Tensor]:
        """The same as the tensors that :class:`~medlink.models.static.module.StaticEmbedding` reads."""
        return as_tensors(self.take(texts))

    def embedded(self, module: StaticEmbedding) -> NDArray[np.float32]:
        """Embeddings ``(n, d)`` of all texts as a module stands, without dropout."""
        out = np.empty((len(self), module.shape.dimension), dtype=np.float32)
        device, was_training = module.table.weight.device, module.training
        module.eval()
        with torch.no_grad():
            for start in range(0, len(self), _EMBEDDED_AT_ONCE):
                some = np.arange(start, min(start + _EMBEDDED_AT_ONCE, len(self)))
                moved = {key: value.to(device) for key, value in self(some).items()}
                out[some] = module(moved)["sentence_embedding"].float().cpu().numpy()
        module.train(was_training)
        return out


def _joined(indptrs: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Where the values of each text begin and end, when those of all chunks stand one after the other."""
    lengths = np.concatenate([np.diff(indptr) for indptr in indptrs])
    return np.cumsum(np.append(0, lengths), dtype=np.int64)


def _places(ends: NDArray[np.int64], texts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the values of the given texts begin and end when taken out, and where they stand."""
    lengths = ends[texts + 1] - ends[texts]
    indptr = np.cumsum(np.append(0, lengths), dtype=np.int64)
    places = np.arange(int(indptr[-1]), dtype=np.int64)
    places += np.repeat(ends[texts] - indptr[:-1], lengths)
    return indptr, places
