"""What a batch is made of, and how negatives are drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from medlink.training.grounding.network import ANCHOR, NEGATIVE, POSITIVE, GroundingBatches, draw_negatives
from medlink.training.recipes import GroundingRecipe

SETS = {"A": ("a0", "a1", "a2", "a3"), "B": ("b0",), "C": ("c0", "c1")}


def batches(**recipe: float) -> GroundingBatches:
    made = GroundingBatches(SETS, GroundingRecipe(**recipe))  # type: ignore[arg-type]  # numbers
    made.negatives = lambda epoch: np.array([4, 5, 6, 4, 0, 1, 2])
    return made


def test_an_epoch_has_every_pair_once_and_half_of_the_names_of_each_concept() -> None:
    made = batches(batch_size=3)
    pairs: Counter[frozenset[str]] = Counter()
    for batch in made.epoch(0):
        (texts,), labels = batch.columns, batch.labels
        assert labels is not None
        anchors, positives, negatives = (
            [text for text, label in zip(texts, labels, strict=True) if label == kind]
            for kind in (ANCHOR, POSITIVE, NEGATIVE)
        )
        pairs.update(frozenset(pair) for pair in zip(anchors, positives, strict=True))
        for anchor, negative in zip(anchors, negatives, strict=True):
            assert negative == made.texts[made.negatives(0)[made.texts.index(anchor)]]
        members = [(text, "ABC"[label].lower()) for text, label in zip(texts, labels, strict=True) if label >= 0]
        assert len(set(members)) == len(members)
        assert all(text[0] == concept for text, concept in members)
        assert Counter(concept for _, concept in members) == {c: {"a": 2, "c": 1}[c] for c in {t[0] for t in anchors}}
    assert set(pairs.values()) == {1}
    assert len(pairs) == 7


def test_epochs_differ_and_can_be_entered_anywhere() -> None:
    made = batches(batch_size=2)
    first, second = list(made.epoch(0)), list(made.epoch(1))
    assert len(first) == made.batches_per_epoch() == 4
    assert [batch.columns for batch in first] != [batch.columns for batch in second]
    assert [batch.columns for batch in made.epoch(1, 2)] == [batch.columns for batch in second[2:]]
    assert [batch.columns for batch in batches(batch_size=2, seed=2).epoch(0)] != [batch.columns for batch in first]


def test_an_epoch_may_have_fewer_pairs() -> None:
    made = batches(batch_size=2, pairs=3)
    assert len(list(made.epoch(0))) == made.batches_per_epoch() == 2
    assert [batch.columns for batch in made.epoch(0)] != [batch.columns for batch in made.epoch(1)]


def test_negatives_are_drawn_by_their_distance() -> None:
    # of name 0: name 1 is its own concept's, 2 at distance .1, 3 at .3, and one is missing
    rows = np.tile([1, 2, 3, -1], (4000, 1))
    cosines = np.tile(np.array([0.99, 0.9, 0.7, -1], dtype=np.float32), (4000, 1))
    owner = np.concatenate([[0, 0, 1, 2], np.zeros(3996, dtype=np.int64)])
    drawn = draw_negatives(rows, cosines, owner, np.random.default_rng(0))
    mine = drawn[owner == 0]
    assert set(mine.tolist()) == {2, 3}
    assert (mine == 2).mean() == pytest.approx(0.75, abs=0.03)


def test_a_name_among_its_own_concept_meets_any_other() -> None:
    drawn = draw_negatives(
        np.array([[1], [0], [3], [2]]),
        np.ones((4, 1), dtype=np.float32),
        np.array([0, 0, 1, 1]),
        np.random.default_rng(0),
    )
    assert set(drawn[:2].tolist()) <= {2, 3}
    assert set(drawn[2:].tolist()) <= {0, 1}
