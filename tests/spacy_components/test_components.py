"""The two components in real pipelines: annotations, options, batches, processes, and serialisation."""

from __future__ import annotations

import json
import logging
import pickle
import unicodedata
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.tokens.underscore import Underscore

from medlink.errors import BundleError, ConfigError
from medlink.index import build_bundle
from medlink.linking.demo import BUNDLE_VARIABLE, demo_notes
from medlink.spacy_components.pipeline import build_pipeline
from tests.small_kb import small_kb


def blank(lang: str, demo_path: Path, /, **components: dict[str, object]) -> Language:
    nlp = spacy.blank(lang)
    for name, config in components.items():
        nlp.add_pipe(name, config={"bundle": str(demo_path), **config})
    return nlp


def make(lang: str, demo_path: Path, /, **config: object) -> Language:
    return blank(lang, demo_path, medlink_mentions={}, biolord_linker=config)


def facts(doc: Doc) -> list[tuple[object, ...]]:
    """All annotations, with their types: transport between processes and to disk turns tuples into lists."""
    return [(s.text, s.start_char, s.end_char, s.kb_id_, s._.kb_ents, s._.medlink) for s in doc.ents]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Herzinfarkt, Pleuraergüsse", {"Herzinfarkt": "Myokardinfarkt", "Pleuraergüsse": "Pleuraerguss"}),
        ("en", "Heart attacks and type II diabetes.", {"Heart attacks": "myocardial infarction"}),
        ("es", "Presenta fiebre e infartos de miocardio.", {"fiebre": "fiebre"}),
    ],
)
def test_mentions_are_linked(demo_path: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    doc = make(language, demo_path)(text)
    found = {span.text: span for span in doc.ents}
    for mention, name in wanted.items():
        span = found[mention]
        best = span._.medlink["candidates"][0]
        assert best["preferred_name"] == name
        assert span.kb_id_ == best["concept_id"] == span._.kb_ents[0][0]
        assert span._.kb_ents[0][1] == best["score"]
    assert [s.kb_id_ for s in doc.spans["medlink"]] == [s.kb_id_ for s in doc.ents]
    json.dumps([span._.medlink for span in doc.ents])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "options", "missing"),
    [
        ("nl", {}, "language 'nl': medlink has no rules for it: "),
        ("fr", {"language": "pl"}, "language 'pl': medlink has no rules for it: "),
        *((tag, {}, "") for tag in ("de", "en", "es")),
        ("xx", {"language": "de"}, ""),
    ],
)
def test_a_language_without_rules_is_one_warning(
    pipeline: str, options: dict[str, str], missing: str, demo_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blank(pipeline, demo_path, biolord_linker={**options})
    assert [message for message in caplog.messages if message.startswith(f"biolord_linker: {missing}")] == (
        caplog.messages
    )
    assert len(caplog.messages) == bool(missing)


@pytest.mark.slow
def test_stop_words_and_short_words_are_no_mentions(demo_path: Path) -> None:
    found = {s.text for s in make("en", demo_path)("He has ms and MS; as well as AS, or pt or PT. A be it.").ents}
    assert found == {"MS", "AS", "PT"}


@pytest.mark.slow
def test_decomposed_and_invisible_characters(demo_path: Path) -> None:
    text, nlp = demo_notes()["de"], make("de", demo_path)
    wanted = [(s.text, s.kb_id_) for s in nlp(text).ents]
    doc = nlp(unicodedata.normalize("NFD", text))
    assert [(unicodedata.normalize("NFC", s.text), s.kb_id_) for s in doc.ents] == wanted
    soft = nlp("Herz\u00adin\u00adfarkt und Übel\u00adkeit")
    assert [s._.medlink["candidates"][0]["route"] for s in soft.ents] == ["exact", "exact"]


@pytest.mark.slow
def test_qualifiers_of_spans(demo_path: Path) -> None:
    text = "Allergies: gout. No fever. Mother has asthma."
    doc = make("en", demo_path)(text)
    keys = ("presence", "temporality", "experiencer", "section")
    assert [(s.text, *(s._.medlink[key] for key in keys)) for s in doc.ents] == [
        ("gout", "present", "current", "patient", "allergies"),
        ("fever", "absent", "current", "patient", "allergies"),
        ("asthma", "present", "current", "family", "allergies"),
    ]
    off = make("en", demo_path, qualifiers=False)(text)
    assert {s._.medlink["presence"] for s in off.ents} == {None}
    doc = blank("en", demo_path, medlink_mentions={"present_only": True})(text)
    assert [s.text for s in doc.ents] == [s.text for s in doc.spans["medlink"]] == ["gout"]


def test_entities_of_another_component(demo_path: Path) -> None:
    nlp = spacy.blank("en")
    patterns = [{"label": "PROBLEM", "pattern": word} for word in ("heart attack", "gout")]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)  # type: ignore[attr-defined]
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo_path)})
    (span,) = nlp("No gout").ents
    assert span._.medlink["presence"] == "absent"
    nlp.add_pipe("medlink_mentions", config={"bundle": str(demo_path)}, before="biolord_linker")
    doc = nlp("A heart attack with fever.")
    assert [(s.text, s.label_) for s in doc.ents] == [("heart attack", "PROBLEM")]  # mentions do not replace them
    assert doc.ents[0].kb_id_.startswith("DEMO:")
    assert [s.text for s in doc.spans["medlink"]] == ["heart attack", "fever"]
    assert all(s._.medlink is not None for s in doc.spans["medlink"])


