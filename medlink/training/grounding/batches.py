"""Batches of conceptual grounding: pairs of synonyms, a near name of another concept, and the names of a concept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.training.data.batches import Batch, order
from medlink.training.grounding.losses import ANCHOR, NEGATIVE, POSITIVE
from medlink.training.grounding.recipe import GroundingRecipe
from medlink.training.grounding.synonyms import Ids, Sets, digest

_LEAST = 1e-9  # cosine distance below which names count as one


def draw_negatives(rows: Ids, cosines: NDArray[np.float32], owner: Ids, rng: np.random.Generator) -> Ids:
    """A name of another concept for each of n names, near ones more often than far ones.

    Fivez et al. 2021, section 3.2, names distance-weighted sampling (Wu et al. 2017) over all training names; as in the
    authors' code the chance of a name is proportional to ``1 / (1 - cos)``, among the nearest of each. A name whose
    nearest are all of its own concept meets any name of another, each as likely.

    Args:
        rows, cosines: ``(n, k)`` nearest names of each, -1 where there are fewer.
        owner: ``(n,)`` concept of each name; there are two or more.

    >>> rows, cosines = np.array([[1, 2], [0, 2], [1, 0]]), np.zeros((3, 2), dtype=np.float32)
    >>> draw_negatives(rows, cosines, np.array([0, 0, 1]), np.random.default_rng(1))[:2].tolist()  # 0 and 1 are one
    [2, 2]
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
