"""Draws for training pairs, for thousands of concepts at once: values by owner, ancestors, orders, shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Runs = tuple[NDArray[np.int64], Numbers]
"""Values by owner: those of owner ``i`` are ``values[ends[i]:ends[i + 1]]``, in the order of ``(ends, values)``."""

_LONGEST_WALK = 64  # SNOMED CT is some 20 levels deep; a cycle must end too


def counts_of(runs: Runs, owners: Numbers) -> NDArray[np.int64]:
    """How many values each owner has.

    >>> counts_of((np.array([0, 2, 2]), np.array([7, 8], np.int32)), np.array([0, 1], np.int32)).tolist()
    [2, 0]
    """
    ends = runs[0]
    counts: NDArray[np.int64] = ends[owners + 1] - ends[owners]
    return counts


def draw_places(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """A place among the values of each owner.

    Args:
        runs: values by owner.
        owners: ``(n,)`` owners.
        uniform: ``(n,)`` numbers in [0, 1): the share of the owner's values that lies before the drawn one.

    Returns:
        ``(n,)`` places in the values, -1 where the owner has none.

    >>> runs = np.array([0, 2, 2, 3]), np.array([7, 8, 9], np.int32)
    >>> draw_places(runs, np.array([0, 0, 1, 2], np.int32), np.array([0.0, 0.5, 0.9, 0.9])).tolist()
    [0, 1, -1, 2]
    """
    counts = counts_of(runs, owners)
    places: NDArray[np.int64] = runs[0][owners] + (uniform * counts).astype(np.int64)
    return np.where(counts > 0, places, -1)


def draw_values(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> Numbers:
    """As :func:`draw_places`, the values themselves.

    >>> runs = np.array([0, 2, 2]), np.array([7, 8], np.int32)
    >>> draw_values(runs, np.array([0, 1], np.int32), np.array([0.5, 0.5])).tolist()
    [8, -1]
    """
    places = draw_places(runs, owners, uniform)
    drawn = np.full(len(owners), -1, dtype=np.int32)
    drawn[places >= 0] = runs[1][places[places >= 0]]
    return drawn


def draw_ancestors(parents: Runs, start: Numbers, rng: np.random.Generator) -> Numbers:
    """An ancestor of each concept: one of those on a random way up, each step of the way as likely as the others.

    The last of k steps is kept with probability 1/k (reservoir sampling, Vitter 1985, section 2), so that no way has to
    be remembered. Remy et al. 2022, section 3.1, draw "the known names of the ancestors" and do not say how.

    Args:
        parents: concepts above, by concept.
        start: ``(n,)`` concepts.
        rng: source of all draws.

    Returns:
        ``(n,)`` ancestors, -1 where a concept has none; never the concept itself, also where the hierarchy has a cycle.

    >>> chain = np.array([0, 1, 2, 2]), np.array([1, 2], np.int32)  # 0 is a 1, 1 is a 2
    >>> draw_ancestors(chain, np.array([1, 2], np.int32), np.random.default_rng(1)).tolist()
    [2, -1]
    >>> sorted(set(draw_ancestors(chain, np.zeros(50, np.int32), np.random.default_rng(1)).tolist()))
    [1, 2]
    """
    drawn = np.full(len(start), -1, dtype=np.int32)
    walking, here = np.arange(len(start)), start
    for step in range(1, _LONGEST_WALK + 1):
        above = draw_values(parents, here, rng.random(len(here)))
        going = (above >= 0) & (above != start[walking])
        walking, here = walking[going], above[going]
        if not len(walking):
            break
        taken = rng.random(len(walking)) * step < 1
        drawn[walking[taken]] = here[taken]
    return drawn


def order(seed: int, stream: int, cycle: int, count: int) -> Numbers:
    """The order in which one cycle goes through ``count`` things: another one for each seed, stream and cycle.

    >>> order(1, 0, 0, 5).tolist() == order(1, 0, 0, 5).tolist() != order(1, 0, 1, 5).tolist()
    True
    """
    return np.random.default_rng([seed, stream, cycle]).permutation(count).astype(np.int32)


def upto(share: float, place: int) -> int:
    """How many of the first ``place`` pairs are of a kind that has ``share`` of them, spread evenly.

    >>> [upto(0.15, place) for place in (0, 6, 7, 100, 10_000_000)]
    [0, 0, 1, 15, 1500000]
    """
    # 0.15 * 100 must not come out a hair below 15
    return int(share * place + 1e-6)
