"""Expression constraints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.errors import ConfigError
from medlink.kb import Input, KnowledgeBase
from medlink.kb.ecl import select_concepts
from tests.damage import tried
from tests.kb import writers
from tests.kb.writers import FSN, opened_kb, row


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("H:2", {"H:2"}),
        ("< H:2", {"H:3"}),
        ("<< H:2", {"H:2", "H:3"}),
        ("<<H:2|seizure (finding)|", {"H:2", "H:3"}),
        ("<< H:2 AND << H:1", {"H:2", "H:3"}),
        ("< H:2 OR H:6", {"H:3", "H:6"}),
        ("H:1 or H:2 or H:6", {"H:1", "H:2", "H:6"}),
        ("<< H:1 MINUS << H:2", {"H:1", "H:4", "H:5"}),
        ("(<< H:1 MINUS << H:2) AND (H:4 OR H:6)", {"H:4"}),
        ("< (H:2 OR H:4)", {"H:3", "H:5"}),
        ("<< (H:2 OR H:4)", {"H:2", "H:3", "H:4", "H:5"}),
        # H:5 is below H:4
        ("< (H:1 OR H:4)", {"H:2", "H:3", "H:4", "H:5"}),
        ("H:6 AND H:1", set()),
    ],
)
def test_what_is_selected(constraint: str, expected: set[str], kb: KnowledgeBase) -> None:
    assert select_concepts(kb, constraint) == expected
    found = {name.concept_id for name in kb.search("s", 100, among=select_concepts(kb, constraint))}
    assert found == {name.concept_id for name in kb.search("s", 100)} & expected


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("", "a concept is expected at character 1, not 'the end'"),
        ("<< H:9", "there is no concept H:9"),
        ("H:1 AND H:2 OR H:3", "AND and OR stand side by side; add parentheses"),
        ("H:1 MINUS H:2 MINUS H:3", "MINUS and MINUS stand side by side; add parentheses"),
        ("(H:1", r"'\)' is expected at character 5, not the end"),
        ("H:1 H:2", "the end is expected at character 5, not 'H:2'"),
        ("H:1 : [0..1] H:2 = H:3", r"'\[' at character 7 is not read"),
        ("^ H:1", r"'\^' at character 1 is not read"),
        ("H:1:H:9", "there is no concept H:1:H:9"),
        ("H:1 AND H:2 : H:3 = H:4", "AND stands beside an attribute; add parentheses"),
        ("H:2 : H:3 = H:4 OR H:1", "OR stands beside an attribute; add parentheses"),
        ("> H:1", "'>' at character 1 is not read"),
        ("H:1 : H:2 H:3", "'=' is expected at character 11, not 'H:3'"),
        ("(" * 100, "parentheses are more than 50 deep"),
        ("< AND", "a concept is expected at character 3, not 'AND'"),
    ],
)
def test_refused(constraint: str, message: str, kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=f"expression constraint: {message}"):
        select_concepts(kb, constraint)


@pytest.fixture
def snomed(tmp_path: Path) -> Iterator[KnowledgeBase]:
    """Findings with a finding site, as RF2."""
    named = {"1": "Oedema (finding)", "2": "Leg (body structure)", "3": "Foot (body structure)", "4": "Itch (finding)"}
    named |= {"363698007": "Finding site (attribute)", "5": "Foot oedema (finding)"}
    concepts = [row(number, "0") for number in named]
    writers.rf2(tmp_path, "sct2_Concept_Snapshot_INT_20260901.txt", "definitionStatusId", concepts)
    descriptions = [row(f"9{number}", number, "en", FSN, text, "0") for number, text in named.items()]
    writers.rf2(tmp_path, "sct2_Description_Snapshot-en_INT_20260901.txt", writers.DESCRIPTION, descriptions)
    relations = [("5", "1", "116680003"), ("3", "2", "116680003"), ("1", "2", "363698007"), ("5", "3", "363698007")]
    rows = [
        row(80 + at, head, tail, "0", kind, "900000000000011006", "0")
        for at, (head, tail, kind) in enumerate(relations)
    ]
    header = "sourceId\tdestinationId\trelationshipGroup\ttypeId\tcharacteristicTypeId\tmodifierId"
    writers.rf2(tmp_path, "sct2_Relationship_Snapshot_INT_20260901.txt", header, rows)
    with opened_kb(tmp_path / "kb", Input("rf2", tmp_path)) as kb:
        yield kb


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("<< 1 : 363698007 = 2", {"1"}),
        ("<< 1 : 363698007 |Finding site| = << 2", {"1", "5"}),
        ("<< 1 : 363698007 = < 2", {"5"}),
        ("(1 OR 4) : 363698007 = << 2", {"1"}),
        ("4 OR (<< 1 : 363698007 = 3)", {"4", "5"}),
        ("4 : 363698007 = << 2", set()),
    ],
)
def test_an_attribute(constraint: str, expected: set[str], snomed: KnowledgeBase) -> None:
    assert select_concepts(snomed, constraint) == expected


def test_equal_parts_are_evaluated_once(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    descendants = KnowledgeBase.descendants
    monkeypatch.setattr(
        KnowledgeBase, "descendants", lambda self, roots: calls.append(roots) or descendants(self, roots)
    )
    assert select_concepts(kb, " OR ".join(["<< H:2", "(< H:1 AND << H:2)"] * 300)) == {"H:2", "H:3"}
    assert len(calls) == 2


@pytest.mark.parametrize("constraint", ["<<1:363698007=<<2", "<<1:363698007|Finding site|=<<2", "<<1 :363698007= <<2"])
def test_blanks_are_not_needed(constraint: str, snomed: KnowledgeBase) -> None:
    """Ids of other terminologies have colons too; what is known as a whole is an id."""
    assert select_concepts(snomed, constraint) == {"1", "5"}


@pytest.mark.slow
@pytest.mark.parametrize("concept_id", ["ICDO3:8140/3", "OPS:5-470...5-479", "W:1:2", "W:a'b;c&d", "Ä#1%", "CD4+"])
def test_ids_of_other_terminologies(concept_id: str, tmp_path: Path) -> None:
    (tmp_path / "w.tsv").write_text(f"id\tname\tparent\n{concept_id}\ta\t\nB:1\tb\t{concept_id}\n", "utf-8")
    with opened_kb(tmp_path / "kb", Input("table", tmp_path / "w.tsv")) as kb:
        assert select_concepts(kb, f"<<{concept_id}|a|") == {concept_id, "B:1"}
        assert select_concepts(kb, f"(B:1 OR {concept_id}) MINUS B:1") == {concept_id}


@tried(200)
@given(st.text("<()|:=HAND OR1269MINUS\u00e4", max_size=30))
def test_any_text(text: str) -> None:
    """Any text gives a set of concepts or a ConfigError."""

    class Some:
        """A knowledge base in which some ids are known."""

        def __contains__(self, concept_id: str) -> bool:
            return "1" in concept_id

        def descendants(self, concept_ids: set[str]) -> set[str]:
            return {f"{concept_id}1" for concept_id in concept_ids}

        def names(self, concept_id: str) -> list[object]:
            return []

        def iter_relations(self, types: list[str]) -> list[object]:
            return []

    try:
        assert isinstance(select_concepts(Some(), text), set)  # type: ignore[arg-type]
    except ConfigError as error:
        assert "expression constraint" in str(error)  # noqa: PT017
