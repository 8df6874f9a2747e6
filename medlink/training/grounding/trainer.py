"""Conceptual grounding (Fivez et al. 2021) above any encoder, and its linear map alone.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medlink.errors import ConfigError, needs_extra
from medlink.models.encoders import BUILTIN, Encoder, check_folder, load_encoder
from medlink.training.common.card import write_card
from medlink.training.common.trainer import Trainer
from medlink.training.grounding.cca import ConceptMap, fit_map
from medlink.training.grounding.recipe import GroundingRecipe
from medlink.training.grounding.synonyms import Sets, digest, hold_out

if TYPE_CHECKING:
    from medlink.training.common.run import Run


class ConceptualGroundingTrainer(Trainer):
    """Train a network above a frozen encoder that puts names near their synonyms and near their concept.

    The paper's encoder is the mean of word vectors; here any encoder takes its place. Its embeddings have length 1, as
    the names that the authors' code works on; the paper does not say so. The encoder is as wide as the one below.

    Args:
        sets: names of each concept (:func:`~medlink.training.grounding.synonyms.synonym_sets`).
        start: the encoder below: ``"builtin"``, a model folder, or ``hf:NAME``. It is not trained.
        recipe: how to train.

    >>> ConceptualGroundingTrainer({"A": ("kidney stone", "renal calculus"), "B": ("stroke",)}).recipe.batch_size
    64
    """

    recipe: GroundingRecipe

    def __init__(self, sets: Sets, start: str | Path = BUILTIN, recipe: GroundingRecipe | None = None) -> None:
        self.sets, self.start, self.recipe = sets, start, recipe or GroundingRecipe()

    def _run(self, run: Run) -> None:
        from medlink.training.grounding.network import train_network

        if run.evaluate is not None:
            raise ConfigError("grounding has a development measure of its own", remedy="leave evaluate out")
        for name in ("mini_batch", "max_tokens"):
            if getattr(self.recipe, name):
                raise ConfigError(f"{name} is for an encoder that is trained", remedy="leave it at 0")
        encoder = load_encoder(self.start)
        # the fingerprint is that of an encoder which nothing was done to yet
        start = encoder.fingerprint
        run.bind(self.recipe, names=digest(self.sets), start=start)
        train, validation = hold_out(self.sets, np.random.default_rng(self.recipe.seed), self.recipe.validation)
        model, figures, fitted = train_network(run, encoder, train, validation, self.recipe)
        run.write(
            model,
            title="Encoder trained by conceptual grounding",
            summary="triplet loss and prototypical grounding above a frozen encoder (Fivez et al. 2021, section 3)",
            command="medlink train grounding",
            start=start,
            data={**_facts(self.sets, fitted), "names kept for validation": len(validation)},
            recipe=self.recipe,
            figures=figures.facts(),
        )


def train_map(sets: Sets, start: str | Path, out: str | Path) -> Encoder:
    """Write a frozen encoder with the linear map of names to their concepts above it (Fivez et al. 2021, section 3.2).

    Nothing is trained: the map is :func:`~medlink.training.grounding.cca.fit_map`, in closed form.

    Args:
        sets: names of each concept (:func:`~medlink.training.grounding.synonyms.synonym_sets`).
        start: the encoder: ``"builtin"``, a model folder, or ``hf:NAME``.
        out: folder of the encoder, which appears whole.

    Raises:
        ConfigError: ``out`` is in use for something else, or the encoder embeds all concepts alike.
        EncoderError: there is no such encoder, an embedding is NaN or infinite, or the disk is full.
    """
    with needs_extra("train", "training"):
        from sentence_transformers import SentenceTransformer

        from medlink.training.common.checkpoint import new_folder
        from medlink.training.grounding.network import frozen, map_modules
    out = Path(out).resolve()
    check_folder(out)
    encoder = load_encoder(start)
    vectors = encoder.encode([text for names in sets.values() for text in names])
    fitted = fit_map(vectors, np.repeat(np.arange(len(sets)), [len(names) for names in sets.values()]))
    model = SentenceTransformer(modules=[*frozen(encoder), *map_modules(fitted)], device="cpu")
    with new_folder(out, "the encoder") as draft:
        model.save(str(draft), create_model_card=False, safe_serialization=True)
        write_card(
            draft,
            load_encoder(draft, device="cpu"),
            title="Encoder with a map of names to their concepts",
            summary="canonical correlation analysis of names and the mean of their concept's names (Fivez et al. 2021, "
            "section 3.2)",
            command="medlink train map",
            start=encoder.fingerprint,
            data=_facts(sets, fitted),
        )
    return load_encoder(out)


def _facts(sets: Sets, fitted: ConceptMap | None) -> dict[str, Any]:
    """What a card says of the names and of the map."""
    return {
        "names": sum(map(len, sets.values())),
        "concepts": len(sets),
        "SHA-256 of the names with their concepts": f"`{digest(sets)}`",
        "mean correlation of the variates": fitted and f"{fitted.correlations.mean():.3f}",
    }
