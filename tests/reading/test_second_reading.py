"""Sentences with mistakes that a clinician would not forgive (``benchmarks/gold/second_reading.tsv``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle
from tests.scripts import benchmark


@pytest.mark.slow
def test_what_was_once_read_right_stays_so(hpo: Path) -> None:
    script = benchmark("second_reading")
    bundle, rows = Bundle(hpo), list(script.sentences())
    read = script.read(bundle, rows)
    right = [script.is_right(bundle, row, note) for row, note in zip(rows, read, strict=True)]
    assert [row.text for row, good in zip(rows, right, strict=True) if not good and not row.is_open] == []
    assert sum(right) >= 0.88 * len(rows)


def test_each_kind_has_ten_sentences_beside_the_examples() -> None:
    rows = list(benchmark("second_reading").sentences())
    for kind in {row.kind for row in rows}:
        assert sum(row.kind == kind for row in rows) >= 40, kind
    assert all(row.text[found.start : found.end] for row in rows for found in row.expected)
