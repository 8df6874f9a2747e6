"""Terms, their concepts, and which of them share one."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.records import Name
from medlink.training.coderpp.terms import Terms


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


@pytest.mark.parametrize("seed", range(4))
def test_same_against_sets(seed: int) -> None:
    terms = Terms(random_names(seed))
    chosen = np.random.default_rng(seed).permutation(len(terms))[: 1 + len(terms) // 2]
    sets = [set(terms.concepts_of(int(term)).tolist()) for term in chosen]
    np.testing.assert_array_equal(terms.same(chosen), [[bool(a & b) for b in sets] for a in sets])


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
