"""The static encoder: hashed n-grams, averaged, then a feed-forward net, and markers. Runs on NumPy alone.

A deep averaging network (Iyyer et al. 2015, section 3) over fastText n-grams (Bojanowski et al. 2017,
section 3.2) whose table is hashed with two functions as in floret: an n-gram's vector is the sum of two rows,
so that two n-grams seldom share both. With x the mean of the n-gram vectors, m the sum of the vectors of the
markers (:mod:`medlink.language.exact`), and u(v) = v / ||v||, the zero vector for v = 0,

    y = x + B gelu(A norm(x) + a) + b,    embedding = u(u(y) + w u(m))

where x has the mean of the vectors of word families added to it: of what each word, each part of a compound and each
phrase means (:class:`medlink.language.lexicon.reading.FamilyReader`); a word that the lexicon lacks stands for itself.
So *hepatisch*, *Leber-* and *liver* share a row that no n-gram gives them. The forms of the lexicon lie beside the
weights: a later lexicon changes no embedding.

so that numbers, numerals and letters have the share w^2 / (1 + w^2) in the embedding of a name that has any, however
long the name is: a mean over n-grams alone cannot tell "stage II" from "stage III" in a name of ten words.

The folder is a sentence-transformers model as well (``modules.json`` names
:class:`medlink.models.static.module.StaticEmbedding`); this class reads the same two files without torch, so that a
bundle opens in tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError, EncoderError
from medlink.files.json import json_text
from medlink.language.lexicon.forms import Forms
from medlink.models.ngrams import buckets, hash_forms, hash_markers, hash_ngrams, rules_digest
from medlink.models.sealed import check_seal, seal
from medlink.models.static.meanings import MeaningReader
from medlink.models.static.pieces import Pieces
from medlink.settings import Settings

MODULE_PATH = "medlink.models.static.module.StaticEmbedding"
MODULE_PATHS = (MODULE_PATH, "medlink.models.static_module.StaticEmbedding")  # the second up to version 0.1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_TENSORS = {"table", "scale", "norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"}
_NORM_EPSILON = 1e-5
_CHUNK = 2048
_LAYERED = 256  # texts that go through the layers at a time: they stay in the caches of a processor
_REMEDY = "train or fetch the encoder again, or name another one"
# a name or more for each rule by which words are read: compounds and their links, known ones too, ends of unknown
# words, stems, phrases, languages, senses, abbreviations, words that nobody knows
_READ = (
    "Unterschenkelödeme",
    "Nierenbeckenentzündung",
    "Xylobarthomentzündung",
    "hepatosplenomegaly",
    "enlarged livers",
    "dolor de cabeza",
    "chronische Niereninsuffizienz",
    "cervical carcinoma",
    "cervical",
    "KHK",
    "sin fiebre",
    "kein Fieber",
    "toxicities",
    "Qwxyz II",
)


class StaticConfig(Settings):
    """Shape of a static encoder: what must be known to compute a name's features."""

    rows: Annotated[int, Field(ge=1, description="Rows of the table of n-grams.")] = 65_536
    dimension: Annotated[int, Field(ge=1, description="Width of the embeddings.")] = 256
    hidden: Annotated[int, Field(ge=1, description="Width of the feed-forward net.")] = 512
    probes: Annotated[int, Field(ge=1, description="Rows that an n-gram or a marker is the sum of.")] = 2
    sizes: Annotated[tuple[int, ...], Field(description="Length of n-grams; may be repeated.")] = (3, 4, 5)
    words: Annotated[bool, Field(description="Whether each whole word is a feature too.")] = True
    marker_weight: Annotated[
        float, Field(ge=0, description="Weight of numbers, numerals and single letters; 0: none.")
    ] = 0.5
    families: Annotated[bool, Field(description="Whether word families of the lexicon are features too.")] = True
    max_chars: Annotated[int, Field(ge=1, description="Normalised characters of a name that count.")] = 256

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> StaticConfig:
        """Read the mapping that :meth:`to_dict` wrote; what it does not name is of later versions, and not there."""
        try:
            return cls(**{"marker_weight": 0.0, "families": False, **raw, "sizes": tuple(raw["sizes"])})
        except (TypeError, KeyError, ConfigError) as error:
            raise EncoderError(f"not a configuration of a static encoder: {error}", remedy=_REMEDY) from error


class Features(NamedTuple):
    """Rows of the table that n texts take part in: the n-grams of text i are ``rows[indptr[i]:indptr[i + 1]]``, each
    with ``probes`` rows, one after the other; its markers and word families alike."""

    indptr: NDArray[np.int64]
    rows: NDArray[np.int64]
    marker_indptr: NDArray[np.int64]
    marker_rows: NDArray[np.int64]
    family_indptr: NDArray[np.int64]
    family_rows: NDArray[np.int64]


