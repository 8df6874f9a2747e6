"""Inputs of a model for texts by number: computed once into mapped files, then gathered and padded by batch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor

from medlink.errors import EncoderError
from medlink.files.folders import atomic_folder
from medlink.language.lexicon.forms import LexiconForms
from medlink.models.ngrams import Bags as NgramBags
from medlink.models.ngrams import rules_digest
from medlink.models.static.encoder import Features as BagFeatures
from medlink.models.static.encoder import StaticConfig, features
from medlink.models.static.feature_sums import MeaningHasher
from medlink.models.static.module import StaticEmbedding, as_tensors
from medlink.models.transformer import tokenizer_settings
from medlink.training.common.checkpoints import read_errors, write_errors
from medlink.training.data.batches import Texts, chunked
from medlink.training.data.ragged import Ragged, write_ragged

Features = dict[str, Tensor]
"""Inputs of a model for n texts: tensors of n rows, with an ``attention_mask`` if rows were padded to one length."""
_TEXTS = 4096  # tokenised at a time
_BAGS = 20_000  # texts whose n-grams are hashed at a time
_SPECIAL = 2  # groups of tokens that come before those of the texts
_FIRST_LINE, _NEXT_LINE = 1.0, 5.0  # seconds


@dataclass(frozen=True, slots=True)
class InputParts:
    """Inputs for n texts, shortest first, in ``parts`` of similar length.

    ``positions`` ``(n,)`` is the position of each text among the texts of all parts, ``None`` if they are in order.
    """

    parts: list[Features]
    positions: Tensor | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> InputParts:
        parts = [{name: change(tensor) for name, tensor in part.items()} for part in self.parts]
        return InputParts(parts, None if self.positions is None else change(self.positions))


@dataclass(frozen=True, slots=True)
class PlainInputs:
    """Inputs of a model without padding: ``features`` computes them for texts, given by number below ``count``."""

    count: int
    features: Callable[[NDArray[Any]], Features]

    def __len__(self) -> int:
        return self.count

    def take(self, texts: NDArray[Any], most: int | None = None) -> InputParts:
        return InputParts([self.features(texts)])


@dataclass(frozen=True, slots=True)
class TokenInputs:
    """Inputs of a transformer.

    ``tokens`` are the special tokens before a text, the special tokens after it, and then the tokens of each text.
    ``longest`` is the maximal length of a text with its special tokens. ``padding`` is the number of the padding token,
    which precedes a text if ``is_left``.
    """

    tokens: Ragged
    longest: int
    padding: int
    is_left: bool

    def __len__(self) -> int:
        return len(self.tokens) - _SPECIAL

    def take(self, texts: NDArray[Any], most: int | None = None) -> InputParts:
        """Return inputs for texts ``(n,)``, or for texts of several parts ``(n, p)``, -1 for none.

        ``most`` limits the padded tokens of a part; without it, there is one part.
        """
        n = len(texts)
        groups = np.zeros((n, texts.size // n + 2), np.int64)
        groups[:, -1] = 1
        groups[:, 1:-1] = np.where(texts < 0, -1, texts + _SPECIAL).reshape(n, -1)
        sizes = np.minimum(self.tokens.sizes(groups).sum(axis=1), self.longest)
        order = np.argsort(sizes, kind="stable")
        sizes = sizes[order]
        values = self._cut(*self.tokens.gather(groups[order].reshape(-1)), n)
        ends = np.append(0, np.cumsum(sizes)).tolist()
        parts, start = list[Features](), 0
        while start < n:
            padded = sizes[start:] * np.arange(1, n - start + 1)
            stop = n if most is None else start + max(1, int(np.searchsorted(padded, most, "right")))
            parts.append(self._pad(values[ends[start] : ends[stop]], sizes[start:stop]))
            start = stop
        positions = np.empty(n, np.int64)
        positions[order] = np.arange(n)
        return InputParts(parts, torch.from_numpy(positions))

    def _cut(self, values: NDArray[np.int32], lengths: NDArray[np.int64], n: int) -> NDArray[np.int32]:
        """Cut n texts to ``longest`` tokens, but keep the special tokens after them."""
        sizes = lengths.reshape(n, -1).sum(axis=1)
        if sizes.max() <= self.longest:
            return values
        place = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        tail = int(lengths[-1])
        return np.asarray(values[(place < self.longest - tail) | (place >= np.repeat(sizes - tail, sizes))])

    def _pad(self, values: NDArray[np.int32], sizes: NDArray[np.int64]) -> Features:
        width = sizes[-1]
        at = np.arange(width)
        mask = at >= (width - sizes)[:, None] if self.is_left else at < sizes[:, None]
        ids = np.full(mask.shape, self.padding, np.int64)
        ids[mask] = values
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def compute_bags(
    texts: Iterable[str], config: StaticConfig, forms: LexiconForms | None
) -> Iterator[list[tuple[NDArray[Any], NDArray[np.int64]]]]:
    """Yield, for each kind of feature, the table rows of each text and their number; word families need ``forms``."""
    hasher = None if forms is None else MeaningHasher(forms)
    for part in chunked(texts, _BAGS):
        yield [(bags.values, np.diff(bags.offsets)) for bags in features(part, config, hasher)]


class Bags:
    """N-gram features of n texts: a group of table rows for each text, for each kind of features."""

    def __init__(self, parts: Sequence[Ragged]) -> None:
        self._groups = parts

    @classmethod
    def of(cls, texts: Sequence[str], config: StaticConfig, forms: LexiconForms | None = None) -> Bags:
        """Compute the features of texts in memory."""
        columns = zip(*compute_bags(texts, config, forms), strict=True)
        joined = (tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in columns)
        return cls([Ragged(np.append(0, np.cumsum(sizes)), values.astype(np.int32)) for values, sizes in joined])

    def __len__(self) -> int:
        return len(self._groups[0])

    def take(self, texts: NDArray[Any]) -> BagFeatures:
        """Return the features of texts ``(n,)``, or of texts of several parts ``(n, p)``, -1 for none."""
        bags = []
        for part in self._groups:
            values, lengths = part.gather(texts.reshape(-1))
            ends = np.cumsum(lengths.reshape(len(texts), -1).sum(axis=1))
            bags.append(NgramBags(np.append(0, ends), values))
        return BagFeatures(*bags)

    def __call__(self, texts: NDArray[Any]) -> dict[str, Tensor]:
        return as_tensors(self.take(texts))

    def embed(self, module: StaticEmbedding) -> NDArray[np.float32]:
        """Embed all texts ``(n, d)`` with the current weights and without dropout."""
        out = np.empty((len(self), module.shape.dimension), dtype=np.float32)
        was_training = module.training
        module.eval()
        with torch.no_grad():
            for start in range(0, len(out), _TEXTS):
                texts = np.arange(start, min(start + _TEXTS, len(out)))
                out[texts] = module(self(texts))["sentence_embedding"].numpy()
        module.train(was_training)
        return out


Inputs = PlainInputs | TokenInputs


def write_inputs(model: SentenceTransformer, texts: Texts, folder: Path, log: Callable[[str], None]) -> None:
    """Compute the inputs of a model for all texts, unless ``folder`` holds them.

    Raises EncoderError if the model reads no tokens, or the disk is full.
    """
    module, say = model[0], paced(log)

    def counted() -> Iterator[str]:
        for number, text in enumerate(texts):
            if not number % _TEXTS:
                say(f"{number:,} texts read")
            yield text

    if isinstance(module, StaticEmbedding):
        settings: list[Any] = [module.shape.to_dict(), rules_digest(), module.forms and module.forms.digest]
        parts = compute_bags(counted(), module.shape, module.forms)
    else:
        settings, parts = tokenizer_settings(model), _tokenise(model, counted())
    key = hashlib.sha256(f"{texts.digest} {json.dumps(settings, sort_keys=True)}".encode()).hexdigest()
    if (folder / "key").is_file() and (folder / "key").read_text("utf-8") == key:
        return
    with atomic_folder(folder, "the inputs") as draft, write_errors(folder, "the inputs"):
        write_ragged(draft, parts)
        (draft / "key").write_text(key, "utf-8")


def open_inputs(model: SentenceTransformer, folder: Path) -> Inputs:
    """Map what :func:`write_inputs` wrote; raises EncoderError if a file is damaged."""
    is_static = isinstance(model[0], StaticEmbedding)
    with read_errors(folder):
        groups = Ragged.open(folder, len(BagFeatures._fields) if is_static else 1)
    if is_static:
        return PlainInputs(len(groups[0]), Bags(groups))
    longest, tokenizer = model.max_seq_length or np.iinfo(np.int32).max, model.tokenizer
    is_left = getattr(tokenizer, "padding_side", "right") == "left"
    return TokenInputs(groups[0], longest, tokenizer.pad_token_id or 0, is_left)


def _tokenise(
    model: SentenceTransformer, texts: Iterator[str]
) -> Iterator[list[tuple[NDArray[Any], NDArray[np.int64]]]]:
    """Yield the special tokens before and after a text, then the tokens of texts, each with their counts."""
    if not isinstance(model[0], Transformer):
        raise EncoderError("the encoder reads no tokens", remedy="start from a transformer or a static encoder")
    encoded = model.tokenizer("a", return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    special = ids[: mask.index(0)], ids[len(ids) - mask[::-1].index(0) :]
    yield [(np.concatenate(special), np.array([len(tokens) for tokens in special]))]
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    for part in chunked(texts, _TEXTS):
        if backend is None:
            tokens = model.tokenizer(part, add_special_tokens=False)["input_ids"]
        else:
            # without the lists that transformers makes, in a quarter of the time
            backend.no_padding()
            backend.no_truncation()
            tokens = [encoding.ids for encoding in backend.encode_batch_fast(part, add_special_tokens=False)]
        sizes = np.array([len(row) for row in tokens], np.int64)
        yield [(np.fromiter(chain.from_iterable(tokens), np.int32, int(sizes.sum())), sizes)]


def paced(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that logs a line if a second has passed by now, or five since the last line."""
    due = time.monotonic() + _FIRST_LINE

    def say(line: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            log(line)
            due = time.monotonic() + _NEXT_LINE

    return say
