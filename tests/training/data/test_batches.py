"""Batches whose items share no key."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from medlink.training.data.batches import distinct_batches

Item = tuple[frozenset[str], int]


def items(seed: int, number: int, letters: str = "abcdefghijkl") -> list[Item]:
    rng = np.random.default_rng(seed)
    return [(frozenset(rng.choice(list(letters), 2).tolist()), place) for place in range(number)]


def naive(candidates: list[Item], size: int, batches: int) -> list[list[int]]:
    """Each batch: the first items that fit, in order."""
    left, found = list(candidates), []
    for _ in range(batches):
        chosen: list[Item] = []
        for one in left:
            if len(chosen) < size and all(not one[0] & other[0] for other in chosen):
                chosen.append(one)
        left = [one for one in left if one not in chosen]
        found.append([place for _, place in chosen])
    return found


def test_by_hand() -> None:
    given = [(frozenset("ab"), 1), (frozenset("a"), 2), (frozenset("b"), 3), (frozenset("c"), 4), (frozenset("c"), 5)]
    assert list(distinct_batches(given, 2, 3)) == [[1, 4], [2, 3], [5]]


@pytest.mark.parametrize("seed", range(4))
def test_against_all_in_order(seed: int) -> None:
    given = items(seed, 200)
    assert list(distinct_batches(given, 3, 40)) == naive(given, 3, 40)


def test_only_as_many_are_read_as_are_needed() -> None:
    endless = ((frozenset([str(number)]), number) for number in count())
    assert list(distinct_batches(endless, 2, 2)) == [[0, 1], [2, 3]]
    assert next(endless)[1] == 4
