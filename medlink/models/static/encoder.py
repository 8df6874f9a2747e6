"""The static encoder: averaged hashed n-grams, a feed-forward net, and markers. Needs NumPy only.

A deep averaging network (Iyyer et al. 2015, section 3) over fastText n-grams (Bojanowski et al. 2017, section 3.2),
whose table is hashed with two functions as in floret: the vector of an n-gram is the sum of two rows, and two n-grams
seldom share both. With x the mean of the n-gram vectors, m the sum of the vectors of the markers
(:mod:`medlink.language.exact`), and u(v) = v / ||v||, the zero vector for v = 0,

    y = x + B gelu(A norm(x) + a) + b,    embedding = u(u(y) + w u(m))

Markers (numbers, numerals and letters) thus have the share w^2 / (1 + w^2) in the embedding of a name of any length. A
mean over n-grams alone does not distinguish "stage II" from "stage III" in a name of ten words.

x also includes the mean of the vectors of word families: the meanings of each word, each part of a compound and each
phrase (:class:`medlink.language.lexicon.name_analysis.LexicalAnalyser`). *hepatisch*, *Leber-* and *liver* thus share a
row that no n-gram gives them; a word that the lexicon lacks has its own row. The forms of the lexicon are stored beside
the weights, so a later lexicon does not change embeddings.

The folder is also a sentence-transformers model (:class:`medlink.models.static.module.StaticEmbedding`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.files.json import json_text
from medlink.language.lexicon.forms import LexiconForms, load_shared_forms
from medlink.models.file_hashes import check_hashes, write_hashes
from medlink.models.ngrams import Bags, buckets, hash_forms, hash_markers, hash_ngrams, rules_digest
from medlink.models.static.feature_sums import FeatureSums, MeaningHasher
from medlink.settings import Settings, option

MODULE_PATH = "medlink.models.static.module.StaticEmbedding"
MODULE_PATHS = (MODULE_PATH, "medlink.models.static_module.StaticEmbedding")  # the second up to version 0.1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_TENSORS = {"table", "scale", "norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"}
_NORM_EPSILON = 1e-5
_BATCH = 2048
_LAYER_BATCH = 256  # texts that go through the layers at a time: they stay in the processor's cache
_REMEDY = "train or fetch the encoder again, or name another one"
# a name or more for each rule of the analysis of words: compounds and their links, known compounds, ends of unknown
# words, stems, phrases, languages, senses, abbreviations, unknown words
_PROBES = (
    "Unterschenkelödeme", "Nierenbeckenentzündung", "Xylobarthomentzündung", "hepatosplenomegaly", "enlarged livers",
    "dolor de cabeza", "chronische Niereninsuffizienz", "cervical carcinoma", "cervical", "KHK", "sin fiebre",
    "kein Fieber", "toxicities", "Qwxyz II",
)  # fmt: skip


class StaticConfig(Settings):
    """Shape of a static encoder, which determines the features of a name."""

    rows: int = option(65_536, "Rows of the table of n-grams.", ge=1)
    dimension: int = option(256, "Width of the embeddings.", ge=1)
    hidden: int = option(512, "Width of the feed-forward net.", ge=1)
    probes: int = option(2, "Rows that an n-gram or a marker is the sum of.", ge=1)
    sizes: tuple[int, ...] = option((3, 4, 5), "Length of n-grams; may be repeated.")
    words: bool = option(True, "Whether each whole word is a feature too.")
    marker_weight: float = option(0.5, "Weight of numbers, numerals and single letters; 0: none.", ge=0)
    families: bool = option(True, "Whether word families of the lexicon are features too.")
    max_chars: int = option(256, "Normalised characters of a name that count.", ge=1)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> StaticConfig:
        """Read the mapping that :meth:`to_dict` wrote; features of later versions, which it lacks, stay off."""
        try:
            return cls(**{"marker_weight": 0.0, "families": False, **raw, "sizes": tuple(raw["sizes"])})
        except (TypeError, KeyError, ConfigError) as error:
            raise EncoderError(f"not a configuration of a static encoder: {error}", remedy=_REMEDY) from error


class Features(NamedTuple):
    """Rows of the table for n texts: ``probes`` successive rows for each n-gram, marker and word family."""

    ngrams: Bags
    markers: Bags
    families: Bags


def features(texts: Sequence[str], config: StaticConfig, hasher: MeaningHasher | None = None) -> Features:
    """Compute the rows of the table for each text; a shape with word families needs a ``hasher``."""
    ngrams = hash_ngrams(texts, config.sizes, words=config.words, max_chars=config.max_chars)
    markers = families = Bags(np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint64))
    if config.marker_weight:
        markers = hash_markers(texts, config.max_chars)
    if config.families:
        if hasher is None:
            raise EncoderError("the word families of the encoder are missing", remedy=_REMEDY)
        families = hasher.hashes([text[: config.max_chars] for text in texts])
    return Features(*(_rows(hashed, config) for hashed in (ngrams, markers, families)))


def _rows(hashed: Bags, config: StaticConfig) -> Bags:
    rows = np.stack([buckets(hashed.values, config.rows, probe) for probe in range(config.probes)], axis=1)
    return Bags(hashed.offsets * config.probes, rows.reshape(-1))


def quantise(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise ``table (rows, d)``, about ``int8 * scale[:, None]``, to eight bits with one scale per row."""
    scale = np.abs(table).max(axis=1) / 127
    safe = np.where(scale > 0, scale, 1)
    return np.rint(table / safe[:, None]).astype(np.int8), safe.astype(np.float32)


