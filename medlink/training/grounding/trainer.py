"""Conceptual grounding (Fivez et al. 2021) on top of any encoder.

Importing this module needs neither torch nor sentence-transformers; training does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN, load_encoder
from medlink.training.common.trainer import Trainer
from medlink.training.grounding.synonyms import SynonymSets, hash_sets, hold_out
from medlink.training.recipes import GroundingRecipe

if TYPE_CHECKING:
    from medlink.training.common.run import Run


class ConceptualGroundingTrainer(Trainer):
    """Train a network on top of a frozen encoder to embed names near their synonyms and their concept.

    The paper's encoder is the mean of word vectors; here any encoder works. Its embeddings have length 1, as in the
    authors' code, but not stated in the paper. The result has the dimension of the frozen encoder.

    Args:
        sets: names of each concept (:func:`~medlink.training.grounding.synonyms.synonym_sets`).
        start: the frozen encoder: ``"builtin"``, a model folder, or ``hf:NAME``.
        recipe: :meth:`~medlink.training.recipes.GroundingRecipe.map_only` fits only the linear map.

    Examples:
        >>> ConceptualGroundingTrainer({"A": ("kidney stone", "renal calculus"), "B": ("stroke",)}).recipe.batch_size
        64
    """

    recipe: GroundingRecipe

    def __init__(self, sets: SynonymSets, start: str | Path = BUILTIN, recipe: GroundingRecipe | None = None) -> None:
        self.sets, self.start, self.recipe = sets, start, recipe or GroundingRecipe()

    def _run(self, run: Run) -> None:
        from medlink.training.grounding.network import GroundedEncoder

        if run.evaluate is not None:
            raise ConfigError("grounding has a development measure of its own", remedy="leave evaluate out")
        recipe, encoder = self.recipe, load_encoder(self.start)
        start = encoder.fingerprint  # before the model is converted to 32 bits
        run.bind(recipe, names=hash_sets(self.sets), start=start)
        train, validation = hold_out(self.sets, np.random.default_rng(recipe.seed), recipe.validation)
        grounded = GroundedEncoder(encoder, train, validation, recipe)
        figures = grounded.train(run) if recipe.hidden else None
        method = "triplet loss and prototypical grounding above a frozen encoder" if recipe.hidden else "a linear map"
        fitted = grounded.concept_map
        run.write(
            grounded.model,
            title="Encoder with names near their concepts",
            summary=f"{method} (Fivez et al. 2021, section 3.2)",
            command="medlink train grounding" if recipe.hidden else "medlink train map",
            start=start,
            data={
                "names": sum(map(len, self.sets.values())),
                "concepts": len(self.sets),
                "SHA-256 of the names with their concepts": f"`{hash_sets(self.sets)}`",
                "names kept for validation": len(validation),
                "mean correlation of the map": fitted and f"{fitted.correlations.mean():.3f}",
            },
            recipe=recipe if recipe.hidden else None,
            figures=figures,
        )
