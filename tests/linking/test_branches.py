"""Filters by hierarchy act inside the search: the results are those of filtering many candidates afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy

from medlink import Note, NotePipeline
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking import Linker
from tests.cli import runner
from tests.cli.runner import json_lines

TEXT = "Herzinfarkt 2019. Fieber und Husten. Therapie mit Metoprolol."
MENTIONS = ["Herzinfarkt", "Fieber", "Husten", "Lungenentzündung", "Kopfweh", "Tabletten", "Leberschaden"]
FILTERS: list[dict[str, Any]] = [
    {"under": ["DEMO:0002"]},  # disorders
    {"not_under": ["DEMO:0002"]},
    {"under": ["DEMO:0002", "DEMO:0006"], "not_under": ["DEMO:0038"]},
    {"ecl": "<< DEMO:0002 MINUS << DEMO:0126"},
    {"under": ["DEMO:0002"], "ecl": "<< DEMO:0126"},
]


def allowed(bundle: Bundle, options: dict[str, Any]) -> set[str]:
    """The concepts that the filters leave, from the parents of each."""
    kb = bundle.kb
    below = {one: kb.descendants([one]) | {one} for one in ("DEMO:0002", "DEMO:0006", "DEMO:0038", "DEMO:0126")}
    ids = {concept.concept_id for concept in kb.iter_concepts()}
    if under := options.get("under"):
        ids &= set.union(*(below[one] for one in under))
    for one in options.get("not_under", ()):
        ids -= below[one]
    if ecl := options.get("ecl"):
        ids &= below["DEMO:0002"] - below["DEMO:0126"] if "MINUS" in ecl else below["DEMO:0126"]
    return ids


@pytest.mark.parametrize("options", FILTERS)
def test_candidates_are_those_of_filtering_afterwards(demo: Bundle, linker: Linker, options: dict[str, Any]) -> None:
    kept = allowed(demo, options)
    assert 0 < len(kept) < len({concept.concept_id for concept in demo.kb.iter_concepts()})
    for found, every in zip(Linker(demo, **options).link(MENTIONS), linker.link(MENTIONS, k=200), strict=True):
        assert {c.concept_id for c in found.candidates} <= kept
        best = next((c for c in every.candidates if c.concept_id in kept), None)
        if best is not None and best.route in ("exact", "inflected"):
            assert found.candidates[0].concept_id == best.concept_id


@pytest.mark.slow
@pytest.mark.parametrize("options", FILTERS)
def test_notes_and_spacy_find_the_same(demo: Bundle, options: dict[str, Any]) -> None:
    kept = allowed(demo, options)
    (note,) = NotePipeline(demo, language="de", **options).link([Note("1", TEXT)])
    of_notes = [(mention.start, mention.link.concept_id) for mention in note.mentions]
    (every,) = NotePipeline(demo, language="de").link([Note("1", TEXT)])
    named = [(mention.start, mention.link.concept_id) for mention in every.mentions if mention.link.concept_id in kept]
    assert set(named) <= set(of_notes)
    assert {concept for _, concept in of_notes if concept} <= kept
    nlp = spacy.blank("de")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(demo.folder)})
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo.folder), **options})
    linked = {(span.start_char, span.kb_id_) for span in nlp(TEXT).ents if span.kb_id_ != "NIL"}
    assert set(named) <= linked
    assert {concept for _, concept in linked} <= kept


def test_a_score_of_another_concept_is_not_taken_over(demo: Bundle) -> None:
    """The first of the concepts that are left has not the score of the best one of all."""
    text = "Apixaban und Metformin bei Vorhofflimmern und Fieber."
    nlp = spacy.blank("de")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(demo.folder)})
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo.folder), "under": ["DEMO:0010"]})
    assert {span.text: span.kb_id_ for span in nlp(text).ents if span.kb_id_ != "NIL"} == {
        "Vorhofflimmern": Linker(demo).link(["Vorhofflimmern"])[0].concept_id
    }


def test_the_command_line_filters(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    found = {}
    for name, words in {
        "all": [],
        "under": ["--under", "DEMO:0002"],
        "not under": ["--not-under", "DEMO:0002"],
        "ecl": ["--ecl", "<< DEMO:0002"],
    }.items():
        result = runner.run("link", demo_path, tmp_path / "a.txt", "--language", "de", "--format", "jsonl", *words)
        found[name] = {line["text"] for line in json_lines(result.stdout) if line["concept_id"]}
    assert found["under"] == found["ecl"] == {"Herzinfarkt"}
    assert found["under"] | found["not under"] == found["all"]
    assert found["under"].isdisjoint(found["not under"])


@pytest.mark.parametrize(("options", "message"), [
    ({"under": ["DEMO:9999"]}, "there is no concept 'DEMO:9999'"),
    ({"not_under": ["DEMO:0001"]}, "the filters leave no concept"),
    ({"ecl": "<< DEMO:0002 AND"}, "."),
])  # fmt: skip
def test_filters_that_are_refused(demo: Bundle, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Linker(demo, **options)
    assert caught.value.remedy
