"""MLTE (Feng 2023): how alike two texts are, by the states of all blocks of a transformer."""

from __future__ import annotations

from pathlib import Path

HOLDS = "mlte.json"
"""The file by which the folder of a regressor is known."""


def is_mlte(folder: str | Path) -> bool:
    """Whether a folder holds a regressor."""
    return (Path(folder) / HOLDS).is_file()
