"""Mentions that are not names as they are written, and words that are no mentions."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.reading.names import in_placeholder
from tests.reading.bundles import bundle_of, cases, mentions, presence

NAMES = [
    ("X:1", "Arterial hypertension"), ("X:2", "Peripheral edema"), ("X:2", "Edema of the legs"), ("X:3", "Fever"),
    ("X:4", "Deep venous thrombosis"), ("X:5", "Hepatomegaly"), ("X:5", "Enlarged liver"), ("X:6", "Chest pain"),
    ("X:7", "Left"), ("X:8", "Mild"), ("X:9", "Pyelonephritis"), ("X:10", "Cough"), ("X:10", "Tos"),
    ("X:11", "Tapering of fingers"), ("X:12", "Rheumatoid arthritis"), ("X:12", "RA"), ("X:13", "Asthma"),
    ("X:1", "arterielle Hypertonie"), ("X:14", "Elevated circulating prostate-specific antigen"),
    ("X:15", "Cervical (neck)"), ("X:16", "Muscle weakness"), ("X:4", "tiefe Venenthrombose"),
    ("X:17", "Myelomeningocele"), ("X:18", "Splenomegaly"), ("X:18", "Enlarged spleen"), ("X:19", "Gota"),
    ("HP:0025297", "Prolonged"), ("X:20", "Stroke"), ("X:21", "Flushing"), ("X:22", "Heart failure"),
]  # fmt: skip
LANGUAGES = {"Tos": "es", "Gota": "es", "arterielle Hypertonie": "de", "tiefe Venenthrombose": "de"}
Found = list[list[str | None]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = (f"{concept}\t{name}\t{LANGUAGES.get(name, 'en')}" for concept, name in NAMES)
    return bundle_of(tmp_path_factory.mktemp("finder"), *rows)


def found(folder: Path, text: str, language: str, **options: object) -> Found:
    read = mentions(folder, text, language, **options)
    return [[text[m.start : m.end], m.link.concept_id, m.link.expanded] for m in read]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), cases("families"))
def test_families(folder: Path, language: str, text: str, wanted: Found) -> None:
    assert found(folder, text, language, threshold=0.35) == wanted
    assert found(folder, text, language, verbatim=True) == []


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), cases("mentions_and_concepts"))
def test_mentions_and_concepts(folder: Path, language: str, text: str, wanted: Found) -> None:
    assert found(folder, text, language) == wanted


@pytest.mark.slow
def test_abbreviations_can_be_switched_off(folder: Path) -> None:
    assert found(folder, "Z. n. TVT links.", "de", abbreviations="none") == []


def test_a_word_that_leaves_out_the_organ(folder: Path) -> None:
    assert found(folder, "Extremitäten: warm, keine Ödeme.", "de", threshold=0.35)[0][1] == "X:2"
    # another part of the body is named, or a number makes a value of it
    for text in ("Extremitäten: warm, Ödem der Papille.", "Extremitäten: Ödeme 2"):
        expanded = {long for _, _, long in found(folder, text, "de", threshold=0.35)}
        assert expanded.isdisjoint({"periphere Ödeme", "Peripheral edema"})


@pytest.mark.slow
def test_filters_apply_to_the_finder(folder: Path) -> None:
    text = "Fever, arterielle Hypertonie."
    assert {concept for _, concept, _ in found(folder, text, "de", languages=("de",))} - {None} == {"X:1"}
    assert {concept for _, concept, _ in found(folder, text, "de")} == {"X:1", "X:3"}


def test_the_score_depends_on_the_context(folder: Path) -> None:
    texts = "Fever.", "a fever dream song"
    plain, beside = (mentions(folder, text, "en")[0].link.candidates[0].score for text in texts)
    assert 0 < beside < plain < 1


@pytest.mark.slow
def test_batches_and_single_notes_are_the_same(folder: Path) -> None:
    texts = ["Fever and cough.", "", "Beinödeme, TVT", "Fever (F). Enlarged liver."] * 5
    notes = [Note(str(at), text) for at, text in enumerate(texts)]
    together, single = NotePipeline(folder, language="de").link(notes), NotePipeline(folder, language="de")
    alone = [single.link([note])[0] for note in notes]
    assert together == alone


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = (
        "L:1\tHerzinfarkt\tde", "L:1\tMyokardinfarkt\tde", "L:2\tchronisch obstruktive Lungenerkrankung\tde",
        "L:2\tchronic obstructive pulmonary disease\ten", "L:2\tCOPD\tde",
    )  # fmt: skip
    own = "G:1\tHerzinfarkt\tde", "G:2\texazerbierte COPD\tde"
    return bundle_of(tmp_path_factory.mktemp("two"), own=own, other=names)


@pytest.mark.slow
@pytest.mark.parametrize(("prefer", "concept"), [("own", "G:1"), ("other", "L:1")])
def test_a_name_of_two_sources_is_not_reworded(two_sources: Path, prefer: str, concept: str) -> None:
    """The lexicon has it as a lay word for a name of one source only."""
    assert found(two_sources, "Herzinfarkt.", "de", prefer=[prefer]) == [["Herzinfarkt", concept, None]]


@pytest.mark.slow
def test_an_abbreviation_inside_a_longer_name(two_sources: Path) -> None:
    assert found(two_sources, "Es besteht eine exazerbierte COPD.", "de") == [["exazerbierte COPD", "G:2", None]]
    assert found(two_sources, "Bekannte COPD.", "de")[0][1] == "L:2"


@pytest.mark.slow
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
    assert concept not in [id_ for _, id_, _ in found(folder, none, language, threshold=0.2)]
    assert concept in [id_ for _, id_, _ in found(folder, some, language, threshold=0.2)]


@pytest.mark.parametrize(("language", "text", "wanted"), cases("a_negation_inside_a_mention"))
def test_a_negation_inside_a_mention(folder: Path, language: str, text: str, wanted: list[str]) -> None:
    (read,) = mentions(folder, text, language, threshold=0.2)
    assert [read.link.concept_id, *presence([read])] == wanted


@pytest.mark.parametrize("text", ["[**Marfan 12**]", "[**Name\n(ID)**]", "<NAME>", "<DATE 2>", "XXX", "xxxx", "___"])
def test_placeholders(text: str) -> None:
    inside, end = in_placeholder(f"a {text} b {text}"), 2 + len(text)
    assert [inside(2, end), inside(end - 1, end + 2)] == [True, True]
    assert [inside(0, 1), inside(end + 1, end + 2)] == [False, False]


@pytest.mark.parametrize("text", ["47,XXX", "<b>", "[COPD]", "XXXL", "p < 0.05 und > 3", "XX", "[** open"])
def test_what_is_no_placeholder(text: str) -> None:
    assert not in_placeholder(text)(0, len(text))


def test_no_mention_is_in_a_placeholder(demo: Bundle) -> None:
    text = "[**Asthma**] <COUGH> fever [**Fever Clinic**] cough <b>gout</b>"
    for verbatim in (False, True):
        read = mentions(demo, text, "en", verbatim=verbatim)
        assert [(m.link.mention, m.start) for m in read] == [("fever", 21), ("cough", 46), ("gout", 55)]


@pytest.mark.parametrize(
    ("language", "text", "concept"),
    [
        ("en", "The INR was high.", "DEMO:0472"),  # all words of its long form are qualities
        ("de", "Der INR ist hoch.", "DEMO:0472"),
        ("en", "Blood cultures were taken.", "DEMO:0476"),  # a phrase that hides its blood
    ],
)
def test_tests_by_their_names(demo_path: Path, language: str, text: str, concept: str) -> None:
    assert [m.link.concept_id for m in mentions(demo_path, text, language)] == [concept]


@pytest.mark.parametrize(
    ("language", "text", "concept"),
    [
        ("en", "Biopsies were taken.", "DEMO:0315"),
        ("en", "Wounds were cleaned.", "DEMO:0164"),
        ("en", "He had burns.", "DEMO:0173"),
        ("es", "Se tomaron biopsias.", "DEMO:0315"),
        ("es", "Heridas limpias.", "DEMO:0164"),
        ("de", "Verlauf des grippalen Infektes.", "DEMO:0130"),
    ],
)
def test_inflected_names(demo_path: Path, language: str, text: str, concept: str) -> None:
    assert [m.link.concept_id for m in mentions(demo_path, text, language)] == [concept]
