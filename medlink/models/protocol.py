"""The protocol of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Encoder(Protocol):
    """The interface of an encoder for the index, the linker and the trainers."""

    @property
    def dimension(self) -> int:
        """Width of the embeddings."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines the embeddings."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed n texts: ``(n, dimension)`` float32 unit vectors."""

    def save(self, folder: str | Path) -> Path:
        """Write a model folder, and return it."""
