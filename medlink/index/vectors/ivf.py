"""Cells of vectors with eight bits per dimension: for so many names that building a graph would take too long."""

from __future__ import annotations

from medlink.index.vectors.cells import CellsIndex


class Index(CellsIndex):
    """One byte per dimension (scalar quantisation), and eight for the row number."""

    kind = "ivf"
    _rescored = 3

    @staticmethod
    def _codes(dimension: int) -> str:
        return "SQ8"

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        return dimension + 8
