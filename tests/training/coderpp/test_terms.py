"""Terms with their concepts, neighbours and batches: against plain loops."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from medlink.errors import ConfigError
from medlink.models import load_encoder
from medlink.records import Name
from medlink.training.coderpp.loop import Collator, RoundSampler, TermTokenizer, nearest_terms
from medlink.training.coderpp.terms import Terms
from medlink.training.common.losses import copy_without_weights
from medlink.training.recipes import CoderPlusPlusRecipe
from tests.index.gpus import stand_in


def random_names(seed: int, count: int = 60) -> list[Name]:
    rng = np.random.default_rng(seed)
    words = ["renal", "Renal", "liver", "leber", "Niere", "stone", "Stein", "calculus"]
    return [Name(f"C{rng.integers(12)}", " ".join(rng.choice(words, 2).tolist())) for _ in range(count)]


def test_spellings_of_one_form_are_one_term_of_all_their_concepts() -> None:
    terms = Terms(
        [Name("B", "cold", "en"), Name("A", "Cold", "en"), Name("A", "frío", "es"), Name("B", "COLD"), Name("B", "--")]
    )
    assert terms.texts(np.arange(2)) == ["COLD", "frío"]
    assert terms.concepts == 2
    assert [terms.concepts_of(i).tolist() for i in range(2)] == [[0, 1], [0]]
    assert [terms.members_of(i).tolist() for i in range(2)] == [[0, 1], [0]]
    assert (terms.names, len(terms)) == (5, 2)


@pytest.mark.parametrize("seed", range(2))
def test_shared_concepts_against_sets(seed: int) -> None:
    terms = Terms(random_names(seed))
    chosen = np.random.default_rng(seed).permutation(len(terms))[: 1 + len(terms) // 2]
    sets = [set(terms.concepts_of(int(term)).tolist()) for term in chosen]
    np.testing.assert_array_equal(terms.share_concept(chosen), [[bool(a & b) for b in sets] for a in sets])


@pytest.mark.parametrize("count", [1, 3, 30])
def test_positives_are_other_terms_of_the_concepts(count: int) -> None:
    terms = Terms(random_names(1))
    for term in range(len(terms)):
        allowed = {int(t) for c in terms.concepts_of(term) for t in terms.members_of(int(c))} - {term}
        drawn = terms.positives(term, count, np.random.default_rng(0)).tolist()
        assert len(drawn) == len(set(drawn)) == min(count, len(allowed))
        assert set(drawn) <= allowed


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


def test_nearest_against_all_pairs() -> None:
    vectors = points(200)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    np.testing.assert_array_equal(nearest_terms(vectors, 5), np.argsort(-cosines, axis=1)[:, :5])


def test_a_term_is_no_neighbour_of_itself_even_among_twins() -> None:
    vectors = np.ones((6, 1), np.float32)
    found = nearest_terms(vectors, 3)
    assert not (found == np.arange(6)[:, None]).any()
    assert all(len(set(row)) == 3 for row in found.tolist())


def test_gpus_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = points(50).astype(np.float16)
    on_cpu = nearest_terms(vectors, 5)
    shares = stand_in(monkeypatch, 2)
    found = nearest_terms(vectors, 5)
    assert [(gpu, share.ntotal) for gpu, share in shares] == [(0, 25), (1, 25)]
    np.testing.assert_array_equal(found, on_cpu)


def sampler(terms: Terms, recipe: CoderPlusPlusRecipe = RECIPE, batches: int = 6) -> RoundSampler:
    made = RoundSampler(terms, recipe, batches)
    made.neighbours = nearest_terms(points(len(terms)), recipe.neighbours)
    return made


def test_a_batch_is_anchors_with_positives_and_neighbours(terms: Terms) -> None:
    made = sampler(terms)
    for number in range(8):
        batch, anchors = made.compose(number).tolist(), made.anchors(number)
        assert batch == sorted(set(batch))
        near = set(made.neighbours[anchors].reshape(-1).tolist())
        assert set(batch) >= near | set(anchors.tolist())
        rest = set(batch) - near - set(anchors.tolist())
        for term in rest:
            assert terms.share_concept(np.array([term, *anchors]))[0, 1:].any()
        for anchor in anchors:
            possible = terms.positives(int(anchor), 99, np.random.default_rng(0))
            assert len(set(possible.tolist()) & set(batch)) >= min(2, len(possible))


def test_every_term_is_an_anchor_once_an_epoch(terms: Terms) -> None:
    made = sampler(terms)
    drawn = np.concatenate([made.anchors(number) for number in range(2 * len(terms))])
    n = len(terms)
    first, second = drawn[:n], drawn[n : 2 * n]
    assert sorted(first) == sorted(second) == list(range(n))
    assert first.tolist() != second.tolist()


def test_rounds_are_consecutive(terms: Terms) -> None:
    made = sampler(terms)
    batches = [made.compose(number).tolist() for number in range(12)]
    assert list(made) == batches[:6]
    made.round = 1
    assert list(made) == batches[6:]
    assert len(made) == 6


def test_every_option_changes_the_batches(terms: Terms) -> None:
    base = list(sampler(terms))
    for option in ({"positives": 1}, {"neighbours": 1}, {"anchors": 3}, {"seed": 6}):
        assert list(sampler(terms, RECIPE.replace(**option))) != base, option
    assert list(sampler(terms)) == base


def encode(terms: np.ndarray) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.from_numpy(terms)}


def test_the_collator_gives_features_and_the_relation(terms: Terms) -> None:
    made = Collator(terms, encode)([{"term": 1}, {"term": 0}, {"term": 8}])
    assert made["term_input_ids"].tolist() == [1, 0, 8]
    np.testing.assert_array_equal(made["label"].numpy(), terms.share_concept(np.array([1, 0, 8])))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of one core
def test_workers_change_nothing(terms: Terms, bert: Path) -> None:
    model = load_encoder(bert, device="cpu").model  # type: ignore[attr-defined]  # a transformer
    tokens = TermTokenizer(copy_without_weights(model), terms)
    seen = []
    # workers that are not forked get a pickled copy
    copy = pickle.loads(pickle.dumps(tokens))  # noqa: S301  # pickled here
    for workers, collator in ((0, Collator(terms, tokens)), (2, Collator(terms, copy))):
        loader = DataLoader(
            [{"term": i} for i in range(len(terms))],  # type: ignore[arg-type]  # a list is a dataset
            batch_sampler=sampler(terms, batches=2),
            collate_fn=collator,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        seen.append([{name: value.tolist() for name, value in batch.items()} for batch in loader])
    assert seen[0] == seen[1]
