"""``load_encoder``: one door to every encoder, built in, from a folder, or by a hub name the user gave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.models.static.encoder import StaticEncoder, is_static
from medlink.models.transformer import TransformerEncoder

BUILTIN = "builtin"
_ROOT = Path(__file__).resolve().parent.parent


class Encoder(Protocol):
    """What the index, the linker and the trainers need of an encoder."""

    @property
    def dimension(self) -> int:
        """Width of the embeddings."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the embeddings."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed n texts: ``(n, dimension)`` float32 unit vectors."""

    def save(self, folder: str | Path) -> Path:
        """Write the model folder."""


def check_folder(out: Path, holds: str = "modules.json", what: str = "encoder") -> None:
    """Refuse to make the folder ``out`` of files that may not be replaced: a ``what`` that holds ``holds`` may.

    Raises:
        ConfigError: there is a file of that name, or a folder that is neither empty nor such a one.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError("there is a file of that name", path=out, remedy="name another folder")
    if out.exists() and any(out.iterdir()) and not (out / holds).exists():
        raise ConfigError(f"the folder is not empty and holds no {what}", path=out, remedy="name another folder")


def builtin_folder() -> Path:
    """Folder of the encoder that ships with medlink."""
    return _ROOT / "resources" / "encoder"


def load_encoder(name: str | Path = BUILTIN, *, device: str | None = None) -> Encoder:
    """Open an encoder.

    Args:
        name: ``"builtin"``, a model folder, or the name of a hub model such as ``FremyCompany/BioLORD-2023-M``.
            Only a name that is no folder is ever looked up on the hub.
        device: torch device for a transformer; a static encoder always runs on the CPU.

    Returns:
        A static encoder (NumPy alone) or a sentence-transformers model.

    Raises:
        EncoderError: nothing usable stands at that place.

    >>> load_encoder().encode(["Herzinfarkt"]).shape
    (1, 256)
    """
    folder = builtin_folder() if name == BUILTIN else Path(name)
    if folder.is_dir():
        return StaticEncoder.load(folder) if is_static(folder) else TransformerEncoder(folder, device=device)
    text = str(name)
    if text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text:
        raise EncoderError("no such encoder folder", path=name, remedy="name 'builtin', a model folder, or a hub model")
    return TransformerEncoder(text, device=device)
