"""What CODER++ needs of a model, for the two kinds of encoders that it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.models.transformer import TransformerEncoder
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Ids
from medlink.training.common.cached_loss import Features, features_of
from medlink.training.static.bags import Bags


@dataclass(frozen=True, slots=True)
class Trainable:
    """A model and what is done with it besides steps.

    ``encode`` turns numbers of terms into the features that the model reads, ``embed`` gives the embeddings ``(n, d)``
    of all terms as the model stands, ``save`` is what :meth:`~medlink.training.common.run.Run.write` takes.
    """

    model: SentenceTransformer
    encode: Callable[[Ids], dict[str, Any]]
    embed: Callable[[], NDArray[np.float32]]
    save: SentenceTransformer | Callable[[Path], Any]


def trainable(start: Encoder, texts: list[str], recipe: CoderPlusPlusRecipe) -> Trainable:
    """Make an encoder ready to be trained on terms: a static one is copied, a transformer is trained itself."""
    if isinstance(start, StaticEncoder):
        module, bags = StaticEmbedding.of(start, recipe.feature_dropout), Bags(texts, start.config)
        model = SentenceTransformer(modules=[module])
        return Trainable(model, bags, lambda: bags.embedded(module), lambda folder: module.encoder().save(folder))
    assert isinstance(start, TransformerEncoder)
    # weights kept in 16 bits would not feel small steps
    model = start.model.float()
    model.max_seq_length = min(recipe.max_tokens, model.max_seq_length or recipe.max_tokens)

    def encode(terms: Ids) -> Features:
        """Terms as tensors."""
        return features_of(model, [texts[term] for term in terms])

    return Trainable(model, encode, lambda: start.encode(texts), model)
