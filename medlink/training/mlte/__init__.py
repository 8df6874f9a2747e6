"""MLTE (Feng 2023): similarity of two texts from the hidden states of all blocks of a transformer."""

from __future__ import annotations

from pathlib import Path

CONFIG_FILE = "mlte.json"
"""The file that marks the folder of a regressor."""


def is_mlte(folder: str | Path) -> bool:
    """Whether a folder holds a regressor."""
    return (Path(folder) / CONFIG_FILE).is_file()
