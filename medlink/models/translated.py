"""Translate, then encode: an encoder of one language for texts in others."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError, needs_extra
from medlink.models.protocol import Encoder
from medlink.models.sealed import seal

HOLDS = "translation"
"""The folder by which that of a translated encoder is known."""
ENCODER = "encoder"
_AT_ONCE = 16
_OF_A_MODEL = {".json", ".safetensors", ".spm", ".txt"}


Translate = Callable[[Sequence[str]], Sequence[str]]
"""n texts to their n translations; with a ``fingerprint``, a hash of all that decides these, it can be bound."""


class MarianTranslator:
    """A Marian model (Junczys-Dowmunt et al. 2018) of the transformers library, on the CPU unless a device is named.

    Weights are safetensors; the tokenizers of published models need the extra ``translate``. Raises
    :class:`EncoderError` where there is no such model in the folder.
    """

    def __init__(self, folder: str | Path, *, device: str | None = None) -> None:
        with needs_extra("translate", "a translator"):
            from transformers import AutoTokenizer, MarianMTModel

        self._folder = Path(folder)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            # never a pickle
            model: Any = MarianMTModel.from_pretrained(str(folder), local_files_only=True, use_safetensors=True)
        except Exception as error:  # the library raises many kinds for one cause: no model that can be read
            remedy = "name a folder with config.json, model.safetensors and a tokenizer; [translate] may be missing"
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
        return sorted(path for path in self._folder.iterdir() if path.suffix in _OF_A_MODEL)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The translations; each distinct text is translated once, an empty one stays."""
        wanted = sorted({text for text in texts if text.strip()}, key=lambda text: (len(text), text))
        found = dict.fromkeys(texts, "")
        most = self._model.config.max_position_embeddings
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            read = self._tokenizer(some, return_tensors="pt", padding=True, truncation=True, max_length=most)
            inputs = {name: read[name].to(self._model.device) for name in ("input_ids", "attention_mask")}
            written = self._model.generate(**inputs)
            found.update(zip(some, self._tokenizer.batch_decode(written, skip_special_tokens=True), strict=True))
        return [found[text] for text in texts]

    def save(self, folder: str | Path) -> Path:
        """Copy the files of the model and its tokenizer into a folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in self._files():
            shutil.copyfile(path, Path(folder) / path.name)
        return Path(folder)


class TranslatedEncoder:
    """Any encoder behind a translator: every text is translated, then embedded.

    Feng 2023, section III-B, where the texts of all languages go into English, for which one model is kept.
    ``translate`` is a function of texts, or a :class:`MarianTranslator`.
    """

    def __init__(self, encoder: Encoder, translate: Translate) -> None:
        self.encoder, self._translate = encoder, translate

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The n translations of n texts; :class:`EncoderError` where the translator gives something else."""
        given = self._translate(list(texts))
        found = [given] if isinstance(given, str) else list(given)
        if len(found) != len(texts) or not all(isinstance(text, str) for text in found):
            remedy = "return one text for each"
            raise EncoderError(f"the translator gave {len(found)} things for {len(texts)} texts", remedy=remedy)
        return found

    @property
    def dimension(self) -> int:
        """Width of the embeddings."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Hash of the encoder's fingerprint and the translator's; :class:`EncoderError` where it has none."""
        made_of = getattr(self._translate, "fingerprint", None)
        if not isinstance(made_of, str):
            remedy = "give it an attribute 'fingerprint', a text that changes when its translations do"
            raise EncoderError("the translator has no fingerprint", remedy=remedy)
        return hashlib.sha256(f"{self.encoder.fingerprint} {made_of}".encode()).hexdigest()[:32]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed the translations of n texts: ``(n, dimension)`` float32 unit vectors."""
        return self.encoder.encode(self.translate(texts))

    def save(self, folder: str | Path) -> Path:
        """Write a folder that :func:`medlink.load_encoder` opens: ``encoder/``, ``translation/`` and hashes.

        Raises :class:`EncoderError` where the translator is a function, which no folder can hold.
        """
        if not isinstance(self._translate, MarianTranslator):
            remedy = "save one with a Marian folder, or keep the function beside it"
            raise EncoderError("a function that translates cannot be saved", path=folder, remedy=remedy)
        self._translate.save(Path(folder) / HOLDS)
        self.encoder.save(Path(folder) / ENCODER)
        seal(Path(folder))
        return Path(folder)