def features(texts: Sequence[str], config: StaticConfig, reader: MeaningReader | None = None) -> Features:
    """Rows of the table that each text takes part in; the reader is needed where the shape has word families."""
    bags = hash_ngrams(texts, config.sizes, words=config.words, max_chars=config.max_chars)
    marker_indptr, markers = np.zeros(len(texts) + 1, dtype=np.int64), np.zeros(0, dtype=np.uint64)
    if config.marker_weight:
        marker_indptr, markers = hash_markers(texts, config.max_chars)
    family_indptr, families = np.zeros(len(texts) + 1, dtype=np.int64), np.zeros(0, dtype=np.uint64)
    if config.families:
        if reader is None:
            raise EncoderError("the word families of the encoder are missing", remedy=_REMEDY)
        family_indptr, families = reader.hashes([text[: config.max_chars] for text in texts])
    found = (bags.indptr, bags.hashes), (marker_indptr, markers), (family_indptr, families)
    return Features(*chain.from_iterable((ends * config.probes, _rows(hashes, config)) for ends, hashes in found))


def _rows(hashes: NDArray[np.uint64], config: StaticConfig) -> NDArray[np.int64]:
    """Rows of the table, ``probes`` of them for each hash."""
    return np.stack([buckets(hashes, config.rows, probe) for probe in range(config.probes)], axis=1).reshape(-1)