def gelu(x: NDArray[Any]) -> NDArray[Any]:
    """Compute the Gaussian error linear unit in tanh form (Hendrycks and Gimpel 2016, section 2), as in training."""
    # 0.5 x (1 + tanh(z)) = x / (1 + exp(-2 z)) for z = sqrt(2 / pi) (x + 0.044715 x x x): NumPy's exp is faster than
    # its tanh. In place, because allocations would take most of the time.
    y = x * x
    y *= 0.044715
    y += 1
    y *= x
    y *= -2 * math.sqrt(2 / math.pi)
    with np.errstate(over="ignore"):
        np.exp(y, out=y)
    y += 1
    return np.asarray(np.divide(x, y, out=y))


def _unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))


class StaticEncoder:
    """A trained static encoder.

    ``tensors`` are ``table (rows, d) int8``, ``scale (rows,)``, and the weights of the norm and of the two layers. A
    shape with word families needs the ``forms`` of the lexicon.
    """

    def __init__(
        self,
        config: StaticConfig,
        tensors: dict[str, NDArray[Any]],
        folder: Path | None = None,
        forms: LexiconForms | None = None,
    ) -> None:
        missing = sorted(_TENSORS - tensors.keys())
        if missing:
            raise EncoderError(f"weights are missing: {', '.join(missing)}", path=folder, remedy=_REMEDY)
        if tensors["table"].shape != (config.rows, config.dimension):
            message = f"table of shape {tensors['table'].shape}, {(config.rows, config.dimension)} expected"
            raise EncoderError(message, path=folder, remedy=_REMEDY)
        if config.families and forms is None:
            raise EncoderError("the word families of the encoder are missing", path=folder, remedy=_REMEDY)
        self.config, self.tensors, self.folder, self.forms = config, tensors, folder, forms
        # layers in double precision, rounded to single in the end: an embedding does not depend on its batch
        w = {k: np.asarray(v, dtype=np.float64) for k, v in tensors.items() if k not in ("table", "scale")}
        # the first layer includes the weight and bias of the norm
        self._up, self._up_bias = (w["up.weight"] * w["norm.weight"]).T, w["up.bias"] + w["up.weight"] @ w["norm.bias"]
        self._down, self._down_bias = w["down.weight"].T, w["down.bias"]

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEncoder, (self.config, self.tensors, self.folder, self.forms)

    @cached_property
    def _feature_sums(self) -> FeatureSums:
        config = self.config
        meanings = MeaningHasher(self.forms) if config.families and self.forms is not None else None
        hash_words = partial(hash_forms, sizes=config.sizes, words=config.words)
        sizes = (config.dimension, config.max_chars)
        return FeatureSums(self._sums, hash_words, *sizes, with_markers=bool(config.marker_weight), meanings=meanings)

    @property
    def dimension(self) -> int:
        return self.config.dimension

    @property
    def fingerprint(self) -> str:
        """Hash of the configuration, the rules from text to features, and every weight."""
        config = self.config.to_dict()
        rules = [rules_digest()]
        if self.forms is None:
            del config["families"]
        else:
            probes = features(_PROBES, self.config.replace(probes=1, rows=1_000_003), MeaningHasher(self.forms))
            rules.append(self.forms.digest)
            rules += map(str, chain.from_iterable(column.tolist() for column in probes.families))
        digest = hashlib.sha256(json.dumps([config, *rules], sort_keys=True).encode())
        for name in sorted(_TENSORS):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self.tensors[name]).tobytes())
        return digest.hexdigest()[:32]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed n texts: ``(n, dimension)`` float32 unit vectors, zeros for a text without a letter or digit.

        Caches a bounded number of single words. Threads may share an encoder.
        """
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            sums = self._feature_sums.sums(texts[start : start + _BATCH])
            x = sums.mean.astype(np.float64)
            parts = (x[first : first + _LAYER_BATCH] for first in range(0, len(x), _LAYER_BATCH))
            y = np.concatenate([self._feed_forward(part) for part in parts])
            markers = _unit(sums.markers.astype(np.float64))
            y[sums.marked] = _unit(y[sums.marked] + self.config.marker_weight * markers)
            y[sums.empty] = 0
            out[start : start + _BATCH] = y
        return out

    def _feed_forward(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        normed = x - x.mean(axis=1, keepdims=True)
        normed /= np.sqrt((normed * normed).mean(axis=1, keepdims=True) + _NORM_EPSILON)
        hidden = normed @ self._up
        hidden += self._up_bias
        y = gelu(hidden) @ self._down
        y += self._down_bias
        y += x
        return _unit(y)

    def _sums(self, hashed: Bags) -> NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        offsets, rows = _rows(hashed, self.config)
        # only the rows in use become float32: the table itself stays at one byte per weight
        used = np.flatnonzero(np.bincount(rows, minlength=self.config.rows))
        local = np.empty(self.config.rows, np.int32)
        local[used] = np.arange(len(used))
        vectors = self.tensors["table"][used].astype(np.float32)
        shape = (len(offsets) - 1, len(used))
        return np.asarray(csr_matrix((self.tensors["scale"][rows], local[rows], offsets), shape=shape) @ vectors)

    def save(self, folder: str | Path) -> Path:
        """Write a model folder for this class and for sentence-transformers, and return it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "prompts": {}}
        modules = [{"idx": 0, "name": "0", "path": "", "type": MODULE_PATH}]
        (folder / "modules.json").write_text(json_text(modules), "utf-8")
        (folder / "config_sentence_transformers.json").write_text(json_text(settings), "utf-8")
        self.save_weights(folder)
        return folder

    def save_weights(self, folder: Path) -> None:
        """Write configuration, weights and hashes, as a module of a larger model needs them."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        # the library's own save_file makes a file that only its owner can read
        weights = save({k: np.ascontiguousarray(v) for k, v in self.tensors.items()})
        (folder / WEIGHTS_FILE).write_bytes(weights)
        (folder / CONFIG_FILE).write_text(json_text(self.config.to_dict()), "utf-8")
        if self.forms is not None:
            self.forms.save(folder)
        write_hashes(folder)

    @classmethod
    def load(cls, folder: str | Path, *, is_checked: bool = False) -> StaticEncoder:
        """Open a folder that :meth:`save` wrote; checks the hashes of its files unless ``is_checked``.

        Raises EncoderError if a file is missing or damaged, or does not belong to a static encoder.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = Path(folder)
        if is_static(folder):  # sentence-transformers saves a module into a folder of its own
            folder /= modules_of(folder)[0][1]
        if not is_checked and (folder / CONFIG_FILE).exists():
            check_hashes(folder, is_required=True)
        try:
            config = StaticConfig.from_dict(json.loads((folder / CONFIG_FILE).read_text("utf-8")))
            tensors = load_file(folder / WEIGHTS_FILE)
        except FileNotFoundError as error:
            where = error.filename or folder
            raise EncoderError("a file of the encoder is missing", path=where, remedy=_REMEDY) from error
        except (SafetensorError, ValueError, OSError) as error:
            raise EncoderError(f"the encoder cannot be read: {error}", path=folder, remedy=_REMEDY) from error
        return cls(config, tensors, folder, load_shared_forms(folder) if config.families else None)


def modules_of(folder: Path) -> list[tuple[str, str]]:
    """Return class path and subfolder of each module of a sentence-transformers folder; none for any other folder."""
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        return [(module["type"], module["path"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def is_static(folder: Path) -> bool:
    """Return whether a model folder holds a static encoder: its ``modules.json`` names only medlink's module."""
    modules = modules_of(folder)
    return len(modules) == 1 and modules[0][0] in MODULE_PATHS
