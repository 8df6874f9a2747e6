"""An encoder of either kind as a model of sentence-transformers that can be trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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
    """A static encoder whose checkpoints hold its table as it is, and not in eight bits."""

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the weights."""
        save_file(self.state_dict(), Path(output_path, _WEIGHTS))
        write_json(Path(output_path, _SHAPE), self.shape.to_dict())

    @classmethod
    def load(  # type: ignore[override]  # it needs none of the hub's options
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> Self:
        """Read the weights; it has no lexicon to read texts with."""
        folder = Path(model_name_or_path, subfolder)
        module = cls(StaticConfig.from_dict(read_json(folder / _SHAPE)))
        module.load_state_dict(load_file(folder / _WEIGHTS))
        return module


@dataclass(frozen=True, slots=True)
class Trainable:
    """A model to be trained.

    ``fingerprint`` is that of what it begins as, ``save`` what :meth:`~medlink.training.common.run.Run.write` takes.
    """

    model: SentenceTransformer
    fingerprint: str
    save: SentenceTransformer | Callable[[Path], Any]


def trainable(encoder: Encoder, feature_dropout: float = 0.0) -> Trainable:
    """Make an encoder ready to be trained: a static one is copied, a transformer is trained itself, in 32 bits.

    ConfigError: features are to drop out of the names that a transformer reads.
    """
    if isinstance(encoder, StaticEncoder):
        module = TrainedEmbedding.of(encoder, feature_dropout)
        model = SentenceTransformer(modules=[module])
        return Trainable(model, encoder.fingerprint, lambda folder: module.encoder().save(folder))
    if feature_dropout:
        remedy = "leave it at 0; a transformer has its own dropout"
        raise ConfigError("feature_dropout is for a static encoder", remedy=remedy)
    assert isinstance(encoder, TransformerEncoder)
    # weights kept in 16 bits would not feel small steps
    model = encoder.model.float()
    return Trainable(model, encoder.fingerprint, model)


def transformer(name: str | Path) -> SentenceTransformer:
    """Open a transformer to be trained, its weights in 32 bits; an :class:`EncoderError` for a static encoder."""
    encoder = load_encoder(name)
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("a static encoder cannot be trained by this phase", path=name, remedy=remedy)
    return encoder.model.float()


def cut_at(model: SentenceTransformer, max_tokens: int) -> None:
    """Have a model read so many tokens of a text at most; 0 leaves it as it is."""
    if max_tokens:
        model.max_seq_length = min(max_tokens, model.max_seq_length or max_tokens)
