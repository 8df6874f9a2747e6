"""The pipeline and ``link_notes``: what the finder hands on, processes, writers, resuming, and privacy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from medlink import Note, NotePipeline, link_notes
from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.linking.demo import demo_notes
from medlink.notes.pipeline import Codes
from medlink.notes.writers import JsonLinesWriter, LinkedMention, TextWriter
from medlink.records import Candidate, Mapping


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """300 notes in three languages, as JSONL."""
    texts = [text for note in demo_notes().values() for text in note.split("\n\n") if text.strip()]
    path = tmp_path / "many.jsonl"
    rows = [json.dumps({"id": i, "text": f"{texts[i % len(texts)]} {i}"}) for i in range(300)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


class Tsv(TextWriter):
    """A format of one's own is one class."""

    header = "note\tstart\tend\tconcept"

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        for mention in mentions:
            yield f"{note.note_id}\t{mention.start}\t{mention.end}\t{mention.link.concept_id or ''}"


def test_the_output_does_not_depend_on_processes(demo_path: Path, many: Path, tmp_path: Path) -> None:
    reports = [link_notes(demo_path, many, out=tmp_path / f"{n}.jsonl", processes=n) for n in (1, 3)]
    one = (tmp_path / "1.jsonl").read_bytes()
    assert len(one) > 100_000
    assert (tmp_path / "3.jsonl").read_bytes() == one
    assert [(r.notes, r.mentions, r.linked) for r in reports] == [(300, one.count(b"\n"), reports[0].linked)] * 2


def test_workers_end_with_the_run(demo_path: Path, many: Path) -> None:
    """A worker whose parent is killed ends too."""
    code = (
        "import os, sys, signal; from medlink.notes.pipeline import *; from medlink import Note\n"
        "def notes():\n"
        "    for i in range(1000):\n"
        "        yield Note(str(i), 'fever', 'en')\n"
        f"for n, batch in enumerate(link_all(NotePipeline({str(demo_path)!r}), notes(), 2)):\n"
        "    import multiprocessing\n"
        "    print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # the pipe ends when the last process that holds it has ended
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == -9
    assert len(said.stdout.split()) == 2


def test_a_format_of_ones_own_is_resumed_as_json_lines_are(
    demo_path: Path, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    report = link_notes(demo_path, many, out=Tsv(whole))
    lines = whole.read_text("utf-8").splitlines()
    assert lines[0] == "note\tstart\tend\tconcept"
    assert len(lines) == report.mentions + 1
    seen: list[int] = []

    def stop(done: int, whole: int) -> None:
        seen.append(done)
        if done > 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        link_notes(demo_path, many, out=Tsv(out), progress=stop)
    assert not out.exists()
    rest = link_notes(demo_path, many, out=Tsv(out), resume=True, processes=2, progress=lambda n, _: seen.append(n))
    assert 0 < rest.notes < 300
    assert seen[-1] == 300
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.part*"))


def test_notes_may_be_objects(demo_path: Path, demo: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    notes = [Note("a", "He has a fever.", "en"), Note("b", problem="torn"), Note("c", "Husten", "de")]
    report = link_notes(demo, (note for note in notes))
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == ["fever", "Husten"]
    assert (report.notes, report.mentions, [note.problem for note in report.problems]) == (3, 2, ["torn"])
    with pytest.raises(ConfigError, match="notes that are no files cannot be resumed"):
        link_notes(demo, notes, resume=True)
    with pytest.raises(InputError, match="b: no note could be read; the first: torn"):
        link_notes(demo, notes[1:2])
    assert link_notes(demo, []).notes == 0


def test_options_are_those_of_the_linker_and_the_finder(demo: Bundle) -> None:
    pipeline = NotePipeline(demo, k=1, abbreviations=False, semantic_types=["Drug"])
    (note,) = pipeline.link([Note("n", "Mitral stenosis (MS), aspirin", "en")])
    assert [(m.link.mention, len(m.link.candidates)) for m in note.mentions] == [("aspirin", 1)]
    with pytest.raises(ConfigError, match="unknown option 'treshold'"):
        NotePipeline(demo, treshold=0.5)


def test_present_only_needs_cues(demo: Bundle) -> None:
    with pytest.raises(ConfigError, match="present_only needs qualifiers, which are switched off"):
        NotePipeline(demo, present_only=True, qualifiers=False)
    # a note of another language is left out, and says why
    notes = [Note("f", "asthme", "fr"), Note("e", "Cough", "en")]
    (french, english) = NotePipeline(demo, present_only=True).link(notes)
    assert "which has no cues" in (french.note.problem or "")
    assert len(english.mentions) == 1


def test_qualifiers_of_mentions(demo: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    note = Note("n", "Family history: Mother with asthma. No fever, mild cough.\n\nDiarrhea:\nPossible gout.", "en")
    link_notes(demo, [note])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["text"], r["presence"], r["temporality"], r["experiencer"], r["section"]) for r in rows] == [
        ("asthma", "present", "current", "family", "family_history"),
        ("fever", "absent", "current", "family", "family_history"),
        ("cough", "present", "current", "family", "family_history"),
        ("gout", "uncertain", "current", "patient", None),
    ]
    # the heading of a line of its own, which no table has, is no mention either
    (off,) = NotePipeline(demo, qualifiers=False).link([note])
    assert [m.link.mention for m in off.mentions] == ["asthma", "fever", "cough", "Diarrhea", "gout"]
    assert {m.qualifiers for m in off.mentions} == {None}
    link_notes(demo, [note], qualifiers=False)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["presence"] is None


def test_an_output_that_fails_names_itself(demo: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match=r"o\.jsonl.*: .* cannot be written: No space left"):
        link_notes(demo, [Note("a", "fever", "en")], out=JsonLinesWriter(tmp_path / "o.jsonl"))
    assert list(tmp_path.iterdir()) == []


class Kb:
    """Mappings of two ids of one concept, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def mappings(self, concept_id: str) -> list[Mapping]:
        self.asked.append(concept_id)
        held = {
            "A:1": [("ICD10CM", "R50"), ("LNC", "1-2"), ("Other", "x")],
            "B:1": [("ICD-10-CM", "R50"), ("LOINC", "0-1")],
        }
        return [Mapping(concept_id, system, code, "exact") for system, code in held.get(concept_id, [])]


def candidate(concept_id: str, *same_as: str) -> Candidate:
    return Candidate(concept_id, "fever", 0.9, "fever", "en", "exact", same_as=same_as)


def shown(found: tuple[Mapping, ...]) -> list[tuple[str, str]]:
    return [(one.system, one.code) for one in found]


def of(kb: Any, *systems: str) -> Codes:
    # what it asks of a knowledge base is this one method
    held: KnowledgeBase = kb
    return Codes(held, systems)


def test_codes_come_by_system_as_asked_for_and_then_by_code() -> None:
    kb = Kb()
    both = of(kb, "LOINC", "ICD 10 CM")
    wanted = [("LOINC", "0-1"), ("LNC", "1-2"), ("ICD10CM", "R50")]
    assert shown(both.of(candidate("A:1", "B:1"))) == wanted
    assert shown(both.of(candidate("B:1"))) == [("LOINC", "0-1"), ("ICD-10-CM", "R50")]
    assert kb.asked == ["A:1", "B:1"]
    assert shown(of(kb, "ICD10CM").of(candidate("A:1"))) == [("ICD10CM", "R50")]
    assert of(kb).of(candidate("A:1")) == of(kb, "OPS").of(candidate("A:1")) == ()
