"""Counting pairs that share a concept, against the double loop."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.evaluation import partition
from medlink.evaluation.partition import harmonic, incidence, related, share, share_of, split_columns


def random_groups(n: int, concepts: int, seed: int) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 1, 1, 2, 4], n)
    return [tuple(f"C{c}" for c in rng.choice(concepts, size, replace=False)) for size in sizes]


def test_incidence_by_hand() -> None:
    matrix = incidence(["B", ("A", "B", "A"), ["C"]])
    assert matrix.toarray().tolist() == [[0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert incidence([]).shape == (0, 0)
    with pytest.raises(ConfigError, match=r"name 1 belongs to no concept\. Remedy: leave such names out"):
        incidence(["A", ()])


@pytest.mark.parametrize(("n", "concepts"), [(1, 5), (40, 5), (200, 30), (200, 5)])
def test_against_the_double_loop(n: int, concepts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_ROWS", 7)
    monkeypatch.setattr(partition, "_CHUNK", 11)
    groups = random_groups(n, concepts, seed=n + concepts)
    matrix = incidence(groups)
    naive = np.array([[bool(set(a) & set(b)) for b in groups] for a in groups])
    np.testing.assert_array_equal(related(matrix), naive.sum(axis=1))
    one, other = np.divmod(np.arange(n * n), n)
    np.testing.assert_array_equal(share(matrix, one, other), naive.ravel())


def test_split_columns_against_the_double_loop() -> None:
    groups = random_groups(80, 6, seed=1)
    label = np.random.default_rng(2).integers(0, 4, 80)
    naive = [
        [bool(set(a) & set(b)) and x == y for b, y in zip(groups, label, strict=True)]
        for a, x in zip(groups, label, strict=True)
    ]
    np.testing.assert_array_equal(related(split_columns(incidence(groups), label)), np.sum(naive, axis=1))


def test_nothing() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert related(incidence([])).shape == (0,)
    assert share(incidence(["A"]), none, none).shape == (0,)
    assert related(split_columns(incidence([]), none)).shape == (0,)


def test_ratios_have_no_division_by_zero() -> None:
    assert share_of(np.array([0, 3]), np.array([0, 4])).tolist() == [0, 0.75]
    assert harmonic(np.array([0.0, 1.0]), np.array([0.0, 1.0])).tolist() == [0, 1]
