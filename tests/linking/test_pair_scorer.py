"""The ranker of pairs: the first k in the order of their scores, with the rank scores that these k had."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medlink.linking import Linker
from medlink.linking.pair_scorer import PairRanker

RANKS = np.array([5.0, 3.0, 4.0, 1.0, 9.0, 2.0, 2.0])
EVIDENCE: Any = SimpleNamespace(
    mention=np.array([0, 0, 0, 0, 1, 1, 1]),
    named=np.array([False, False, False, False, True, False, False]),
    queries=["m"] * 4 + ["n"] * 3,
    norms=["a", "bbb", "cc", "dddd", "n", "e", "ff"],
)
FIRST: Any = SimpleNamespace(rank=lambda *_: RANKS, uses_context=True)


def longest(ones: Sequence[str], others: Sequence[str]) -> list[int]:
    assert set(ones) <= {"m", "n"}
    return [len(text) for text in others]


def test_the_first_k_by_hand() -> None:
    # a, cc and bbb are the first three; they have 5, 4, 3, and are put in the order bbb, cc, a. n is the mention itself
    found = PairRanker(longest, FIRST, 3).rank([], None, EVIDENCE)
    assert found.tolist() == [3, 5, 4, 1, 9, 2, 2]
    assert PairRanker(longest, FIRST, 4).rank([], None, EVIDENCE).tolist() == [1, 4, 3, 5, 9, 2, 2]
    assert PairRanker(longest, FIRST, 1).rank([], None, EVIDENCE).tolist() == RANKS.tolist()
    assert PairRanker(lambda ones, _: [0] * len(ones), FIRST, 4).rank([], None, EVIDENCE).tolist() == RANKS.tolist()
    assert RANKS.tolist() == [5, 3, 4, 1, 9, 2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, k = 60, 4
    mention, ranks, named = np.sort(rng.integers(0, 9, count)), rng.normal(size=count), rng.random(count) < 0.2
    texts = [str(number) for number in range(count)]
    scores = rng.integers(0, 3, count)
    evidence: Any = SimpleNamespace(mention=mention, named=named, queries=texts, norms=texts)
    first: Any = SimpleNamespace(rank=lambda *_: ranks)
    found = PairRanker(lambda _, names: [int(scores[int(name)]) for name in names], first, k).rank([], None, evidence)
    expected = ranks.copy()
    for one in range(9):
        rows = [row for row in range(count) if mention[row] == one and not named[row]]
        before = sorted(rows, key=lambda row: -ranks[row])[:k]
        after = sorted(before, key=lambda row: (-scores[row], -ranks[row]))
        for row, rank in zip(after, [ranks[row] for row in before], strict=True):
            expected[row] = rank
    assert found.tolist() == expected.tolist()


def test_a_linker_ranks_by_it(linker: Linker) -> None:
    seen: list[str] = []

    def score(ones: Sequence[str], others: Sequence[str]) -> list[float]:
        seen.extend(ones)
        return [-abs(len(one) - len(other)) for one, other in zip(ones, others, strict=True)]

    ranked = Linker(linker.bundle, ranker=PairRanker(score, linker.ranker, 3), k=8)
    mentions = ["shortnes of breath", "Fieber", "high fever of the child"]
    links, plain = ranked.link(mentions), linker.link(mentions, k=8)
    assert "shortnes of breath" in seen
    assert [{one.concept_id for one in link.candidates} for link in links] == [
        {one.concept_id for one in link.candidates} for link in plain
    ]
    assert links[1] == plain[1]
