"""A re-ranker that reads mention and candidate together: a cross-encoder of sentence-transformers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError, needs_extra
from medlink.files.json import read_json
from medlink.index import Bundle
from medlink.linking.calibration import Curves
from medlink.linking.candidates import Mention
from medlink.linking.rankers.common import RankerCache, Shown, by_ranks, key_of, shown
from medlink.linking.ranking import Ranked, curves_of

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

HOLDS, MODEL = "ranker.json", "model"
"""A file by which the folder of such a ranker is known, and the folder of the model in it."""
_DIGITS = 4
_REMEDY = "train it again, or name the folder of another ranker"


class Reading(NamedTuple):
    """What a cross-encoder was trained to read, and what its numbers mean.

    ``candidates`` is how many of a mention, ``context`` and ``definitions`` whether it reads the text around a mention
    and definitions; ``first`` and ``read`` are the weights of the rank score before and of its own number.
    """

    candidates: int
    context: bool
    definitions: bool
    first: float
    read: float
    calibration: Curves


def mention_text(text: str, context: str) -> str:
    """What is read of a mention, with the text around it where there is one."""
    return f"{text} | {context}" if context else text


def logits(model: CrossEncoder, mention: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """What the model says of ``(n,)`` candidates of one mention, higher is better.

    They are read in a batch of their own: beside others they would be padded, and so rounded, in another way.
    """
    with needs_extra("transformers", "a cross-encoder"):
        import torch

    options: dict[str, Any] = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
    found = model.predict([(mention, text) for text in texts], batch_size=max(len(texts), 1), **options)
    return np.round(np.asarray(found, dtype=np.float64).reshape(len(texts)), _DIGITS)


def open_model(folder: str | Path, *, local: bool = True, **options: Any) -> CrossEncoder:
    """The cross-encoder of a folder, or of the hub where that may be asked, with safetensors weights.

    Raises:
        EncoderError: it cannot be read.
    """
    with needs_extra("transformers", "a cross-encoder"):
        from sentence_transformers import CrossEncoder
    try:
        options = {"local_files_only": local, "model_kwargs": {"use_safetensors": True}, **options}
        model: CrossEncoder = CrossEncoder(str(folder), **options)
    except Exception as error:  # the library raises many kinds for one cause: no model there
        message = f"no cross-encoder could be loaded: {' '.join(str(error).split())}"
        raise EncoderError(message, path=folder, remedy=_REMEDY) from error
    return model


class CrossEncoderRanker:
    """Orders the first candidates by the rank score that they had and what a cross-encoder reads, weighed together.

    The folder is made by ``medlink train ranker``; its model is loaded when it is first needed, on a GPU where there is
    one and no torch ``device`` is named.

    Raises:
        EncoderError: it is no such folder, or is damaged.
    """

    def __init__(
        self, folder: str | Path, bundle: Bundle, cache: RankerCache | None = None, *, device: str | None = None
    ) -> None:
        self._folder, self._bundle, self._cache, self._device = Path(folder).absolute(), bundle, cache, device
        self.reading = _read_ranker(self._folder)
        self.uses_context, self.calibration = self.reading.context, self.reading.calibration
        self.fingerprint = _fingerprint(self._folder)
        self.counts = Counter[str]()  # nothing goes wrong
        versions = bundle.versions
        self._names = f"{versions['kb']} {versions['encoder']}"

    @cached_property
    def model(self) -> CrossEncoder:
        """The cross-encoder itself."""
        return open_model(self._folder / MODEL, device=self._device)

    def said(self) -> list[str]:
        """Nothing."""
        return []

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Sequence[Ranked]]:
        """The concepts of n mentions by the sum of both numbers; those not read count as if read like the worst."""
        first = [some[: self.reading.candidates] for some in ranked]
        languages = [mention.language for mention in mentions]
        candidates = shown(self._bundle, first, languages, definitions=self.reading.definitions)
        around = contexts if contexts is not None and self.uses_context else [""] * len(mentions)
        found = self._read(mentions, around, candidates)
        return [self._ordered(some, read) for some, read in zip(ranked, found, strict=True)]

    def _ordered(self, ranked: Sequence[Ranked], read: Sequence[float]) -> Sequence[Ranked]:
        if not ranked:
            return ranked
        every = np.array([*read, *[min(read)] * (len(ranked) - len(read))])
        before = np.array([one.rank for one in ranked])
        return by_ranks(ranked, self.reading.first * before + self.reading.read * every)

    def _read(
        self, mentions: Sequence[Mention], contexts: Sequence[str], candidates: Sequence[Sequence[Shown]]
    ) -> list[list[float]]:
        asked = list(zip(mentions, contexts, candidates, strict=True))
        keys = [key_of(self._names, self.fingerprint, m.text, m.language, text, some) for m, text, some in asked]
        kept = self._cache.get(keys) if self._cache else [None] * len(keys)
        found, new = dict(zip(keys, kept, strict=True)), dict[bytes, list[float]]()
        out = []
        for key, (mention, text, some) in zip(keys, asked, strict=True):
            numbers = found[key] if some else []
            if numbers is None or len(numbers) != len(some):
                texts = [one.text for one in some]
                numbers = logits(self.model, mention_text(mention.text, text), texts).tolist()
                new[key] = found[key] = numbers
            out.append(numbers)
        if self._cache:
            self._cache.put(new)
        return out


def _read_ranker(folder: Path) -> Reading:
    try:
        said: dict[str, Any] = read_json(folder / HOLDS)
        context, definitions = (said[name] is True for name in ("context", "definitions"))
        first, read = (float(said["weights"][name]) for name in ("first", "read"))
        calibration = curves_of(said["calibration"])
        reading = Reading(int(said["candidates"]), context, definitions, first, read, calibration)
        if reading.candidates < 1 or not np.isfinite([reading.first, reading.read]).all():
            raise ValueError("numbers out of their range")
    except FileNotFoundError as error:
        remedy = "name the folder of a trained ranker"
        raise EncoderError(f"is no ranker: no {HOLDS} in it", path=folder, remedy=remedy) from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise EncoderError(f"the ranker cannot be read: {error}", path=folder / HOLDS, remedy=_REMEDY) from error
    return reading


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]
