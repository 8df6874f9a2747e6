"""``MlteRegressor``: similarity of texts by a transformer and a prediction model on the states of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from medlink.training.common.run import new_folder
from medlink.training.data.batches import chunked
from medlink.training.mlte import CONFIG_FILE, is_mlte

Floats = NDArray[np.float64]
KERNELS = ("cosine", "manhattan", "euclidean", "polynomial", "sigmoid")
"""Features of a pair from each block, in this order."""
_TEXTS, _PAIRS = 32, 512  # at a time
_WEIGHTS, _ENCODER = "mlte.safetensors", "encoder"
_RETRAIN = "train it again"


@dataclass(frozen=True, slots=True)
class ExtraFeature:
    """A column of the table: numbers, standardised by ``mean`` and ``deviation``, or one-hot encoded ``words``.

    Feng 2023, section IV-C, concatenates "the normalized category information" without details.
    """

    name: str
    words: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def fit(cls, name: str, cells: Sequence[str]) -> ExtraFeature:
        """Fit a feature to the cells of the training pairs: as numbers if all cells are numbers, otherwise as words."""
        numbers = _to_numbers(cells)
        if not np.isfinite(numbers).all():
            return cls(name, tuple(sorted(set(cells))))
        return cls(name, (), float(numbers.mean()), float(numbers.std()) or 1.0)

    def transform(self, cells: Sequence[str]) -> Floats:
        """Compute the columns ``(n, c)`` of n cells; an unknown word gives zeros; a bad number raises ConfigError."""
        if self.words:
            return np.equal.outer(np.array(cells, object), np.array(self.words, object)).astype(np.float64)
        numbers = _to_numbers(cells)
        if not np.isfinite(numbers).all():
            problem = f"{self.name} of pair {np.flatnonzero(~np.isfinite(numbers))[0] + 1} is not a finite number"
            raise ConfigError(problem, remedy="give numbers, as in training")
        return ((numbers - self.mean) / self.deviation)[:, None]


def _to_numbers(cells: Sequence[str]) -> Floats:
    numbers = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        with suppress(ValueError):
            numbers[i] = float(cell)
    return numbers


def transform_extras(extras: Sequence[ExtraFeature], rows: Sequence[Sequence[str]], count: int) -> Floats:
    """Compute the columns ``(count, c)`` of all extra features from the cells in ``rows``; raises ConfigError."""
    if extras and (len(rows) != count or any(len(row) != len(extras) for row in rows)):
        names = ", ".join(extra.name for extra in extras)
        raise ConfigError(f"{len(rows)} rows of extra features, {count} of {names} expected")
    columns = [extra.transform([row[i] for row in rows]) for i, extra in enumerate(extras)]
    return np.concatenate([np.zeros((count, 0)), *columns], axis=1)


def block_means(model: SentenceTransformer, texts: Sequence[str]) -> NDArray[np.float32]:
    """Compute the mean over the tokens of the output of each block of a transformer: ``(n, blocks, d)``.

    Feng 2023, equation 1: special tokens count, padding does not, and the input of the first block is left out. Raises
    EncoderError if the first module is not a transformer, or a state is NaN or infinite.
    """
    transformer: Any = getattr(model[0], "auto_model", None)
    if transformer is None:
        remedy = "name an encoder whose first module is a transformer"
        raise EncoderError("the blocks of this encoder cannot be read", remedy=remedy)
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    parts: list[NDArray[np.float32]] = []
    model.eval()
    with torch.no_grad():
        for rows in chunked(order, _TEXTS):
            read = model.preprocess([texts[row] for row in rows])
            features = {name: value.to(model.device) for name, value in read.items() if isinstance(value, torch.Tensor)}
            blocks = torch.stack(transformer(**features, output_hidden_states=True).hidden_states[1:], dim=1)
            mask = features["attention_mask"][:, None, :, None].to(blocks.dtype)
            parts.append(((blocks * mask).sum(dim=2) / mask.sum(dim=2).clamp(min=1)).float().cpu().numpy())
    means = np.concatenate(parts)[np.argsort(order)]
    if not np.isfinite(means).all():
        raise EncoderError("states of the encoder are NaN or infinite", remedy="name another encoder")
    return means


def kernels(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Compute similarity features of n pairs of vectors ``(n, blocks, d)``: ``(n, blocks * 5)``, block by block.

    Feng 2023, equation 2: cosine, Manhattan and Euclidean distance, polynomial and sigmoid kernel. The paper does not
    state parameters; these are the defaults of scikit-learn: ``(x.y / d + 1) ** 3`` and ``tanh(x.y / d + 1)``, and
    cosine 0 for a vector of length 0.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    product = np.einsum("nbd,nbd->nb", x, y)
    lengths = np.linalg.norm(x, axis=2) * np.linalg.norm(y, axis=2)
    cosines = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    scaled = product / x.shape[2] + 1
    distances = np.abs(x - y).sum(axis=2), np.linalg.norm(x - y, axis=2)
    features = np.stack((cosines, *distances, scaled**3, np.tanh(scaled)), axis=2)
    return np.asarray(features.reshape(len(x), x.shape[1] * len(KERNELS)))


def pair_features(model: SentenceTransformer, texts_1: Sequence[str], texts_2: Sequence[str]) -> Floats:
    """Compute :func:`kernels` of :func:`block_means` of n pairs of texts; 0 pairs give ``(0, 0)``.

    Raises ConfigError if the numbers of texts differ, and EncoderError as :func:`block_means`.
    """
    if len(texts_1) != len(texts_2):
        raise ConfigError(f"{len(texts_1)} texts beside {len(texts_2)}, as many expected")
    parts: list[Floats] = []
    for pairs in chunked(zip(texts_1, texts_2, strict=True), _PAIRS):
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        row = {text: i for i, text in enumerate(texts)}
        means = block_means(model, texts)
        parts.append(kernels(*(means[[row[text] for text in side]] for side in zip(*pairs, strict=True))))
    return np.concatenate(parts or [np.zeros((0, 0))])


@dataclass(frozen=True, slots=True)
class Head:
    """Prediction model of two layers, from ``features (n, f)`` and ``extra (n, c)`` to scores ``(n,)``.

    Feng 2023, equation 3a: the first layer takes the features of a pair, the second takes the output of the first and
    the extra features. The paper states neither the scaling of features nor the activation; here features are
    standardised on the training pairs, and the activation is a ReLU. ``mean`` and ``deviation`` are ``(f,)``; the
    layers are ``(f, h)``, ``(h,)``, ``(h + c,)`` and ``(1,)``.
    """

    mean: Floats
    deviation: Floats
    first: Floats
    first_bias: Floats
    second: Floats
    second_bias: Floats

    def __call__(self, features: Floats, extra: Floats) -> Floats:
        """Ratings, or for a classifier logits."""
        hidden = np.maximum((features - self.mean) / self.deviation @ self.first + self.first_bias, 0)
        return np.asarray(np.concatenate([hidden, extra], axis=1) @ self.second + self.second_bias)

    def scores(self, features: Floats, extra: Floats, kind: str) -> Floats:
        """Return ratings, or for a classifier probabilities."""
        output = self(features, extra)
        return output if kind == "regressor" else 1 / (1 + np.exp(-np.clip(output, -500, 500)))


@dataclass(frozen=True, slots=True)
class MlteRegressor:
    """Regressor or classifier of pairs of texts (Feng 2023), trained by :class:`medlink.training.MlteTrainer`.

    ``encoder`` is the transformer, possibly with a translator before it. A ``regressor`` gives scores on the scale of
    the ratings, a ``classifier`` probabilities. ``record`` are inputs and results of training; plain data.
    """

    encoder: Encoder
    head: Head
    kind: str = "regressor"
    extras: tuple[ExtraFeature, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def score(self, texts_1: Sequence[str], texts_2: Sequence[str], extra: Sequence[Sequence[str]] = ()) -> Floats:
        """Compute scores ``(n,)`` of n pairs; higher is more similar.

        ``extra`` has, for each pair, a cell for each of :attr:`extras`. Raises ConfigError if the numbers of texts
        differ or an extra feature is missing, and EncoderError if a state of the encoder is NaN or infinite.
        """
        translate, model = unwrap_encoder(self.encoder)
        features = pair_features(model, translate(texts_1), translate(texts_2))
        columns = transform_extras(self.extras, extra, len(texts_1))
        return self.head.scores(features, columns, self.kind) if len(features) else np.zeros(0)

    def save(self, folder: str | Path) -> Path:
        """Write a folder, atomically: ``mlte.json``, ``mlte.safetensors``, ``encoder/``.

        Raises ConfigError if a file is in its place, and EncoderError if the folder cannot be written.
        """
        with new_folder(Path(folder), "the regressor") as draft:
            self.encoder.save(draft / _ENCODER)
            save_file({k: np.ascontiguousarray(v) for k, v in asdict(self.head).items()}, draft / _WEIGHTS)
            extras, encoder = [asdict(extra) for extra in self.extras], self.encoder.fingerprint
            config = {"kind": self.kind, "extras": extras, "encoder": encoder, "record": dict(self.record)}
            write_json(draft / CONFIG_FILE, config)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> MlteRegressor:
        """Open a folder that :meth:`save` wrote; raises EncoderError if it is not a regressor, or is damaged."""
        folder = Path(folder)
        if not is_mlte(folder):
            remedy = "name the folder of a trained regressor"
            raise EncoderError(f"is not a regressor: no {CONFIG_FILE} in it", path=folder, remedy=remedy)
        encoder = load_encoder(folder / _ENCODER, device=device)
        try:
            config = read_json(folder / CONFIG_FILE)
            extras = tuple(ExtraFeature(**{**extra, "words": tuple(extra["words"])}) for extra in config["extras"])
            head = Head(**load_file(folder / _WEIGHTS))
            # a trial shows NaN, and weights of different shapes
            columns = transform_extras(extras, (), 0).shape[1]
            if not np.isfinite(head(np.zeros((1, len(head.mean))), np.zeros((1, columns)))).all():
                raise ValueError("weights that are NaN or infinite")
            regressor = cls(encoder, head, config["kind"], extras, config["record"])
            fingerprint = config["encoder"]
        except (OSError, ValueError, TypeError, LookupError, SafetensorError) as error:
            raise EncoderError(f"the regressor cannot be read: {error}", path=folder, remedy=_RETRAIN) from error
        if fingerprint != encoder.fingerprint:
            message = "the encoder in it is not the one it was trained with"
            raise EncoderError(message, path=folder, remedy=_RETRAIN)
        return regressor


def unwrap_encoder(encoder: Encoder) -> tuple[Callable[[Sequence[str]], list[str]], Any]:
    """Return the translation of texts before encoding (Feng 2023, section III-B), and the sentence-transformers model.

    Raises EncoderError for a static encoder, which has no blocks.
    """
    translate: Callable[[Sequence[str]], list[str]] = list
    if isinstance(encoder, TranslatedEncoder):
        translate, encoder = encoder.translate, encoder.encoder
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("MLTE reads the blocks of a transformer, and a static encoder has none", remedy=remedy)
    return translate, encoder.model.float()
