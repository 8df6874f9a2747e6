"""The pipeline and ``link_notes``: options, processes, qualifiers, codes, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medlink import Note, NotePipeline, link_notes
from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.linking.demo import demo_notes
from medlink.notes.pipeline import Codes
from medlink.notes.writers import JsonLinesWriter
from medlink.records import Candidate, Mapping


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """150 notes in three languages, as JSONL."""
    texts = [text for note in demo_notes().values() for text in note.split("\n\n") if text.strip()]
    path = tmp_path / "many.jsonl"
    rows = [json.dumps({"id": i, "text": f"{texts[i % len(texts)]} {i}"}) for i in range(150)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_output_does_not_depend_on_processes(demo_path: Path, many: Path, tmp_path: Path) -> None:
    reports = [link_notes(demo_path, many, out=tmp_path / f"{n}.jsonl", processes=n) for n in (1, 2)]
    one = (tmp_path / "1.jsonl").read_bytes()
    assert len(one) > 50_000
    assert (tmp_path / "2.jsonl").read_bytes() == one
    assert [(r.notes, r.mentions, r.linked) for r in reports] == [(150, one.count(b"\n"), reports[0].linked)] * 2


@pytest.mark.slow
def test_workers_end_with_the_run(demo_path: Path) -> None:
    """A worker ends when its parent is killed."""
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
    # the pipe closes when the last process ends
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9
    assert len(done.stdout.split()) == 2


def test_notes_may_be_objects(demo_path: Path, demo: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    notes = [Note("a", "He has a fever.", "en"), Note("b", problem="torn"), Note("c", "Husten", "de")]
    report = link_notes(demo, (note for note in notes))
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == ["fever", "Husten"]
    assert (report.notes, report.mentions, [note.problem for note in report.problems]) == (3, 2, ["torn"])
    with pytest.raises(ConfigError, match="note objects cannot be resumed"):
        link_notes(demo, notes, resume=True)
    with pytest.raises(InputError, match="b: no note could be read; the first: torn"):
        link_notes(demo, notes[1:2])
    assert link_notes(demo, []).notes == 0


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ("Kein Fieber", r"a list of notes is expected, not one str\. Remedy: give \[Note\("),
        (Note("1", "no fever"), "a list of notes is expected, not one Note"),
        (["Kein Fieber"], r"notes\[0\] is of type str, a Note expected\. Remedy: give \[Note\("),
        ([Note("1", "fiebre"), {"text": "tos"}], r"notes\[1\] is of type dict, a Note expected"),
        ([Note("1", None)], r"the text of notes\[0\] is of type NoneType, a str expected"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_note(demo: Bundle, notes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NotePipeline(demo, language="de").link(notes)


def test_one_note_and_what_follows_notes(demo: Bundle, tmp_path: Path) -> None:
    note, more = Note("1", "Fieber", "de"), [Note("2", "Husten", "de"), "Husten"]
    assert link_notes(demo, note, out=tmp_path / "o.jsonl").notes == 1
    with pytest.raises(ConfigError, match=r"notes\[1\] is of type str, a Note expected"):
        link_notes(demo, more, out=tmp_path / "p.jsonl")  # type: ignore[arg-type]
    (linked,) = NotePipeline(demo).link(iter([note]))  # type: ignore[arg-type]
    assert [mention.link.mention for mention in linked.mentions] == ["Fieber"]


def test_options_are_those_of_the_linker_and_the_finder(demo: Bundle) -> None:
    pipeline = NotePipeline(demo, k=1, abbreviations=False, semantic_types=["Drug"])
    (note,) = pipeline.link([Note("n", "Mitral stenosis (MS), aspirin", "en")])
    assert [(m.link.mention, len(m.link.candidates)) for m in note.mentions] == [("aspirin", 1)]
    with pytest.raises(ConfigError, match="unknown option 'treshold'"):
        NotePipeline(demo, treshold=0.5)


def test_present_only_needs_cues(demo: Bundle) -> None:
    with pytest.raises(ConfigError, match="present_only needs qualifiers, which are switched off"):
        NotePipeline(demo, present_only=True, qualifiers=False)
    # a note of another language is left out with its reason
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
    # nor is an unknown heading on a line of its own
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


class MappingKb:
    """Mappings of two ids of one concept, and the ids that were looked up."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def mappings(self, concept_id: str) -> list[Mapping]:
        self.ids.append(concept_id)
        codes = {
            "A:1": [("ICD10CM", "R50"), ("LNC", "1-2"), ("Other", "x")],
            "B:1": [("ICD-10-CM", "R50"), ("LOINC", "0-1")],
        }
        return [Mapping(concept_id, system, code, "exact") for system, code in codes.get(concept_id, [])]


def test_codes_are_ordered_by_system_and_code() -> None:
    kb: Any = MappingKb()

    def codes(found: Codes, concept_id: str, *same_as: str) -> list[tuple[str, str]]:
        candidate = Candidate(concept_id, "fever", 0.9, "fever", "en", "exact", same_as=same_as)
        return [(one.system, one.code) for one in found.of(candidate)]

    both = Codes(kb, ("LOINC", "ICD 10 CM"))
    assert codes(both, "A:1", "B:1") == [("LOINC", "0-1"), ("LNC", "1-2"), ("ICD10CM", "R50")]
    assert codes(both, "B:1") == [("LOINC", "0-1"), ("ICD-10-CM", "R50")]
    assert kb.ids == ["A:1", "B:1"]
    assert codes(Codes(kb, ("ICD10CM",)), "A:1") == [("ICD10CM", "R50")]
    assert codes(Codes(kb, ()), "A:1") == codes(Codes(kb, ("OPS",)), "A:1") == []
