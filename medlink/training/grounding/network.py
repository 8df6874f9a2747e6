"""Conceptual grounding in torch: the linear map, the network above it, and what both are trained on and by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.common.fit import Figures
from medlink.training.common.run import Run, neighbours, read_neighbours, write_neighbours
from medlink.training.common.targets import to_unit
from medlink.training.common.trainable import trainable
from medlink.training.data.batches import Batch, order
from medlink.training.grounding.synonyms import Ids, Sets, digest, retrieve_synonyms
from medlink.training.recipes import GroundingRecipe

Floats = NDArray[np.float64]
_AT_ONCE = 1024  # names through the wide layer
_LEAST = 1e-9  # cosine distance below which names count as one
_RIDGE = 1e-3  # added to the variance of names in every direction, as a share of its mean: names may be few
ANCHOR, POSITIVE, NEGATIVE = -1, -2, -3
"""What a row of a batch is, if not a name that a prototype is the mean of: such a row has the number of its concept."""


class ConceptMap(NamedTuple):
    """Maps ``(x - mean) @ names`` of names and ``(u - mean) @ concepts`` of concepts, d numbers to d.

    ``mean`` is ``(d,)``, the matrices are ``(d, d)`` with a column for each variate, and ``correlations`` ``(d,)``
    descend.
    """

    mean: Floats
    names: Floats
    concepts: Floats
    correlations: Floats


def concept_means(vectors: NDArray[np.float32], owner: NDArray[np.int64]) -> Floats:
    """Mean of the names of each concept, ``(concepts, d)``: u_p of Fivez et al. 2021, equation 2.

    EncoderError: an embedding is NaN or infinite.
    """
    if not np.isfinite(vectors).all():
        raise EncoderError("an embedding of a name is NaN or infinite", remedy="start from another encoder")
    sums = np.zeros((int(owner.max()) + 1, vectors.shape[1]))
    np.add.at(sums, owner, vectors)
    return np.asarray(sums / np.bincount(owner)[:, None])


def fit_map(vectors: NDArray[np.float32], owner: NDArray[np.int64], ridge: float = _RIDGE) -> ConceptMap:
    """CCA of names ``(n, d)`` and the mean of the names of their concepts (Fivez et al. 2021, sections 3.2 and 5.3).

    The map keeps the full dimension, as the paper's does. The paper names neither the algorithm nor the scale of the
    variates. As the second variable is the mean of the first within each concept, the covariance of both is that of the
    second, and the axes are the eigenvectors of one symmetric problem: ``between a = s^2 total a``. Both variates of a
    pair, ``a x`` and ``a u / s``, have unit variance, and each is weighted here by its correlation s, so that what
    names share with their concept counts most. ``owner (n,)`` numbers the concept of each, from 0, none left out.

    Raises:
        ConfigError: there is one concept, or all are embedded alike.
        EncoderError: an embedding is NaN or infinite.
    """
    from scipy.linalg import eigh

    means = concept_means(vectors, owner)
    n, mean = len(vectors), vectors.mean(axis=0, dtype=np.float64)
    names, concepts = vectors - mean, means - mean
    total, between = names.T @ names / n, (concepts.T * np.bincount(owner)) @ concepts / n
    spread = float(np.trace(total)) / len(total)
    if float(np.trace(between)) <= 1e-12:
        remedy = "train on several concepts, from an encoder that tells them apart"
        raise ConfigError("all concepts are embedded alike", remedy=remedy)
    values, axes = eigh(between, total + ridge * spread * np.eye(len(total)))
    values, axes = values[::-1], axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(total))])
    correlations = np.sqrt(np.clip(values, 0, 1))
    return ConceptMap(mean, axes * correlations, axes, correlations)


def synonym_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Mean hinge ``max(d(n, n_pos) - d(n, n_neg) + margin, 0)`` of ``(b, d)`` rows, d the cosine distance.

    Fivez et al. 2021, equation 3, for each triplet. (The authors' code has the hinge of the mean distances of a batch.)
    """
    return (cosine_similarity(anchors, negatives) - cosine_similarity(anchors, positives) + margin).clamp(min=0).mean()


