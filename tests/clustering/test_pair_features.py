"""Features of pairs of terms, and probabilities computed from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medlink.clustering.pair_features import (
    NARROWER,
    PER_TERM,
    SAME,
    SHARED,
    PairClassifier,
    PairFeatures,
    PairModel,
    Pairs,
    crowding,
    shipped_model,
)
from medlink.index.knn_graph import nearest
from medlink.models import load_encoder
from tests.tables import cases

TEXTS = (
    "renal cyst", "Nierenzyste", "hepatic cyst", "renal cist", "type 2 diabetes", "type 2 diabetes with ulcer",
    "type 1 diabetes", "renalcyst", "RCB", "renal cyst bleeding", "acute pain", "chronic pain", "CDG2", "qqzz",
    "left arm", "left leg",
)  # fmt: skip
LANGUAGES = ["de" if text == "Nierenzyste" else "en" if text == "renal cyst" else "" for text in TEXTS]


def all_features(cosines: float = 0.7) -> dict[tuple[str, str], tuple[dict[str, float], ...]]:
    """Shared and single features of all pairs, without neighbours."""
    count = len(TEXTS)
    features = PairFeatures(TEXTS, LANGUAGES, np.full((count, 3), cosines, dtype=np.float32))
    one, other = np.triu_indices(count, 1)
    there, back = (
        features.measure(*ends, np.full(len(one), cosines, np.float32)) for ends in ((one, other), (other, one))
    )
    for mine, theirs in zip(there, back.swapped(), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(there.same(), back.same())
    return {
        (TEXTS[a], TEXTS[b]): tuple(
            dict(zip(names, values[number].tolist(), strict=True))
            for names, values in zip((SHARED, PER_TERM, PER_TERM), there[:3], strict=True)
        )
        for number, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True))
    }


PAIRS = all_features()


@pytest.mark.parametrize(("one", "other", "measure", "value"), cases(__file__, "shared_features.tsv"))
def test_shared_features(one: str, other: str, measure: str, value: str) -> None:
    assert PAIRS[one, other][0][measure] == pytest.approx(float(value))


@pytest.mark.parametrize(("one", "other", "measure", "mine", "theirs"), cases(__file__, "single_features.tsv"))
def test_features_of_one_term(one: str, other: str, measure: str, mine: str, theirs: str) -> None:
    """``+`` is any positive weight."""
    for side, value in zip(PAIRS[one, other][1:], (mine, theirs), strict=True):
        assert side[measure] > 0 if value == "+" else side[measure] == pytest.approx(float(value), abs=1e-6)


def test_the_rarer_word_weighs_more() -> None:
    """Many terms contain renal or cyst, only one contains bleeding."""
    _, cyst, bleeding = PAIRS["renal cyst", "renal cyst bleeding"]
    assert 0.5 < bleeding["covered"] < 2 / 3
    assert (cyst["covered"], bleeding["left"]) == (1, 1)
    assert 0 < PAIRS["renal cyst", "hepatic cyst"][1]["left"] < 1


def test_other_abbreviations_are_rivals() -> None:
    texts = ["RCB", "renal cyst bleeding", "rapid clot bleeding"]
    features = PairFeatures(texts, [""] * 3, np.zeros((3, 3), dtype=np.float32))
    ends = np.array([0, 0, 1]), np.array([1, 2, 2])
    shared = features.measure(*ends, np.zeros(3, dtype=np.float32)).shared
    assert shared[:, SHARED.index("initials_only")].tolist() == [0.5, 0.5, 0]


def test_crowding_worked_by_hand() -> None:
    """Ranks 6 to 25 count: 10 cosines of 0.8 and 10 missing ones, which count as 0.55, have the mean 0.675."""
    cosines = np.full((1, 30), 0.9, dtype=np.float32)
    cosines[0, 5:15], cosines[0, 15:] = 0.8, -1
    assert crowding(cosines).round(6).tolist() == [0.675]
    assert crowding(np.zeros((0, 30), dtype=np.float32)).tolist() == []


def pairs(**columns: Any) -> Pairs:
    """Pairs with these columns, such as ``one_covered`` for single features; all others are 0."""
    count = len(next(iter(columns.values())))
    shapes = (SHARED, PER_TERM, PER_TERM)
    columns_of = (np.zeros((count, len(names)), dtype=np.float32) for names in shapes)
    found = Pairs(*columns_of, np.zeros((count, 2), dtype=bool))
    for name, values in columns.items():
        side, _, of = name.partition("_")
        if side in ("one", "other"):
            getattr(found, side)[:, PER_TERM.index(of)] = values
        else:
            found.shared[:, SHARED.index(name)] = values
    return found


def weights(names: tuple[str, ...], offset: float = 0.0, **values: float) -> PairClassifier:
    assert values.keys() <= set(names)
    return PairClassifier(names, offset, tuple(values.get(name, 0.0) for name in names))


def test_probability_worked_by_hand() -> None:
    """2 * 0.5 - 0.5 * 1 - 1.5 = -1: 1 / (1 + e) = 0.2689; of the other pair -1.5."""
    same = weights(SAME, -1.5, cosine=2.0, opposed=-0.5)
    model = PairModel(same, weights(NARROWER))
    assert model.same_probability(pairs(cosine=[0.5, 0], opposed=[1, 0])).round(4).tolist() == [0.2689, 0.1824]
    assert PairClassifier.from_dict(SAME, same.to_dict()) == same


def test_trees_worked_by_hand() -> None:
    """They refine the first three pairs from -1, and leave -4 (a probability of .018)."""
    tree = ["opposed", 0.5, 0.25, ["cosine", 0.4, -0.5, 0.75]]
    same = replace(weights(SAME, -1.0, left_cosine=-3.0), trees=(tree, -0.25))
    some = pairs(opposed=[1, 1, 0, 1], cosine=[0.5, 0.3, 0.5, 0.3], left_cosine=[0, 0, 0, 1]).same()
    assert [round(math.log(p / (1 - p)), 6) for p in same.probability(some)] == [-0.5, -1.75, -1.0, -4.0]
    assert same.probability(some[1:2]) == same.probability(some)[1]
    assert PairClassifier.from_dict(SAME, same.to_dict()) == same


def test_the_same_concept_is_symmetric() -> None:
    model = PairModel(weights(SAME, covered_least=1.0, covered_most=3.0), weights(NARROWER))
    some = pairs(one_covered=[0.5, 1], other_covered=[1, 1])
    assert model.same_probability(some).tolist() == model.same_probability(some.swapped()).tolist()
    assert model.same_probability(some).round(4).tolist() == [0.9707, 0.982]  # 0.5 + 3 and 1 + 3


def test_narrower_worked_by_hand() -> None:
    model = PairModel(weights(SAME), weights(NARROWER, narrow_words=1.0, broad_words=-2.0, words_more=0.5))
    some = pairs(one_words=[3, 3], other_words=[1, 1])._replace(
        may_be_narrower=np.array([[True, False], [False, False]])
    )
    assert model.narrower_probability(some).round(4).tolist() == [0.8808, 0]  # 3 - 2 + 0.5 * 2 = 2
    assert model.narrower_probability(some.swapped()).tolist() == [0, 0]


def test_may_be_narrower() -> None:
    """It contains all words of the other and more, and both are findings or neither."""
    texts = ["acute pancreatitis", "pancreatitis", "pancreas", "pain in the arm", "arm"]
    features = PairFeatures(texts, ["en"] * 5, np.zeros((5, 3), dtype=np.float32))
    ends = np.array([0, 1, 3]), np.array([1, 2, 4])
    measured = features.measure(*ends, np.zeros(3, dtype=np.float32))
    assert measured.may_be_narrower.tolist() == [[True, False], [False, False], [False, False]]
    assert measured.swapped().may_be_narrower.tolist() == [[False, True], [False, False], [False, False]]


def test_what_a_term_spells() -> None:
    texts = ["Eisenmangelanämie", "Anämie", "arthritis of the knee", "knee arthritis", "dolor lumbar", "dolor", "pain"]
    features = PairFeatures(texts, [""] * 7, np.zeros((7, 3), dtype=np.float32))
    ends = np.array([0, 1, 2, 3, 4, 5, 4]), np.array([1, 0, 3, 2, 5, 4, 6])
    assert features.spelled(*ends).tolist() == [2, 0, 0, 0, 1, 0, 0]


@pytest.mark.slow
def test_the_shipped_weights_separate_synonyms_from_siblings() -> None:
    """Some of these siblings have a higher cosine than some of these synonyms."""
    synonyms = [
        ("kidney failure", "Niereninsuffizienz"),
        ("GSD due to glycogenin deficiency", "Glycogen storage disease due to glycogenin deficiency"),
        ("Autosomal dominant polycystic kidney disease", "ADPKD"),
        ("pneumonia", "pneumnia"),
    ]
    siblings = [
        ("X-linked intellectual disability, Turner type", "X-linked intellectual disability, Snyder type"),
        ("Limbic encephalitis with caspr2 antibodies", "Limbic encephalitis with nCMAgs antibodies"),
        ("Familial LCAT deficiency", "Partial LCAT deficiency"),
    ]
    texts = [text for pair in synonyms + siblings for text in pair]
    vectors = load_encoder().encode(texts)
    languages = [""] * len(texts)
    features = PairFeatures(texts, languages, nearest(vectors, 5)[1])
    one, other = np.arange(0, len(texts), 2), np.arange(1, len(texts), 2)
    cosines = np.einsum("ij,ij->i", vectors[one], vectors[other])
    found = shipped_model().same_probability(features.measure(one, other, cosines))
    assert cosines[: len(synonyms)].min() < cosines[len(synonyms) :].max()
    assert found[: len(synonyms)].min() > found[len(synonyms) :].max()
