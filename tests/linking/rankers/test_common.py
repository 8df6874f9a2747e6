"""New orders by hand, the invariants of later stages, and the cache of answers."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.linking.candidates import DENSE, EXACT
from medlink.linking.rankers.common import (
    CHOSEN_WEIGHT,
    FILE,
    CandidateText,
    RankerCache,
    cache_key,
    move_to_front,
    reorder_by_score,
)
from medlink.linking.ranking import RankedConcept


def ranked(*rows: tuple[float, float, float], exact: int = 0) -> list[RankedConcept]:
    """Concepts by concept, rank and name; the first ``exact`` ones equal the mention."""
    routes = [EXACT if at < exact else DENSE for at in range(len(rows))]
    return [
        RankedConcept(concept, rank, 0.0, name, 0, False, route, False, None if at else (1.0,))
        for at, ((concept, rank, name), route) in enumerate(zip(rows, routes, strict=True))
    ]


def test_reorder_by_score_by_hand() -> None:
    # concepts 1 and 2 share the name 10, which has the better of their scores
    found = reorder_by_score(ranked((1, 5, 10), (2, 5, 10), (3, 4, 11)), np.array([1.0, 2.0, 4.0]))
    assert [(c.concept, c.rank, c.margin) for c in found] == [(3, 4, 2), (1, 2, -2), (2, 2, -2)]
    assert [c.weight for c in found] == pytest.approx([1, math.exp(-1), 1])
    assert [c.moved for c in found] == [True, False, False]
    assert found[0].features == (1.0,)


def test_an_exact_name_stays_first_and_ties_stay_in_order() -> None:
    found = reorder_by_score(ranked((1, 5, 10), (2, 4, 11), (3, 4, 12), exact=1), np.array([0.0, 3.0, 3.0]))
    assert [c.concept for c in found] == [1, 2, 3]
    assert not found[0].moved
    assert found[0].margin == -3
    assert reorder_by_score([], np.zeros(0)) == []


@pytest.mark.parametrize(("rows", "chosen", "k", "expected", "moved"), [
    ([(1, 5, 10), (2, 4, 11), (3, 3, 12), (4, 2, 13)], 2, 3, [(3, 5, 20), (1, 4, 1), (2, 3, 1), (4, 2, 1)], True),
    ([(1, 5, 10), (2, 4, 11), (3, 3, 12), (4, 2, 13)], 0, 3, [(1, 5, 20), (2, 4, 1), (3, 3, 1), (4, 2, 1)], False),
    # the first name is shared: only the weight changes
    ([(1, 5, 10), (2, 5, 10), (3, 3, 12)], 1, 3, [(1, 5, 1), (2, 5, 20), (3, 3, 1)], False),
    # a shared name that was second moves with all of its concepts, also those after the first k
    ([(1, 5, 10), (2, 4, 11), (3, 4, 11)], 1, 2, [(2, 5, 20), (1, 4, 1), (3, 5, 1)], True),
])  # fmt: skip
def test_move_to_front_by_hand(
    rows: list[tuple[float, float, float]], chosen: int, k: int, expected: list[tuple[float, ...]], *, moved: bool
) -> None:
    found = move_to_front(ranked(*rows), chosen, k)
    assert [(c.concept, c.rank, c.weight) for c in found] == expected
    assert expected[0][2] in (1, CHOSEN_WEIGHT)
    assert [c.moved for c in found] == [moved, *[False] * (len(rows) - 1)]


def test_any_order_keeps_all_concepts_and_one_rank_for_each_name() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        count = int(rng.integers(1, 9))
        names = np.sort(rng.integers(0, 4, count))
        given = ranked(*((float(at), float(9 - name), float(name)) for at, name in enumerate(names)))
        k = int(rng.integers(1, count + 1))
        orders = reorder_by_score(given, rng.normal(size=count)), move_to_front(given, int(rng.integers(0, k)), k)
        for found in orders:
            assert sorted(c.concept for c in found) == [c.concept for c in given]
            ranks = {c.name: c.rank for c in found}
            assert all(c.rank == ranks[c.name] for c in found)
            assert found[0].rank == max(ranks.values())
            assert max(c.weight for c in found if c.name == found[0].name) in (1, CHOSEN_WEIGHT)


def test_cache_round_trip(tmp_path: Path) -> None:
    cache = RankerCache(tmp_path / "new" / "folder")
    cache.put({b"a": [1.5, -2.0], b"b": []})
    cache.put({b"a": [3.0]})
    assert RankerCache(tmp_path / "new" / "folder").get([b"b", b"c", b"a"]) == [[], None, [3.0]]


def test_a_cache_key_depends_on_every_input() -> None:
    texts = [CandidateText("X:1", "fever", "Fieber"), CandidateText("X:2", "cough", "cough")]
    defined = [CandidateText("X:1", "fever", "Fieber", "Hot."), texts[1]]
    inputs = ("bundle", "ranker", "mention", "de", "context", texts)
    changes = [(0, "b"), (1, "r"), (2, "m"), (2, "mention\ud800"), (3, None), (4, ""), (5, texts[::-1]), (5, defined)]
    others = [(*inputs[:at], value, *inputs[at + 1 :]) for at, value in changes]
    assert len({cache_key(*own) for own in (inputs, *others)}) == 9
    assert cache_key(*inputs) == cache_key(*inputs)


def test_unusable_caches_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but long enough to be read as one" * 20, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{FILE}: the cache of the ranker cannot be used: file is not a database"):
        RankerCache(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be written: .*Remedy: name a folder that can be written to"):
        RankerCache(tmp_path / "file")
    cache = RankerCache(tmp_path / "damaged")
    with closing(sqlite3.connect(cache.path)) as file, file:
        file.execute("INSERT INTO answers VALUES (?, ?)", (b"a", "{"))
    with pytest.raises(ConfigError, match=r"a value is not a list of numbers. Remedy: delete the file"):
        cache.get([b"a"])
