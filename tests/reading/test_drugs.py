"""Drugs in notes: what the patient is allergic to, must not or no longer take, or will take (``drugs.txt``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medlink.language.scan import Scanner
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from tests.reading.bundles import cases
from tests.reading.test_qualifiers import parsed


@pytest.mark.slow
def test_drugs(demo: Any) -> None:
    lines = (Path(__file__).parent / "drugs.txt").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("# ")]
    texts = [(language, *parsed(marked)) for language, marked in rows]
    read = NotePipeline(demo).link([Note(str(at), text, language) for at, (language, text, _, _) in enumerate(texts)])
    for (_, text, places, expected), note in zip(texts, read, strict=True):
        found = {(one.start, one.end): one.qualifiers for one in note.mentions}
        for place, wanted in zip(places, expected, strict=True):
            got = found.get(place)
            values = got and (got.presence, got.temporality, got.experiencer, got.allergy)
            assert values == (wanted.presence, wanted.temporality, wanted.experiencer, wanted.allergy), text


@pytest.mark.parametrize(
    ("word", "names", "tokens"),
    [
        ("Penicillinallergie", {"Penicillin"}, ["Penicillin", "allergie"]),
        ("Penicillinallergie", {"Penicillin", "Penicillinallergie"}, ["Penicillinallergie"]),
        ("Penicillinallergie", {"Penicillin", "penicillin allergy"}, ["Penicillinallergie"]),  # its meaning is a name
        ("Sonnenallergie", {"Penicillin"}, ["Sonnenallergie"]),
        ("Allergie", {"Penicillin"}, ["Allergie"]),
    ],
)
def test_an_allergen_stands_apart_if_the_allergy_is_no_name(
    word: str, names: set[str], tokens: list[str], demo: Any
) -> None:
    from medlink.language.lexicon.name_analysis import shared_analyser

    scanner = Scanner("de", shared_analyser(demo.index.forms), names.__contains__)
    assert [token.text for token in scanner.scan(word).tokens] == tokens


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), cases("what_is_an_act_and_what_is_a_name"))
def test_what_is_an_act_and_what_is_a_name(language: str, text: str, wanted: dict[str, str], demo: Any) -> None:
    (note,) = NotePipeline(demo).link([Note("1", text, language)])
    linked = (mention for mention in note.mentions if mention.link.concept_id)
    assert {one.link.mention: one.qualifiers and one.qualifiers.presence for one in linked} == wanted