def quantise(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Eight bits per weight with one scale per row: ``table (rows, d)`` is about ``int8 * scale[:, None]``."""
    scale = np.abs(table).max(axis=1) / 127
    safe = np.where(scale > 0, scale, 1)
    return np.rint(table / safe[:, None]).astype(np.int8), safe.astype(np.float32)


def gelu(x: NDArray[Any]) -> NDArray[Any]:
    """Gaussian error linear unit, tanh form (Hendrycks and Gimpel 2016, section 2), the one torch trains with."""
    # 0.5 x (1 + tanh(z)) = x / (1 + exp(-2 z)) for z = sqrt(2 / pi) (x + 0.044715 x x x): NumPy's exp is quicker than
    # its tanh. One array, for most of the time would go to making others.
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
    """Rows of ``(n, d)`` at length 1; a zero row stays zero."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))


class StaticEncoder:
    """A trained static encoder of a shape, ready to encode.

    ``tensors`` are ``table (rows, d) int8``, ``scale (rows,)``, and the weights of the norm and of the two layers;
    ``folder`` is where it was loaded from, ``forms`` those of the lexicon, where the shape has word families.
    """

    def __init__(
        self,
        config: StaticConfig,
        tensors: dict[str, NDArray[Any]],
        folder: Path | None = None,
        forms: Forms | None = None,
    ) -> None:
        missing = sorted(_TENSORS - tensors.keys())
        if missing:
            raise EncoderError(f"weights are missing: {', '.join(missing)}", path=folder, remedy=_REMEDY)
        if tensors["table"].shape != (config.rows, config.dimension):
            message = f"table of shape {tensors['table'].shape}, {(config.rows, config.dimension)} expected"
            raise EncoderError(message, path=folder, remedy=_REMEDY)
        if config.families and forms is None:
            raise EncoderError("the word families of the encoder are missing", path=folder, remedy=_REMEDY)
        self.config, self.forms = config, forms
        self.folder = folder
        self.tensors = tensors
        # The layers run in double precision: rounded to single in the end, an embedding does not depend on its batch.
        w = {k: np.asarray(v, dtype=np.float64) for k, v in tensors.items() if k not in ("table", "scale")}
        # what the norm weighs and adds, the first layer does
        self._up, self._up_bias = (w["up.weight"] * w["norm.weight"]).T, w["up.bias"] + w["up.weight"] @ w["norm.bias"]
        self._down, self._down_bias = w["down.weight"].T, w["down.bias"]

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEncoder, (self.config, self.tensors, self.folder, self.forms)

    @cached_property
    def _pieces(self) -> Pieces:
        config = self.config
        return Pieces(
            lambda bags: self._sums(bags.indptr * config.probes, _rows(bags.hashes, config)),
            partial(hash_forms, sizes=config.sizes, words=config.words),
            config.dimension,
            config.max_chars,
            marked=bool(config.marker_weight),
            reader=MeaningReader(self.forms) if config.families and self.forms is not None else None,
        )

    @property
    def dimension(self) -> int:
        """Width of the embeddings."""
        return self.config.dimension

    @property
    def fingerprint(self) -> str:
        """Hash of the configuration, the rules from text to features, and every weight.

        Two encoders with one fingerprint embed alike: a change to a rule makes other embeddings of the same weights.
        """
        config = self.config.to_dict()
        rules = [rules_digest()]
        if self.forms is None:
            del config["families"]
        else:
            read = features(_READ, self.config.replace(probes=1, rows=1_000_003), MeaningReader(self.forms))
            rules += [self.forms.digest, *map(str, read.family_indptr.tolist()), *map(str, read.family_rows.tolist())]
        digest = hashlib.sha256(json.dumps([config, *rules], sort_keys=True).encode())
        for name in sorted(_TENSORS):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self.tensors[name]).tobytes())
        return digest.hexdigest()[:32]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed n texts: ``(n, dimension)`` float32 unit vectors, zeros for a text without a letter or digit.

        Single words of the texts, and no more, are kept for later calls, a bounded number of them; threads may share
        an encoder.
        """
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _CHUNK):
            out[start : start + _CHUNK] = self._encode_chunk(texts[start : start + _CHUNK])
        return out

    def _encode_chunk(self, texts: Sequence[str]) -> NDArray[np.float64]:
        found = self._pieces.sums(texts)
        x = found.mean.astype(np.float64)
        y = np.concatenate([self._fed_forward(x[start : start + _LAYERED]) for start in range(0, len(x), _LAYERED)])
        markers = _unit(found.markers.astype(np.float64))
        y[found.marked] = _unit(y[found.marked] + self.config.marker_weight * markers)
        y[found.empty] = 0
        return y

    def _fed_forward(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The unit vectors ``(n, d)`` that the net makes of mean vectors."""
        normed = x - x.mean(axis=1, keepdims=True)
        normed /= np.sqrt((normed * normed).mean(axis=1, keepdims=True) + _NORM_EPSILON)
        hidden = normed @ self._up
        hidden += self._up_bias
        y = gelu(hidden) @ self._down
        y += self._down_bias
        y += x
        return _unit(y)

    def _sums(self, indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        # Only the rows in use are widened to float32: the table itself stays at one byte per weight.
        used = np.flatnonzero(np.bincount(rows, minlength=self.config.rows))
        local = np.empty(self.config.rows, np.int32)
        local[used] = np.arange(len(used))
        vectors = self.tensors["table"][used].astype(np.float32)
        shape = (len(indptr) - 1, len(used))
        return np.asarray(csr_matrix((self.tensors["scale"][rows], local[rows], indptr), shape=shape) @ vectors)

    def save(self, folder: str | Path) -> Path:
        """Write a model folder that this class and sentence-transformers both load; returns it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "prompts": {}}
        modules = [{"idx": 0, "name": "0", "path": "", "type": MODULE_PATH}]
        (folder / "modules.json").write_text(json_text(modules), "utf-8")
        (folder / "config_sentence_transformers.json").write_text(json_text(settings), "utf-8")
        self.save_weights(folder)
        return folder

    def save_weights(self, folder: Path) -> None:
        """Write configuration, weights and hashes: what one module of a larger model folder needs."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        # written here: the library's own save_file makes a file that only its owner can read
        weights = save({k: np.ascontiguousarray(v) for k, v in self.tensors.items()})
        (folder / WEIGHTS_FILE).write_bytes(weights)
        (folder / CONFIG_FILE).write_text(json_text(self.config.to_dict()), "utf-8")
        if self.forms is not None:
            self.forms.save(folder)
        seal(folder)

    @classmethod
    def load(cls, folder: str | Path, *, is_checked: bool = False) -> StaticEncoder:
        """Open a folder that :meth:`save` wrote; its files are hashed unless they are known to be as they were written.

        Raises:
            EncoderError: a file is missing, damaged, or not of a static encoder.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = Path(folder)
        if is_static(folder):  # sentence-transformers saves a module into a folder of its own
            folder /= modules_of(folder)[0][1]
        if not is_checked and (folder / CONFIG_FILE).exists():
            check_seal(folder, is_required=True)
        try:
            config = StaticConfig.from_dict(json.loads((folder / CONFIG_FILE).read_text("utf-8")))
            tensors = load_file(folder / WEIGHTS_FILE)
        except FileNotFoundError as error:
            where = error.filename or folder
            raise EncoderError("a file of the encoder is missing", path=where, remedy=_REMEDY) from error
        except (SafetensorError, ValueError, OSError) as error:
            raise EncoderError(f"the encoder cannot be read: {error}", path=folder, remedy=_REMEDY) from error
        return cls(config, tensors, folder, Forms.load(folder) if config.families else None)


def modules_of(folder: Path) -> list[tuple[str, str]]:
    """Class path and subfolder of each module of a sentence-transformers folder; empty for any other folder."""
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        return [(module["type"], module["path"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def is_static(folder: Path) -> bool:
    """Whether a model folder holds a static encoder: its ``modules.json`` names our module and no other."""
    modules = modules_of(folder)
    return len(modules) == 1 and modules[0][0] in MODULE_PATHS
