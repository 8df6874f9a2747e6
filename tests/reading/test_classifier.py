"""Selection of mentions: by examples, and against exhaustive search."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from math import log

import pytest

from medlink.language.lexicon.tables import Abbreviation
from medlink.linking.features import FEATURES
from medlink.linking.linker import BestConcept
from medlink.linking.ranking import RankedConcept
from medlink.reading.candidates import CandidateSpan, Shortened
from medlink.reading.classifier import (
    LogisticModel,
    SelectedSpan,
    SpanClassifier,
    drop_redundant_spans,
    weighted_interval_scheduling,
)
from medlink.reading.features import ALONE, COLUMNS, RIVALS, SPAN, ScoredSpan, rival_pairs, rival_rows


def scored(start: int, stop: int, concept: float, score: float, route: int = 2, **context: float) -> ScoredSpan:
    features = (0.5,) * len(FEATURES)
    ranked = RankedConcept(concept, 1.0, 0.5, 7.0, 7, True, route, adds=False, features=features)
    values = tuple(float(context.get(name, 0.0)) for name in SPAN)
    return ScoredSpan(CandidateSpan((start, stop), context=values), BestConcept(ranked, score, f"X:{concept:.0f}"))


def log_odds(score: float | None) -> float:
    return log((score or 0.0) / (1 - (score or 0.0)))


def test_weighted_interval_scheduling_against_all_subsets() -> None:
    rng = random.Random(4)
    for _ in range(300):
        spans = [
            SelectedSpan(CandidateSpan((start, start + rng.randint(1, 4))), round(0.01 + 0.98 * rng.random(), 2))
            for start in (rng.randint(0, 9) for _ in range(rng.randint(0, 8)))
        ]
        best = 0.0
        for size in range(len(spans) + 1):
            for subset in combinations(spans, size):
                words = [at for span in subset for at in range(*span.place)]
                if len(words) == len(set(words)) and all((span.score or 0.0) >= 0.3 for span in subset):
                    best = max(best, sum(log_odds(span.score) - log_odds(0.3) for span in subset))
        found = weighted_interval_scheduling(spans, 0.3)
        assert sum(log_odds(span.score) - log_odds(0.3) for span in found) == pytest.approx(best)
        words = [at for span in found for at in range(*span.place)]
        assert len(words) == len(set(words))
        assert words == sorted(words)


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        # the longer span of a concept is dropped, unless it scores higher
        ([scored(0, 3, 1, 0.8), scored(1, 2, 1, 0.8)], [(1, 2)]),
        ([scored(0, 3, 1, 0.9), scored(1, 2, 1, 0.6)], [(0, 3)]),
        ([scored(0, 3, 1, 0.8), scored(1, 2, 2, 0.8)], [(0, 3), (1, 2)]),
        # names win, of nested names the longer one
        ([scored(0, 2, 1, 0.8, route=0), scored(0, 1, 1, 0.9)], [(0, 2)]),
        ([scored(0, 2, 1, 0.8, route=0), scored(0, 1, 1, 0.9, route=1)], [(0, 2)]),
        # a word that leaves something out does not win against the full wording
        ([scored(0, 2, 1, 0.8), scored(1, 2, 1, 0.8, shorthand=1, laconic=1)], [(0, 2)]),
        # further words add nothing to an abbreviation
        ([scored(0, 3, 1, 0.9), scored(0, 1, 1, 0.9, shorthand=1)], [(0, 1)]),
    ],
)
def test_redundant_spans_are_dropped(spans: list[ScoredSpan], kept: list[tuple[int, int]]) -> None:
    assert [span.candidate.place for span in drop_redundant_spans(spans)] == kept


def test_two_readings_of_the_same_words() -> None:
    short, plain = scored(0, 1, 1, 0.8, route=0, shorthand=1), scored(0, 1, 1, 0.8, route=0)
    laconic = scored(0, 1, 1, 0.8, route=0, shorthand=1, laconic=1)
    likeness = scored(0, 1, 1, 0.8, route=3, shorthand=1)
    assert drop_redundant_spans([short, plain]) == drop_redundant_spans([plain, short]) == [short]
    assert drop_redundant_spans([likeness, plain]) == drop_redundant_spans([plain, likeness]) == [plain]
    assert len(drop_redundant_spans([laconic, plain])) == 1
    alike = [scored(0, 1, 1, 0.8), scored(0, 1, 1, 0.7)]
    assert drop_redundant_spans(alike) == alike


def test_rivals() -> None:
    spans = [scored(0, 2, 1, 0.7), scored(0, 4, 2, 0.4), scored(1, 3, 3, 0.9), scored(5, 6, 4, 0.9)]
    spans += [scored(5, 6, 5, 0.6), scored(5, 6, 4, 0.5)]  # other readings; one of them is of the same concept
    columns = list(rival_rows([0.7, 0.4, 0.9, 0.9, 0.6, 0.5], rival_pairs(spans)))
    assert [row[:4] for row in columns[:4]] == [(0.4, 0, 0.9, 0), (0, 0.9, 0, 0), (0.4, 0, 0.7, 0), (0, 0, 0, 0.6)]
    assert [row[3] for row in columns[4:]] == [0.9, 0.6]
    assert columns[0][6] == pytest.approx(log_odds(0.9) - log_odds(0.7))
    assert columns[3][4:7] == (-6.0, -6.0, -6.0)
    assert len(RIVALS) == len(columns[0])


def classifier(offset: float = 0.0, **weights: float) -> SpanClassifier:
    alone, model = (
        LogisticModel(tuple(weights.get(n, 0.0) for n in names), offset, (-100.0,) * len(names), (100.0,) * len(names))
        for names in (ALONE, COLUMNS)
    )
    return SpanClassifier(alone, model, 0.35)


def selected(found: SpanClassifier, *spans: ScoredSpan) -> list[SelectedSpan]:
    return found.select([spans])[0]


def test_given_places_are_scored_whatever_overlaps_them() -> None:
    wide, part = scored(0, 3, 1, 0.9), scored(1, 2, 1, 0.9)
    by_score = classifier(-3.0, score=6.0)
    assert [span.place for span in selected(by_score, wide, part)] == [(1, 2)]
    given = by_score.score_given([wide, part], [(0, 3), (1, 2), (5, 6)])
    assert given.keys() == {(0, 3), (1, 2)}
    assert given[1, 2].score == selected(by_score, wide, part)[0].score


def test_a_given_place_is_scored_as_if_nothing_overlapped_it() -> None:
    """Unless it is selected; a name has at least its own score."""
    found = classifier(-1.5, score=3.0, outer=-4.0, inner=-4.0)
    wide, part = scored(0, 3, 1, 0.9), scored(1, 2, 2, 0.7)
    assert [span.place for span in selected(found, wide, part)] == [(0, 3)]
    alone = found.score([[part]])[0][0].score
    assert found.score_given([wide, part], [(1, 2)])[1, 2].score == alone
    assert log_odds(alone) < log_odds(0.7)
    name = scored(1, 2, 2, 0.7, route=0)
    assert found.score_given([wide, name], [(1, 2)])[1, 2].score == pytest.approx(0.7)


def test_a_listed_abbreviation_is_always_a_mention() -> None:
    listed = scored(0, 1, 1, 0.9, route=0, listed=1, upper=1)
    assert [span.score for span in selected(classifier(-9.0), listed)] == [0.35]
    assert selected(classifier(-9.0), scored(0, 1, 1, 0.9, route=0, listed=1)) == []


def test_a_safe_abbreviation_has_the_share_of_its_meaning() -> None:
    safe = scored(0, 1, 1, 0.9, route=0, shorthand=1, usual=0.8, safe=1)
    assert [span.score for span in selected(classifier(-9.0), safe)] == [pytest.approx(0.72)]


def test_a_distinct_name_is_linked() -> None:
    def score(listed: bool = True, things: bool = True, **context: float) -> list[float | None]:
        span = scored(0, 1, 1, 0.9, route=1, **context)
        span = span._replace(candidate=replace(span.candidate, listed=listed))
        return [one.score for one in selected(replace(classifier(-9.0), trusts_things=things), span)]

    assert score(kind_procedure=1) == score(kind_substance=1) == score(kind_finding=1, content=2) == [0.6]
    assert score(kind_body=1) == score(kind_procedure=1, kind_finding=1) == score(kind_substance=1, unknown=1) == []
    assert score(listed=False, content=2) == score(things=False, kind_procedure=1) == []


def test_another_kind_of_thing_is_not_the_finding_named_after_it() -> None:
    plain = scored(0, 1, 1, 0.9)
    adds = plain._replace(best=plain.best._replace(ranked=plain.best.ranked._replace(adds=True)))
    cardiogram = Abbreviation(("EKG",), "de", "Elektrokardiogramm", "electrocardiogram", "procedure", 0.9, (), False)
    test = plain._replace(candidate=replace(plain.candidate, short=Shortened(cardiogram)))
    assert [len(selected(classifier(9.0), span)) for span in (plain, adds, test)] == [1, 0, 0]
    named = scored(0, 1, 1, 0.9, route=0)
    of_thing = named._replace(candidate=replace(named.candidate, short=Shortened(cardiogram)))
    assert len(selected(classifier(9.0), of_thing)) == 1
