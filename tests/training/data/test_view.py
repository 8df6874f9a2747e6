"""A knowledge base as integers: against the knowledge base itself, under every option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.kb import Input, KnowledgeBase, build_kb, extend_kb
from medlink.language.text import normalise
from medlink.records import Definition
from medlink.training.data.view import TrainingView
from tests.kb.writers import conso, rel, write_lines

from .test_draws import values_of as of


def facts(view: TrainingView) -> dict[str, tuple[list[str], list[str], list[str], list[str]]]:
    """Names, definitions, parents and semantic types, by id."""
    found = {}
    ids = view.concept_ids(np.arange(view.concepts, dtype=np.int32))
    names, texts = view.name_texts(view.names[1]), view.definition_texts(view.definitions[1])
    for number, concept in enumerate(ids):
        found[concept] = (
            sorted(names[row] for row in of(view.names, number)),
            sorted(texts[row] for row in of(view.definitions, number)),
            sorted(ids[parent] for parent in of(view.parents, number)),
            sorted(view.semantic_type_texts[kind] for kind in of(view.semantic_types, number)),
        )
    return found


def assert_same(view: TrainingView, kb: KnowledgeBase) -> None:
    found = facts(view)
    assert list(found) == [concept.concept_id for concept in kb.iter_concepts()]
    for concept, (names, definitions, parents, types) in found.items():
        assert set(names) == {name.text for name in kb.names(concept)}
        assert definitions == sorted(definition.text for definition in kb.definitions(concept))
        assert parents == kb.parents(concept)
        assert types == sorted(kind.semantic_type for kind in kb.semantic_types(concept))


def test_view_against_the_knowledge_base(kb: KnowledgeBase) -> None:
    view = TrainingView(kb)
    assert_same(view, kb)
    assert view.concepts == 6
    # H:5 is under H:1 and H:4
    assert of(view.relations, 4) == [0, 3]
    assert [view.types[kind] for kind in view.relation_types] == ["isa"] * 5
    assert [view.languages[tag] for tag in view.name_languages[:2]] == ["de", "en"]


def test_an_extended_knowledge_base(house: Path, tmp_path: Path) -> None:
    build_kb(tmp_path / "kb.sqlite", [Input("table", house)])
    more = write_lines(
        tmp_path / "more.tsv",
        ["id\tname\tlanguage\tdefinition\tparent", "H:2\tfit\ten\tA fit.\tH:4", "A:1\tfirst\ten\t\tH:1"],
    )
    extend_kb(tmp_path / "kb.sqlite", tmp_path / "kb.sqlite", [Input("table", more)])
    with KnowledgeBase(tmp_path / "kb.sqlite") as opened:
        assert opened.extended
        assert_same(TrainingView(opened), opened)


def test_each_form_of_a_language_occurs_once(tmp_path: Path) -> None:
    names = ["1 Seizure en", "1 -- en", "1 seizure en", "1 Seizure de", "1 fit en", "2 other en", "2 fit en"]
    rows = [name.replace(" ", "\t") for name in ("id name language", *names)]
    build_kb(tmp_path / "kb.sqlite", [Input("table", write_lines(tmp_path / "t.tsv", rows))])
    view = TrainingView(KnowledgeBase(tmp_path / "kb.sqlite"))
    texts = view.name_texts(view.names[1])
    found = [(texts[row], view.languages[tag]) for row, tag in zip(view.names[1], view.name_languages, strict=True)]
    assert sorted(found) == [("Seizure", "de"), ("Seizure", "en"), ("fit", "en"), ("fit", "en"), ("other", "en")]
    # names of one form have one number, whatever their language and concept
    by_form = {normalise(texts[row]): form for row, form in zip(view.names[1], view.name_forms, strict=True)}
    assert len(set(by_form.values())) == len(by_form) == len(set(view.name_forms.tolist())) == 3


def test_languages(kb: KnowledgeBase) -> None:
    view = TrainingView(kb, languages=["de"])
    found = facts(view)
    # regions belong to a language; names without one belong to every language
    assert found["H:2"][0] == ["Fraisen", "Krampfanfälle"]
    assert found["H:6"][0] == ["alfa"]
    assert found["H:1"][1] == ["Ein Zustand, der schadet."]
    assert found["H:2"][1] == []
    assert TrainingView(kb, languages="en,ger").digest != view.digest != TrainingView(kb).digest


def test_concepts_left_out(kb: KnowledgeBase) -> None:
    view = TrainingView(kb, without=["H:2", "no such id"])
    found = facts(view)
    assert found["H:2"][0] == found["H:2"][1] == found["H:2"][3] == []
    assert view.included.tolist() == [True, False, True, True, True, True]
    # neither end of a relation, but walked through: H:3 is under H:2, which is under H:1
    assert of(view.relations, 2) == of(view.relations, 1) == []
    assert found["H:3"][2] == ["H:2"]
    assert found["H:2"][2] == ["H:1"]
    assert view.digest != TrainingView(kb).digest


def test_one_concept(kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=r"fewer than two concepts have a name to train on.*Remedy: name other"):
        TrainingView(kb, without=["H:1", "H:2", "H:3", "H:4", "H:5"])


def test_added_definitions(kb: KnowledgeBase) -> None:
    texts = ("A seizure with fever.", "Nothing known.", "Ein Krampf bei Fieber.", "Another one.")
    more = [Definition(*row) for row in zip(("H:3", "H:9", "H:3", "H:1"), texts, ("en", "en", "de", "en"), strict=True)]
    view = TrainingView(kb, definitions=more)
    found = facts(view)
    assert found["H:3"][1] == ["A seizure with fever.", "Ein Krampf bei Fieber."]
    assert found["H:1"][1] == ["A state that harms.", "Another one.", "Ein Zustand, der schadet."]
    assert view.unknown == 1
    numbers = view.form_numbers(["alfa", "ein KRAMPF bei Fieber", "nobody's"])
    assert (numbers < 0).tolist() == [False, False, True]
    assert numbers[0] in view.name_forms
    assert numbers[1] in view.definition_forms
    assert view.forms == len({*view.name_forms.tolist(), *view.definition_forms.tolist()})
    empty = TrainingView(kb, definitions=[*more, Definition("H:3", "...", "en")])
    assert facts(empty) == found
    assert facts(TrainingView(kb, definitions=more, languages=["en"]))["H:3"][1] == ["A seizure with fever."]
    changed = [Definition("H:3", "Another text.", "en"), *more[1:]]
    assert len({TrainingView(kb, definitions=given).digest for given in (more, changed, [], more)}) == 3


@pytest.mark.slow
def test_relations_change_the_digest(tmp_path: Path) -> None:
    digests = set()
    for name, rela in (("a", "treats"), ("b", "causes"), ("c", "treats")):
        folder = tmp_path / name
        write_lines(folder / "MRCONSO.RRF", [conso("C1", "one"), conso("C2", "two")])
        write_lines(folder / "MRREL.RRF", [rel("C1", "RO", "C2", rela), rel("C2", "RO", "C2", rela)])
        build_kb(folder / "kb.sqlite", [Input("rrf", folder)])
        view = TrainingView(KnowledgeBase(folder / "kb.sqlite"))
        assert view.types == (rela,)
        assert of(view.relations, 1) == [0]
        digests.add(view.digest)
    assert len(digests) == 2