@pytest.mark.slow
def test_another_span_group(demo_path: Path) -> None:
    @Language.component("test_own_spans")
    def own(doc: Doc) -> Doc:
        doc.spans["own"] = [Span(doc, 1, 3, label="X"), Span(doc, 2, 3, label="Y")]
        return doc

    nlp = spacy.blank("en")
    nlp.add_pipe("test_own_spans")
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo_path), "spans_key": "own"})
    doc = nlp("severe chest pain")
    # pain is a mention because it is given, though medlink alone takes it for a part of the other one
    found = [(s.text, s.label_, s.kb_id_ != "NIL") for s in doc.spans["own"]]
    assert found == [("chest pain", "X", True), ("pain", "Y", True)]
    with pytest.raises(ConfigError, match="no span group 'owm'"):
        blank("en", demo_path, biolord_linker={"spans_key": "owm"})("chest pain")


def test_invalid_options_are_refused(demo_path: Path) -> None:
    given: tuple[tuple[str, dict[str, object], str], ...] = (
        ("biolord_linker", {"treshold": 0.5}, "treshold"), ("biolord_linker", {"k": "many"}, "k"),
        ("biolord_linker", {"semantic_types": "Drug"}, "semantic_types"), ("biolord_linker", {"k": 0}, "k is 0"),
        ("biolord_linker", {"languages": ["fr"]}, "no language 'fr'"), ("medlink_mentions", {"spankey": 1}, "spankey"),
        ("medlink_mentions", {"semantic_types": ["Drugs"]}, "no semantic type 'Drugs'"),
        ("biolord_linker", {"sources": ["UMLS"]}, "no source 'UMLS'"),
        ("medlink_mentions", {"language": "german"}, "unknown language 'german'"),
    )  # fmt: skip
    for name, config, message in given:
        with pytest.raises(Exception, match=message):
            blank("en", demo_path, **{name: config})
    with pytest.raises(ConfigError, match=r"'xx' is not a language\. Remedy: set language in the config of biolord_l"):
        blank("xx", demo_path, biolord_linker={})


@pytest.mark.slow
def test_each_option_changes_the_output(demo_path: Path) -> None:
    text = "Mitral stenosis (MS), chest pain, heart attack, aspirin, Diabetes mellitus"
    base = facts(make("en", demo_path)(text))
    for config in (
        {"k": 1}, {"threshold": 0.99}, {"language": "de"}, {"languages": ["es"]}, {"semantic_types": ["Drug"]},
        {"abbreviations": False},
    ):  # fmt: skip
        assert facts(make("en", demo_path, **config)(text)) != base, config
    assert facts(make("en", demo_path, sources=["DEMO"])(text)) == base

    def mentions(**config: object) -> list[str]:
        nlp = blank("en", demo_path, medlink_mentions=config)
        doc = nlp("Mitral stenosis (XYMS), chest pain, aspirin, Herzinsuffizienz")
        return [s.text for s in doc.spans[str(config.get("spans_key", "medlink"))]]

    assert mentions() == ["Mitral stenosis", "chest pain", "aspirin", "Herzinsuffizienz"]
    assert mentions(other_languages=False) == ["Mitral stenosis", "chest pain", "aspirin"]
    assert mentions(semantic_types=["Drug"]) == ["aspirin"]
    assert mentions(language="de", other_languages=False) == ["aspirin", "Herzinsuffizienz"]
    assert mentions(spans_key="other") == mentions()


@pytest.mark.slow
def test_batches_give_what_single_calls_give(demo_path: Path) -> None:
    nlp = make("en", demo_path)
    texts = ["chest pain", "", "MS and fever", "😀", "heart attack (HA). HA again"] * 9
    assert [facts(doc) for doc in nlp.pipe(texts, batch_size=4)] == [facts(nlp(text)) for text in texts]


@pytest.mark.slow
def test_two_processes_after_the_parent_has_worked(demo_path: Path) -> None:
    nlp = make("de", demo_path)
    texts = [demo_notes()["de"], "Fieber", "Mitralklappenstenose (MS). MS bekannt."] * 4
    here = [facts(doc) for doc in nlp.pipe(texts)]
    there = [facts(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=2)]
    assert there == here


