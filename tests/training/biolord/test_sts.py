"""The batches of rated pairs: each row once, one table at a time, ratings from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from medlink.errors import ConfigError
from medlink.training.biolord.sts import StsBatches


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
