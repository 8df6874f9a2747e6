"""Batches of distinct items, and prefetching in other processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest

from medlink.errors import EncoderError
from medlink.training.data.batches import distinct_batches, prefetch

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
def test_against_a_greedy_search(seed: int) -> None:
    given = items(seed, 200)
    assert list(distinct_batches(given, 3, 40)) == naive(given, 3, 40)


def test_candidates_are_read_on_demand() -> None:
    endless = ((frozenset([str(number)]), number) for number in count())
    assert list(distinct_batches(endless, 2, 2)) == [[0, 1], [2, 3]]
    assert next(endless)[1] == 4


# from Python 3.12 on
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers: int) -> None:
    # a function that cannot be pickled
    offset = 5
    assert list(prefetch(lambda a, b: a * b + offset, [(i, 2) for i in range(20)], workers)) == list(range(5, 45, 2))
    assert list(prefetch(divmod, [], workers)) == []


@pytest.mark.slow
def test_results_from_other_processes() -> None:
    assert set(prefetch(os.getpid, [()] * 3, 0)) == {os.getpid()}
    assert os.getpid() not in set(prefetch(os.getpid, [()] * 3, 2))


@pytest.mark.slow
def test_the_prefetch_is_bounded() -> None:
    given: list[int] = []

    def tasks() -> Iterator[tuple[int, int]]:
        """Endless, with a note of how many were taken."""
        for number in count():
            given.append(number)
            yield number, 1

    results = prefetch(divmod, tasks(), 2)
    assert [one for one, _ in islice(results, 10)] == list(range(10))
    assert len(given) <= 10 + 2 * 2
    results.close()  # type: ignore[attr-defined]  # a generator
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_process_that_the_system_ends_is_named() -> None:
    def die(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(EncoderError, match=r"ended a process that made pairs.*pair_workers.*resume="):
        list(prefetch(die, [(i,) for i in range(9)], 2))
    assert not multiprocessing.active_children()