def prototype_loss(members: Tensor, owner: Tensor, targets: Tensor) -> Tensor:
    """Mean cosine distance of prototypes, each the mean of encoded names, to their concepts (equation 4).

    ``members (m, d)`` are encoded names, ``owner (m,)`` the row of the prototype of each, none left out; ``targets (b,
    d)`` are CCA(u_p) of the concept of each prototype.
    """
    # a sum points where the mean does
    sums = torch.zeros_like(targets).index_add(0, owner, members)
    return (1 - cosine_similarity(sums, targets)).mean()


class GroundingLoss(torch.nn.Module):
    """Plain sum of :func:`synonym_loss` and :func:`prototype_loss` (equation 5).

    Inputs: a column of n names; labels ``(n,)``, what each row is. ``targets`` are ``(concepts, d)``. Each concept of a
    batch has one prototype. (In the authors' code each anchor has one of its own.)
    """

    targets: Tensor

    def __init__(self, targets: Tensor, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.register_buffer("targets", targets, persistent=False)  # made anew when a run is resumed

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the ``(n, d)`` embeddings of the one column."""
        (rows,) = embeddings
        anchors, positives, negatives = (rows[labels == one] for one in (ANCHOR, POSITIVE, NEGATIVE))
        concepts, owner = torch.unique(labels[labels >= 0], return_inverse=True)
        grounded = prototype_loss(rows[labels >= 0], owner, self.targets.to(rows)[concepts])
        return synonym_loss(anchors, positives, negatives, self.margin) + grounded


def draw_negatives(rows: Ids, cosines: NDArray[np.float32], owner: Ids, rng: np.random.Generator) -> Ids:
    """A name of another concept for each of n names, near ones more often than far ones.

    Fivez et al. 2021, section 3.2, names distance-weighted sampling (Wu et al. 2017) over all training names; as in the
    authors' code the chance of a name is proportional to ``1 / (1 - cos)``, among the nearest of each. A name whose
    nearest are all of its own concept meets any name of another, each as likely. ``rows`` and ``cosines (n, k)`` are
    the nearest names of each, -1 where there are fewer, ``owner (n,)`` the concept of each name; there are two or more.
    """
    other = (rows >= 0) & (owner[rows] != owner[:, None])
    sums = np.where(other, 1 / np.clip(1 - cosines.astype(np.float64), _LEAST, None), 0).cumsum(axis=1)
    place = (sums <= rng.random((len(rows), 1)) * sums[:, -1:]).sum(axis=1)
    drawn: Ids = rows[np.arange(len(rows)), np.minimum(place, rows.shape[1] - 1)]
    for row in np.flatnonzero(~other.any(axis=1)):
        drawn[row] = rng.choice(np.flatnonzero(owner != owner[row]))
    return drawn


class GroundingBatches:
    """Batches of synonym pairs; an epoch has each pair of names of one concept at most once, either as the anchor.

    A batch is one column of names: its anchors, positives and negatives, then the names of each of their concepts that
    did not drop out (Fivez et al. 2021, sections 3.2 and 5.3; as many as the rate leaves, rounded up). The labels are
    those of :class:`~medlink.training.grounding.losses.GroundingLoss`.

    Attributes:
        texts: all names, those of one concept one after the other.
        owner, members: ``(n,)`` number of the concept of each, and the rows of each concept.
        negatives: gives the ``(n,)`` rows of the negatives of all names in an epoch; to be set.

    Raises:
        ConfigError: no concept has two names.
    """

    negatives: Callable[[int], Ids]

    def __init__(self, sets: Sets, recipe: GroundingRecipe) -> None:
        self._recipe, self.digest = recipe, digest(sets)
        self.texts = [text for names in sets.values() for text in names]
        self.owner: Ids = np.repeat(np.arange(len(sets)), [len(names) for names in sets.values()])
        self.members = np.split(np.arange(len(self.texts)), np.flatnonzero(np.diff(self.owner)) + 1)
        found = [rows[np.stack(np.triu_indices(len(rows), 1), axis=1)] for rows in self.members]
        self.pairs = np.concatenate(found).astype(np.int32)
        if not len(self.pairs):
            remedy = "train on more synonyms, or with a smaller share for validation"
            raise ConfigError("no concept has two names to train on", remedy=remedy)

    def batches_per_epoch(self) -> int:
        """How many there are; the last may be smaller."""
        return math.ceil(min(len(self.pairs), self._recipe.pairs or len(self.pairs)) / self._recipe.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one on; those before are not made."""
        negatives, size, seed = self.negatives(epoch), self._recipe.batch_size, self._recipe.seed
        places = order(seed, 0, epoch, len(self.pairs))
        for number in range(start, self.batches_per_epoch()):
            pairs = self.pairs[places[number * size : (number + 1) * size]]
            yield self._batch(pairs, negatives, np.random.default_rng([seed, 1, epoch, number]))

    def _batch(self, pairs: NDArray[np.int32], negatives: Ids, rng: np.random.Generator) -> Batch:
        anchors, positives = rng.permuted(pairs, axis=1).T
        rate = 1 - self._recipe.synonym_dropout
        of_concept = [self.members[concept] for concept in np.unique(self.owner[anchors]).tolist()]
        members = [rng.choice(rows, math.ceil(len(rows) * rate), replace=False, shuffle=False) for rows in of_concept]
        kept = np.concatenate(members)
        rows = np.concatenate([anchors, positives, negatives[anchors], kept])
        labels = np.concatenate([np.repeat([ANCHOR, POSITIVE, NEGATIVE], len(pairs)), self.owner[kept]])
        return Batch(([self.texts[row] for row in rows],), labels)


class KnownVectors(Module):
    """Stands in for what lies below the network and is not trained: texts have the vectors that it gave them."""

    vectors: Tensor

    def __init__(self, rows: Mapping[str, int], vectors: NDArray[np.float32]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's Module is untyped
        self._rows = rows
        # no weights: no checkpoint holds them
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)

    def preprocess(self, inputs: list[Any], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Rows of texts."""
        return {"input_ids": torch.tensor([self._rows[text] for text in inputs])}

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)``."""
        return {**features, "sentence_embedding": self.vectors[features["input_ids"]]}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write nothing: the vectors are made anew when a run is resumed."""

    @classmethod
    def load(cls, *_: Any, **__: Any) -> KnownVectors:
        """A module without vectors, of which a checkpoint only has the weights above."""
        return cls({}, np.zeros((0, 1), dtype=np.float32))


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
        self._kept = KnownVectors({text: row for row, text in enumerate(texts)}, vectors)
        self._network = SentenceTransformer(modules=[self._kept, *network])
        read = [StaticEmbedding.of(encoder)] if isinstance(encoder, StaticEncoder) else trainable(encoder).model
        below = [*read, Normalize()]
        self.model = SentenceTransformer(modules=[*below, *head, *network], device=str(self._network.device))

    def train(self, run: Run) -> Figures:
        """Train the network, which ``model`` shares, to the best validation mAP, or to the last epoch without it."""

        def negatives(epoch: int) -> Ids:
            """By the network as it stood when the epoch began: a run that is resumed has them again."""
            if run.first and not neighbours(run.folder, epoch).exists():
                rows, cosines = nearest(self._encoded()[: self._names], self._recipe.neighbours)
                rng = np.random.default_rng([self._recipe.seed, 2, epoch])
                drawn = draw_negatives(rows, cosines, self._batches.owner, rng)
                write_neighbours(run.folder, epoch, drawn[:, None].astype(np.int32))
            run.wait()
            return read_neighbours(run.folder, epoch, self._names)[:, 0].astype(np.int64)

        self._batches.negatives = negatives
        run.evaluate = self._measure if self._synonyms else None
        loss = GroundingLoss(torch.from_numpy(self._targets.astype(np.float32)), self._recipe.margin)
        # in a folder of its own: negatives are not among what is cleared beside checkpoints
        return run.fit(self._network, self._batches, loss, self._recipe, "network")

    def _measure(self, model: SentenceTransformer) -> float:
        encoded = self._encoded()
        precision, _ = retrieve_synonyms(encoded[self._names :], encoded[: self._names], self._synonyms)
        return float(precision.mean())

    def _encoded(self) -> NDArray[np.float32]:
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
    weight = torch.from_numpy(fitted.names.T.astype(np.float32).copy())
    bias = torch.from_numpy((-fitted.mean @ fitted.names).astype(np.float32))
    d = len(weight)
    return Dense(d, d, activation_function=torch.nn.Identity(), init_weight=weight, init_bias=bias)
