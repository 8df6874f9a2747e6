"""Terms with their concepts, neighbours and batches: against plain loops."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from medlink.errors import ConfigError
from medlink.records import Name
from medlink.training.coderpp import trainer
from medlink.training.coderpp.terms import Terms
from medlink.training.coderpp.trainer import TermBatches, nearest_in_blocks, nearest_terms
from medlink.training.recipes import CoderPlusPlusRecipe


def random_names(seed: int, count: int = 60) -> list[Name]:
    rng = np.random.default_rng(seed)
    words = ["renal", "Renal", "liver", "leber", "Niere", "stone", "Stein", "calculus"]
    return [Name(f"C{rng.integers(12)}", " ".join(rng.choice(words, 2).tolist())) for _ in range(count)]


def sets_of(terms: Terms) -> list[set[int]]:
    """The concepts of each term."""
    owner, concepts = terms.concepts_of(np.arange(len(terms)))
    return [set(concepts[owner == term].tolist()) for term in range(len(terms))]


def test_spellings_of_one_form_are_one_term_of_all_their_concepts() -> None:
    terms = Terms(
        [Name("B", "cold", "en"), Name("A", "Cold", "en"), Name("A", "frío", "es"), Name("B", "COLD"), Name("B", "--")]
    )
    assert list(terms) == ["COLD", "frío"]
    assert terms.concepts == 2
    assert sets_of(terms) == [{0, 1}, {0}]
    assert (terms.names, len(terms)) == (5, 2)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_positives_are_other_terms_of_the_concepts(count: int) -> None:
    terms = Terms(random_names(1))
    concepts, seen = sets_of(terms), set()
    for seed in range(300):
        rng = np.random.default_rng(seed)
        anchors = rng.permutation(len(terms))[:3]
        drawn = terms.positives(anchors, count, rng).tolist()
        # each anchor in turn
        for anchor in anchors.tolist():
            allowed = {term for term in range(len(terms)) if concepts[term] & concepts[anchor]} - {anchor}
            own, drawn = drawn[: min(count, len(allowed))], drawn[min(count, len(allowed)) :]
            assert len(set(own)) == len(own) == min(count, len(allowed))
            assert set(own) <= allowed
            seen.update((anchor, term) for term in own)
        assert not drawn
    # a draw may give any of them
    assert len(seen) > 0.85 * sum(bool(a & b) for a, b in permutations(concepts, 2))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "fewer than two concepts. Remedy: train on a terminology of several concepts"),
        ([Name("A", "x"), Name("A", "y")], "fewer than two concepts"),
        ([Name("A", "x"), Name("B", "y")], "no concept has two names. Remedy: train on a source that has synonyms"),
        ([Name("A", "x"), Name("A", "X"), Name("B", "y")], "no concept has two names"),
    ],
)
def test_nothing_to_learn(names: list[Name], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Terms(names)
    assert message in str(error.value)


RECIPE = CoderPlusPlusRecipe(positives=2, neighbours=3, anchors=4, seed=5)


def points(n: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, 16)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def terms() -> Terms:
    return Terms([Name(f"C{i % 7}", f"word {i}") for i in range(30)] + [Name("C0", "word 1"), Name("C9", "alone")])


CPU = torch.device("cpu")


def test_nearest_against_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, done = points(200), []
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    expected = np.argsort(-cosines, axis=1)[:, :5]
    np.testing.assert_array_equal(nearest_terms(vectors, 5, CPU), expected)
    # as on a GPU
    monkeypatch.setattr(trainer, "_QUERIES", 64)
    monkeypatch.setattr(trainer, "_COMPARED", 48)
    found = nearest_in_blocks(torch.from_numpy(vectors), 5, lambda *counts: done.append(counts))
    np.testing.assert_array_equal(found.numpy(), expected)
    assert done == [(64, 200), (128, 200), (192, 200), (200, 200)]


@pytest.mark.parametrize(
    "search", [lambda x: nearest_terms(x, 3, CPU), lambda x: nearest_in_blocks(torch.tensor(x), 3)]
)
def test_a_term_is_no_neighbour_of_itself_even_among_twins(search: Callable[[np.ndarray], Any]) -> None:
    found = search(np.ones((6, 1), np.float32))
    assert not (found == np.arange(6)[:, None]).any()
    assert all(len(set(row)) == 3 for row in found.tolist())


def sampler(terms: Terms, recipe: CoderPlusPlusRecipe = RECIPE, batches: int = 6) -> TermBatches:
    made = TermBatches(terms, recipe, batches)
    made.neighbours = nearest_terms(points(len(terms)), recipe.neighbours, CPU)
    return made


def composed(batches: TermBatches, epoch: int = 0, start: int = 0) -> list[list[int]]:
    return [batch.columns[0].tolist() for batch in batches.epoch(epoch, start)]


def test_a_batch_is_anchors_with_positives_and_neighbours(terms: Terms) -> None:
    made = sampler(terms)
    for number in range(8):
        batch, anchors = made.compose(number).tolist(), made.anchors(number)
        assert batch == sorted(set(batch))
        near = set(made.neighbours[anchors].reshape(-1).tolist())
        assert set(batch) >= near | set(anchors.tolist())
        rest = set(batch) - near - set(anchors.tolist())
        concepts = sets_of(terms)
        own = set().union(*(concepts[anchor] for anchor in anchors))
        assert all(concepts[term] & own for term in rest)
        for anchor in anchors:
            possible = terms.positives(np.array([anchor]), 99, np.random.default_rng(0))
            assert len(set(possible.tolist()) & set(batch)) >= min(2, len(possible))


def test_every_term_is_an_anchor_once_an_epoch(terms: Terms) -> None:
    made = sampler(terms)
    drawn = np.concatenate([made.anchors(number) for number in range(2 * len(terms))])
    n = len(terms)
    first, second = drawn[:n], drawn[n : 2 * n]
    assert sorted(first) == sorted(second) == list(range(n))
    assert first.tolist() != second.tolist()


def test_rounds_are_consecutive_and_every_option_changes_the_batches(terms: Terms) -> None:
    made = sampler(terms)
    batches = [made.compose(number).tolist() for number in range(12)]
    assert composed(made) == batches[:6]
    assert composed(made, 1) == batches[6:]
    assert composed(made, 1, 4) == batches[10:]
    for option in ({"positives": 1}, {"neighbours": 1}, {"anchors": 3}, {"seed": 6}):
        assert composed(sampler(terms, RECIPE.replace(**option))) != batches[:6], option


def test_labels_are_shared_concepts(terms: Terms) -> None:
    concepts = sets_of(terms)
    for batch in sampler(terms).epoch(0):
        expected = [[bool(concepts[a] & concepts[b]) for b in batch.columns[0]] for a in batch.columns[0]]
        np.testing.assert_array_equal(batch.labels, expected)
