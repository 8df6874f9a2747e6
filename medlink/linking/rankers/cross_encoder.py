"""A re-ranker that reads mention and candidate together: a cross-encoder of sentence-transformers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medlink.errors import EncoderError, needs_extra
from medlink.files.json import read_json
from medlink.index import Bundle
from medlink.linking.arrays import Floats
from medlink.linking.calibration import Curves
from medlink.linking.candidates import Contexts, Mention
from medlink.linking.rankers.common import CandidateText, RankerCache, cache_key, candidate_texts, reorder_by_score
from medlink.linking.ranking import Ranked, Rankings, parse_curves

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

HOLDS, MODEL = "ranker.json", "model"
"""The file that marks the folder of such a ranker, and the folder of the model in it."""
_DIGITS = 4
_REMEDY = "train it again, or name the folder of another ranker"


class RankerConfig(NamedTuple):
    """The input of a cross-encoder, and the weights and calibration of its scores."""

    candidates: int  # number of candidates of a mention that it reads
    context: bool  # whether it reads the text around a mention
    definitions: bool
    first: float  # weight of the first rank score
    read: float  # weight of the cross-encoder's score
    calibration: Curves  # turns the weighted sum into scores


def mention_text(text: str, context: str) -> str:
    return f"{text} | {context}" if context else text


def logits(model: CrossEncoder, mention: str, texts: Sequence[str]) -> Floats:
    """Compute the logits ``(n,)`` of the model for n candidates of one mention, higher is better.

    Each mention is a separate batch, because padding to the length of others would change the rounding.
    """
    with needs_extra("transformers", "a cross-encoder"):
        import torch

    options: dict[str, Any] = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
    numbers = model.predict([(mention, text) for text in texts], batch_size=max(len(texts), 1), **options)
    return np.round(np.asarray(numbers, dtype=np.float64).reshape(len(texts)), _DIGITS)


def load_cross_encoder(folder: str | Path, *, local: bool = True, **options: Any) -> CrossEncoder:
    """Load the safetensors of a folder, or of the hub unless ``local``; raises EncoderError if they cannot be read."""
    with needs_extra("transformers", "a cross-encoder"):
        from sentence_transformers import CrossEncoder
    try:
        options = {"local_files_only": local, "model_kwargs": {"use_safetensors": True}, **options}
        model: CrossEncoder = CrossEncoder(str(folder), **options)
    except Exception as error:  # the library raises many types if there is no model
        message = f"no cross-encoder could be loaded: {' '.join(str(error).split())}"
        raise EncoderError(message, path=folder, remedy=_REMEDY) from error
    return model


class CrossEncoderRanker:
    """Orders the first candidates by a weighted sum of their rank score and the logit of a cross-encoder.

    The model is loaded on first use, on torch ``device`` or, by default, a GPU if there is one.

    Raises:
        EncoderError: the folder was not written by ``medlink.training.ranker``, or is damaged.
    """

    def __init__(
        self, folder: str | Path, bundle: Bundle, cache: RankerCache | None = None, *, device: str | None = None
    ) -> None:
        self._folder, self._bundle, self._cache, self._device = Path(folder).absolute(), bundle, cache, device
        self.config = _read_config(self._folder)
        self.uses_context, self.calibration = self.config.context, self.config.calibration
        self.fingerprint = _fingerprint(self._folder)
        self.counts = Counter[str]()  # it has nothing to count
        versions = bundle.versions
        self._versions = f"{versions['kb']} {versions['encoder']}"

    @cached_property
    def model(self) -> CrossEncoder:
        return load_cross_encoder(self._folder / MODEL, device=self._device)

    def warnings(self) -> list[str]:
        return []

    def rerank(self, mentions: Sequence[Mention], contexts: Contexts, ranked: Rankings) -> list[Ranked]:
        """Implements :meth:`Reranker.rerank`; unread candidates get the lowest logit of the mention."""
        first = [own[: self.config.candidates] for own in ranked]
        languages = [mention.language for mention in mentions]
        candidates = candidate_texts(self._bundle, first, languages, definitions=self.config.definitions)
        around = contexts if contexts is not None and self.uses_context else [""] * len(mentions)
        read = self._read(mentions, around, candidates)
        return [self._order(own, numbers) for own, numbers in zip(ranked, read, strict=True)]

    def _order(self, ranked: Ranked, read: Sequence[float]) -> Ranked:
        if not ranked:
            return ranked
        numbers = np.array([*read, *[min(read)] * (len(ranked) - len(read))])
        before = np.array([concept.rank for concept in ranked])
        return reorder_by_score(ranked, self.config.first * before + self.config.read * numbers)

    def _read(
        self, mentions: Sequence[Mention], contexts: Sequence[str], candidates: Sequence[Sequence[CandidateText]]
    ) -> list[list[float]]:
        inputs = list(zip(mentions, contexts, candidates, strict=True))
        keys = [cache_key(self._versions, self.fingerprint, m.text, m.language, text, own) for m, text, own in inputs]
        cached = self._cache.get(keys) if self._cache else [None] * len(keys)
        known, new = dict(zip(keys, cached, strict=True)), dict[bytes, list[float]]()
        out = []
        for key, (mention, context, own) in zip(keys, inputs, strict=True):
            numbers = known[key] if own else []
            if numbers is None or len(numbers) != len(own):
                query, texts = mention_text(mention.text, context), [text.text for text in own]
                numbers = logits(self.model, query, texts).tolist()
                new[key] = known[key] = numbers
            out.append(numbers)
        if self._cache:
            self._cache.put(new)
        return out


def _read_config(folder: Path) -> RankerConfig:
    try:
        raw: dict[str, Any] = read_json(folder / HOLDS)
        context, definitions = (raw[name] is True for name in ("context", "definitions"))
        first, read = (float(raw["weights"][name]) for name in ("first", "read"))
        calibration = parse_curves(raw["calibration"])
        config = RankerConfig(int(raw["candidates"]), context, definitions, first, read, calibration)
        if config.candidates < 1 or not np.isfinite([config.first, config.read]).all():
            raise ValueError("numbers out of their range")
    except FileNotFoundError as error:
        remedy = "name the folder of a trained ranker"
        raise EncoderError(f"is not a ranker: no {HOLDS} in it", path=folder, remedy=remedy) from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise EncoderError(f"the ranker cannot be read: {error}", path=folder / HOLDS, remedy=_REMEDY) from error
    return config


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]
