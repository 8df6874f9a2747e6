"""Conceptual grounding (Fivez et al. 2021): a linear map and a network above any encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Module, Normalize
from torch import Tensor
from torch.nn.functional import cosine_similarity

from medlink.errors import ConfigError, EncoderError
from medlink.index.knn_graph import nearest
from medlink.models.encoders import BUILTIN, Encoder, load_encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.common.run import Run, neighbours_path, read_neighbours, write_neighbours
from medlink.training.common.targets import to_unit
from medlink.training.common.trainable import make_trainable
from medlink.training.common.trainer import Trainer
from medlink.training.data.batches import Batch, cycle_order
from medlink.training.grounding.synonyms import Ids, SynonymSets, hash_sets, hold_out, retrieve_synonyms
from medlink.training.recipes import GroundingRecipe

Floats = NDArray[np.float64]
_NAMES = 1024  # encoded at a time by the wide layer
_MIN_DISTANCE = 1e-9  # least cosine distance of names
_RIDGE = 1e-3  # added to the variance in every direction, as a share of its mean: there may be few names
ANCHOR, POSITIVE, NEGATIVE = -1, -2, -3
"""Labels of the rows of a batch; the label of a name that contributes to a prototype is the number of its concept."""


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
                "validation names": len(validation),
                "mean correlation of the map": fitted and f"{fitted.correlations.mean():.3f}",
            },
            recipe=recipe if recipe.hidden else None,
            figures=figures,
        )


class ConceptMap(NamedTuple):
    """Linear maps ``(x - mean) @ names`` of names and ``(u - mean) @ concepts`` of concepts, from d to d dimensions.

    ``mean`` is ``(d,)``, the matrices are ``(d, d)`` with a column for each variate; ``correlations`` ``(d,)`` descend.
    """

    mean: Floats
    names: Floats
    concepts: Floats
    correlations: Floats


def concept_means(vectors: NDArray[np.float32], owner: NDArray[np.int64]) -> Floats:
    """Compute the mean of the names of each concept, ``(concepts, d)``: u_p of Fivez et al. 2021, equation 2.

    Raises EncoderError if an embedding is NaN or infinite.
    """
    if not np.isfinite(vectors).all():
        raise EncoderError("an embedding of a name is NaN or infinite", remedy="start from another encoder")
    sums = np.zeros((int(owner.max()) + 1, vectors.shape[1]))
    np.add.at(sums, owner, vectors)
    return np.asarray(sums / np.bincount(owner)[:, None])


def fit_map(vectors: NDArray[np.float32], owner: NDArray[np.int64], ridge: float = _RIDGE) -> ConceptMap:
    """Fit the CCA of names ``(n, d)`` and the means of their concepts (Fivez et al. 2021, sections 3.2 and 5.3).

    As in the paper, the map has the full dimension. The paper states neither the algorithm nor the scale of the
    variates. The second variable is the mean of the first within each concept. Their covariance is therefore the
    variance of the second, and the axes are the eigenvectors of one symmetric problem: ``between a = s^2 total a``.
    Both variates of a pair, ``a x`` and ``a u / s``, have unit variance. Here each is weighted by its correlation s, so
    that directions that names share with their concept count most. ``owner (n,)`` is the concept of each name, numbered
    from 0 without gaps. Raises ConfigError if all concepts are embedded alike, and EncoderError for NaN.
    """
    from scipy.linalg import eigh

    means = concept_means(vectors, owner)
    n, mean = len(vectors), vectors.mean(axis=0, dtype=np.float64)
    names, concepts = vectors - mean, means - mean
    total, between = names.T @ names / n, (concepts.T * np.bincount(owner)) @ concepts / n
    spread = float(np.trace(total)) / len(total)
    if float(np.trace(between)) <= 1e-12:
        remedy = "train on several concepts, from an encoder that distinguishes them"
        raise ConfigError("all concepts are embedded alike", remedy=remedy)
    values, axes = eigh(between, total + ridge * spread * np.eye(len(total)))
    values, axes = values[::-1], axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(total))])
    correlations = np.sqrt(np.clip(values, 0, 1))
    return ConceptMap(mean, axes * correlations, axes, correlations)


def synonym_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Compute the mean hinge ``max(d(n, n_pos) - d(n, n_neg) + margin, 0)`` of ``(b, d)`` rows by cosine distance d.

    Fivez et al. 2021, equation 3, for each triplet. (The authors' code takes the hinge of the mean distances of a
    batch.)
    """
    return (cosine_similarity(anchors, negatives) - cosine_similarity(anchors, positives) + margin).clamp(min=0).mean()


