"""Batches of pairs, of the contrastive and of the STS phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.training.biolord.contrastive import PairBatches, no_negatives
from medlink.training.biolord.sts import StsBatches
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


@dataclass(frozen=True)
class Row:
    one: str
    other: str
    rating: float


TABLES = {
    "five": [Row(f"a{i}", f"b{i}", float(i)) for i in range(6)],
    "two": [Row(f"c{i}", f"d{i}", 2.0 * i - 1) for i in range(3)],
}


def test_each_row_comes_once_and_with_its_table() -> None:
    batches = StsBatches(TABLES, 4, seed=1)
    assert batches.batches_per_epoch() == 3
    for epoch in range(3):
        seen = {}
        for batch in batches.epoch(epoch):
            assert len({text[0] for text in batch.columns[0]}) == 1
            for one, other, label in zip(*batch.columns, batch.labels, strict=True):
                assert one[1:] == other[1:]
                seen[one] = float(label)
        assert seen == {**{f"a{i}": pytest.approx(i / 5) for i in range(6)}, "c0": 0.0, "c1": 0.5, "c2": 1.0}


def test_the_order_is_of_the_epoch_and_the_seed() -> None:
    def texts(seed: int, epoch: int) -> list[str]:
        return [text for batch in StsBatches(TABLES, 2, seed).epoch(epoch) for text in batch.columns[0]]

    assert texts(1, 0) == texts(1, 0)
    assert len({tuple(texts(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    tables = [{name: rows} for name, rows in TABLES.items()]
    made = [StsBatches(t, s, seed) for t in [*tables, TABLES] for s in (2, 3) for seed in (1, 2)]
    assert len({batches.digest for batches in made}) == len(made)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "no table of rated sentences to train on"),
        ({"flat": [Row("a", "b", 1.0), Row("c", "d", 1.0)]}, r"the ratings of flat do not differ\. Remedy: train on"),
        ({"one": [Row("a", "b", 1.0)]}, "the ratings of one do not differ"),
    ],
)
def test_tables_that_teach_nothing(tables: dict[str, list[Row]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StsBatches(tables, 4, seed=1)
