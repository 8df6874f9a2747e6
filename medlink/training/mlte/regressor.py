"""``MlteRegressor``: how alike two texts are, by a transformer and a prediction model on the states of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.files.json import read_json, write_json
from medlink.models import Encoder, TranslatedEncoder, load_encoder
from medlink.models.transformer import TransformerEncoder
from medlink.training.common.losses import features_of
from medlink.training.common.run import new_folder
from medlink.training.data.batches import in_parts
from medlink.training.mlte import HOLDS, is_mlte

Vectors = NDArray[np.float64]
KERNELS = ("cosine", "manhattan", "euclidean", "polynomial", "sigmoid")
"""What each block gives of a pair, in this order."""
_TEXTS, _PAIRS = 32, 512
_WEIGHTS, _ENCODER = "mlte.safetensors", "encoder"
_REMEDY = "train it again"


@dataclass(frozen=True, slots=True)
class Extra:
    """A column of a table: numbers scaled by ``mean`` and ``deviation``, or, with ``words``, a 0 or 1 for each word.

    Feng 2023, section IV-C, concatenates "the normalized category information" and says no more.
    """

    name: str
    words: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, name: str, cells: Sequence[str]) -> Extra:
        """The column of the training pairs; numbers where every cell is one."""
        numbers = _numbers(cells)
        if not np.isfinite(numbers).all():
            return cls(name, tuple(sorted(set(cells))))
        return cls(name, (), float(numbers.mean()), float(numbers.std()) or 1.0)

    def columns(self, cells: Sequence[str]) -> Vectors:
        """``(n, columns)`` of n cells; a word that no training pair has is 0 in all. ConfigError: one is no number."""
        if self.words:
            found = [[float(cell == word) for word in self.words] for cell in cells]
            return np.array(found).reshape(-1, len(self.words))
        numbers = _numbers(cells)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0]) + 1
            raise ConfigError(f"{self.name} of pair {row} is no finite number", remedy="give numbers, as in training")
        return ((numbers - self.mean) / self.deviation)[:, None]


def _numbers(cells: Sequence[str]) -> Vectors:
    """The number in each cell, NaN for anything else."""
    found = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        try:
            found[i] = float(cell)
        except ValueError:
            continue
    return found


def extra_columns(extras: Sequence[Extra], rows: Sequence[Sequence[str]], count: int) -> Vectors:
    """``(count, c)`` of the cells of each pair, for each of the ``extras``; a ConfigError where some are missing."""
    if extras and (len(rows) != count or any(len(row) != len(extras) for row in rows)):
        names = ", ".join(extra.name for extra in extras)
        raise ConfigError(f"{len(rows)} rows of extra features, {count} of {names} expected")
    found = [extra.columns([row[i] for row in rows]) for i, extra in enumerate(extras)]
    return np.concatenate([np.zeros((count, 0)), *found], axis=1)


def block_means(model: SentenceTransformer, texts: Sequence[str]) -> NDArray[np.float32]:
    """Mean over the tokens of what each block of a transformer puts out: ``(n, blocks, d)``.

    Feng 2023, equation 1: special tokens count, padding does not, and what goes into the first block is left out.

    Raises:
        EncoderError: the model is no transformer whose blocks can be read, or a state is NaN or infinite.
    """
    reader: Any = getattr(model[0], "auto_model", None)
    if reader is None:
        remedy = "name one whose first module is a transformer"
        raise EncoderError("the blocks of this encoder cannot be read", remedy=remedy)
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    found: list[NDArray[np.float32]] = []
    model.eval()
    with torch.no_grad():
        for rows in in_parts(order, _TEXTS):
            features = {k: v.to(model.device) for k, v in features_of(model, [texts[row] for row in rows]).items()}
            blocks = torch.stack(reader(**features, output_hidden_states=True).hidden_states[1:], dim=1)
            mask = features["attention_mask"][:, None, :, None].to(blocks.dtype)
            found.append(((blocks * mask).sum(dim=2) / mask.sum(dim=2).clamp(min=1)).float().cpu().numpy())
    means = np.concatenate(found)[np.argsort(order)]
    if not np.isfinite(means).all():
        raise EncoderError("states of the encoder are NaN or infinite", remedy="name another encoder")
    return means


def kernels(one: NDArray[Any], other: NDArray[Any]) -> Vectors:
    """How alike the ``(n, blocks, d)`` vectors of each pair are: ``(n, blocks * 5)``, the five of a block side by side.

    Feng 2023, equation 2: cosine, Manhattan and Euclidean distance, polynomial and sigmoid kernel. The paper names no
    parameters; these are the defaults of scikit-learn: ``(x.y / d + 1) ** 3`` and ``tanh(x.y / d + 1)``, and a cosine
    of 0 with a vector of length 0.

    Raises:
        ConfigError: the shapes differ.
    """
    if one.shape != other.shape or one.ndim != 3:
        raise ConfigError(f"states of shape {one.shape} and {other.shape}, the same (n, blocks, d) expected")
    x, y = one.astype(np.float64), other.astype(np.float64)
    product = np.einsum("nbd,nbd->nb", x, y)
    lengths = np.linalg.norm(x, axis=2) * np.linalg.norm(y, axis=2)
    cosines = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    scaled = product / x.shape[2] + 1
    distances = np.abs(x - y).sum(axis=2), np.linalg.norm(x - y, axis=2)
    found = np.stack((cosines, *distances, scaled**3, np.tanh(scaled)), axis=2)
    return np.asarray(found.reshape(len(x), x.shape[1] * len(KERNELS)))


def pair_features(model: SentenceTransformer, ones: Sequence[str], others: Sequence[str]) -> Vectors:
    """:func:`kernels` of :func:`block_means` of n pairs of texts, some at a time; 0 pairs give ``(0, 0)``.

    Raises:
        ConfigError: there are not as many texts on one side as on the other.
        EncoderError: see :func:`block_means`.
    """
    if len(ones) != len(others):
        raise ConfigError(f"{len(ones)} texts beside {len(others)}, as many expected")
    found = [np.zeros((0, 0))]
    for pairs in in_parts(zip(ones, others, strict=True), _PAIRS):
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        at = {text: row for row, text in enumerate(texts)}
        means = block_means(model, texts)
        found.append(kernels(*(means[[at[text] for text in side]] for side in zip(*pairs, strict=True))))
    return np.concatenate(found[1:] or found)


@dataclass(frozen=True, slots=True)
class Head:
    """Two layers on scaled features: ``features (n, f)`` and ``extra (n, c)`` to scores ``(n,)``.

    Feng 2023, equation 3a: the first layer sees the features of a pair, the second its output and what else is known of
    the pair. The paper leaves open how features are scaled and what stands between the layers; here that is mean and
    standard deviation on the training pairs, and a ReLU.

    Args:
        mean, deviation: ``(f,)`` of the features.
        first, first_bias, second, second_bias: ``(f, h)``, ``(h,)``, ``(h + c,)`` and ``(1,)``, h the width between.
    """

    mean: Vectors
    deviation: Vectors
    first: Vectors
    first_bias: Vectors
    second: Vectors
    second_bias: Vectors

    def __call__(self, features: Vectors, extra: Vectors) -> Vectors:
        """Ratings, or logits of a classifier."""
        hidden = np.maximum((features - self.mean) / self.deviation @ self.first + self.first_bias, 0)
        return np.asarray(np.concatenate([hidden, extra], axis=1) @ self.second + self.second_bias)

    def scores(self, features: Vectors, extra: Vectors, kind: str) -> Vectors:
        """Ratings, or the probabilities of a classifier."""
        output = self(features, extra)
        return output if kind == "regressor" else 1 / (1 + np.exp(-np.clip(output, -500, 500)))


@dataclass(frozen=True, slots=True)
class MlteRegressor:
    """A regressor or classifier of pairs of texts (Feng 2023), as :class:`medlink.training.MlteTrainer` makes it.

    Args:
        encoder: the transformer whose blocks are read, or one behind a translator.
        head: the prediction model.
        kind: ``regressor``, whose scores are on the scale of the ratings, or ``classifier``, whose are probabilities.
        extras: what else it asks of a pair.
        record: how it was trained, and what came of it; plain data.
    """

    encoder: Encoder
    head: Head
    kind: str = "regressor"
    extras: tuple[Extra, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def score(self, ones: Sequence[str], others: Sequence[str], extra: Sequence[Sequence[str]] = ()) -> Vectors:
        """Scores ``(n,)`` of n pairs, higher is more alike.

        Args:
            ones, others: n texts each.
            extra: for each pair a cell for each of :attr:`extras`.

        Raises:
            ConfigError: there are not as many of one as of the other, or an extra feature is missing.
            EncoderError: a state of the encoder is NaN or infinite.
        """
        translate, model = reader_of(self.encoder)
        features = pair_features(model, translate(ones), translate(others))
        known = extra_columns(self.extras, extra, len(ones))
        return self.head.scores(features, known, self.kind) if len(features) else np.zeros(0)

    def save(self, folder: str | Path) -> Path:
        """Write the folder, which appears whole: ``mlte.json``, ``mlte.safetensors``, ``encoder/``.

        Raises:
            ConfigError: a file is in its place.
            EncoderError: it cannot be written.
        """
        with new_folder(Path(folder), "the regressor") as draft:
            self.encoder.save(draft / _ENCODER)
            save_file({k: np.ascontiguousarray(v) for k, v in asdict(self.head).items()}, draft / _WEIGHTS)
            extras = [asdict(one) for one in self.extras]
            made = {"encoder": self.encoder.fingerprint, "record": dict(self.record)}
            write_json(draft / HOLDS, {"kind": self.kind, "extras": extras, **made})
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> MlteRegressor:
        """Open a folder that :meth:`save` wrote.

        Raises:
            EncoderError: it is none, or is damaged.
        """
        folder = Path(folder)
        if not is_mlte(folder):
            raise EncoderError(f"is no regressor: no {HOLDS} in it", path=folder, remedy="name one of 'train mlte'")
        encoder = load_encoder(folder / _ENCODER, device=device)
        try:
            said = read_json(folder / HOLDS)
            extras = tuple(Extra(**{**one, "words": tuple(one["words"])}) for one in said["extras"])
            head = Head(**load_file(folder / _WEIGHTS))
            # weights that do not fit each other or hold NaN show themselves
            known = extra_columns(extras, (), 0).shape[1]
            if not np.isfinite(head(np.zeros((1, len(head.mean))), np.zeros((1, known)))).all():
                raise ValueError("weights that are NaN or infinite")
            regressor = cls(encoder, head, said["kind"], extras, said["record"])
            made_of = said["encoder"]
        except (OSError, ValueError, TypeError, LookupError, SafetensorError) as error:
            raise EncoderError(f"the regressor cannot be read: {error}", path=folder, remedy=_REMEDY) from error
        if made_of != encoder.fingerprint:
            message = "the encoder in it is not the one it was trained with"
            raise EncoderError(message, path=folder, remedy=_REMEDY)
        return regressor


def reader_of(encoder: Encoder) -> tuple[Callable[[Sequence[str]], list[str]], Any]:
    """What texts go through first (Feng 2023, section III-B), and the sentence-transformers model that is read.

    Raises:
        EncoderError: it is a static encoder, which has no blocks.
    """
    translate: Callable[[Sequence[str]], list[str]] = list
    if isinstance(encoder, TranslatedEncoder):
        translate, encoder = encoder.translate, encoder.encoder
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("MLTE reads the blocks of a transformer, and a static encoder has none", remedy=remedy)
    return translate, encoder.model.float()
