"""The batches of CODER++ (Zeng et al. 2022, section 4.2): anchors, their positives, and the terms nearest to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.index.selfjoin import nearest
from medlink.index.vectors.library import gpu_copy, gpu_count
from medlink.training.coderpp.terms import Ids, Terms
from medlink.training.data.batches import order
from medlink.training.recipes import CoderPlusPlusRecipe

_AT_ONCE = 8192


def nearest_terms(vectors: NDArray[Any], count: int) -> NDArray[np.int32]:
    """The terms nearest to each of n terms, itself left out: ``(n, min(m, n - 1))``, nearest first, -1 for none.

    Zeng et al. 2022, section 4.2, "possibly hard negative sampling": the top m of an inner-product Faiss index over all
    terms. GPUs compare all pairs, in 16 bits. A CPU does so up to 50,000 terms and searches near cells above, as many
    as hold some .96 of the nearest or more (:func:`medlink.index.selfjoin.nearest`). ``vectors (n, d)`` are unit
    vectors, float32 or float16; they may be memory-mapped. ``count`` is m.
    """
    count = min(count, len(vectors) - 1)
    if not gpu_count():
        return nearest(vectors, count)[0].astype(np.int32)
    index = gpu_copy(lambda start, stop: vectors[start:stop], len(vectors), vectors.shape[1])
    found = np.empty((len(vectors), count), dtype=np.int32)
    for start in range(0, len(vectors), _AT_ONCE):
        rows = index.search(np.ascontiguousarray(vectors[start : start + _AT_ONCE], dtype=np.float32), count + 1)[1]
        # a stable sort moves the term itself to the end, or the last one if a twin took its place
        itself = rows == np.arange(start, start + len(rows))[:, None]
        order = np.argsort(itself, axis=1, kind="stable")
        found[start : start + _AT_ONCE] = np.take_along_axis(rows, order, axis=1)[:, :count]
    return found


class RoundSampler:
    """Batch sampler: lists of distinct terms, a pure function of seed, neighbours and number of the batch.

    A round is what is trained between two renewals of the neighbours. As every batch is composed here, in the main
    process, it does not depend on how many workers turn it into tensors. ``batches`` counts those of a round, over all
    processes.
    """

    def __init__(self, terms: Terms, recipe: CoderPlusPlusRecipe, batches: int) -> None:
        self._terms, self._recipe, self._batches = terms, recipe, batches
        self.terms = len(terms)
        self.round = 0
        self.neighbours: NDArray[np.int32] = np.zeros((len(terms), 0), np.int32)

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        first = self.round * self._batches
        return (self.compose(number).tolist() for number in range(first, first + self._batches))

    def anchors(self, number: int) -> NDArray[np.int32]:
        """Anchors of a batch: the terms in a new random order each epoch, one epoch after the other."""
        places = number * self._recipe.anchors + np.arange(self._recipe.anchors)
        epochs = places // self.terms
        orders = {epoch: order(self._recipe.seed, 0, epoch, self.terms) for epoch in np.unique(epochs).tolist()}
        return np.concatenate([order[places[epochs == epoch] % self.terms] for epoch, order in orders.items()])

    def compose(self, number: int) -> Ids:
        """Terms of a batch, ascending: its anchors, ``positives`` of each, and their nearest, each once."""
        rng = np.random.default_rng([self._recipe.seed, 1, number])
        anchors = self.anchors(number)
        positives = [self._terms.positives(int(anchor), self._recipe.positives, rng) for anchor in anchors]
        near = self.neighbours[anchors].reshape(-1)
        batch: Ids = np.unique(np.concatenate([anchors, *positives, near[near >= 0]]))
        return batch


class Collator:
    """Rows of a batch to tensors: what the model reads, from ``encode``, and as label which terms share a concept."""

    def __init__(self, terms: Terms, encode: Callable[[Ids], dict[str, Tensor]]) -> None:
        self._terms, self._encode = terms, encode
        # sentence-transformers asks a collator for this
        self.valid_label_columns = ["label"]

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """``term_*`` features of n terms, and ``label (n, n)``."""
        terms = np.array([row["term"] for row in rows], dtype=np.int64)
        features = {f"term_{key}": value for key, value in self._encode(terms).items()}
        return {**features, "label": torch.from_numpy(self._terms.same(terms))}
