"""The material of pairs, and the draws: by hand, against lists and against records."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from medlink.language.text import normalise
from medlink.training.data.batches import cycle_order, shared_keys
from medlink.training.data.pair_sources import PairSources, clause, relation_phrase
from medlink.training.data.pairs import cumulative_count, draw_ancestors
from medlink.training.data.ragged import Ragged, write_ragged
from medlink.training.data.view import TrainingView

from .pairs_kb import build, random_kb

RELATIONS = Path(__file__).with_name("relations.tsv").read_text("utf-8").splitlines()[1:]


def test_relations_in_words() -> None:
    found = [f"{relation}\t{relation_phrase(relation)}" for relation in (row.split("\t")[0] for row in RELATIONS)]
    assert found == RELATIONS
    # these deny a relation
    assert relation_phrase("XR") is relation_phrase("DEL") is None


def ragged(values: list[list[int]]) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in values])]).astype(np.int64)
    return Ragged(offsets, np.array([value for row in values for value in row], dtype=np.int32))


def values_of(group: Ragged, owner: int) -> list[int]:
    return list(group.values[group.offsets[owner] : group.offsets[owner + 1]].tolist())


def owners(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def test_ragged_against_lists() -> None:
    rng = np.random.default_rng(0)
    values = [rng.integers(100, size=rng.integers(5)).tolist() for _ in range(50)]
    chosen, uniform = rng.integers(50, size=200).astype(np.int32), rng.random(200)
    group = ragged(values)
    drawn, positions = group.draw(chosen, uniform).tolist(), group.draw_positions(chosen, uniform).tolist()
    for owner, share, value, position in zip(chosen.tolist(), uniform, drawn, positions, strict=True):
        given = values[owner]
        assert value == (given[int(share * len(given))] if given else -1)
        assert (group.values[position] if given else -1) == value
    assert group.sizes(chosen).tolist() == [len(values[owner]) for owner in chosen]
    assert group.owners().tolist() == [i for i, row in enumerate(values) for _ in row]
    chosen[::7] = -1
    gathered, lengths = group.gather(chosen)
    assert lengths.tolist() == [0 if owner < 0 else len(values[owner]) for owner in chosen]
    assert gathered.tolist() == [value for owner in chosen if owner >= 0 for value in values[owner]]
    even = group.where(group.values % 2 == 0)
    assert [values_of(even, i) for i in range(50)] == [[v for v in row if v % 2 == 0] for row in values]


def test_groups_in_files(tmp_path: Path) -> None:
    values = [[1, 2], [], [3], [4, 5, 6]]
    first, second = ragged(values), ragged([[], [], [], []])
    parts = [
        [(group.values[a:b], np.diff(group.offsets)[c:d]) for group, a, b in ((first, *at), (second, 0, 0))]
        for at, c, d in (((0, 2), 0, 2), ((2, 6), 2, 4))
    ]
    write_ragged(tmp_path, parts)
    for group, expected in zip(Ragged.open(tmp_path, 2), (first, second), strict=True):
        assert group.offsets.tolist() == expected.offsets.tolist()
        assert group.values.tolist() == expected.values.tolist()
    with (tmp_path / "0.values").open("r+b") as file:
        file.truncate(8)
    with pytest.raises(ValueError, match="shorter than it was"):
        Ragged.open(tmp_path, 2)


def test_ancestors_by_hand() -> None:
    # 0 -> 1 -> 2 -> 3, and 4 without parents
    parents = ragged([[1], [2], [3], [], []])
    drawn = draw_ancestors(parents, np.repeat(owners(0, 2, 3, 4), 6000), np.random.default_rng(0)).reshape(4, 6000)
    counts = Counter(drawn[0].tolist())
    assert set(counts) == {1, 2, 3}
    assert max(abs(count / 6000 - 1 / 3) for count in counts.values()) < 0.02
    assert set(drawn[1].tolist()) == {3}
    assert set(drawn[2:].ravel().tolist()) == {-1}
    # cycles end, and a concept is no ancestor of itself: 0 -> 1 -> 2 -> 1, and 3 -> 4 -> 3
    cycles = ragged([[1], [2], [1], [4], [3]])
    drawn = draw_ancestors(cycles, np.repeat(owners(0, 3), 200), np.random.default_rng(0))
    assert set(drawn[:200].tolist()) == {1, 2}
    assert set(drawn[200:].tolist()) == {4}


def test_ancestors_against_the_closure() -> None:
    rng = np.random.default_rng(0)
    above = [rng.integers(number, size=rng.integers(3)).tolist() if number else [] for number in range(30)]
    closure: list[set[int]] = []
    for parents in above:
        closure.append(set(parents).union(*(closure[parent] for parent in parents)))
    drawn = draw_ancestors(ragged(above), np.repeat(np.arange(30, dtype=np.int32), 400), rng).reshape(30, 400)
    for ancestors, found in zip(closure, drawn, strict=True):
        assert set(found.tolist()) == (ancestors or {-1})


@pytest.mark.parametrize("size", [1, 4, 12])
def test_shared_keys_against_sets(size: int) -> None:
    rng = np.random.default_rng(size)
    rows, keys = rng.integers(0, 12, 40), rng.integers(-5, 30, 40)
    masks = list(shared_keys(rows, keys, size, 12 // size))
    assert len(masks) == 12 // size
    of_row = [set(keys[rows == row].tolist()) for row in range(12)]
    for batch, mask in enumerate(masks):
        own = of_row[batch * size : (batch + 1) * size]
        expected = [[i == j or bool(a & b) for j, b in enumerate(own)] for i, a in enumerate(own)]
        np.testing.assert_array_equal(mask, expected)


def test_cycle_orders() -> None:
    assert sorted(cycle_order(1, 2, 3, 100)) == list(range(100))
    assert cycle_order(1, 2, 3, 0).tolist() == []
    orders = {tuple(cycle_order(*key, 100).tolist()) for key in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))}
    assert len(orders) == 4


@pytest.mark.parametrize("share", [0.0, 0.15, 0.85, 1 / 3, 1.0])
def test_shares_are_spread_evenly(share: float) -> None:
    counts = [cumulative_count(share, position) for position in range(2001)]
    assert all(0 <= after - before <= 1 for before, after in pairwise(counts))
    assert max(abs(count - share * position) for position, count in enumerate(counts)) <= 1
    assert cumulative_count(0.15, 10**8) == 15 * 10**6


@pytest.mark.slow
@pytest.mark.parametrize("languages", [None, ["de", "en"]])
def test_sources_against_records(tmp_path: Path, languages: list[str] | None) -> None:
    kb = random_kb(tmp_path, concepts=60)
    view = TrainingView(kb, languages=languages)
    sources = PairSources(view)
    ids = view.concept_ids(np.arange(view.concepts, dtype=np.int32))
    names = list(kb.iter_names(languages=languages))
    forms = view.name_texts(view.names.values)
    by_form = defaultdict(set)
    for number in range(view.concepts):
        for row in values_of(view.names, number):
            by_form[normalise(forms[row])].add(number)
    english = {name.concept_id for name in names if name.language == "en"}
    named = {name.concept_id for name in names}
    relations = sorted((r.head, r.type, r.tail) for r in kb.iter_relations() if r.tail in english)
    related = zip(sources.related.owners(), sources.related_types, sources.related.values, strict=True)
    assert relations == sorted((ids[head], view.types[kind], ids[tail]) for head, kind, tail in related)
    assert [ids[number] for number in sources.related_concepts] == sorted({head for head, _, _ in relations} & named)
    assert {ids[number] for number in sources.defined} == {d.concept_id for d in kb.iter_definitions()}
    synonyms = {number for number in range(view.concepts) if sum(number in found for found in by_form.values()) > 1}
    assert set(sources.with_synonyms.tolist()) == synonyms
    shared = [set(values_of(sources.shared_forms, number)) for number in range(view.concepts)]
    for a in range(view.concepts):
        for b in range(a):
            assert bool(shared[a] & shared[b]) == any({a, b} <= found for found in by_form.values())
    for name, number in zip(view.types, sources.type_clauses, strict=True):
        assert sources.clauses[number] == clause(relation_phrase(name) or "")
    assert [name for name, up in zip(view.types, sources.is_hierarchy, strict=True) if up] == ["isa"]


def test_names_of_descriptions_are_english(tmp_path: Path) -> None:
    names = [("C1", "cold", "ENG"), ("C1", "Erkältung", "GER"), ("C2", "Husten", "GER"), ("C3", "fever", "ENG")]
    view = TrainingView(build(tmp_path, names=names, relations=[("C1", "due_to", "C2"), ("C1", "due_to", "C3")]))
    sources = PairSources(view)
    texts = list(sources)
    assert [texts[number] for number in sources.english_names.values] == ["cold", "fever"]
    assert values_of(sources.related, 0) == [2]
    # as the end of a description
    assert [texts[number] for number in sources.continuation(sources.english_names.values[1:])] == [" fever"]
    assert texts[sources.first_clause :] == [" which is due to", "something"]
    assert sources.take(np.arange(len(sources))[::-1]) == texts[::-1]
    assert sources.defined.tolist() == sources.with_synonyms.tolist()[1:] == []
