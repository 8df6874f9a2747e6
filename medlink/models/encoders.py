"""``load_encoder``: open the built-in encoder, an encoder in a folder or, on request, a model of the hub."""

from __future__ import annotations

import re
from pathlib import Path

from medlink.errors import ConfigError, EncoderError
from medlink.files.resources import RESOURCES
from medlink.models.file_hashes import check_hashes
from medlink.models.protocol import Encoder
from medlink.models.static.encoder import StaticEncoder, is_static
from medlink.models.transformer import HUB, TransformerEncoder
from medlink.models.translated import ENCODER, TRANSLATION, MarianTranslator, TranslatedEncoder
from medlink.settings import POOLINGS

__all__ = ["BUILTIN", "Encoder", "builtin_folder", "check_folder", "load_encoder", "split_pooling"]
BUILTIN = "builtin"
_MODEL_FILES = ("config.json", "modules.json")
_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+")


def check_folder(out: Path, holds: str = "modules.json", what: str = "encoder") -> None:
    """Raise :class:`ConfigError` unless a folder is new, is empty, or has the file ``holds``, which marks outputs of
    the kind ``what``.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError("there is a file of that name", path=out, remedy="name another folder")
    if out.exists() and any(out.iterdir()) and not (out / holds).exists():
        raise ConfigError(f"the folder is not empty and holds no {what}", path=out, remedy="name another folder")


def builtin_folder() -> Path:
    return RESOURCES / "encoder"


def split_pooling(name: str | Path) -> tuple[str, str]:
    """Split ``cls:hf:ORG/NAME`` into ``cls`` and ``hf:ORG/NAME``; the pooling is ``""`` if the name has none."""
    pooling, colon, bare = str(name).partition(":")
    return (pooling, bare) if colon and pooling in POOLINGS else ("", str(name))


def load_encoder(name: str | Path = BUILTIN, *, device: str | None = None, is_checked: bool = False) -> Encoder:
    """Open a static encoder (NumPy only), a sentence-transformers model, or either after a translator.

    Args:
        name: ``"builtin"``, a model folder, or ``"hf:"`` and the name of a model of the Hugging Face hub, such as
            ``hf:FremyCompany/BioLORD-2023-M``. Only the last uses the network. A prefix ``"cls:"`` or ``"mean:"`` sets
            the pooling of a checkpoint that states none, see :class:`TransformerEncoder`.
        device: torch device for a transformer; a static encoder always runs on the CPU.
        is_checked: skip the hashes, for files known to be intact.

    Raises:
        EncoderError: there is no such model, it is damaged or has another pooling, or the hub does not answer.
    """
    pooling, bare = split_pooling(name)
    if bare.startswith(HUB):
        if not _HUB_NAME.fullmatch(bare.removeprefix(HUB)):
            raise EncoderError("not a name of a model of the hub", path=name, remedy=f"write {HUB}ORG/NAME")
        return TransformerEncoder(bare, device=device, pooling=pooling)
    folder = builtin_folder() if bare == BUILTIN else Path(bare)
    if bare == "" or not folder.is_dir():
        hub = f"{HUB}{bare}" if _HUB_NAME.fullmatch(bare) else f"{HUB}ORG/NAME"
        remedy = f"name {BUILTIN!r}, the folder of an encoder, or {hub} for a model of the Hugging Face hub"
        raise EncoderError("no such encoder folder", path=name, remedy=remedy)
    if (folder / TRANSLATION).is_dir():
        if not is_checked:
            check_hashes(folder, is_required=True)
        translate = MarianTranslator(folder / TRANSLATION, device=device)
        inner = f"{pooling}:{folder / ENCODER}" if pooling else folder / ENCODER
        return TranslatedEncoder(load_encoder(inner, device=device, is_checked=True), translate)
    if not any((folder / file).is_file() for file in _MODEL_FILES):
        # before the error of a missing extra, which would not help
        files = " nor ".join(_MODEL_FILES)
        raise EncoderError(f"not a model folder: neither {files} is there", path=name, remedy="name a model folder")
    if not is_static(folder):
        if not is_checked:
            check_hashes(folder, is_required=False)
        return TransformerEncoder(folder, device=device, pooling=pooling)
    if pooling:
        raise EncoderError("a static encoder has no pooling to choose", path=folder, remedy="leave pooling out")
    return StaticEncoder.load(folder, is_checked=is_checked or bare == BUILTIN)
