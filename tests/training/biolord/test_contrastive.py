"""Batches of pairs, of the contrastive and of the STS phase."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.training.biolord.contrastive import PairBatches, false_negatives
from medlink.training.biolord.sts import StsBatches
from medlink.training.data.pairs import Pair
from medlink.training.data.rated_pairs import RatedPair


def test_false_negatives() -> None:
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
    assert false_negatives(pairs).astype(int).tolist() == expected
    assert false_negatives([]).shape == (0, 0)


class TenPairs:
    digest = "ten"
    pairs_per_epoch = 10

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        for first in range(start * size, 10, size):
            yield [Pair(f"C{i}", f"name {i}", f"text {i} {epoch}", "name") for i in range(first, min(10, first + size))]


def test_batches_of_pairs() -> None:
    batches = PairBatches(TenPairs(), 4)
    assert batches.batches_per_epoch() == 2
    first, second = batches.epoch(1)
    assert first.columns == ([f"name {i}" for i in range(4)], [f"text {i} 1" for i in range(4)])
    assert second.columns[0] == [f"name {i}" for i in range(4, 8)]
    np.testing.assert_array_equal(first.labels, np.eye(4, dtype=bool))
    assert [batch.columns for batch in batches.epoch(1, 1)] == [second.columns]
    assert PairBatches(TenPairs(), 5).digest != batches.digest == PairBatches(TenPairs(), 4).digest
    # fewer pairs than a batch has rows are one batch
    assert PairBatches(TenPairs(), 16).batches_per_epoch() == 1
    assert [len(batch.columns[0]) for batch in PairBatches(TenPairs(), 16).epoch(0)] == [10]


def rated(*rows: tuple[str, str, float]) -> list[RatedPair]:
    return [RatedPair(*row, ("", ""), line) for line, row in enumerate(rows)]


TABLES = {
    "five": rated(*((f"a{i}", f"b{i}", float(i)) for i in range(6))),
    "two": rated(*((f"c{i}", f"d{i}", 2.0 * i - 1) for i in range(3))),
}


def test_sts_batches_have_each_row_once_with_its_table() -> None:
    batches = StsBatches(TABLES, 4, seed=1)
    assert batches.batches_per_epoch() == 3
    for epoch in range(3):
        seen = {}
        for batch in batches.epoch(epoch):
            assert len({text[0] for text in batch.columns[0]}) == 1
            for first, second, label in zip(*batch.columns, batch.labels, strict=True):
                assert first[1:] == second[1:]
                seen[first] = float(label)
        assert seen == {**{f"a{i}": pytest.approx(i / 5) for i in range(6)}, "c0": 0.0, "c1": 0.5, "c2": 1.0}


def test_order_and_digest_of_sts_batches_depend_on_epoch_seed_and_data() -> None:
    def texts(seed: int, epoch: int) -> tuple[str, ...]:
        return tuple(text for batch in StsBatches(TABLES, 2, seed).epoch(epoch) for text in batch.columns[0])

    assert texts(1, 0) == texts(1, 0)
    assert len({texts(seed, epoch) for seed in (1, 2) for epoch in (0, 1)}) == 4
    tables = [*({name: rows} for name, rows in TABLES.items()), TABLES]
    assert len({StsBatches(t, size, seed).digest for t in tables for size in (2, 3) for seed in (1, 2)}) == 12


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "no table of rated sentences"),
        ({"flat": rated(("a", "b", 1.0), ("c", "d", 1.0))}, "the ratings of flat do not differ"),
        ({"single": rated(("a", "b", 1.0))}, "the ratings of single do not differ"),
    ],
)
def test_useless_tables_are_refused(tables: dict[str, list[RatedPair]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StsBatches(tables, 4, seed=1)
