"""The map, the losses and the batches of conceptual grounding: by hand and against loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from medlink.errors import ConfigError, EncoderError
from medlink.training.data.batches import Batch
from medlink.training.grounding.trainer import (
    ANCHOR,
    NEGATIVE,
    POSITIVE,
    GroundingBatches,
    GroundingLoss,
    concept_means,
    draw_negatives,
    fit_map,
    prototype_loss,
    synonym_loss,
)
from medlink.training.recipes import GroundingRecipe


def names(seed: int, concepts: int = 30, each: int = 4, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(concepts, d)) * np.array([3, 2, 1, 0.5, 0.1])
    owner = np.repeat(np.arange(concepts), each)
    mixed = (centres[owner] + rng.normal(size=(len(owner), d))) @ rng.normal(size=(d, d))
    return mixed.astype(np.float32), owner


def test_by_hand() -> None:
    # in the first direction 4 of 5 parts of the variance are between concepts, in the second none
    vectors = np.array([[3, 1], [1, -1], [-1, 1], [-3, -1]], dtype=np.float32)
    found = fit_map(vectors, np.array([0, 0, 1, 1]), ridge=0)
    assert found.correlations[1] == pytest.approx(0, abs=1e-6)
    # the names lie on (a + b, b) for a = 2, -2 and b = 1, -1: x - y is the concept itself
    assert found.correlations[0] == pytest.approx(1)
    direction = found.concepts[:, 0] / found.concepts[0, 0]
    np.testing.assert_allclose(direction, [1, -1], atol=1e-6)
    # the variance of x - y is 4: its variates have variance 1
    assert abs(found.names[0, 0]) == pytest.approx(1 / 2)


def test_correlations_are_those_of_scikit_learn() -> None:
    from sklearn.cross_decomposition import CCA

    vectors, owner = names(2)
    concepts = concept_means(vectors, owner)[owner]
    x, y = CCA(n_components=5, max_iter=100_000, tol=1e-12).fit_transform(vectors.astype(np.float64), concepts)
    theirs = sorted((abs(np.corrcoef(x[:, i], y[:, i])[0, 1]) for i in range(5)), reverse=True)
    np.testing.assert_allclose(fit_map(vectors, owner, ridge=0).correlations, theirs, atol=1e-3)


def test_useless_embeddings() -> None:
    for owner in ([0, 0, 0, 0], [0, 1, 0, 1]):
        vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
        with pytest.raises(ConfigError, match=r"all concepts are embedded alike\. Remedy: train on several concepts"):
            fit_map(vectors, np.array(owner))
    with pytest.raises(EncoderError, match="an embedding of a name is NaN or infinite"):
        fit_map(np.array([[1, 0], [np.nan, 1]], dtype=np.float32), np.array([0, 1]))


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return 1 - float(a @ b) / float(a.norm() * b.norm())


def test_synonym_loss_is_a_hinge_for_each_triplet() -> None:
    torch.manual_seed(0)
    a, p, n = torch.randn(3, 20, 4)
    apart = [distance(x, y) - distance(x, z) + 0.1 for x, y, z in zip(a, p, n, strict=True)]
    one_by_one = sum(max(value, 0) for value in apart)
    assert abs(float(synonym_loss(a, p, n, 0.1)) - one_by_one / 20) < 1e-5
    # the hinge of the means would be another number
    assert abs(one_by_one - max(sum(apart), 0)) > 1


def test_prototype_loss_against_a_loop() -> None:
    torch.manual_seed(1)
    members, targets = torch.randn(9, 4), torch.randn(3, 4)
    owner = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2, 2])
    by_hand = [distance(members[owner == i].mean(dim=0), targets[i]) for i in range(3)]
    assert abs(float(prototype_loss(members, owner, targets)) - sum(by_hand) / 3) < 1e-6


def test_labels_split_a_batch() -> None:
    torch.manual_seed(2)
    rows, targets = torch.randn(11, 4, requires_grad=True), torch.randn(5, 4)
    labels = torch.tensor([ANCHOR, ANCHOR, POSITIVE, POSITIVE, NEGATIVE, NEGATIVE, 3, 3, 1, 1, 1])
    loss = GroundingLoss(targets, 0.1).compute_loss_from_embeddings([rows], labels)
    expected = synonym_loss(rows[:2], rows[2:4], rows[4:6], 0.1)
    expected = expected + prototype_loss(rows[6:], torch.tensor([1, 1, 0, 0, 0]), targets[[1, 3]])
    assert torch.equal(loss, expected)
    loss.backward()
    assert rows.grad is not None
    assert bool(rows.grad[6:].abs().sum(dim=1).all())


SETS = {"A": ("a0", "a1", "a2", "a3"), "B": ("b0",), "C": ("c0", "c1")}


def batches(**recipe: float) -> GroundingBatches:
    made = GroundingBatches(SETS, GroundingRecipe(**recipe))  # type: ignore[arg-type]  # numbers
    made.negatives = lambda epoch: np.array([4, 5, 6, 4, 0, 1, 2])
    return made


def test_an_epoch_has_every_pair_once_and_half_of_the_names_of_each_concept() -> None:
    made = batches(batch_size=3)
    pairs: Counter[frozenset[str]] = Counter()
    for batch in made.epoch(0):
        labels = batch.labels
        texts = [made.names[name] for name in batch.columns[0]]
        anchors, positives, negatives = (
            [text for text, label in zip(texts, labels, strict=True) if label == kind]
            for kind in (ANCHOR, POSITIVE, NEGATIVE)
        )
        pairs.update(frozenset(pair) for pair in zip(anchors, positives, strict=True))
        for anchor, negative in zip(anchors, negatives, strict=True):
            assert negative == made.names[made.negatives(0)[made.names.index(anchor)]]
        members = [(text, "ABC"[label].lower()) for text, label in zip(texts, labels, strict=True) if label >= 0]
        assert len(set(members)) == len(members)
        assert all(text[0] == concept for text, concept in members)
        assert Counter(concept for _, concept in members) == {c: {"a": 2, "c": 1}[c] for c in {t[0] for t in anchors}}
    assert set(pairs.values()) == {1}
    assert len(pairs) == 7


def names_of(batches: Iterable[Batch]) -> list[list[int]]:
    return [batch.columns[0].tolist() for batch in batches]


def test_epochs_differ_and_can_be_entered_anywhere() -> None:
    made = batches(batch_size=2)
    first, second = names_of(made.epoch(0)), names_of(made.epoch(1))
    assert len(first) == made.batches_per_epoch() == 4
    assert first != second
    assert names_of(made.epoch(1, 2)) == second[2:]
    assert names_of(batches(batch_size=2, seed=2).epoch(0)) != first
    fewer = batches(batch_size=2, pairs=3)
    assert len(names_of(fewer.epoch(0))) == fewer.batches_per_epoch() == 2
    assert names_of(fewer.epoch(0)) != names_of(fewer.epoch(1))


def test_negatives_are_drawn_by_their_distance() -> None:
    # of name 0: name 1 is its own concept's, 2 at distance .1, 3 at .3, and one is missing
    rows = np.tile([1, 2, 3, -1], (4000, 1))
    cosines = np.tile(np.array([0.99, 0.9, 0.7, -1], dtype=np.float32), (4000, 1))
    owner = np.concatenate([[0, 0, 1, 2], np.zeros(3996, dtype=np.int64)])
    drawn = draw_negatives(rows, cosines, owner, np.random.default_rng(0))
    mine = drawn[owner == 0]
    assert set(mine.tolist()) == {2, 3}
    assert (mine == 2).mean() == pytest.approx(0.75, abs=0.03)


def test_negatives_beyond_the_neighbours() -> None:
    rows, owner = np.array([[1], [0], [3], [2]]), np.array([0, 0, 1, 1])
    drawn = draw_negatives(rows, np.ones((4, 1), np.float32), owner, np.random.default_rng(0))
    assert set(drawn[:2].tolist()) <= {2, 3}
    assert set(drawn[2:].tolist()) <= {0, 1}
