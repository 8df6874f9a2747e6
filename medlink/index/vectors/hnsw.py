"""A graph of neighbours (HNSW; Malkov and Yashunin 2018): quick among many vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.index.vectors.base import FaissIndex, selector
from medlink.index.vectors.library import faiss

_LINKS = 32
_BUILD_WIDTH = 80
_SEARCH_WIDTH = 64
_FEW = 8  # rows that half the width finds as well
_SMALL = 10_000  # so few allowed rows are searched exactly


class Index(FaissIndex):
    """Vectors of 16 bits for each weight, found along the links of a graph."""

    kind = "hnsw"

    @staticmethod
    def _create(dimension: int) -> Any:
        library = faiss()
        index = library.IndexHNSWSQ(dimension, library.ScalarQuantizer.QT_fp16, _LINKS, library.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_WIDTH
        index.is_trained = True
        return index

    @staticmethod
    def _vectors_of(index: Any) -> Any:
        return index.storage

    def _asked(self, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Any, Any]:
        if allowed is not None and np.count_nonzero(allowed) <= _SMALL:
            return super()._asked(k, allowed)
        width = max(_SEARCH_WIDTH if k > _FEW else _SEARCH_WIDTH // 2, 2 * k)
        parameters = faiss().SearchParametersHNSW(efSearch=width)
        if allowed is not None:
            parameters.sel = selector(allowed)
        return self._index, parameters
