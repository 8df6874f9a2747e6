"""The first k candidates in the order of pair scores, with the rank scores that these k had."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medlink.linking import Linker
from medlink.linking.pair_scorer import PairRanker

RANKS = np.array([5.0, 3.0, 4.0, 1.0, 9.0, 2.0, 2.0])
CANDIDATES: Any = SimpleNamespace(
    mention=np.array([0, 0, 0, 0, 1, 1, 1]),
    is_equal=np.array([False, False, False, False, True, False, False]),
    queries=["m"] * 4 + ["n"] * 3,
    norms=["a", "bbb", "cc", "dddd", "n", "e", "ff"],
)
FIRST: Any = SimpleNamespace(rank=lambda *_: RANKS, uses_context=True)


def longest(mentions: Sequence[str], names: Sequence[str]) -> list[int]:
    assert set(mentions) <= {"m", "n"}
    return [len(name) for name in names]


def test_the_first_k_by_hand() -> None:
    # the first three, a, cc and bbb, exchange 5, 4 and 3; n equals its mention
    found = PairRanker(longest, FIRST, 3).rank([], None, CANDIDATES)
    assert found.tolist() == [3, 5, 4, 1, 9, 2, 2]
    assert PairRanker(longest, FIRST, 4).rank([], None, CANDIDATES).tolist() == [1, 4, 3, 5, 9, 2, 2]
    assert PairRanker(longest, FIRST, 1).rank([], None, CANDIDATES).tolist() == RANKS.tolist()
    assert (
        PairRanker(lambda mentions, _: [0] * len(mentions), FIRST, 4).rank([], None, CANDIDATES).tolist()
        == RANKS.tolist()
    )
    assert RANKS.tolist() == [5, 3, 4, 1, 9, 2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, k = 60, 4
    mention, ranks, equal = np.sort(rng.integers(0, 9, count)), rng.normal(size=count), rng.random(count) < 0.2
    texts = [str(number) for number in range(count)]
    scores = rng.integers(0, 3, count)
    candidates: Any = SimpleNamespace(mention=mention, is_equal=equal, queries=texts, norms=texts)
    first: Any = SimpleNamespace(rank=lambda *_: ranks)
    found = PairRanker(lambda _, names: [int(scores[int(name)]) for name in names], first, k).rank([], None, candidates)
    expected = ranks.copy()
    for number in range(9):
        rows = [row for row in range(count) if mention[row] == number and not equal[row]]
        before = sorted(rows, key=lambda row: -ranks[row])[:k]
        after = sorted(before, key=lambda row: (-scores[row], -ranks[row]))
        for row, rank in zip(after, [ranks[row] for row in before], strict=True):
            expected[row] = rank
    assert found.tolist() == expected.tolist()


def test_a_linker_ranks_by_it(linker: Linker) -> None:
    seen: list[str] = []

    def score(mentions: Sequence[str], names: Sequence[str]) -> list[float]:
        seen.extend(mentions)
        return [-abs(len(mention) - len(name)) for mention, name in zip(mentions, names, strict=True)]

    ranked = Linker(linker.bundle, ranker=PairRanker(score, linker.ranker, 3), k=8)
    mentions = ["shortnes of breath", "Fieber", "high fever of the child"]
    links, plain = ranked.link(mentions), linker.link(mentions, k=8)
    assert "shortnes of breath" in seen
    ids = [[{c.concept_id for c in link.candidates} for link in found] for found in (links, plain)]
    assert ids[0] == ids[1]
    assert links[1] == plain[1]
