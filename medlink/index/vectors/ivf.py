"""Cells of codes with eight bits for each weight: for so many names that building a graph would take too long."""

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
        return dimension + 8
