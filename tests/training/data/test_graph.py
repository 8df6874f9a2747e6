"""What of a knowledge base makes pairs: against plain loops over its records."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from medlink.kb import KnowledgeBase
from medlink.training.data.pairs import Material
from medlink.training.data.relations import relation_phrase
from medlink.training.data.view import Runs, TrainingView

from .pairs_kb import build, random_kb


def of(runs: Runs, owner: int) -> list[int]:
    ends, values = runs
    return list(values[ends[owner] : ends[owner + 1]].tolist())


@pytest.mark.parametrize(("seed", "languages"), [(0, None), (1, ["en"]), (2, ["de", "en"])])
def test_against_records(tmp_path: Path, seed: int, languages: list[str] | None) -> None:
    kb = random_kb(tmp_path, concepts=60, seed=seed)
    view = TrainingView(kb, languages=languages)
    material = Material(view)
    ids = view.concept_ids(np.arange(view.concepts, dtype=np.int32))
    names = list(kb.iter_names(languages=languages))
    forms = view.name_texts(view.names[1])
    by_form = defaultdict(set)
    for number in range(view.concepts):
        for row in of(view.names, number):
            by_form[forms[row][1]].add(number)
    english = {name.concept_id for name in names if name.language == "en"}
    named = {name.concept_id for name in names}
    relations = sorted((r.head, r.type, r.tail) for r in kb.iter_relations() if r.tail in english)
    places = [(owner, place) for owner in range(view.concepts) for place in range(*material.related[0][owner:][:2])]
    assert relations == sorted(
        (ids[owner], view.types[material.related_types[place]], ids[material.related[1][place]])
        for owner, place in places
    )
    assert [ids[number] for number in material.described] == sorted({head for head, _, _ in relations} & named)
    assert {ids[number] for number in material.defined} == {d.concept_id for d in kb.iter_definitions()}
    several = {number for number in range(view.concepts) if sum(number in owners for owners in by_form.values()) > 1}
    assert set(material.several.tolist()) == several
    shared = {number: set(of(material.shared, number)) for number in range(view.concepts)}
    for one in range(view.concepts):
        for other in range(one):
            meet = any({one, other} <= owners for owners in by_form.values())
            assert bool(shared[one] & shared[other]) == meet
    assert material.phrases == tuple(relation_phrase(name) for name in view.types)
    assert [name for name, up in zip(view.types, material.upward, strict=True) if up] == ["isa"]


def test_names_of_descriptions_are_english(tmp_path: Path) -> None:
    names = [("C1", "cold", "ENG"), ("C1", "Erkältung", "GER"), ("C2", "Husten", "GER"), ("C3", "fever", "ENG")]
    kb: KnowledgeBase = build(tmp_path, names=names, relations=[("C1", "due_to", "C2"), ("C1", "due_to", "C3")])
    view = TrainingView(kb)
    material = Material(view)
    assert [view.name_texts(view.names[1])[row][0] for row in material.related_names[1]] == ["cold", "fever"]
    assert of(material.related, 0) == [2]
    assert material.defined.tolist() == material.several.tolist()[1:] == []
