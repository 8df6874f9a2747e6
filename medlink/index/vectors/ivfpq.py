"""Cells of codes with four bits for two weights: for machines with little memory."""

from __future__ import annotations

from medlink.index.vectors.cells import CellsIndex


class Index(CellsIndex):
    """Product quantisation (Jégou et al. 2011, section II), scanned in registers (André et al. 2015).

    The codes are read when the index is opened: each process has its own.
    """

    kind = "ivfpq"
    _again = 10

    @staticmethod
    def _codes(dimension: int) -> str:
        return f"PQ{_parts(dimension)}x4fs"

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        """Bytes of memory for each vector of so many dimensions, and eight for the number of its row."""
        return -(-_parts(dimension) // 2) + 8


def _parts(dimension: int) -> int:
    """Parts of a vector that have a code each."""
    return dimension // 2 if dimension % 2 == 0 else dimension
