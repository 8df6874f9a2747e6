"""Which texts of a batch are no negatives, and the batches of pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medlink.training.biolord.contrastive import PairBatches, no_negatives
from medlink.training.data.pairs import Pair


def test_what_is_no_negative() -> None:
    pairs = [
        Pair("A", "kidney stone", "a stone", "definition"),
        Pair("A", "renal calculus", "what hurts", "description"),
        Pair("B", "Kidney-Stone", "what aches", "description"),
        Pair("C", "ulcer", "A Stone", "definition"),
        Pair("D", "fever", "renal calculus", "name"),
        Pair("E", "A", "B", "description"),
    ]
    expected = [
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],  # the text of the fifth is its name
        [1, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],  # ids are no texts
    ]
    assert no_negatives(pairs).astype(int).tolist() == expected
    assert no_negatives([]).shape == (0, 0)


class Source:
    """Ten pairs an epoch."""

    digest = "ten"
    pairs_per_epoch = 10

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        for first in range(start * size, 10, size):
            yield [Pair(f"C{i}", f"name {i}", f"text {i} {epoch}", "name") for i in range(first, min(10, first + size))]


def test_batches() -> None:
    batches = PairBatches(Source(), 4)
    assert batches.batches_per_epoch() == 2
    first, second = batches.epoch(1)
    assert first.columns == ([f"name {i}" for i in range(4)], [f"text {i} 1" for i in range(4)])
    assert second.columns[0] == [f"name {i}" for i in range(4, 8)]
    np.testing.assert_array_equal(first.labels, np.eye(4, dtype=bool))
    (again,) = batches.epoch(1, 1)
    assert again.columns == second.columns
    assert PairBatches(Source(), 5).digest != batches.digest == PairBatches(Source(), 4).digest
    # fewer pairs than a batch has rows are one batch
    assert PairBatches(Source(), 16).batches_per_epoch() == 1
    assert [len(batch.columns[0]) for batch in PairBatches(Source(), 16).epoch(0)] == [10]
