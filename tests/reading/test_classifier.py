"""Which stretches are mentions: by examples, and against trying all ways."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from importlib import resources
from itertools import combinations

import pytest

from medlink.linking.linker import Best
from medlink.linking.measures import FEATURES
from medlink.linking.ranking import Ranked
from medlink.reading.choice import (
    COLUMNS,
    CONTEXT,
    RIVALS,
    Choice,
    Chosen,
    Found,
    Judged,
    Stretch,
    best_apart,
    rows,
    shipped_choice,
    without_longer,
)


def judged(start: int, stop: int, concept: float, score: float, route: int = 2, **context: float) -> Judged:
    ranked = Ranked(concept, 1.0, 0.5, 7.0, 7, preferred=True, route=route, adds=False, measures=(0.5,) * len(FEATURES))
    values = tuple(float(context.get(name, 0.0)) for name in CONTEXT)
    return Judged(Stretch((start, stop), Found(), values), Best(ranked, score, f"X:{concept:.0f}"))


def places(found: list[Judged]) -> list[tuple[int, int]]:
    return [one.stretch.place for one in found]


def test_the_best_sum_against_all_subsets() -> None:
    rng = random.Random(4)
    for _ in range(300):
        stretches = [
            Chosen((start, start + rng.randint(1, 4)), round(rng.random(), 2))
            for start in (rng.randint(0, 9) for _ in range(rng.randint(0, 8)))
        ]
        best = 0.0
        for size in range(len(stretches) + 1):
            for some in combinations(stretches, size):
                taken = [at for one in some for at in range(*one.place)]
                if len(taken) == len(set(taken)) and all(one.likely >= 0.3 for one in some):
                    best = max(best, sum(one.likely - 0.3 for one in some))
        found = best_apart(stretches, 0.3)
        assert sum(one.likely - 0.3 for one in found) == pytest.approx(best)
        taken = [at for one in found for at in range(*one.place)]
        assert len(taken) == len(set(taken))
        assert [one.place for one in found] == sorted(one.place for one in found)


@pytest.mark.parametrize(
    ("some", "kept"),
    [
        # the longer one of the same concept is needless, unless it scores higher
        ([judged(0, 3, 1, 0.8), judged(1, 2, 1, 0.8)], [(1, 2)]),
        ([judged(0, 3, 1, 0.9), judged(1, 2, 1, 0.6)], [(0, 3)]),
        ([judged(0, 3, 1, 0.8), judged(1, 2, 2, 0.8)], [(0, 3), (1, 2)]),
        # a name goes before what is none, the longer name before the shorter
        ([judged(0, 2, 1, 0.8, route=0), judged(0, 1, 1, 0.9)], [(0, 2)]),
        ([judged(0, 2, 1, 0.8, route=0), judged(0, 1, 1, 0.9, route=1)], [(0, 2)]),
        # what leaves a word out is no better than what says it
        ([judged(0, 2, 1, 0.8), judged(1, 2, 1, 0.8, shorthand=1)], [(0, 2)]),
    ],
)
def test_longer_stretches_of_one_concept(some: list[Judged], kept: list[tuple[int, int]]) -> None:
    assert places(without_longer(some)) == kept


def test_two_ways_to_read_the_same_words() -> None:
    short, plain = judged(0, 1, 1, 0.8, route=0, shorthand=1), judged(0, 1, 1, 0.8, route=0)
    laconic = judged(0, 1, 1, 0.8, route=0, shorthand=1, laconic=1)
    likeness = judged(0, 1, 1, 0.8, route=3, shorthand=1)
    assert without_longer([short, plain]) == without_longer([plain, short]) == [short]
    assert without_longer([likeness, plain]) == without_longer([plain, likeness]) == [plain]
    assert len(without_longer([laconic, plain])) == 1
    alike = [judged(0, 1, 1, 0.8), judged(0, 1, 1, 0.7)]
    assert without_longer(alike) == alike  # the likelier one is taken


def test_rivals() -> None:
    some = [judged(0, 2, 1, 0.7), judged(0, 4, 2, 0.4), judged(1, 3, 3, 0.9), judged(5, 6, 4, 0.9)]
    columns = [dict(zip(COLUMNS, row, strict=True)) for row in rows(some)]
    assert [[one[name] for name in RIVALS[:3]] for one in columns] == [
        [0.4, 0, 0.9],
        [0, 0.9, 0],
        [0.4, 0, 0.7],
        [0] * 3,
    ]


def choice(offset: float = 0.0, **weights: float) -> Choice:
    every = len(COLUMNS)
    return Choice(tuple(weights.get(name, 0.0) for name in COLUMNS), offset, (-100.0,) * every, (100.0,) * every, 0.35)


def test_what_overlaps_a_mention_is_no_rival_of_the_rest() -> None:
    some = [judged(0, 2, 1, 0.9), judged(1, 4, 2, 0.6), judged(3, 4, 3, 0.55)]
    by_score = choice(-3.0, score=6.0, wider=-4.0)
    assert [one.place for one in by_score.chosen(some)] == [(0, 2), (3, 4)]
    # beside the wide one alone it is none
    assert [one.place for one in by_score.chosen(some[1:])] == [(1, 4)]


def test_columns_are_cut_to_what_they_were_in_training() -> None:
    cut = Choice((1.0,), 0.0, (-1.0,), (2.0,), 0.3)
    assert cut.likely([[9.0], [2.0], [-9.0], [-1.0]]) == pytest.approx([0.8808, 0.8808, 0.2689, 0.2689], abs=1e-4)


def test_a_listed_abbreviation_is_a_mention_however_unlikely() -> None:
    listed = judged(0, 1, 1, 0.9, route=0, listed=1, upper=1)
    assert [one.likely for one in choice(-9.0).chosen([listed])] == [0.35]
    assert choice(-9.0).chosen([judged(0, 1, 1, 0.9, route=0, listed=1)]) == []


def test_a_safe_abbreviation_is_as_likely_as_it_is_usual() -> None:
    safe = judged(0, 1, 1, 0.9, route=0, shorthand=1, usual=0.8, safe=1)
    assert [one.likely for one in choice(-9.0).chosen([safe])] == [pytest.approx(0.72)]


def test_what_is_no_finding_is_none_that_is_named_after_it() -> None:
    plain = judged(0, 1, 1, 0.9)
    adds = plain._replace(best=plain.best._replace(ranked=replace(plain.best.ranked, adds=True)))
    test = plain._replace(stretch=replace(plain.stretch, of_thing=True))
    assert [len(choice(9.0).chosen([one])) for one in (plain, adds, test)] == [1, 0, 0]
    named = judged(0, 1, 1, 0.9, route=0)
    assert len(choice(9.0).chosen([named._replace(stretch=replace(named.stretch, of_thing=True))])) == 1


def test_the_shipped_weights() -> None:
    raw = json.loads(resources.files("medlink").joinpath("resources/notes/choice.json").read_text("utf-8"))
    assert tuple(raw["columns"]) == COLUMNS
    shipped = shipped_choice()
    assert 0 < shipped.least < 0.5
    assert all(low <= high for low, high in zip(shipped.lowest, shipped.highest, strict=True))
