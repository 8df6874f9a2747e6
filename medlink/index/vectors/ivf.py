"""Cells of codes of eight bits for each weight: for more names than a graph is built of in good time."""

from __future__ import annotations

from medlink.index.vectors.cells import CellsIndex


class Index(CellsIndex):
    """One byte for each weight (scalar quantisation), and eight for the number of the row."""

    kind = "ivf"
    _again = 3

    @staticmethod
    def _codes(dimension: int) -> str:
        return "SQ8"

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        """Bytes of memory for each vector of so many dimensions, once every cell was looked through."""
        return dimension + 8
