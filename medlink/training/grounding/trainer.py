"""Conceptual grounding (Fivez et al. 2021) above any encoder.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN, load_encoder
from medlink.training.common.trainer import Trainer
from medlink.training.grounding.synonyms import Sets, digest, hold_out
from medlink.training.recipes import GroundingRecipe

if TYPE_CHECKING:
    from medlink.training.common.run import Run


class ConceptualGroundingTrainer(Trainer):
    """Train a network above a frozen encoder that puts names near their synonyms and near their concept.

    The paper's encoder is the mean of word vectors; here any encoder takes its place. Its embeddings have length 1, as
    the names that the authors' code works on; the paper does not say so. The encoder is as wide as the one below.

    Args:
        sets: names of each concept (:func:`~medlink.training.grounding.synonyms.synonym_sets`).
        start: the encoder below: ``"builtin"``, a model folder, or ``hf:NAME``. It is not trained.
        recipe: how to train; :meth:`~medlink.training.recipes.GroundingRecipe.map_alone` trains nothing.

    Examples:
        >>> ConceptualGroundingTrainer({"A": ("kidney stone", "renal calculus"), "B": ("stroke",)}).recipe.batch_size
        64
    """

    recipe: GroundingRecipe

    def __init__(self, sets: Sets, start: str | Path = BUILTIN, recipe: GroundingRecipe | None = None) -> None:
        self.sets, self.start, self.recipe = sets, start, recipe or GroundingRecipe()

    def _run(self, run: Run) -> None:
        from medlink.training.grounding.network import GroundedEncoder

        if run.evaluate is not None:
            raise ConfigError("grounding has a development measure of its own", remedy="leave evaluate out")
        recipe, encoder = self.recipe, load_encoder(self.start)
        # of the encoder as it was opened
        start = encoder.fingerprint
        run.bind(recipe, names=digest(self.sets), start=start)
        train, validation = hold_out(self.sets, np.random.default_rng(recipe.seed), recipe.validation)
        grounded = GroundedEncoder(encoder, train, validation, recipe)
        figures = grounded.train(run).facts() if recipe.hidden else None
        way = "triplet loss and prototypical grounding above a frozen encoder" if recipe.hidden else "a linear map"
        run.write(
            grounded.model,
            title="Encoder with names near their concepts",
            summary=f"{way} (Fivez et al. 2021, section 3.2)",
            command="medlink train grounding" if recipe.hidden else "medlink train map",
            start=start,
            data={
                "names": sum(map(len, self.sets.values())),
                "concepts": len(self.sets),
                "SHA-256 of the names with their concepts": f"`{digest(self.sets)}`",
                "names kept for validation": len(validation),
                "mean correlation of the map": grounded.fitted and f"{grounded.fitted.correlations.mean():.3f}",
            },
            recipe=recipe if recipe.hidden else None,
            figures=figures,
        )
