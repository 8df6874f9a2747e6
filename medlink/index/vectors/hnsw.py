"""A graph of neighbours (HNSW; Malkov and Yashunin 2018): fast search among many vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.index.vectors.base import VectorIndex, selector
from medlink.index.vectors.library import faiss

_LINKS = 32
_BUILD_WIDTH = 80
_SEARCH_WIDTH = 64
_FEW = 8  # k up to which half the width finds as much
_SAMPLED = 16  # every 16th name is sampled for the progress
_INTERVAL = 0.2  # seconds between two reports
_SMALL = 10_000  # allowed rows up to which the search is exact


class Index(VectorIndex):
    """Vectors in float16, found along the links of a graph."""

    @staticmethod
    def _create(dimension: int) -> Any:
        library = faiss()
        index = library.IndexHNSWSQ(dimension, library.ScalarQuantizer.QT_fp16, _LINKS, library.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_WIDTH
        index.is_trained = True
        return index

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        # links, their offset and level; one name in 32 has links of a second level
        return 2 * dimension + 4 * (2 * _LINKS + 1) + 12

    @staticmethod
    def _vectors_of(index: Any) -> Any:
        return index.storage

    @contextmanager
    def _reporting(self, count: int, progress: Callable[[int, int], object] | None) -> Iterator[None]:
        # Adding vectors in batches would make another graph, and Faiss reports no progress. The tables of links are
        # therefore allocated before, and another thread samples how many are filled.
        if progress is None or len(self):
            yield
            return
        hnsw = self._index.hnsw
        hnsw.prepare_level_tab(count, False)
        firsts = faiss().vector_to_array(hnsw.offsets)[:-1:_SAMPLED].astype(np.int64)
        links = faiss().rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size())
        hnsw.offsets.resize(1)  # Faiss allocates them again, by the same levels and in the same place
        ended = Event()

        def watch() -> None:
            while not ended.wait(_INTERVAL):
                progress(int((links[firsts] >= 0).mean() * count), count)

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
        progress(count, count)

    def _searcher(self, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Any, Any]:
        if allowed is not None and np.count_nonzero(allowed) <= _SMALL:
            return super()._searcher(k, allowed)
        width = max(_SEARCH_WIDTH if k > _FEW else _SEARCH_WIDTH // 2, 2 * k)
        parameters = faiss().SearchParametersHNSW(efSearch=width)
        if allowed is not None:
            parameters.sel = selector(allowed)
        return self._index, parameters
