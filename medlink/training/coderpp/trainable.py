"""What CODER++ needs of a model, for the two kinds of encoders that it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Ids, Terms
from medlink.training.common.cached_loss import Features, features_of, reader
from medlink.training.common.trainable import Trainable, trainable
from medlink.training.static.bags import Bags


@dataclass(frozen=True, slots=True)
class TermModel(Trainable):
    """A model and what is done with it besides steps.

    ``encode`` turns numbers of terms into the features that the model reads, in processes of their own too, however
    these are started; ``embed`` gives the embeddings ``(n, dimension)`` of n terms as the model stands.
    """

    dimension: int
    encode: Callable[[Ids], dict[str, Any]]
    embed: Callable[[Ids], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Terms as a transformer reads them."""

    model: SentenceTransformer
    terms: Terms

    def __call__(self, terms: Ids) -> Features:
        return features_of(self.model, self.terms.texts(terms))


def term_model(start: Encoder, terms: Terms, recipe: CoderPlusPlusRecipe) -> TermModel:
    """Make an encoder ready to be trained on terms, see :func:`~medlink.training.common.trainable.trainable`.

    Raises:
        ConfigError: the recipe does not fit the kind of encoder.
    """
    part = trainable(start, recipe.feature_dropout)
    model = part.model
    if isinstance(start, StaticEncoder):
        if recipe.mini_batch:
            remedy = "leave it at 0; a static encoder embeds a whole batch"
            raise ConfigError("mini_batch is for a transformer", remedy=remedy)
        module, bags = model[0], Bags(terms.texts(np.arange(len(terms))), start.config, start.forms)
        assert isinstance(module, StaticEmbedding)
        return TermModel(
            model, part.fingerprint, part.save, start.dimension, bags, lambda some: bags.embedded(module, some)
        )
    model.max_seq_length = min(recipe.max_tokens, model.max_seq_length or recipe.max_tokens)
    tokens = _Tokens(reader(model), terms)
    return TermModel(
        model, part.fingerprint, part.save, start.dimension, tokens, lambda some: start.encode(terms.texts(some))
    )
