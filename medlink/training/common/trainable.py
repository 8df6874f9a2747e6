"""An encoder of either kind as a model of sentence-transformers that can be trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.models.transformer import TransformerEncoder


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

    Raises:
        ConfigError: features are to drop out of the names that a transformer reads.
    """
    if isinstance(encoder, StaticEncoder):
        module = StaticEmbedding.of(encoder, feature_dropout)
        model = SentenceTransformer(modules=[module])
        return Trainable(model, encoder.fingerprint, lambda folder: module.encoder().save(folder))
    if feature_dropout:
        remedy = "leave it at 0; a transformer has its own dropout"
        raise ConfigError("feature_dropout is for a static encoder", remedy=remedy)
    assert isinstance(encoder, TransformerEncoder)
    # weights kept in 16 bits would not feel small steps
    model = encoder.model.float()
    return Trainable(model, encoder.fingerprint, model)


def cut_at(model: SentenceTransformer, max_tokens: int) -> None:
    """Have a model read so many tokens of a text at most; 0 leaves it as it is."""
    if max_tokens:
        model.max_seq_length = min(max_tokens, model.max_seq_length or max_tokens)
