"""``load_encoder``: one door to every encoder, built in, from a folder, or from the hub when the user says so."""

from __future__ import annotations

import re
from pathlib import Path

from medlink.errors import ConfigError, EncoderError
from medlink.models.protocol import Encoder
from medlink.models.sealed import check_seal
from medlink.models.static.encoder import StaticEncoder, is_static
from medlink.models.transformer import HUB, TransformerEncoder
from medlink.models.translated import ENCODER, HOLDS, MarianTranslator, TranslatedEncoder
from medlink.settings import POOLINGS

__all__ = ["BUILTIN", "Encoder", "builtin_folder", "check_folder", "load_encoder", "parted"]
BUILTIN = "builtin"
_OF_A_MODEL = ("config.json", "modules.json")
_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+")
_ROOT = Path(__file__).resolve().parent.parent


def check_folder(out: Path, holds: str = "modules.json", what: str = "encoder") -> None:
    """Refuse with :class:`ConfigError` to replace what is neither an empty folder nor one that ``holds`` a ``what``."""
    if out.exists() and not out.is_dir():
        raise ConfigError("there is a file of that name", path=out, remedy="name another folder")
    if out.exists() and any(out.iterdir()) and not (out / holds).exists():
        raise ConfigError(f"the folder is not empty and holds no {what}", path=out, remedy="name another folder")


def builtin_folder() -> Path:
    """Folder of the encoder that ships with medlink."""
    return _ROOT / "resources" / "encoder"


def parted(name: str | Path) -> tuple[str, str]:
    """The pooling that an encoder is named with, or ``""``, and its name without it: ``cls`` and ``hf:ORG/NAME``."""
    pooling, colon, bare = str(name).partition(":")
    return (pooling, bare) if colon and pooling in POOLINGS else ("", str(name))


def load_encoder(name: str | Path = BUILTIN, *, device: str | None = None, is_checked: bool = False) -> Encoder:
    """Open an encoder: a static one (NumPy alone), a sentence-transformers model, or either behind a translator.

    Args:
        name: ``"builtin"``, a model folder, or ``"hf:"`` and the name of a model of the Hugging Face hub, such as
            ``hf:FremyCompany/BioLORD-2023-M``. Only the last asks the network. ``"cls:"`` or ``"mean:"`` before it is
            the pooling of a checkpoint that has none of its own, see :class:`TransformerEncoder`.
        device: torch device for a transformer; a static encoder always runs on the CPU.
        is_checked: the files are known to be as they were written, so that they are not hashed.

    Raises:
        EncoderError: nothing usable stands at that place, or it is damaged, the hub does not give the model, or it has
            another pooling.
    """
    pooling, bare = parted(name)
    if bare.startswith(HUB):
        if not _HUB_NAME.fullmatch(bare.removeprefix(HUB)):
            raise EncoderError("no name of a model of the hub", path=name, remedy=f"write {HUB}ORG/NAME")
        return TransformerEncoder(bare, device=device, pooling=pooling)
    folder = builtin_folder() if bare == BUILTIN else Path(bare)
    if bare == "" or not folder.is_dir():
        hub = f"{HUB}{bare}" if _HUB_NAME.fullmatch(bare) else f"{HUB}ORG/NAME"
        remedy = f"name {BUILTIN!r}, the folder of an encoder, or {hub} for a model of the Hugging Face hub"
        raise EncoderError("no such encoder folder", path=name, remedy=remedy)
    if (folder / HOLDS).is_dir():
        if not is_checked:
            check_seal(folder, is_required=True)
        translate = MarianTranslator(folder / HOLDS, device=device)
        inner = f"{pooling}:{folder / ENCODER}" if pooling else folder / ENCODER
        return TranslatedEncoder(load_encoder(inner, device=device, is_checked=True), translate)
    if not any((folder / file).is_file() for file in _OF_A_MODEL):
        # before an extra is asked for, which would be of no use
        files = " nor ".join(_OF_A_MODEL)
        raise EncoderError(f"is no model folder: neither {files} is there", path=name, remedy="name a model folder")
    if not is_static(folder):
        if not is_checked:
            check_seal(folder, is_required=False)
        return TransformerEncoder(folder, device=device, pooling=pooling)
    if pooling:
        raise EncoderError("a static encoder has no pooling to choose", path=folder, remedy="leave pooling out")
    return StaticEncoder.load(folder, is_checked=is_checked or bare == BUILTIN)
