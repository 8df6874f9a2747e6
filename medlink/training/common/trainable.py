"""Static encoders and transformers as trainable models of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.models.transformer import TransformerEncoder

_WEIGHTS, _SHAPE = "weights.safetensors", "shape.json"


class TrainedEmbedding(StaticEmbedding):
    """A static encoder whose checkpoints hold its table in full precision, not in eight bits."""

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        save_file(self.state_dict(), Path(output_path, _WEIGHTS))
        write_json(Path(output_path, _SHAPE), self.shape.to_dict())

    @classmethod
    def load(  # type: ignore[override]  # it needs none of the hub's options
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> Self:
        """Read the weights without the lexicon, so the module cannot read texts."""
        folder = Path(model_name_or_path, subfolder)
        module = cls(StaticConfig.from_dict(read_json(folder / _SHAPE)))
        module.load_state_dict(load_file(folder / _WEIGHTS))
        return module


class Trainable(NamedTuple):
    """A model to train, the ``fingerprint`` of its first weights, and the argument ``save`` of :meth:`Run.write`."""

    model: SentenceTransformer
    fingerprint: str
    save: SentenceTransformer | Callable[[Path], Any]


def make_trainable(encoder: Encoder, feature_dropout: float = 0.0) -> Trainable:
    """Prepare an encoder for training, in 32 bits: a copy of a static encoder, or the transformer itself.

    Raises ConfigError if ``feature_dropout`` is above 0 for a transformer.
    """
    if isinstance(encoder, StaticEncoder):
        module = TrainedEmbedding.of(encoder, feature_dropout)
        model = SentenceTransformer(modules=[module])
        return Trainable(model, encoder.fingerprint, lambda folder: module.encoder().save(folder))
    if feature_dropout:
        remedy = "leave it at 0; a transformer has its own dropout"
        raise ConfigError("feature_dropout is for a static encoder", remedy=remedy)
    assert isinstance(encoder, TransformerEncoder)
    # small steps would round to nothing in 16 bits
    model = encoder.model.float()
    return Trainable(model, encoder.fingerprint, model)


def load_transformer(name: str | Path) -> SentenceTransformer:
    """Load a transformer for training, with weights in 32 bits; raises EncoderError for a static encoder."""
    encoder = load_encoder(name)
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("a static encoder cannot be trained by this phase", path=name, remedy=remedy)
    return encoder.model.float()


def limit_tokens(model: SentenceTransformer, max_tokens: int) -> None:
    """Lower the maximal number of tokens of a text; 0 does not change it."""
    if max_tokens:
        model.max_seq_length = min(max_tokens, model.max_seq_length or max_tokens)
