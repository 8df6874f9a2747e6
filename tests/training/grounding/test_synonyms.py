"""Synonym sets, the splits of section 5.1, and average precision against a loop and scikit-learn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.records import Name
from medlink.training.grounding.synonyms import (
    SetOptions,
    hash_sets,
    hold_out,
    read_sets,
    retrieve_synonyms,
    split,
    synonym_sets,
)

SETS = {f"C{i:02}": tuple(f"{i}-{j}" for j in range(1 + i % 4)) for i in range(40)}


def test_one_concept_and_one_name() -> None:
    with pytest.raises(ConfigError, match="fewer than two concepts have a name of their own"):
        synonym_sets([Name("A", "cold"), Name("A", "coryza")])
    with pytest.raises(ConfigError, match="no concept has two names"):
        synonym_sets([Name("A", "cold"), Name("A", "Cold"), Name("B", "flu"), Name("B", "...")])


def test_a_name_of_two_codes_is_left_out() -> None:
    names = [Name("A", "a1"), Name("A", "a2"), Name("B", "b1"), Name("C", "c1"), Name("D", "d1")]
    found = synonym_sets(names, {"A": ["X"], "B": ["X", "Y"], "C": ["Y"]})
    assert found == {"X": ("a1", "a2"), "Y": ("c1",)}


def test_a_split_of_concepts_and_names() -> None:
    found = split(SETS, SetOptions(zero_shot=0.2, rounds=2))
    assert len(found.zero_shot) == 8
    assert not found.train.keys() & found.zero_shot.keys()
    assert {**found.train, **found.zero_shot}.keys() == SETS.keys()
    # two rounds: two names of a concept with three or four, one of a concept with two, none of a single one
    for concept, names in found.train.items():
        held_out = [text for text, of in found.test if of == concept]
        assert len(held_out) == min(2, len(SETS[concept]) - 1)
        assert sorted([*names, *held_out]) == sorted(SETS[concept])
    assert all(names == SETS[concept] for concept, names in found.zero_shot.items())
    assert split(SETS, SetOptions(zero_shot=0.2, rounds=2)) == found


@pytest.mark.parametrize("option", [{"zero_shot": 0.5}, {"rounds": 2}, {"split_seed": 2}])
def test_every_option_changes_the_split(option: dict[str, float]) -> None:
    assert split(SETS, SetOptions(**option)) != split(SETS, SetOptions())  # type: ignore[arg-type]  # numbers


def test_a_share_is_held_out() -> None:
    rest, drawn = hold_out(SETS, np.random.default_rng(1), 0.5)
    assert len(drawn) == 15
    assert sum(map(len, rest.values())) == sum(map(len, SETS.values())) - 15
    assert hash_sets(rest) != hash_sets(SETS)
    assert hold_out(SETS, np.random.default_rng(1), 0.0) == (SETS, [])


@pytest.mark.slow
def test_a_knowledge_base_in_one_language_or_by_its_codes(demo_path: Path) -> None:
    every, german = read_sets(demo_path, SetOptions()), read_sets(demo_path, SetOptions(languages="de"))
    assert "DEMO:0021" in german
    assert len(german["DEMO:0021"]) < len(every["DEMO:0021"])
    with KnowledgeBase(demo_path) as store:
        systems = sorted({mapping.system for mapping in store.iter_mappings()})
    remedy = f"it has maps to: {', '.join(systems) or 'none'}"
    with pytest.raises(ConfigError, match=rf"no concept maps to 'ICD-99'\. Remedy: {remedy}"):
        read_sets(demo_path, SetOptions(fuse="ICD-99"))


@pytest.mark.slow
def test_average_precision_against_a_loop_and_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.metrics import average_precision_score

    monkeypatch.setattr("medlink.training.grounding.synonyms._QUERIES", 64)
    rng = np.random.default_rng(3)
    names = rng.normal(size=(120, 6)).astype(np.float32)
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    right = [rng.choice(120, rng.integers(1, 9), replace=False) for _ in range(100)]
    itself = np.array([next(i for i in range(120) if i not in rows) for rows in right])
    precision, first = retrieve_synonyms(names[itself], names, right, itself)
    for row, synonyms in enumerate(right):
        cosines = names @ names[itself[row]]
        order = [name for name in np.argsort(-cosines) if name != itself[row]]
        ranks = sorted(order.index(name) + 1 for name in synonyms)
        assert first[row] == ranks[0]
        assert precision[row] == pytest.approx(np.mean([i / rank for i, rank in enumerate(ranks, 1)]))
        others = np.delete(np.arange(120), itself[row])
        theirs = average_precision_score(np.isin(others, synonyms), cosines[others])
        assert precision[row] == pytest.approx(theirs)


def test_a_constant_encoder_gains_nothing() -> None:
    same = np.ones((5, 1), dtype=np.float32)
    precision, first = retrieve_synonyms(same[:1], same, [np.array([0, 1])])
    assert first.tolist() == [4]
    assert precision[0] == pytest.approx((1 / 4 + 2 / 5) / 2)
