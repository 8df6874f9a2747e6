"""Conceptual grounding in torch: the map as a module, the network above it, and the run that trains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Normalize
from torch import Tensor

from medlink.index.selfjoin import nearest
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.training.common import checkpoint
from medlink.training.common.batch_trainer import Figures
from medlink.training.common.run import Run
from medlink.training.common.targets import to_unit
from medlink.training.common.trainable import trainable
from medlink.training.grounding.batches import GroundingBatches, draw_negatives
from medlink.training.grounding.cca import ConceptMap, concept_means, fit_map
from medlink.training.grounding.losses import GroundingLoss
from medlink.training.grounding.recipe import GroundingRecipe
from medlink.training.grounding.synonyms import Ids, Sets, retrieve_synonyms

Validation = list[tuple[str, int]]
"""Names kept for validation, with the number of the concept of each."""
_AT_ONCE = 1024  # names through the wide layer


def frozen(encoder: Encoder) -> list[torch.nn.Module]:
    """The modules of an encoder, with unit vectors at the end."""
    modules = list(trainable(encoder).model)
    is_unit = isinstance(encoder, StaticEncoder) or isinstance(modules[-1], Normalize)
    return modules if is_unit else [*modules, Normalize()]


def map_modules(fitted: ConceptMap) -> list[torch.nn.Module]:
    """The map of names as modules: one linear layer, and unit length."""
    weight = torch.from_numpy(fitted.names.T.astype(np.float32).copy())
    bias = torch.from_numpy((-fitted.mean @ fitted.names).astype(np.float32))
    d = len(weight)
    return [Dense(d, d, activation_function=torch.nn.Identity(), init_weight=weight, init_bias=bias), Normalize()]


class _Kept(torch.nn.Module):
    """Stands in for what lies below the network, which is not trained: gives texts the vectors it gave them."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        super().__init__()
        self._row = {text: row for row, text in enumerate(texts)}
        self.vectors: Tensor
        # no weights: no checkpoint holds them
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)

    def preprocess(self, inputs: Sequence[str], **_: Any) -> dict[str, Tensor]:
        """Rows of texts."""
        return {"input_ids": torch.tensor([self._row[text] for text in inputs])}

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)``."""
        return {**features, "sentence_embedding": self.vectors[features["input_ids"]]}


class _Network:
    """The network above a frozen encoder, and what is asked of it in training: negatives, and how it validates."""

    def __init__(
        self,
        run: Run,
        batches: GroundingBatches,
        vectors: NDArray[np.float32],
        validation: Validation,
        recipe: GroundingRecipe,
    ) -> None:
        self._run, self._recipe, self._owner = run, recipe, batches.owner
        self._names, self._synonyms = len(batches.texts), [np.flatnonzero(batches.owner == c) for _, c in validation]
        d = vectors.shape[1]
        torch.manual_seed(recipe.seed)
        self.modules = [
            Dense(d, recipe.hidden, activation_function=torch.nn.ReLU()),
            Dropout(recipe.dropout),
            Dense(recipe.hidden, d, activation_function=torch.nn.Identity()),
            Normalize(),
        ]
        self._kept = _Kept([*batches.texts, *(text for text, _ in validation)], vectors)
        self.model = SentenceTransformer(modules=[self._kept, *self.modules])

    def _encoded(self) -> NDArray[np.float32]:
        """Encodings of all names as the network stands, those for validation last."""
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            rows = torch.arange(len(self._kept.vectors), device=self._kept.vectors.device).split(_AT_ONCE)  # type: ignore[no-untyped-call]  # torch's
            parts = [self.model({"input_ids": part})["sentence_embedding"].float().cpu() for part in rows]
        self.model.train(was_training)
        # numbers of 16 bits are not of unit length
        return to_unit(torch.cat(parts).numpy())

    def negatives(self, epoch: int) -> Ids:
        """Those of an epoch, by the network as it stood when the epoch began: a run that is resumed has them again."""
        folder = self._run.folder
        if self._run.first and not (folder / f"neighbours-{epoch}.npy").exists():
            rows, cosines = nearest(self._encoded()[: self._names], self._recipe.neighbours)
            rng = np.random.default_rng([self._recipe.seed, 2, epoch])
            drawn = draw_negatives(rows, cosines, self._owner, rng)
            checkpoint.write_neighbours(folder, epoch, drawn[:, None].astype(np.int32))
        self._run.wait()
        return checkpoint.read_neighbours(folder, epoch, self._names)[:, 0].astype(np.int64)

    def measure(self, model: SentenceTransformer) -> float:
        """mAP of the validation names among the names that are trained on (section 5.3)."""
        encoded = self._encoded()
        precision, _ = retrieve_synonyms(encoded[self._names :], encoded[: self._names], self._synonyms)
        return float(precision.mean())


def train_network(
    run: Run, encoder: Encoder, sets: Sets, held_out: list[tuple[str, str]], recipe: GroundingRecipe
) -> tuple[SentenceTransformer, Figures, ConceptMap | None]:
    """Train the network on the vectors that a frozen encoder, and the map above it, give to names.

    Args:
        sets, held_out: names of each concept, and (name, concept) pairs of these whose mAP ends the run.

    Returns:
        The encoder with all that is above it, what came of the run, and the map, if the recipe has one.
    """
    batches = GroundingBatches(sets, recipe)
    number = {concept: row for row, concept in enumerate(sets)}
    validation = [(text, number[concept]) for text, concept in held_out]
    vectors = encoder.encode([*batches.texts, *(text for text, _ in validation)])
    names = vectors[: len(batches.texts)]
    concepts, fitted = concept_means(names, batches.owner), None
    if recipe.cca:
        fitted = fit_map(names, batches.owner)
        concepts = (concepts - fitted.mean) @ fitted.concepts
        vectors = to_unit(((vectors - fitted.mean) @ fitted.names).astype(np.float32))
    network = _Network(run, batches, vectors, validation, recipe)
    batches.negatives = network.negatives
    run.evaluate = network.measure if validation else None
    loss = GroundingLoss(torch.from_numpy(concepts.astype(np.float32)), recipe.margin)
    # in a folder of its own: what the run clears beside its checkpoints are not the negatives
    figures = run.fit(network.model, batches, loss, recipe, "network")
    modules = [*frozen(encoder), *(map_modules(fitted) if fitted else []), *network.modules]
    return SentenceTransformer(modules=modules, device=str(network.model.device)), figures, fitted
