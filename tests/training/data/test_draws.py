"""What pairs are drawn from, and the draws: by hand, against lists and against records."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from medlink.kb import KnowledgeBase
from medlink.training.data.batches import order
from medlink.training.data.pairs import Material, counts_of, draw_ancestors, draw_places, draw_values, upto
from medlink.training.data.relations import relation_phrase
from medlink.training.data.view import Runs, TrainingView

from .pairs_kb import build, random_kb


def runs_of(values: list[list[int]]) -> Runs:
    ends = np.concatenate([[0], np.cumsum([len(one) for one in values])]).astype(np.int64)
    return ends, np.array([value for one in values for value in one], dtype=np.int32)


def owners(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize("seed", range(3))
def test_draws_against_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(100, size=rng.integers(5)).tolist() for _ in range(50)]
    asked, uniform = rng.integers(50, size=200).astype(np.int32), rng.random(200)
    runs = runs_of(values)
    drawn, places = draw_values(runs, asked, uniform), draw_places(runs, asked, uniform)
    for owner, share, value, place in zip(asked.tolist(), uniform, drawn.tolist(), places.tolist(), strict=True):
        given = values[owner]
        assert value == (given[int(share * len(given))] if given else -1)
        assert (runs[1][place] if given else -1) == value
    assert counts_of(runs, asked).tolist() == [len(values[owner]) for owner in asked]


def test_ancestors_by_hand() -> None:
    # 0 -> 1 -> 2 -> 3, and 4 without parents
    parents = runs_of([[1], [2], [3], [], []])
    drawn = draw_ancestors(parents, np.repeat(owners(0, 2, 3, 4), 6000), np.random.default_rng(0)).reshape(4, 6000)
    counts = Counter(drawn[0].tolist())
    assert set(counts) == {1, 2, 3}
    assert max(abs(count / 6000 - 1 / 3) for count in counts.values()) < 0.02
    assert set(drawn[1].tolist()) == {3}
    assert set(drawn[2:].ravel().tolist()) == {-1}


@pytest.mark.parametrize("seed", range(3))
def test_ancestors_against_the_closure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    above = [rng.integers(number, size=rng.integers(3)).tolist() if number else [] for number in range(30)]
    closure: list[set[int]] = []
    for parents in above:
        closure.append(set(parents).union(*(closure[parent] for parent in parents)))
    start = np.repeat(np.arange(30, dtype=np.int32), 400)
    drawn = draw_ancestors(runs_of(above), start, rng).reshape(30, 400)
    for ancestors, found in zip(closure, drawn, strict=True):
        assert set(found.tolist()) == (ancestors or {-1})


def test_a_cycle_ends() -> None:
    # 0 -> 1 -> 2 -> 1, and 3 -> 4 -> 3
    drawn = draw_ancestors(runs_of([[1], [2], [1], [4], [3]]), np.repeat(owners(0, 3), 200), np.random.default_rng(0))
    assert set(drawn[:200].tolist()) == {1, 2}
    # a concept is no ancestor of its own
    assert set(drawn[200:].tolist()) == {4}


def test_orders() -> None:
    assert sorted(order(1, 2, 3, 100)) == list(range(100))
    assert order(1, 2, 3, 0).tolist() == []
    others = [order(*given, 100).tolist() for given in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))]
    assert len({tuple(one) for one in others}) == 4


@pytest.mark.parametrize("share", [0.0, 0.15, 0.85, 1 / 3, 1.0])
def test_shares_are_spread_evenly(share: float) -> None:
    counts = [upto(share, place) for place in range(2001)]
    assert all(0 <= after - before <= 1 for before, after in pairwise(counts))
    assert max(abs(count - share * place) for place, count in enumerate(counts)) <= 1
    assert upto(0.15, 10**8) == 15 * 10**6


def of(runs: Runs, owner: int) -> list[int]:
    ends, values = runs
    return list(values[ends[owner] : ends[owner + 1]].tolist())


@pytest.mark.parametrize(("seed", "languages"), [(0, None), (1, ["en"]), (2, ["de", "en"])])
def test_against_records(tmp_path: Path, seed: int, languages: list[str] | None) -> None:
    kb = random_kb(tmp_path, concepts=60, seed=seed)
    view = TrainingView(kb, languages=languages)
    material = Material(view)
    ids = view.concept_ids(np.arange(view.concepts, dtype=np.int32))
    names = list(kb.iter_names(languages=languages))
    forms = view.name_texts(view.names[1])
    by_form = defaultdict(set)
    for number in range(view.concepts):
        for row in of(view.names, number):
            by_form[forms[row][1]].add(number)
    english = {name.concept_id for name in names if name.language == "en"}
    named = {name.concept_id for name in names}
    relations = sorted((r.head, r.type, r.tail) for r in kb.iter_relations() if r.tail in english)
    places = [(owner, place) for owner in range(view.concepts) for place in range(*material.related[0][owner:][:2])]
    assert relations == sorted(
        (ids[owner], view.types[material.related_types[place]], ids[material.related[1][place]])
        for owner, place in places
    )
    assert [ids[number] for number in material.described] == sorted({head for head, _, _ in relations} & named)
    assert {ids[number] for number in material.defined} == {d.concept_id for d in kb.iter_definitions()}
    several = {number for number in range(view.concepts) if sum(number in owners for owners in by_form.values()) > 1}
    assert set(material.several.tolist()) == several
    shared = {number: set(of(material.shared, number)) for number in range(view.concepts)}
    for one in range(view.concepts):
        for other in range(one):
            meet = any({one, other} <= owners for owners in by_form.values())
            assert bool(shared[one] & shared[other]) == meet
    assert material.phrases == tuple(relation_phrase(name) for name in view.types)
    assert [name for name, up in zip(view.types, material.upward, strict=True) if up] == ["isa"]


def test_names_of_descriptions_are_english(tmp_path: Path) -> None:
    names = [("C1", "cold", "ENG"), ("C1", "Erkältung", "GER"), ("C2", "Husten", "GER"), ("C3", "fever", "ENG")]
    kb: KnowledgeBase = build(tmp_path, names=names, relations=[("C1", "due_to", "C2"), ("C1", "due_to", "C3")])
    view = TrainingView(kb)
    material = Material(view)
    assert [view.name_texts(view.names[1])[row][0] for row in material.related_names[1]] == ["cold", "fever"]
    assert of(material.related, 0) == [2]
    assert material.defined.tolist() == material.several.tolist()[1:] == []
