"""Knowledge bases of scispaCy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.scispacy import read_scispacy
from medlink.records import Concept, Definition, Name, SemanticType, Source

ENTRIES: list[dict[str, Any]] = [
    {
        "concept_id": "C0004096",
        "canonical_name": "Asthma",
        "aliases": ["Bronchial asthma", "Asthma", "asthma", "Bronchial asthma", " "],
        "types": ["T047"],
        "definition": "A form of bronchial disorder.",
    },
    {"concept_id": "C0015967", "canonical_name": "Fever", "aliases": ["Pyrexia"], "types": ["T184", "T033"]},
    {"concept_id": "C1", "canonical_name": "Größe", "aliases": []},
]


def write(path: Path, entries: list[Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return path


def test_everything(tmp_path: Path) -> None:
    path = write(tmp_path / "umls.jsonl", ENTRIES)
    problems = Problems()
    assert list(read_scispacy(path, problems=problems)) == [
        Source("umls", "", "umls"),
        Concept("C0004096", "umls"),
        Name("C0004096", "Asthma", "en", "preferred", "umls", True),
        Name("C0004096", "Bronchial asthma", "en", "synonym", "umls"),
        Name("C0004096", "asthma", "en", "synonym", "umls"),
        Name("C0004096", "Bronchial asthma", "en", "synonym", "umls"),
        SemanticType("C0004096", "T047", "T047", "umls"),
        Definition("C0004096", "A form of bronchial disorder.", "en", "umls"),
        Concept("C0015967", "umls"),
        Name("C0015967", "Fever", "en", "preferred", "umls", True),
        Name("C0015967", "Pyrexia", "en", "synonym", "umls"),
        SemanticType("C0015967", "T184", "T184", "umls"),
        SemanticType("C0015967", "T033", "T033", "umls"),
        Concept("C1", "umls"),
        Name("C1", "Größe", "en", "preferred", "umls", True),
    ]
    assert (problems.rows, problems.bad, problems.skipped) == (3, {}, {})


def test_the_same_as_scispacy(tmp_path: Path) -> None:
    """Names, types and definitions are those that scispaCy's own reader gives."""
    linking_utils = pytest.importorskip("scispacy.linking_utils", exc_type=ImportError)
    path = write(tmp_path / "kb.jsonl", ENTRIES[:2])
    theirs = linking_utils.KnowledgeBase(str(path))
    build_kb(tmp_path / "kb.sqlite", [Input("scispacy", path)])
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        for concept_id, entity in theirs.cui_to_entity.items():
            assert kb.preferred_name(concept_id) == entity.canonical_name
            known = {entity.canonical_name, *(alias for alias in entity.aliases if alias.strip())}
            assert {name.text for name in kb.names(concept_id)} == known
            assert {found.code for found in kb.semantic_types(concept_id)} == set(entity.types)
            assert [found.text for found in kb.definitions(concept_id)] == [entity.definition] * bool(entity.definition)
        for alias, found in theirs.alias_to_cuis.items():
            assert not alias.strip() or {name.concept_id for name in kb.lookup(alias)} == found


def test_bad_and_deprecated_lines(tmp_path: Path) -> None:
    bad: list[Any] = [
        {"concept_id": "A b", "canonical_name": "x", "aliases": []},
        {"concept_id": "C2", "canonical_name": " ", "aliases": []},
        {"concept_id": "C2", "canonical_name": "x", "aliases": "y"},
        {"concept_id": "C2", "canonical_name": "x", "aliases": [3]},
        {"concept_id": "C2", "canonical_name": "x"},
        {"concept_id": "C2", "canonical_name": "x", "aliases": [], "types": "T1"},
        ["C2"],
    ]
    gone = {"concept_id": "C3", "canonical_name": "obsolete thing", "aliases": ["thing"]}
    path = write(tmp_path / "kb.jsonl", [*ENTRIES, *bad, gone])
    problems = Problems(1.0)
    assert len(list(read_scispacy(path, problems=problems))) == 15
    assert problems.bad == {"no concept with an id, a name and aliases": 6, "no JSON object": 1}
    assert problems.skipped == {"obsolete concept": 1}
    path.write_text(path.read_text("utf-8") + '{"concept_id": "C4", "canon', "utf-8")
    with pytest.raises(InputError, match=r"kb\.jsonl:12: the last line is cut off"):
        list(read_scispacy(path, problems=Problems(0.9)))
