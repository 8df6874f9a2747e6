"""Evidence of pairs of terms, measure by measure, and the probability made of it."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.evidence import FEATURES, Evidence, Join, crowding, shipped_join
from medlink.clustering.guards import Guards
from medlink.index.selfjoin import nearest
from medlink.models import load_encoder

TEXTS = (
    "renal cyst", "Nierenzyste", "hepatic cyst", "renal cist", "type 2 diabetes", "type 2 diabetes with ulcer",
    "type 1 diabetes", "renalcyst", "RCB", "renal cyst bleeding", "nail", "loss of nails",
)  # fmt: skip
LANGUAGES = ["de" if text == "Nierenzyste" else "en" if text == "renal cyst" else "" for text in TEXTS]


def measured(cosines: float = 0.7) -> dict[tuple[str, str], dict[str, float]]:
    """The measures of all pairs whose neighbours are all missing."""
    count = len(TEXTS)
    guards = Guards(TEXTS, LANGUAGES)
    evidence = Evidence(TEXTS, LANGUAGES, guards, np.full((count, 3), cosines, dtype=np.float32))
    one, other = np.triu_indices(count, 1)
    there, back = (
        evidence.measure(*ends, np.full(len(one), cosines, np.float32)) for ends in ((one, other), (other, one))
    )
    assert np.array_equal(there, back)
    return {
        (TEXTS[a], TEXTS[b]): dict(zip(FEATURES, row.tolist(), strict=True))
        for a, b, row in zip(one.tolist(), other.tolist(), there, strict=True)
    }


PAIRS = measured()


@pytest.mark.parametrize(
    ("pair", "measure", "value"),
    [
        (("renal cyst", "Nierenzyste"), "same_words", 1),
        (("renal cyst", "Nierenzyste"), "foreign", 1),
        (("renal cyst", "Nierenzyste"), "foreign_cosine", 0.7),
        (("renal cyst", "Nierenzyste"), "left_most", 0),
        (("renal cyst", "hepatic cyst"), "same_words", 0),
        (("renal cyst", "hepatic cyst"), "foreign", 0),  # one has no language
        (("renal cyst", "hepatic cyst"), "spelling", 0),
        (("renal cyst", "renal cist"), "spelling", pytest.approx(0.5)),  # one of ten letters
        (("renal cyst", "renalcyst"), "compact", 1),
        (("renal cyst", "renal cist"), "compact", 0),
        (("type 2 diabetes", "type 2 diabetes with ulcer"), "numbers_same", 1),
        (("type 2 diabetes", "type 2 diabetes with ulcer"), "numbers_more", 0),
        (("type 2 diabetes", "type 2 diabetes with ulcer"), "left_least", 0),
        (("type 2 diabetes", "type 1 diabetes"), "numbers_same", 0),
        (("type 2 diabetes", "type 1 diabetes"), "numbers_more", 1),
        (("RCB", "renal cyst bleeding"), "initials", pytest.approx(1)),
        (("RCB", "renal cyst bleeding"), "initials_long", pytest.approx(1 / 3)),
        (("RCB", "renal cyst bleeding"), "short", 1),
        (("RCB", "renal cyst bleeding"), "short_cosine", pytest.approx(0.7)),
        (("renal cyst", "renal cyst bleeding"), "initials", 0),
        (("nail", "loss of nails"), "lacks", 1),
        (("renal cyst", "hepatic cyst"), "lacks", 0),
        (("renal cyst", "hepatic cyst"), "length", pytest.approx(abs(np.log(10 / 12)))),
        (("renal cyst", "hepatic cyst"), "gap_least", 0),
        (("renal cyst", "hepatic cyst"), "crowd_most", pytest.approx(0.25)),  # 0.7 above the usual 0.45
    ],
)
def test_measures(pair: tuple[str, str], measure: str, value: float) -> None:
    assert PAIRS[pair][measure] == pytest.approx(value)


def test_what_is_left_over_of_both_and_of_one() -> None:
    siblings, narrower = PAIRS["renal cyst", "hepatic cyst"], PAIRS["renal cyst", "renal cyst bleeding"]
    assert siblings["left_least"] > narrower["left_least"] == 0
    assert narrower["left_most"] > 0
    assert 0 < siblings["said"] < PAIRS["renal cyst", "Nierenzyste"]["said"] == pytest.approx(1)


def test_crowding_worked_by_hand() -> None:
    """Of 30 places the 6th to the 25th count; 10 of 0.8 and 10 missing, which count 0.45, are 0.625."""
    cosines = np.full((1, 30), 0.9, dtype=np.float32)
    cosines[0, 5:15], cosines[0, 15:] = 0.8, -1
    assert crowding(cosines).round(6).tolist() == [0.625]
    assert crowding(np.zeros((0, 30), dtype=np.float32)).tolist() == []


def test_probability_worked_by_hand() -> None:
    """2 * 0.5 - 0.5 * 1 - 1.5 = -1: 1 / (1 + e) = 0.2689."""
    features = np.zeros((2, len(FEATURES)), dtype=np.float32)
    features[0, 0], features[0, 5] = 0.5, 1.0
    weights = [0.0] * len(FEATURES)
    weights[0], weights[5] = 2.0, -0.5
    join = Join(tuple(weights), -1.5)
    assert join.probability(features).round(4).tolist() == [0.2689, 0.1824]
    assert Join.from_dict(join.to_dict()) == join


def test_the_weights_that_ship_tell_synonyms_from_siblings() -> None:
    """Cosines alone put some of these siblings above some of these synonyms."""
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
    evidence = Evidence(texts, languages, Guards(texts, languages), nearest(vectors, 5)[1])
    one, other = np.arange(0, len(texts), 2), np.arange(1, len(texts), 2)
    cosines = np.einsum("ij,ij->i", vectors[one], vectors[other])
    found = shipped_join().probability(evidence.measure(one, other, cosines))
    assert cosines[: len(synonyms)].min() < cosines[len(synonyms) :].max()
    assert found[: len(synonyms)].min() > found[len(synonyms) :].max()
