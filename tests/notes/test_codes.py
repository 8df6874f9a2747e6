"""Codes in other systems: of the concept and of its other ids, each once, by system and code."""

from __future__ import annotations

from typing import Any

from medlink.kb import KnowledgeBase
from medlink.notes import pipeline
from medlink.notes.pipeline import Codes
from medlink.records import Candidate, Mapping


class Kb:
    """Mappings of two ids of one concept, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def mappings(self, concept_id: str) -> list[Mapping]:
        self.asked.append(concept_id)
        held = {
            "A:1": [("ICD10CM", "R50"), ("LNC", "1-2"), ("Other", "x")],
            "B:1": [("ICD-10-CM", "R50"), ("LOINC", "0-1")],
        }
        return [Mapping(concept_id, system, code, "exact") for system, code in held.get(concept_id, [])]


def candidate(concept_id: str, *same_as: str) -> Candidate:
    return Candidate(concept_id, "fever", 0.9, "fever", "en", "exact", same_as=same_as)


def shown(found: tuple[Mapping, ...]) -> list[tuple[str, str]]:
    return [(one.system, one.code) for one in found]


def of(kb: Any, *systems: str) -> Codes:
    # what it asks of a knowledge base is this one method
    held: KnowledgeBase = kb
    return Codes(held, systems)


def test_codes_come_by_system_as_asked_for_and_then_by_code() -> None:
    kb = Kb()
    both = of(kb, "LOINC", "ICD 10 CM")
    wanted = [("LOINC", "0-1"), ("LNC", "1-2"), ("ICD10CM", "R50")]
    assert shown(both.of(candidate("A:1", "B:1"))) == wanted
    assert shown(both.of(candidate("B:1"))) == [("LOINC", "0-1"), ("ICD-10-CM", "R50")]
    assert kb.asked == ["A:1", "B:1"]
    assert shown(of(kb, "ICD10CM").of(candidate("A:1"))) == [("ICD10CM", "R50")]
    assert of(kb).of(candidate("A:1")) == of(kb, "OPS").of(candidate("A:1")) == ()


def test_what_is_remembered_has_an_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(pipeline, "_CONCEPTS", 1)
    kb = Kb()
    one = of(kb, "ICD10CM")
    for concept in ("A:1", "A:1", "B:1", "A:1"):
        one.of(candidate(concept))
    assert kb.asked == ["A:1", "B:1", "A:1"]
