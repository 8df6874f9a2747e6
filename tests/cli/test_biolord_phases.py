"""Training data of the phases of BioLORD: every phase reads knowledge base and tables by the same rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import InputError
from medlink.kb import Input, build_kb
from medlink.training.biolord.phases import TrainingData
from tests.training.data.pairs_kb import random_kb

TERMS = """\
id\tname\tlanguage\tdefinition
T:1\tfever\ten\tA body that is too warm.
T:1\tFieber\tde\tEin Körper, der zu warm ist.
T:1\tFebris\t\t
T:2\tcough\ten\tAir that is pushed out.
T:2\tHusten\tde-AT\t
T:3\trash\ten\t
T:3\terupción\tes\t
T:4\tAura\t\t
T:5\ttremor\ten\tA limb that shakes.
T:5\tZittern\tde\t
"""
GLOSSARY = """\
concept_id\tdefinition\tlanguage
T:3\tSkin that changes.\ten
T:3\tHaut, die sich ändert.\tde
T:5\tA shaking.\ten
T:9\tOf nothing.\ten
"""


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terms")
    for name, text in (("terms.tsv", TERMS), ("glossary.tsv", GLOSSARY), ("held_out.txt", "T:2\nT:7\n")):
        (folder / name).write_text(text, encoding="utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "terms.tsv")])
    return folder


Texts = dict[str, tuple[set[str], set[str]]]
"""Names and definitions of each concept."""


def contrastive_texts(data: TrainingData) -> Texts:
    """The texts of which pairs are made."""
    selection = data.selection()
    view = data.view(selection, data.added_definitions(selection))

    def by_concept(runs: tuple[np.ndarray, np.ndarray], texts: dict[int, str]) -> Iterator[set[str]]:
        ends, values = runs
        for number in range(view.concepts):
            yield {texts[value] for value in values[ends[number] : ends[number + 1]].tolist()}

    names = by_concept(view.names, view.name_texts(view.names[1]))
    definitions = by_concept(view.definitions, view.definition_texts(view.definitions[1]))
    ids = view.concept_ids(np.arange(view.concepts, dtype=np.int32))
    return {concept: (named, defined) for concept, named, defined in zip(ids, names, definitions, strict=True) if named}


def distill_texts(data: TrainingData) -> Texts:
    return {one.concept_id: (set(one.names), set(one.definitions)) for one in data.concepts(0, seed=1)()}


def static_names(data: TrainingData) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in data.selection().names():
        found.setdefault(name.concept_id, set()).add(name.text)
    return found


def test_german_by_hand(terms: Path) -> None:
    glossary, held_out = (terms / "glossary.tsv",), terms / "held_out.txt"
    assert distill_texts(TrainingData(terms / "kb.sqlite", glossary, languages=("de",), without=held_out)) == {
        "T:1": ({"Fieber", "Febris"}, {"Ein Körper, der zu warm ist."}),
        "T:4": ({"Aura"}, set()),
        "T:5": ({"Zittern"}, set()),
    }


@pytest.mark.slow
def test_a_concept_without_a_definition_has_a_description(tmp_path: Path) -> None:
    with random_kb(tmp_path, concepts=60) as kb:
        defined = {one.concept_id for one in kb.iter_definitions()}
    (tmp_path / "glossary.tsv").write_text("id\tdefinition\nC0001\tof the glossary\n", encoding="utf-8")
    data = TrainingData(tmp_path / "kb.sqlite", (tmp_path / "glossary.tsv",), languages=("en",))
    bare, described = distill_texts(data), {one.concept_id: one.definitions for one in data.concepts(3, seed=1)()}
    assert bare.keys() == described.keys()
    more = {concept for concept, (_, definitions) in bare.items() if set(described[concept]) != definitions}
    assert len(more) > 20
    assert not more & {*defined, "C0001"}
    assert max(len(described[concept]) for concept in more) == 3
    assert all(" which " in text for concept in more for text in described[concept])
    assert described != {one.concept_id: one.definitions for one in data.concepts(3, seed=2)()}


@pytest.mark.slow
@pytest.mark.parametrize("languages", [(), ("en",), ("de",), ("es", "de-AT"), ("en", "GER")])
@pytest.mark.parametrize(("held_out", "glossary"), [(False, True), (True, False)])
def test_every_phase_reads_the_same_texts(
    terms: Path, languages: tuple[str, ...], held_out: bool, glossary: bool
) -> None:
    # of Spanish and Austrian the glossary has nothing
    if glossary and "es" in languages:
        languages = (*languages, "en")
    data = TrainingData(
        terms / "kb.sqlite",
        (terms / "glossary.tsv",) if glossary else (),
        languages=languages,
        without=terms / "held_out.txt" if held_out else None,
    )
    contrastive = contrastive_texts(data)
    assert contrastive == distill_texts(data)
    assert {concept: names for concept, (names, _) in contrastive.items()} == static_names(data)
    assert "T:4" in contrastive
    assert ("T:2" in contrastive) != held_out


@pytest.mark.parametrize("read", [contrastive_texts, distill_texts])
def test_rows_left_out_are_reported(read: Callable[[TrainingData], Texts], terms: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    more, held_out = tmp_path / "more.tsv", terms / "held_out.txt"
    more.write_text(f"{GLOSSARY}\tof no concept\ten\nT:1\twarm\txx\n", encoding="utf-8")
    languages, report = ("de", "es"), messages.append
    read(TrainingData(terms / "kb.sqlite", (more,), languages=languages, without=held_out, progress=report))
    assert sorted(messages) == [
        f"ids to leave out that are not concepts: 1 in {held_out}",
        "rows left out: 3 (definition in another language)",
        f"rows that cannot be used: 1 (empty id or definition, the first at {more}:6)",
        f"rows that cannot be used: 1 (unknown language, the first at {more}:7)",
    ]
    messages.clear()
    read(TrainingData(terms / "kb.sqlite", (terms / "glossary.tsv",), progress=messages.append))
    assert messages == ["rows left out: 1 (definition of no concept here)"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"T:2\nT:\xff\n", r"ids\.txt:2: 1 of 2 rows cannot be used \(not UTF-8: 1\).*Remedy: give the file"),
        (b"\n \n", r"ids\.txt: there is no id in it\. Remedy: give one id a line"),
    ],
)
def test_ids_to_leave_out_that_cannot_be_read(content: bytes, message: str, terms: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        TrainingData(terms / "kb.sqlite", without=tmp_path / "ids.txt").selection()
