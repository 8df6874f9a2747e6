"""Hierarchy filters of builds and searches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.hierarchy import OUTSIDE_HIERARCHY, HierarchyFilter
from medlink.records import Concept, Name, Record, Relation, Source
from tests.damage import tried
from tests.kb.writers import conso, rel, write_lines


def loaded(house: Path, out: Path, under: Sequence[str] = (), not_under: Sequence[str] = ()) -> set[str]:
    build_kb(out, [Input("table", house)], under=under, not_under=not_under)
    with KnowledgeBase(out) as kb:
        return {concept.concept_id for concept in kb.iter_concepts()}


def test_hierarchy_of_all_inputs(house: Path, tmp_path: Path) -> None:
    (tmp_path / "ward.csv").write_text("id,name,parent\nW:1,absence,H:2\nW:2,cough,\n")
    inputs = [Input("table", tmp_path / "ward.csv"), Input("table", house)]
    report = build_kb(tmp_path / "kb", inputs, under=["H:2"])
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert {concept.concept_id for concept in kb.iter_concepts()} == {"H:2", "H:3", "W:1"}
        assert kb.parents("W:1") == ["H:2"]
        # what lies outside is no parent
        assert kb.parents("H:2") == []
    # of W:2 the concept and its name
    assert report.inputs[0].skipped == {OUTSIDE_HIERARCHY: 2}
    assert [entry.rows for entry in report.inputs] == [2, 13]


def test_unknown_concepts(house: Path, kb: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"no input has the concept H:9\. Remedy: check the ids of under=\.\.\. and not_under=\.\.\.\.",
    ):
        loaded(house, tmp_path / "kb", ["H:9"])
    assert not (tmp_path / "kb").exists()
    with pytest.raises(ConfigError, match="there is no concept 'H:9'"):
        kb.search("sei", under=["H:9"])
    with pytest.raises(ConfigError, match="there is no concept 'H:9'"):
        kb.search("sei", not_under=["H:9"])


@pytest.mark.parametrize(
    ("under", "not_under", "expected"),
    [
        ([], [], ["H:2", "H:3"]),
        (["H:3"], [], ["H:3"]),
        (["H:1"], ["H:3"], ["H:2"]),
        (["H:4"], [], []),
        ([], ["H:2"], []),
    ],
)
def test_searched_concepts(under: list[str], not_under: list[str], expected: list[str], kb: KnowledgeBase) -> None:
    assert [name.concept_id for name in kb.search("seizure", under=under, not_under=not_under)] == expected


def test_the_filter_comes_before_the_limit(kb: KnowledgeBase) -> None:
    assert [name.concept_id for name in kb.search("seizure", 1, under=["H:3"])] == ["H:3"]


GRAPHS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)
CHOSEN = st.lists(st.integers(0, 9), max_size=3)


@pytest.mark.slow
@tried(100)
@given(GRAPHS, CHOSEN, CHOSEN)
def test_against_an_oracle(edges: list[tuple[int, int]], under: list[int], not_under: list[int]) -> None:
    """Compare with a walk down the hierarchy, with cycles and isolated concepts."""
    records: list[Record] = [Source("S"), *(Concept(str(number), "S") for number in range(10))]
    records += [Relation(str(head), "isa", str(tail), "S") for head, tail in edges]
    records += [Relation("0", "part_of", "9", "S"), *(Name(str(number), "x") for number in range(10))]

    def below(roots: list[int]) -> set[int]:
        found, waiting = set(roots), list(roots)
        while waiting:
            above = waiting.pop()
            for head, tail in edges:
                if tail == above and head not in found:
                    found.add(head)
                    waiting.append(head)
        return found

    selection = HierarchyFilter([str(number) for number in under], [str(number) for number in not_under])
    selection.add(records)
    selection.resolve()
    problems = Problems()
    expected = (below(under) if under else set(range(10))) - below(not_under)
    selected = list(selection.apply(records, problems.skipped))
    assert {int(one.concept_id) for one in selected if isinstance(one, Name)} == expected
    assert {int(number) for number in map(str, range(10)) if number in selection} == expected
    inside = [(head, tail) for head, tail in [*edges, (0, 9)] if {head, tail} <= expected]
    assert [(int(one.head), int(one.tail)) for one in selected if isinstance(one, Relation)] == inside
    assert len(selected) + problems.skipped[OUTSIDE_HIERARCHY] == len(records)


def test_skipped_rows_of_batches_keep_their_lines(tmp_path: Path) -> None:
    write_lines(tmp_path / "MRCONSO.RRF", [conso("C1", "cough"), conso("C2", "dry cough"), conso("C9", "leg")])
    rows = [rel("C9", "CHD", "C2", "isa"), rel("C1", "CHD", "C2", "isa"), rel("C2", "CHD", "C3", "isa")]
    write_lines(tmp_path / "MRREL.RRF", rows)
    write_lines(tmp_path / "MRSTY.RRF", ["C1|T184|A2|Sign or Symptom|AT1|256|", "C9|T023|A1|Body Part|AT2|256|"])
    write_lines(tmp_path / "MRRANK.RRF", ["0400|DEMO|PT|N|"])
    (found,) = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)], under=["C1"]).inputs
    (reason,) = (reason for reason in found.first if reason.startswith("relation"))
    assert found.first[reason] == f"{tmp_path / 'MRREL.RRF'}:3: C3 isa C2; there is no concept C3"
    # the concept C9, its name, its semantic type, and that C2 is below it
    assert found.skipped[OUTSIDE_HIERARCHY] == 4
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert {concept.concept_id for concept in kb.iter_concepts()} == {"C1", "C2"}
        assert [one.concept_id for one in kb.iter_semantic_types()] == ["C1"]
