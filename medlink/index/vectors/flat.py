"""Exact search: compare every vector."""

from __future__ import annotations

from typing import Any

from medlink.index.vectors.base import VectorIndex
from medlink.index.vectors.library import faiss


class Index(VectorIndex):
    """Vectors in float32."""

    @staticmethod
    def _create(dimension: int) -> Any:
        return faiss().IndexFlatIP(dimension)

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        return 4 * dimension
