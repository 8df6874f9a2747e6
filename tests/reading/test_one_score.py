"""A mention of a note has the same score in pipeline, linker, spaCy and Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import spacy

from medlink import Linker, Mention, Note, NotePipeline
from medlink.index import Bundle
from medlink.reading.protocols import Span
from medlink.records import Qualifiers
from medlink.spacy_components.pipeline import build_pipeline
from tests.reading.bundles import bundle_of, mentions
from tests.reading.bundles import presence as presence_of

SENTENCES = {
    "de": ("Bekannt ist {}.", "Kein Hinweis auf {}, seit 2010 stabil.", "Z. n. {} bei der Mutter"),
    "en": ("Known {}.", "No sign of {}, stable since 2010.", "Mother with {}"),
    "es": ("Presenta {}.", "Sin signos de {}, estable desde 2010.", "Madre con {}"),
}
LANGUAGES = ("en", "de", "es")
Scores = dict[tuple[str, int, int], tuple[str, float]]


def notes(demo: Bundle, language: str) -> list[Note]:
    names = sorted({name.text for name in demo.kb.iter_names() if name.language == language})[:40]
    return [
        Note(f"{language}-{number}", sentence.format(name), language)
        for number, (name, sentence) in enumerate((n, s) for n in names for s in SENTENCES[language])
    ]


def scores(demo: Bundle, language: str, some: list[Note]) -> Scores:
    return {
        (note.note.note_id, m.start, m.end): (m.link.candidates[0].concept_id, m.link.candidates[0].score)
        for note in NotePipeline(demo, language=language).link(some)
        for m in note.mentions
        if m.link.candidates
    }


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_pipeline_linker_and_spacy_give_the_same_score(demo: Bundle, demo_path: Path, language: str) -> None:
    some = notes(demo, language)
    pipeline = scores(demo, language, some)
    assert len(pipeline) >= 60
    texts = {note.note_id: note.text for note in some}
    once = [at for at in pipeline if texts[at[0]].count(texts[at[0]][at[1] : at[2]]) == 1]
    links = Linker(demo, language=language).link(
        [Mention(texts[at][start:end], language) for at, start, end in once], [texts[at] for at, _, _ in once]
    )
    best = [(link.candidates[0].concept_id, link.candidates[0].score) for link in links]
    assert best == [pipeline[at] for at in once]
    nlp = build_pipeline(demo_path, language)
    spacy: Scores = {}
    for note, doc in zip(some, nlp.pipe(texts.values()), strict=True):
        for span in doc.ents:
            for best in span._.medlink["candidates"][:1]:
                spacy[note.note_id, span.start_char, span.end_char] = best["concept_id"], best["score"]
    same = pipeline.keys() & spacy.keys()
    assert len(same) >= 0.98 * len(pipeline)  # a span of spaCy ends with a token
    assert {at: spacy[at] for at in same} == {at: pipeline[at] for at in same}


@pytest.mark.slow
def test_spark_gives_the_same_score(demo: Bundle, demo_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas comes with medlink[spark]")
    from medlink.spark import BundleLocation, link_partition

    some = notes(demo, "de")[:100]
    frame = pandas.DataFrame({"note": [n.note_id.encode() for n in some], "text": [n.text.encode() for n in some]})
    rows = link_partition(
        BundleLocation(str(demo_path), shipped=False), (("language", "de"),), json.dumps(demo.versions), [frame]
    )
    spark = {
        (row["note"].decode(), row["start"], row["end"]): row["candidates"][0]["score"]
        for found in rows
        for row in found.to_dict("records")
        if len(row["candidates"])
    }
    assert spark == {at: score for at, (_, score) in scores(demo, "de", some).items()}


class FeverFinder:
    def find(self, texts: list[str], language: str) -> list[list[Span]]:
        return [[(text.index("fever"), text.index("fever") + 5)] if "fever" in text else [] for text in texts]


class AlwaysUncertain:
    def qualify(self, text: str, spans: list[Span]) -> list[Qualifiers | None]:
        return [Qualifiers("uncertain") for _ in spans]


def test_another_finder_gets_the_same_scores(demo: Bundle) -> None:
    note = Note("n", "No fever, but asthma.", "en")
    (own,), (other,) = NotePipeline(demo).link([note]), NotePipeline(demo, finder=FeverFinder()).link([note])
    assert [m.link.mention for m in own.mentions] == ["fever", "asthma"]
    assert [(m.link, m.qualifiers) for m in other.mentions] == [(m.link, m.qualifiers) for m in own.mentions[:1]]


class WordFinder:
    """Finds a word, as a recogniser does that leaves out what describes a finding."""

    def __init__(self, word: str) -> None:
        self.word = word

    def find(self, texts: list[str], language: str) -> list[list[Span]]:
        return [[match.span() for match in re.finditer(self.word, text)] for text in texts]


HEADS = (
    ("de", "Husten", "Produktiver Husten.", "present"),
    ("de", "Husten", "Trockener Husten ohne Fieber.", "present"),
    ("de", "Fieber", "Hohes Fieber.", "present"),
    ("de", "Dyspnoe", "Keine belastungsabhängige Dyspnoe.", "absent"),
    ("en", "cough", "Productive cough.", "present"),
    ("en", "fever", "No high fever.", "absent"),
    ("en", "dyspnea", "Exertional dyspnea for two weeks.", "present"),
    ("es", "fiebre", "Sin fiebre alta.", "absent"),
    ("es", "tos", "Refiere tos productiva.", "present"),
    ("es", "disnea", "Presenta disnea de esfuerzo.", "present"),
)


def test_a_given_name_is_linked_inside_a_longer_mention(tmp_path: Path) -> None:
    """The recogniser decides what is a mention; medlink alone finds the longer name."""
    names = (
        ("1", "cough", "Husten", "tos"), ("2", "productive cough", "produktiver Husten", "tos productiva"),
        ("3", "dry cough", "trockener Husten", "tos seca"), ("4", "fever", "Fieber", "fiebre"),
        ("5", "high fever", "hohes Fieber", "fiebre alta"), ("6", "dyspnea", "Dyspnoe", "disnea"),
        ("7", "exertional dyspnea", "belastungsabhängige Dyspnoe", "disnea de esfuerzo"),
    )  # fmt: skip
    rows = (f"HP:{number}\t{name}\t{tag}" for number, *own in names for name, tag in zip(own, LANGUAGES, strict=True))
    folder = bundle_of(tmp_path, *rows)
    bundle = Bundle(folder)
    for language, word, text, presence in HEADS:
        alone = Linker(bundle, language=language).link([word])[0].candidates[0]
        found = NotePipeline(bundle, language=language, finder=WordFinder(word)).link([Note("1", text, language)])
        mention = found[0].mentions[0]
        assert (mention.link.mention, mention.link.concept_id) == (word, alone.concept_id), text
        assert mention.link.candidates[0].score == pytest.approx(alone.score, abs=0.01), text
        assert presence_of([mention]) == [presence], text
        nlp = spacy.blank(language)
        nlp.add_pipe("entity_ruler").add_patterns([{"label": "FINDING", "pattern": word}])  # type: ignore[attr-defined]
        nlp.add_pipe("biolord_linker", config={"bundle": str(folder)})
        assert nlp(text).ents[0].kb_id_ == alone.concept_id, text
        assert word not in [one.link.mention for one in mentions(bundle, text, language)], text


def test_another_qualifier(demo: Bundle) -> None:
    (read,) = NotePipeline(demo, qualifier=AlwaysUncertain()).link([Note("n", "No fever, but asthma.", "en")])
    assert [m.qualifiers.presence for m in read.mentions if m.qualifiers] == ["uncertain", "uncertain"]


@pytest.mark.slow
def test_a_part_of_a_window_is_found(tmp_path: Path) -> None:
    names = ("1\tAllergic rhinitis", "1\tHay fever", "2\tObstructive sleep apnea", "3\tFever")
    bundle = bundle_of(tmp_path, *(f"HP:{name}\ten" for name in names))
    for language, text, mention in (
        ("de", "Anamnese: Heuschnupfen seit der Kindheit.", "Heuschnupfen"),
        ("en", "OSA on CPAP", "OSA"),
    ):
        assert [(m.link.mention, m.link.status) for m in mentions(bundle, text, language)] == [(mention, "linked")]
