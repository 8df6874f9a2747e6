"""Vectors of any kind, copied to the GPUs and searched exactly there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from medlink.index.vectors.base import Rows, VectorIndex, Vectors, check_width
from medlink.index.vectors.library import faiss

_CHUNK = 1 << 20


class OnGpu:
    """An index whose vectors lie on every GPU that Faiss sees as well.

    A search among allowed rows stays with the index itself: Faiss has no selectors on the GPU.

    Args:
        index: the index, opened.
    """

    def __init__(self, index: VectorIndex) -> None:
        self._index = index
        self.kind, self.dimension = index.kind, index.dimension
        self._gpu: Any = faiss().index_cpu_to_all_gpus(faiss().IndexFlatIP(self.dimension))
        self._copy(0)

    def _copy(self, first: int) -> None:
        for start in range(first, len(self), _CHUNK):
            self._gpu.add(self._index.vectors(np.arange(start, min(len(self), start + _CHUNK))))

    def __len__(self) -> int:
        return len(self._index)

    def add(self, vectors: Vectors) -> None:
        """See :meth:`VectorIndex.add`."""
        before = len(self)
        self._index.add(vectors)
        self._copy(before)

    def search(self, vectors: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        """See :meth:`VectorIndex.search`."""
        check_width(vectors, self.dimension)
        k = min(k, len(self))
        if allowed is not None or k == 0 or not len(vectors):
            return self._index.search(vectors, k, allowed)
        scores, rows = self._gpu.search(np.ascontiguousarray(vectors, dtype=np.float32), k)
        return rows, scores

    def vectors(self, rows: Rows) -> Vectors:
        """See :meth:`VectorIndex.vectors`."""
        return self._index.vectors(rows)

    def save(self, folder: Path) -> None:
        """See :meth:`VectorIndex.save`."""
        self._index.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """A copy on the GPU is made of an index that is open."""
        raise NotImplementedError("open the index itself, then OnGpu(index)")
