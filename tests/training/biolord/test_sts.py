"""Batches of the STS phase."""

from __future__ import annotations

import pytest

from medlink.errors import ConfigError
from medlink.training.biolord.sts import StsBatches
from medlink.training.data.rated_pairs import RatedPair


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
            columns = [[batches.texts.texts[text] for text in column] for column in batch.columns]
            assert len({text[0] for text in columns[0]}) == 1
            for first, second, label in zip(*columns, batch.labels, strict=True):
                assert first[1:] == second[1:]
                seen[first] = float(label)
        assert seen == {**{f"a{i}": pytest.approx(i / 5) for i in range(6)}, "c0": 0.0, "c1": 0.5, "c2": 1.0}


def test_order_and_digest_of_sts_batches_depend_on_epoch_seed_and_data() -> None:
    def texts(seed: int, epoch: int) -> tuple[int, ...]:
        return tuple(text for batch in StsBatches(TABLES, 2, seed).epoch(epoch) for text in batch.columns[0].tolist())

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
