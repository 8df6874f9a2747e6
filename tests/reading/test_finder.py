"""What is found in notes beyond names as they are written, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note

NAMES = [
    ("X:1", "Arterial hypertension"), ("X:2", "Peripheral edema"), ("X:2", "Edema of the legs"), ("X:3", "Fever"),
    ("X:4", "Deep venous thrombosis"), ("X:5", "Hepatomegaly"), ("X:5", "Enlarged liver"), ("X:6", "Chest pain"),
    ("X:7", "Left"), ("X:8", "Mild"), ("X:9", "Pyelonephritis"), ("X:10", "Cough"), ("X:10", "Tos"),
    ("X:11", "Tapering of fingers"), ("X:12", "Rheumatoid arthritis"), ("X:12", "RA"), ("X:13", "Asthma"),
    ("X:1", "arterielle Hypertonie"),
    ("X:14", "Elevated circulating prostate-specific antigen"),
    ("X:15", "Cervical (neck)"),
    ("X:16", "Muscle weakness"),
    ("X:4", "tiefe Venenthrombose"),
    ("X:17", "Myelomeningocele"), ("X:18", "Splenomegaly"), ("X:18", "Enlarged spleen"), ("X:19", "Gota"),
    ("HP:0025297", "Prolonged"), ("X:20", "Stroke"), ("X:21", "Flushing"), ("X:22", "Heart failure"),
]  # fmt: skip

LANGUAGES = {"Tos": "es", "Gota": "es", "arterielle Hypertonie": "de", "tiefe Venenthrombose": "de"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finder")
    rows = "".join(f"{concept}\t{name}\t{LANGUAGES.get(name, 'en')}\n" for concept, name in NAMES)
    (folder / "names.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "names.tsv")])
    build_bundle(folder / "bundle", kb=folder / "kb.sqlite")
    return folder / "bundle"


def found(folder: Path, text: str, language: str, **options: object) -> list[tuple[str, str | None, str | None]]:
    (note,) = NotePipeline(folder, language=language, **options).link([Note("n", text)])
    return [(text[one.start : one.end], one.link.concept_id, one.link.expanded) for one in note.mentions]


@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        ("Beidseits deutliche Beinödeme.", "de", [("Beinödeme", "X:2", None)]),
        ("Her fingers were tapering.", "en", [("fingers were tapering", "X:11", None)]),
        ("Die Leber ist vergrößert.", "de", [("Leber ist vergrößert", "X:5", None)]),
        ("Dolor en el pecho desde ayer.", "es", [("Dolor en el pecho", "X:6", None)]),
        ("Paciente con tos.", "es", [("tos", "X:10", None)]),
    ],
)
def test_families(folder: Path, text: str, language: str, wanted: list[tuple[str, str, str | None]]) -> None:
    assert found(folder, text, language, threshold=0.35) == wanted
    assert found(folder, text, language, verbatim=True) == []


def test_an_abbreviation_of_the_lexicon(folder: Path) -> None:
    assert found(folder, "Z. n. TVT links.", "de") == [("TVT", "X:4", "tiefe Venenthrombose")]
    assert found(folder, "Z. n. TVT links.", "de", abbreviations="none") == []


def test_a_word_that_leaves_something_out(folder: Path) -> None:
    assert found(folder, "Bekannte Hypertonie.", "de") == [("Hypertonie", "X:1", "arterielle Hypertonie")]


def test_a_phrase_of_clinicians_is_linked_by_its_headword(folder: Path) -> None:
    assert found(folder, "Zunehmende Kraftminderung.", "de") == [("Kraftminderung", "X:16", "muscle weakness")]


def test_a_word_that_leaves_out_the_organ_that_is_spoken_of(folder: Path) -> None:
    assert found(folder, "Extremitäten: warm, keine Ödeme.", "de", threshold=0.35)[0][1] == "X:2"
    # another part of the body is named, or a number makes a value of it
    for text in ("Extremitäten: warm, Ödem der Papille.", "Extremitäten: Ödeme 2"):
        read_as = {says for _, _, says in found(folder, text, "de", threshold=0.35)}
        assert read_as.isdisjoint({"periphere Ödeme", "Peripheral edema"})


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Asthma, Anna, geb. am 1.1.1950"),
        ("de", "Oberarzt Dr. med Emil Asthma"),
        ("en", "Asthma, Anna, DOB 1/1/1950"),
        ("es", "Asthma, Ana, nacida en 1950"),
    ],
)
def test_names_of_persons_are_no_mentions(folder: Path, language: str, text: str) -> None:
    assert found(folder, text, language) == []
    assert [concept for _, concept, _ in found(folder, "Asthma.", language)] == ["X:13"]


def test_a_word_that_denies_a_finding(folder: Path) -> None:
    (note,) = NotePipeline(folder, language="en").link([Note("n", "She was afebrile.")])
    (one,) = note.mentions
    assert one.link.concept_id == "X:3"
    assert one.qualifiers is not None
    assert one.qualifiers.presence == "absent"


def test_attributes_are_no_mentions(folder: Path) -> None:
    assert found(folder, "Left arm: mild.", "en") == []
    assert {concept for _, concept, _ in found(folder, "Mild fever on the left.", "en")} == {"X:3"}


def test_a_test_is_no_finding_that_is_named_after_it(folder: Path) -> None:
    assert found(folder, "PSA 1,5 ng/ml im Verlauf.", "de") == []
    assert found(folder, "The PSA was measured.", "en") == []


def test_a_part_of_the_body_that_is_no_name_is_no_mention(folder: Path) -> None:
    assert found(folder, "The neck of the patient.", "en") == []


def test_an_abbreviation_that_may_be_something_else_is_nil(folder: Path) -> None:
    ((mention, concept, _),) = found(folder, "RA in the corner.", "en")
    assert (mention, concept) == ("RA", None)


def test_what_may_not_be_linked_is_not_judged(folder: Path) -> None:
    text = "Fever, arterielle Hypertonie."
    assert {concept for _, concept, _ in found(folder, text, "de", languages=("de",))} - {None} == {"X:1"}
    assert {concept for _, concept, _ in found(folder, text, "de")} == {"X:1", "X:3"}


def test_the_score_is_how_likely_the_mention_is_right(folder: Path) -> None:
    pipeline = NotePipeline(folder, language="en")
    plain, beside = (
        pipeline.link([Note("n", text)])[0].mentions[0].link.candidates[0].score
        for text in ("Fever.", "a fever dream song")
    )
    assert 0 < beside < plain < 1


def test_batches_and_single_notes_are_the_same(folder: Path) -> None:
    texts = ["Fever and cough.", "", "Beinödeme, TVT", "Fever (F). Enlarged liver."] * 5
    pipeline = NotePipeline(folder, language="de")
    together = pipeline.link([Note(str(number), text) for number, text in enumerate(texts)])
    alone = [NotePipeline(folder, language="de").link([Note(str(n), text)])[0] for n, text in enumerate(texts)]
    assert together == alone


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    tables = {
        "own": "G:1,Herzinfarkt,de\nG:2,exazerbierte COPD,de\n",
        "other": "L:1,Herzinfarkt,de\nL:1,Myokardinfarkt,de\n"
        "L:2,chronisch obstruktive Lungenerkrankung,de\nL:2,chronic obstructive pulmonary disease,en\nL:2,COPD,de\n",
    }
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text(f"concept_id,name,language\n{rows}", "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / f"{name}.csv") for name in tables])
    build_bundle(folder / "bundle", kb=folder / "kb.sqlite")
    return folder / "bundle"


@pytest.mark.parametrize(("prefer", "concept"), [("own", "G:1"), ("other", "L:1")])
def test_a_name_of_two_sources_is_read_as_it_is_written(two_sources: Path, prefer: str, concept: str) -> None:
    """The lexicon reads it as a lay word for a name that only one of them has."""
    assert found(two_sources, "Herzinfarkt.", "de", prefer=[prefer]) == [("Herzinfarkt", concept, None)]


def test_an_abbreviation_in_a_longer_name_is_a_part_of_it(two_sources: Path) -> None:
    wanted = [("exazerbierte COPD", "G:2", None)]
    assert found(two_sources, "Es besteht eine exazerbierte COPD.", "de") == wanted
    assert found(two_sources, "Bekannte COPD.", "de")[0][1] == "L:2"


@pytest.mark.parametrize(
    ("language", "none", "some", "concept"),
    [
        # the likeliest sense counts: mitomycin, and a transaminase in capitals that have no inflection
        ("de", "Instillation von MMC in die Blase.", "Operierte Myelomeningozele.", "X:17"),
        ("es", "GOT 35, GPT 40.", "Crisis de gota.", "X:19"),
        # words of a compound or of a procedure
        ("de", "Aufnahme auf die Stroke-Unit.", "Z. n. Stroke.", "X:20"),
        ("en", "The joint was flushed with saline.", "Facial flushing.", "X:21"),
    ],
)
def test_words_that_are_no_finding(folder: Path, language: str, none: str, some: str, concept: str) -> None:
    assert concept not in [one for _, one, _ in found(folder, none, language, threshold=0.2)]
    assert concept in [one for _, one, _ in found(folder, some, language, threshold=0.2)]


def test_a_modifier_is_no_mention_in_a_bundle_without_hierarchy(folder: Path) -> None:
    assert found(folder, "A prolonged fever.", "en", threshold=0.2) == [("fever", "X:3", None)]


@pytest.mark.parametrize(
    ("language", "text", "concept", "presence"),
    [
        ("de", "Die Milz ist nicht vergrößert.", "X:18", "absent"),
        ("de", "Die Milz ist vergrößert.", "X:18", "present"),
        ("en", "The spleen is not enlarged.", "X:18", "absent"),
    ],
)
def test_a_denial_inside_a_mention(folder: Path, language: str, text: str, concept: str, presence: str) -> None:
    (note,) = NotePipeline(folder, language=language, threshold=0.2).link([Note("n", text)])
    assert [(one.link.concept_id, one.qualifiers and one.qualifiers.presence) for one in note.mentions] == [
        (concept, presence)
    ]
