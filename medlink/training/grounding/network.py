"""Conceptual grounding in torch: the map as a module, the network above it, and the run that trains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Normalize
from torch import Tensor

from medlink.index.selfjoin import nearest
from medlink.models.encoders import Encoder
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

_AT_ONCE = 1024  # names through the wide layer


class _Kept(torch.nn.Module):
    """Stands in for what lies below the network and is not trained: texts have the vectors that it gave them."""

    vectors: Tensor

    def __init__(self, rows: Mapping[str, int], vectors: NDArray[np.float32]) -> None:
        super().__init__()
        self._rows = rows
        # no weights: no checkpoint holds them
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)

    def preprocess(self, inputs: Sequence[str], **_: Any) -> dict[str, Tensor]:
        """Rows of texts."""
        return {"input_ids": torch.tensor([self._rows[text] for text in inputs])}

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)``."""
        return {**features, "sentence_embedding": self.vectors[features["input_ids"]]}


class GroundedEncoder:
    """A frozen encoder, the map above it, and a network above both, trained on the vectors that these give to names.

    Args:
        encoder: what lies below.
        sets, held_out: names of each concept, and (name, concept) pairs of these by which the network is validated.

    Attributes:
        model: all of it.
        fitted: the map; ``None`` where the recipe has none.
    """

    def __init__(
        self, encoder: Encoder, sets: Sets, held_out: Sequence[tuple[str, str]], recipe: GroundingRecipe
    ) -> None:
        self._recipe, self._batches = recipe, GroundingBatches(sets, recipe)
        texts, owner = [*self._batches.texts, *(text for text, _ in held_out)], self._batches.owner
        members = dict(zip(sets, self._batches.members, strict=True))
        self._names, self._synonyms = len(owner), [members[concept] for _, concept in held_out]
        vectors = encoder.encode(texts)
        self._targets, self.fitted = concept_means(vectors[: self._names], owner), None
        d, head = vectors.shape[1], list[torch.nn.Module]()
        if recipe.cca:
            self.fitted = fit_map(vectors[: self._names], owner)
            self._targets = (self._targets - self.fitted.mean) @ self.fitted.concepts
            vectors = to_unit(((vectors - self.fitted.mean) @ self.fitted.names).astype(np.float32))
            head = [_linear(self.fitted), Normalize()]
        torch.manual_seed(recipe.seed)
        network: list[torch.nn.Module] = (
            [
                Dense(d, recipe.hidden, activation_function=torch.nn.ReLU()),
                Dropout(recipe.dropout),
                Dense(recipe.hidden, d, activation_function=torch.nn.Identity()),
                Normalize(),
            ]
            if recipe.hidden
            else []
        )
        self._kept = _Kept({text: row for row, text in enumerate(texts)}, vectors)
        self._network = SentenceTransformer(modules=[self._kept, *network])
        below = [*trainable(encoder).model, Normalize()]
        self.model = SentenceTransformer(modules=[*below, *head, *network], device=str(self._network.device))

    def train(self, run: Run) -> Figures:
        """Train the network, which ``model`` shares, to the best validation mAP, or to the last epoch without it."""

        def negatives(epoch: int) -> Ids:
            """By the network as it stood when the epoch began: a run that is resumed has them again."""
            if run.first and not (run.folder / f"neighbours-{epoch}.npy").exists():
                rows, cosines = nearest(self._encoded()[: self._names], self._recipe.neighbours)
                rng = np.random.default_rng([self._recipe.seed, 2, epoch])
                drawn = draw_negatives(rows, cosines, self._batches.owner, rng)
                checkpoint.write_neighbours(run.folder, epoch, drawn[:, None].astype(np.int32))
            run.wait()
            return checkpoint.read_neighbours(run.folder, epoch, self._names)[:, 0].astype(np.int64)

        self._batches.negatives = negatives
        run.evaluate = self._measure if self._synonyms else None
        loss = GroundingLoss(torch.from_numpy(self._targets.astype(np.float32)), self._recipe.margin)
        # in a folder of its own: negatives are not among what is cleared beside checkpoints
        return run.fit(self._network, self._batches, loss, self._recipe, "network")

    def _measure(self, model: SentenceTransformer) -> float:
        """mAP of the validation names among those trained on (Fivez et al. 2021, section 5.3)."""
        encoded = self._encoded()
        precision, _ = retrieve_synonyms(encoded[self._names :], encoded[: self._names], self._synonyms)
        return float(precision.mean())

    def _encoded(self) -> NDArray[np.float32]:
        """Encodings of all names as the network stands, those for validation last."""
        was_training = self._network.training
        self._network.eval()
        with torch.no_grad():
            rows = torch.arange(len(self._kept.vectors), device=self._kept.vectors.device)
            parts = [
                self._network({"input_ids": part})["sentence_embedding"].float().cpu()
                for part in torch.split(rows, _AT_ONCE)
            ]
        self._network.train(was_training)
        # numbers of 16 bits are not of unit length
        return to_unit(torch.cat(parts).numpy())


def _linear(fitted: ConceptMap) -> Dense:
    """The map of names as a linear layer."""
    weight = torch.from_numpy(fitted.names.T.astype(np.float32).copy())
    bias = torch.from_numpy((-fitted.mean @ fitted.names).astype(np.float32))
    d = len(weight)
    return Dense(d, d, activation_function=torch.nn.Identity(), init_weight=weight, init_bias=bias)
