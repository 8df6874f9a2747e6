"""What CODER++ needs of a model, for the two kinds of encoders that it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Ids
from medlink.training.common.cached_loss import Features, features_of
from medlink.training.common.trainable import Trainable, trainable
from medlink.training.static.bags import Bags


@dataclass(frozen=True, slots=True)
class TermModel(Trainable):
    """A model and what is done with it besides steps.

    ``encode`` turns numbers of terms into the features that the model reads, ``embed`` gives the embeddings ``(n, d)``
    of all terms as the model stands.
    """

    encode: Callable[[Ids], dict[str, Any]]
    embed: Callable[[], NDArray[np.float32]]


def term_model(start: Encoder, texts: list[str], recipe: CoderPlusPlusRecipe) -> TermModel:
    """Make an encoder ready to be trained on terms, see :func:`~medlink.training.common.trainable.trainable`."""
    part = trainable(start, recipe.feature_dropout)
    model = part.model
    if isinstance(start, StaticEncoder):
        module, bags = model[0], Bags(texts, start.config, start.forms)
        assert isinstance(module, StaticEmbedding)
        return TermModel(model, part.fingerprint, part.save, bags, lambda: bags.embedded(module))
    model.max_seq_length = min(recipe.max_tokens, model.max_seq_length or recipe.max_tokens)

    def encode(terms: Ids) -> Features:
        """Terms as tensors."""
        return features_of(model, [texts[term] for term in terms])

    return TermModel(model, part.fingerprint, part.save, encode, lambda: start.encode(texts))