def prototype_loss(members: Tensor, owner: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean cosine distance of prototypes, each the mean of encoded names, to their concepts (equation 4).

    ``owner (m,)`` is the row of the prototype of each encoded name in ``members (m, d)``, without gaps. ``targets (b,
    d)`` are CCA(u_p) of the concept of each prototype.
    """
    # the sum has the direction of the mean
    sums = torch.zeros_like(targets).index_add(0, owner, members)
    return (1 - cosine_similarity(sums, targets)).mean()


class GroundingLoss(torch.nn.Module):
    """Unweighted sum of :func:`synonym_loss` and :func:`prototype_loss` (equation 5).

    Inputs: a column of n names; labels ``(n,)``, see :data:`ANCHOR`. ``targets`` are ``(concepts, d)``. Each concept of
    a batch has one prototype. (In the authors' code each anchor has its own prototype.)
    """

    targets: Tensor

    def __init__(self, targets: Tensor, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.register_buffer("targets", targets, persistent=False)  # a resumed run computes them again

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the loss of the ``(n, d)`` embeddings of the only column."""
        (rows,) = embeddings
        anchors, positives, negatives = (rows[labels == kind] for kind in (ANCHOR, POSITIVE, NEGATIVE))
        concepts, owner = torch.unique(labels[labels >= 0], return_inverse=True)
        grounding = prototype_loss(rows[labels >= 0], owner, self.targets.to(rows)[concepts])
        return synonym_loss(anchors, positives, negatives, self.margin) + grounding


def draw_negatives(rows: Ids, cosines: NDArray[np.float32], owner: Ids, rng: np.random.Generator) -> Ids:
    """Draw a name of another concept for each of n names, with a preference for near names.

    Fivez et al. 2021, section 3.2, names distance-weighted sampling (Wu et al. 2017) over all training names. As in the
    authors' code, the probability of a name is proportional to ``1 / (1 - cos)``, among the nearest names ``rows`` and
    ``cosines (n, k)``, -1 for none. If all of these have the same concept, the negative is a uniform draw from all
    other concepts. ``owner (n,)`` is the concept of each name.
    """
    is_other = (rows >= 0) & (owner[rows] != owner[:, None])
    sums = np.where(is_other, 1 / np.clip(1 - cosines.astype(np.float64), _MIN_DISTANCE, None), 0).cumsum(axis=1)
    column = (sums <= rng.random((len(rows), 1)) * sums[:, -1:]).sum(axis=1)
    drawn: Ids = rows[np.arange(len(rows)), np.minimum(column, rows.shape[1] - 1)]
    for row in np.flatnonzero(~is_other.any(axis=1)):
        drawn[row] = rng.choice(np.flatnonzero(owner != owner[row]))
    return drawn


class GroundingBatches:
    """Batches of synonym pairs; an epoch has each pair of names of one concept at most once, in either order.

    A batch is one column of names: its anchors, positives and negatives, then the names of their concepts after synonym
    dropout (Fivez et al. 2021, sections 3.2 and 5.3; their number is rounded up). The labels are those of
    :class:`GroundingLoss`. Raises ConfigError if no concept has two names.

    Attributes:
        names: all names, by concept.
        owner, members: ``(n,)`` number of the concept of each name, and the rows of each concept.
        negatives: function from an epoch to the rows ``(n,)`` of the negatives of all names; the user sets it.
    """

    negatives: Callable[[int], Ids]
    texts = None

    def __init__(self, sets: SynonymSets, recipe: GroundingRecipe) -> None:
        self._recipe, self.digest = recipe, hash_sets(sets)
        self.names = [text for names in sets.values() for text in names]
        self.owner: Ids = np.repeat(np.arange(len(sets)), [len(names) for names in sets.values()])
        self.members = np.split(np.arange(len(self.names)), np.flatnonzero(np.diff(self.owner)) + 1)
        pairs = [rows[np.stack(np.triu_indices(len(rows), 1), axis=1)] for rows in self.members]
        self.pairs = np.concatenate(pairs).astype(np.int32)
        if not len(self.pairs):
            remedy = "train on more synonyms, or with a smaller share for validation"
            raise ConfigError("no concept has two names to train on", remedy=remedy)

    def batches_per_epoch(self) -> int:
        """Return the number of batches; the last may be smaller."""
        return math.ceil(min(len(self.pairs), self._recipe.pairs or len(self.pairs)) / self._recipe.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number ``start`` on, without making earlier batches."""
        negatives, size, seed = self.negatives(epoch), self._recipe.batch_size, self._recipe.seed
        order = cycle_order(seed, 0, epoch, len(self.pairs))
        for number in range(start, self.batches_per_epoch()):
            pairs = self.pairs[order[number * size : (number + 1) * size]]
            yield self._batch(pairs, negatives, np.random.default_rng([seed, 1, epoch, number]))

    def _batch(self, pairs: NDArray[np.int32], negatives: Ids, rng: np.random.Generator) -> Batch:
        anchors, positives = rng.permuted(pairs, axis=1).T
        rate = 1 - self._recipe.synonym_dropout
        of_concepts = [self.members[concept] for concept in np.unique(self.owner[anchors]).tolist()]
        members = np.concatenate(
            [rng.choice(rows, math.ceil(len(rows) * rate), replace=False, shuffle=False) for rows in of_concepts]
        )
        rows = np.concatenate([anchors, positives, negatives[anchors], members])
        labels = np.concatenate([np.repeat([ANCHOR, POSITIVE, NEGATIVE], len(pairs)), self.owner[members]])
        return Batch((rows,), labels)


class KnownVectors(Module):
    """Precomputed vectors, in place of the frozen modules below the network; inputs are the numbers of vectors."""

    vectors: Tensor

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's Module is untyped
        # not part of checkpoints
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)``."""
        return {**features, "sentence_embedding": self.vectors[features["input_ids"]]}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write nothing: a resumed run computes the vectors again."""

    @classmethod
    def load(cls, *_: Any, **__: Any) -> KnownVectors:
        """Return a module without vectors, because a checkpoint has only the weights of the network on top."""
        return cls(np.zeros((0, 1), dtype=np.float32))


class GroundedEncoder:
    """A frozen encoder, the linear map on top of it, and a network on top of both.

    Args:
        sets, held_out: names of each concept to train on, and (name, concept) pairs for validation.

    Attributes:
        model: encoder, map and network together.
        concept_map: the linear map; ``None`` if the recipe has none.
    """

    def __init__(
        self, encoder: Encoder, sets: SynonymSets, held_out: Sequence[tuple[str, str]], recipe: GroundingRecipe
    ) -> None:
        self._recipe, self._batches = recipe, GroundingBatches(sets, recipe)
        texts, owner = [*self._batches.names, *(text for text, _ in held_out)], self._batches.owner
        members = dict(zip(sets, self._batches.members, strict=True))
        self._names, self._synonyms = len(owner), [members[concept] for _, concept in held_out]
        vectors = encoder.encode(texts)
        self._targets = concept_means(vectors[: self._names], owner)
        self.concept_map: ConceptMap | None = None
        d, linear, network = vectors.shape[1], list[torch.nn.Module](), list[torch.nn.Module]()
        if recipe.cca:
            self.concept_map = fitted = fit_map(vectors[: self._names], owner)
            self._targets = (self._targets - fitted.mean) @ fitted.concepts
            vectors = to_unit(((vectors - fitted.mean) @ fitted.names).astype(np.float32))
            weight = torch.from_numpy(fitted.names.T.astype(np.float32).copy())
            bias = torch.from_numpy((-fitted.mean @ fitted.names).astype(np.float32))
            dense = Dense(d, d, activation_function=torch.nn.Identity(), init_weight=weight, init_bias=bias)
            linear = [dense, Normalize()]
        torch.manual_seed(recipe.seed)
        if recipe.hidden:
            network = [
                Dense(d, recipe.hidden, activation_function=torch.nn.ReLU()),
                Dropout(recipe.dropout),
                Dense(recipe.hidden, d, activation_function=torch.nn.Identity()),
                Normalize(),
            ]
        self._inputs = KnownVectors(vectors)
        self._network = SentenceTransformer(modules=[self._inputs, *network])
        frozen = [StaticEmbedding.of(encoder)] if isinstance(encoder, StaticEncoder) else make_trainable(encoder).model
        modules = [*frozen, Normalize(), *linear, *network]
        self.model = SentenceTransformer(modules=modules, device=str(self._network.device))

    def train(self, run: Run) -> dict[str, Any]:
        """Train the network, which ``model`` shares, to the best validation mAP; without validation, to the end."""

        def negatives(epoch: int) -> Ids:
            """Negatives by the network at the start of the epoch, stored for a resumed run."""
            if run.is_main and not neighbours_path(run.folder, epoch).exists():
                rows, cosines = nearest(self._encoded()[: self._names], self._recipe.neighbours)
                rng = np.random.default_rng([self._recipe.seed, 2, epoch])
                drawn = draw_negatives(rows, cosines, self._batches.owner, rng)
                write_neighbours(run.folder, epoch, drawn[:, None].astype(np.int32))
            run.wait()
            return read_neighbours(run.folder, epoch, self._names)[:, 0].astype(np.int64)

        self._batches.negatives = negatives
        run.evaluate = self._measure if self._synonyms else None
        loss = GroundingLoss(torch.from_numpy(self._targets.astype(np.float32)), self._recipe.margin)
        # checkpoints have their own folder: beside them negatives would be deleted
        return run.fit(self._network, self._batches, loss, self._recipe, "network")

    def _measure(self, model: SentenceTransformer) -> float:
        encoded = self._encoded()
        precision, _ = retrieve_synonyms(encoded[self._names :], encoded[: self._names], self._synonyms)
        return float(precision.mean())

    def _encoded(self) -> NDArray[np.float32]:
        was_training = self._network.training
        self._network.eval()
        with torch.no_grad():
            rows = torch.arange(len(self._inputs.vectors), device=self._inputs.vectors.device)
            parts = [
                self._network({"input_ids": part})["sentence_embedding"].float().cpu()
                for part in torch.split(rows, _NAMES)
            ]
        self._network.train(was_training)
        # rounding to 16 bits changes the length
        return to_unit(torch.cat(parts).numpy())
