"""A sentence-transformers model as an encoder."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError, needs_extra
from medlink.models.file_hashes import write_hashes
from medlink.models.static.encoder import MODULE_PATHS, modules_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


HUB = "hf:"
"""Prefix of the name of a model of the Hugging Face hub; nothing else is ever fetched."""
_TIMEOUT = 10.0  # seconds for an answer of the hub
_warned: set[str] = set()
logger = logging.getLogger(__name__)


class TransformerEncoder:
    """A sentence-transformers model with the :class:`Encoder` protocol.

    Args:
        device: torch device; by default a GPU if there is one.
        pooling: pooling of a bare checkpoint, which has no ``modules.json`` (as CODER, SapBERT and PubMedBERT are
            published). By default it is the mean, as in sentence-transformers, with one warning.

    Raises:
        EncoderError: no model could be loaded, or it has another pooling.
    """

    def __init__(self, name: str | Path, *, device: str | None = None, pooling: str = "") -> None:
        with needs_extra("transformers", "an encoder that is a transformer"):
            from sentence_transformers import SentenceTransformer
            from sentence_transformers.sentence_transformer.modules import Pooling
            from sentence_transformers.util import is_sentence_transformer_model

        hub, where = str(name).startswith(HUB), str(name).removeprefix(HUB)
        hub_error = _find_hub_error(where) if hub else ""
        local = not hub or bool(hub_error)
        try:
            self.model = (None if hub else _stack(Path(where), device)) or SentenceTransformer(
                where, device=device, local_files_only=local, trust_remote_code=False
            )
            bare = not is_sentence_transformer_model(where, local_files_only=local)
        except Exception as error:  # the library raises many kinds of errors
            problem = f"no sentence-transformers model could be loaded: {hub_error or ' '.join(str(error).split())}"
            remedy = "check its name and the network, or name a model folder" if hub else "name a model folder"
            raise EncoderError(problem, path=name, remedy=remedy) from error
        places = [place for place, module in enumerate(self.model) if isinstance(module, Pooling)]
        own = str(self.model[places[0]].pooling_mode) if places else "none"
        if pooling and pooling != own:
            if not bare or not places:
                remedy = "leave pooling out, or name a checkpoint without modules.json"
                raise EncoderError(f"the pooling of this model is {own}, not {pooling}", path=name, remedy=remedy)
            self.model[places[0]] = Pooling(self.dimension, pooling)
        elif bare and places and not pooling and str(name) not in _warned:
            _warned.add(str(name))
            logger.warning(
                "%s does not say how the vectors of its tokens become one: their %s is taken. Remedy: name it cls:%s, "
                'or give pooling="cls", where that of [CLS] was trained, as in CODER and SapBERT',
                *(name, own, name),
            )

    @property
    def dimension(self) -> int:
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.model)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed n texts: ``(n, dimension)`` float32 unit vectors."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self.model.encode(list(texts), batch_size=128, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)

    def save(self, folder: str | Path) -> Path:
        """Write the model folder with safetensors weights and hashes."""
        self.model.save(str(folder), safe_serialization=True)
        write_hashes(Path(folder))
        return Path(folder)


def _stack(folder: Path, device: str | None) -> SentenceTransformer | None:
    """Load a model whose first module is medlink's own; ``None`` for any other folder.

    sentence-transformers would need permission to load any class; here the other modules must belong to it.
    """
    modules = modules_of(folder)
    if not modules or modules[0][0] not in MODULE_PATHS:
        return None
    with needs_extra("transformers", "an encoder that is a transformer"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.util import import_from_string

    from medlink.models.static.module import StaticEmbedding

    others = [kind for kind, _ in modules[1:]]
    if foreign := [kind for kind in others if not kind.startswith("sentence_transformers.")]:
        raise ValueError(f"{foreign[0]} is not a module of sentence-transformers")
    kinds: list[Any] = [StaticEmbedding, *map(import_from_string, others)]
    stack = [kind.load(str(folder), subfolder=path) for kind, (_, path) in zip(kinds, modules, strict=True)]
    return SentenceTransformer(modules=stack, device=device)


def _find_hub_error(name: str) -> str:
    """Reason why the hub does not serve a model, empty if it does; the local cache may still have the model."""
    with needs_extra("transformers", "an encoder of the hub"):
        from huggingface_hub import model_info

    try:
        # the library itself would retry for more than a minute
        model_info(name, timeout=_TIMEOUT)
    except Exception as error:  # as above
        return f"the hub says: {' '.join(str(error).split())}"
    return ""


def compute_fingerprint(model: SentenceTransformer) -> str:
    """Hash all weights, the modules and their settings, the tokenizer, and the length at which texts are cut."""
    digest = hashlib.sha256()
    for module in model:
        settings: dict[str, Any] = getattr(module, "get_config_dict", dict)()
        digest.update(json.dumps([type(module).__name__, settings], sort_keys=True, default=str).encode())
    digest.update(json.dumps(tokenizer_settings(model), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).float().numpy().tobytes())
    return digest.hexdigest()[:32]


def tokenizer_settings(model: SentenceTransformer) -> list[Any]:
    """Return the length at which texts are cut, and the tokenizer without its settings of padding and truncation."""
    backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    definition = {} if backend is None else json.loads(backend.to_str())
    return [model.max_seq_length, {k: v for k, v in definition.items() if k not in ("padding", "truncation")}]