@pytest.mark.slow
def test_documents_and_pipelines_survive_disk_bytes_and_pickle(demo_path: Path, tmp_path: Path) -> None:
    nlp = make("es", demo_path, k=2, threshold=0.4)
    text = "Infarto agudo de miocardio y fiebre"
    doc = nlp(text)
    wanted = facts(doc)
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    stored = next(DocBin(store_user_data=True, docs=[doc]).get_docs(nlp.vocab))
    assert facts(again) == facts(stored) == wanted
    nlp.to_disk(tmp_path / "model")
    assert facts(spacy.load(tmp_path / "model")(text)) == wanted
    assert facts(make("es", demo_path, k=2, threshold=0.4).from_bytes(nlp.to_bytes())(text)) == wanted
    assert facts(pickle.loads(pickle.dumps(nlp))(text)) == wanted  # noqa: S301  # our own bytes


def test_candidates_are_pairs_in_tuples(demo_path: Path) -> None:
    nlp = make("en", demo_path)
    (span,) = nlp("chest pain").ents
    (concept_id, score), *_ = span._.kb_ents
    pickle.dumps(Underscore.get_state())  # as for processes that are not forked
    assert (type(span._.kb_ents[0]), type(concept_id), type(score)) == (tuple, str, float)
    assert Span(nlp.make_doc("chest pain"), 0, 1)._.kb_ents is None
    span._.kb_ents = [["X:1", 1]]
    assert (span._.kb_ents, type(span._.kb_ents[0])) == ([("X:1", 1)], tuple)


@pytest.mark.slow
def test_a_saved_pipeline_without_its_bundle(demo_path: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    gone = tmp_path / "bundle"
    gone.symlink_to(demo_path)
    nlp.add_pipe("biolord_linker", "links", config={"bundle": str(gone)})
    nlp.to_disk(tmp_path / "model")
    gone.unlink()
    with pytest.raises(BundleError) as caught:
        spacy.load(tmp_path / "model")
    override = {"components.links.bundle": str(demo_path)}
    assert f"{gone}: no such bundle. Remedy: " in str(caught.value)
    assert 'spacy.load(PIPELINE, config={"components.links.bundle": FOLDER})' in str(caught.value)
    assert "links" in spacy.load(tmp_path / "model", config=override).pipe_names


@pytest.mark.slow
def test_a_saved_pipeline_refuses_another_bundle(demo_path: Path, tmp_path: Path) -> None:
    make("en", demo_path).to_disk(tmp_path / "model")
    build_bundle(tmp_path / "other", kb=small_kb(tmp_path / "kb.sqlite"))
    other = str(tmp_path / "other")
    config = {"components": {"medlink_mentions": {"bundle": other}, "biolord_linker": {"bundle": other}}}
    with pytest.raises(BundleError, match="was saved with another bundle: its kb differs"):
        spacy.load(tmp_path / "model", config=config)


@pytest.mark.slow
def test_without_configuration(
    demo_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BUNDLE_VARIABLE, str(demo_path))
    with caplog.at_level(logging.WARNING, logger="medlink"):
        linker = spacy.blank("en").add_pipe("biolord_linker")
        assert linker.bundle.folder == demo_path  # type: ignore[attr-defined]
        assert not caplog.records
        monkeypatch.delenv(BUNDLE_VARIABLE)
        nlp = spacy.blank("en")
        nlp.add_pipe("medlink_mentions")
        nlp.add_pipe("biolord_linker")
    assert "using the demo terminology" in caplog.text
    assert "not for clinical use" in caplog.text
    assert nlp("chest pain").ents[0].kb_id_.startswith("DEMO:")
    monkeypatch.setenv(BUNDLE_VARIABLE, "missing")
    with pytest.raises(BundleError, match=rf"missing: no such bundle\. Remedy: set {BUNDLE_VARIABLE} to the folder"):
        spacy.blank("en").add_pipe("biolord_linker")


STRANGE = (
    "", " \n\t ", "😀🫀🩺" * 50, "chest\x00pain\x07 \x1bfever\x1b \u2028 cough", "a\u0301\u0301\u0301fever" * 20,
    "המטופל סובל מחום fever عانى المريض من السعال", "(" * 300 + "fever" + ")" * 300, "x" * 20_000,
    "fever " + "nothing else was noted " * 50_000 + "cough",  # spaCy limits documents to 1,000,000 characters
)  # fmt: skip


@pytest.mark.slow
def test_strange_notes(demo_path: Path) -> None:
    docs = list(build_pipeline(demo_path, "en").pipe(STRANGE))
    assert [doc.text for doc in docs] == [*STRANGE]
    assert all(any("fever" in s.text for s in docs[at].ents) for at in (3, 5))
    assert [s.text for s in docs[-1].ents] == ["fever", "cough"]
