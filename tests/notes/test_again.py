"""Texts that come again: the same links, from memory, and no word of a note in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medlink import Note, NotePipeline, link_notes
from medlink.index import Bundle
from medlink.linking.demo import demo_notes
from medlink.notes import again
from medlink.notes.again import Again
from medlink.notes.pipeline import LinkedNote
from medlink.notes.writers.protocol import LinkedMention
from medlink.records import Attribute, Candidate, Link

NOTES = [Note(str(at), text) for at, text in enumerate(demo_notes().values())]


@pytest.fixture
def pipeline(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> NotePipeline:
    """A pipeline that lists the ids of the notes that it links anew."""
    made = NotePipeline(demo, abbreviations="builtin", map=("UMLS",))
    anew, link_new = list[str](), made.link_new

    def counted(notes: list[Note]) -> list[LinkedNote]:
        anew.extend(note.note_id for note in notes)
        return link_new(notes)

    monkeypatch.setattr(made, "link_new", counted)
    monkeypatch.setattr(made, "anew", anew, raising=False)
    return made


def test_a_text_that_comes_again_has_the_same_links(pipeline: NotePipeline) -> None:
    first = pipeline.link(NOTES)
    assert sum(one.link.expanded is not None for note in first for one in note.mentions) > 3
    assert sum(bool(one.attributes) for note in first for one in note.mentions) > 3
    again_ids = [replace(note, note_id=f"again {note.note_id}") for note in NOTES]
    second = pipeline.link(again_ids)
    assert pipeline.anew == [note.note_id for note in NOTES]  # type: ignore[attr-defined]
    assert [one.note for one in second] == again_ids
    assert [(one.language, one.mentions) for one in second] == [(one.language, one.mentions) for one in first]


def test_another_letter_or_language_is_another_text(pipeline: NotePipeline) -> None:
    pipeline.link([Note("1", "Fieber", "de")])
    pipeline.link(
        [Note("2", "Fieber.", "de"), Note("3", "Fieber", "es"), Note("4", "Fieber"), Note("5", "Fieber", "de")]
    )
    assert pipeline.anew == ["1", "2", "3", "4"]  # type: ignore[attr-defined]


def test_what_could_not_be_linked_is_not_remembered(pipeline: NotePipeline) -> None:
    for at in range(2):
        (found,) = pipeline.link([Note(str(at), "Fieber \ud83d", "de")])
        assert found.note.problem is not None
        assert found.note.note_id == str(at)
    (found,) = pipeline.link([Note("bad", problem="no text")])
    assert found.note.problem == "no text"
    assert pipeline.anew == ["0", "1", "bad"]  # type: ignore[attr-defined]


def test_no_word_of_a_note_is_kept(demo: Bundle) -> None:
    pipeline = NotePipeline(demo)
    text = "Lungenentzündungen beidseits. Mitralklappenstenosen (MS). Schwere MS. Shortnes of breath Zqxmarke."
    (found,) = pipeline.link([Note("1", text, "de")])
    said = [one.link.mention for one in found.mentions] + [one.link.expanded for one in found.mentions]
    assert {"Lungenentzündungen", "Mitralklappenstenosen"} <= set(said)
    assert any(one.attributes for one in found.mentions)
    assert pipeline._again is not None
    assert len(pipeline._again._kept) == 1
    kept = repr(list(pipeline._again._kept.items()))
    assert "Pneumonie" in kept  # the bundle's word
    for word in ("Lungenentzündungen", "beidseits", "Mitralklappenstenosen", "Schwere", "Shortnes", "Zqxmarke"):
        assert word not in kept


def test_a_long_form_that_is_not_letter_by_letter_in_the_note_is_not_kept() -> None:
    candidate = Candidate("X:1", "x", 0.9, "x", "de", "exact")
    kept = Again()
    for text, expanded, is_kept in (
        ("chronisches\nLeiden (CL)", "chronisches Leiden", False),
        ("chronisches Leiden (CL)", "chronisches Leiden", True),
        ("das bekannte Ding (CL)", "chronisches Leiden", True),
    ):
        at = text.index("CL")
        mention = LinkedMention(at, at + 2, Link("CL", (candidate,), "linked", expanded))
        kept.keep(Note("1", text), "de", [mention])
        found = kept.recall(Note("2", text))
        assert (found is not None) == is_kept
        assert found is None or found == ("de", (mention,))


@pytest.mark.parametrize("text", ["CX", "xCL"])
def test_words_that_the_note_has_not_are_not_kept(text: str) -> None:
    mention = LinkedMention(0, 2, Link("CL"))
    kept = Again()
    kept.keep(Note("1", text), "de", [mention])
    assert kept.recall(Note("1", text)) is None
    odd = LinkedMention(0, 2, Link(text[:2]), attributes=(Attribute(0, 1, "?", "other"),))
    kept.keep(Note("1", text), "de", [odd])
    assert kept.recall(Note("1", text)) is None


def test_a_note_with_very_many_mentions_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_LONGEST", 2)
    mention = LinkedMention(0, 2, Link("CL"))
    for count, is_kept in ((2, True), (3, False)):
        kept = Again()
        kept.keep(Note("1", "CL"), "de", [mention] * count)
        assert (kept.recall(Note("1", "CL")) is not None) == is_kept


def test_the_texts_met_last_stay(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_MOST", 2)
    kept, texts = Again(), [Note(str(at), str(at)) for at in range(3)]
    for note in (texts[0], texts[1]):
        kept.keep(note, "de", ())
    assert kept.recall(texts[0]) == ("de", ())
    kept.keep(texts[2], "de", ())
    assert [kept.recall(note) for note in texts] == [("de", ()), None, ("de", ())]


def test_hashes_of_two_memories_differ() -> None:
    one, other = Again(), Again()
    for kept in (one, other):
        kept.keep(NOTES[0], "de", ())
    assert not one._kept.keys() & other._kept.keys()


def test_processes_write_the_same_bytes(demo_path: Path, tmp_path: Path) -> None:
    rows = [json.dumps({"id": f"{turn}-{note.note_id}", "text": note.text}) for turn in range(60) for note in NOTES]
    (tmp_path / "notes.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    for processes in (1, 2):
        link_notes(demo_path, tmp_path / "notes.jsonl", out=tmp_path / f"{processes}.jsonl", processes=processes)
    one = (tmp_path / "1.jsonl").read_bytes()
    assert one == (tmp_path / "2.jsonl").read_bytes()
    mentions = [json.loads(line) for line in one.splitlines()]
    turns = [[{**one, "note": ""} for one in mentions if one["note"].startswith(f"{turn}-")] for turn in (0, 59)]
    assert turns[0] == turns[1] != []
