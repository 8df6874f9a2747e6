"""Translate, then encode: an encoder of one language for texts in other languages."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError, needs_extra
from medlink.models.file_hashes import write_hashes
from medlink.models.protocol import Encoder

TRANSLATION = "translation"
"""Subfolder of the translator; it marks the folder of a translated encoder."""
ENCODER = "encoder"
_BATCH_SIZE = 16
_MODEL_SUFFIXES = {".json", ".safetensors", ".spm", ".txt"}


Translate = Callable[[Sequence[str]], Sequence[str]]
"""Translates n texts. For a bundle it needs a ``fingerprint``, a hash of everything that determines translations."""


class MarianTranslator:
    """A Marian model (Junczys-Dowmunt et al. 2018) of the transformers library, by default on the CPU.

    Weights must be safetensors; the tokenizers of published models need the extra ``translate``.

    Raises:
        EncoderError: the folder has no such model.
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
        digest = hashlib.sha256()
        for path in self._files():
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
        return digest.hexdigest()[:32]

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
    """An encoder with a translator before it: translates every text, then embeds it.

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
        """Write a folder for :func:`medlink.load_encoder`: ``encoder/``, ``translation/`` and hashes.

        Raises:
            EncoderError: the translator is a function, which cannot be saved.
        """
        if not isinstance(self._translate, MarianTranslator):
            remedy = "save one with a Marian folder, or keep the function beside it"
            raise EncoderError("a function that translates cannot be saved", path=folder, remedy=remedy)
        self._translate.save(Path(folder) / TRANSLATION)
        self.encoder.save(Path(folder) / ENCODER)
        write_hashes(Path(folder))
        return Path(folder)
