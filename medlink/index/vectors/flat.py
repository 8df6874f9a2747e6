"""Exact search: every vector is compared."""

from __future__ import annotations

from typing import Any

from medlink.index.vectors.base import FaissIndex
from medlink.index.vectors.library import faiss


class Index(FaissIndex):
    """Vectors of 32 bits for each weight, all of them compared."""

    kind = "flat"

    @staticmethod
    def _create(dimension: int) -> Any:
        return faiss().IndexFlatIP(dimension)

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        """Bytes of memory for each vector of so many dimensions."""
        return 4 * dimension
