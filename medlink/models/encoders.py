"""Encoders: their protocol, how to open one, and an encoder behind a translator."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError, needs_extra
from medlink.files.resources import RESOURCES
from medlink.models.file_hashes import check_hashes, write_hashes
from medlink.models.static.encoder import StaticEncoder, is_static
from medlink.models.transformer import HUB, TransformerEncoder
from medlink.settings import POOLINGS

BUILTIN = "builtin"
TRANSLATION, ENCODER = "translation", "encoder"
"""Subfolders of a translated encoder; the first marks its folder."""
_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+")
_BATCH_SIZE = 16  # texts translated at a time
_MODEL_SUFFIXES = {".json", ".safetensors", ".spm", ".txt"}
Translate = Callable[[Sequence[str]], Sequence[str]]
"""Translates n texts. For a bundle it needs a ``fingerprint``, a hash of everything that determines translations."""


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


def check_folder(out: Path, holds: str = "modules.json", what: str = "encoder") -> None:
    """Raise :class:`ConfigError` unless a folder is new, is empty, or has the file ``holds`` of an output ``what``."""
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
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        # before the error of a missing extra, which would not help
        problem = "not a model folder: neither config.json nor modules.json is there"
        raise EncoderError(problem, path=name, remedy="name a model folder")
    if not is_static(folder):
        if not is_checked:
            check_hashes(folder, is_required=False)
        return TransformerEncoder(folder, device=device, pooling=pooling)
    if pooling:
        raise EncoderError("a static encoder has no pooling to choose", path=folder, remedy="leave pooling out")
    return StaticEncoder.load(folder, is_checked=is_checked or bare == BUILTIN)


class MarianTranslator:
    """A Marian model (Junczys-Dowmunt et al. 2018) of the transformers library, by default on the CPU.

    Weights must be safetensors; the tokenizers of published models need the extra ``translate``. Raises EncoderError if
    the folder has no such model.
    """

    def __init__(self, folder: str | Path, *, device: str | None = None) -> None:
        with needs_extra("translate", "a translator"):
            import sentencepiece  # noqa: F401 # its tokenizer needs it
            from transformers import AutoTokenizer, MarianMTModel

        self._folder = Path(folder)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            # never a pickle
            model: Any = MarianMTModel.from_pretrained(str(folder), local_files_only=True, use_safetensors=True)
        except Exception as error:  # the library raises many kinds of errors
            remedy = "name a folder with config.json, model.safetensors and a tokenizer"
            detail = " ".join(str(error).split()).rstrip(".")
            raise EncoderError(f"no Marian model could be loaded: {detail}", path=folder, remedy=remedy) from error
        self._model = model.to(device or "cpu").eval()

    @property
    def fingerprint(self) -> str:
        """Hash of the files of the model and its tokenizer."""
        files = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in self._files()]
        return hashlib.sha256("".join(files).encode()).hexdigest()[:32]

    def _files(self) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if path.suffix in _MODEL_SUFFIXES)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Translate each distinct text once; an empty text stays empty."""
        distinct = sorted({text for text in texts if text.strip()}, key=lambda text: (len(text), text))
        translations = dict.fromkeys(texts, "")
        length = self._model.config.max_position_embeddings
        for start in range(0, len(distinct), _BATCH_SIZE):
            batch = distinct[start : start + _BATCH_SIZE]
            tokens = self._tokenizer(batch, return_tensors="pt", padding=True, truncation=True, max_length=length)
            inputs = {name: tokens[name].to(self._model.device) for name in ("input_ids", "attention_mask")}
            ids = self._model.generate(**inputs)
            translations.update(zip(batch, self._tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True))
        return [translations[text] for text in texts]

    def save(self, folder: str | Path) -> Path:
        """Copy the files of the model and its tokenizer into a folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in self._files():
            shutil.copyfile(path, Path(folder) / path.name)
        return Path(folder)


class TranslatedEncoder:
    """An encoder that translates every text, then embeds it with another encoder.

    This follows Feng 2023, section III-B, which translates all languages into English for one model. ``translate`` is a
    function of texts, or a :class:`MarianTranslator`.
    """

    def __init__(self, encoder: Encoder, translate: Translate) -> None:
        self.encoder, self._translate = encoder, translate

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate n texts; raises :class:`EncoderError` unless the translator returns n texts."""
        returned = self._translate(list(texts))
        translations = [returned] if isinstance(returned, str) else list(returned)
        if len(translations) != len(texts) or not all(isinstance(text, str) for text in translations):
            message = f"the translator returned {len(translations)} items for {len(texts)} texts"
            raise EncoderError(message, remedy="return one text for each")
        return translations

    @property
    def dimension(self) -> int:
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Hash of encoder and translator; raises :class:`EncoderError` if the translator has no fingerprint."""
        own = getattr(self._translate, "fingerprint", None)
        if not isinstance(own, str):
            remedy = "give it an attribute 'fingerprint', a text that changes when its translations do"
            raise EncoderError("the translator has no fingerprint", remedy=remedy)
        return hashlib.sha256(f"{self.encoder.fingerprint} {own}".encode()).hexdigest()[:32]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed the translations of n texts: ``(n, dimension)`` float32 unit vectors."""
        return self.encoder.encode(self.translate(texts))

    def save(self, folder: str | Path) -> Path:
        """Write a folder for :func:`load_encoder`; raises :class:`EncoderError` if the translator is a function."""
        if not isinstance(self._translate, MarianTranslator):
            remedy = "save one with a Marian folder, or keep the function beside it"
            raise EncoderError("a function that translates cannot be saved", path=folder, remedy=remedy)
        self._translate.save(Path(folder) / TRANSLATION)
        self.encoder.save(Path(folder) / ENCODER)
        write_hashes(Path(folder))
        return Path(folder)
