"""The pipeline and ``link_notes``: what the finder hands on, processes, writers, resuming, and privacy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from medlink import Note, NotePipeline, link_notes
from medlink.errors import ConfigError, InputError
from medlink.index import Bundle, build_bundle
from medlink.linking.demo import demo_notes
from medlink.notes.writers import JsonLinesWriter, LinkedMention, TextWriter


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


def test_what_a_search_reads_is_read_before_processes_are_forked(
    demo: Bundle, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_bundle(tmp_path / "small", kb=demo.kb.path, kind="ivfpq")
    index = type(Bundle(tmp_path / "small").index.parts[0].vectors)
    read, hold = list[int](), index._hold
    monkeypatch.setattr(index, "_hold", lambda self, *given: (read.append(os.getpid()), hold(self, *given)))
    link_notes(tmp_path / "small", many, out=tmp_path / "two.jsonl", processes=2)
    assert read == [os.getpid()]
    link_notes(tmp_path / "small", many, out=tmp_path / "one.jsonl")
    assert read == [os.getpid()] * 2
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


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


BLOCKED = """
import sys
for name in ("torch", "sentence_transformers", "transformers", "scispacy", "sklearn"):
    sys.modules[name] = None
"""


def test_linking_needs_no_torch_and_no_scispacy(demo_path: Path, tmp_path: Path) -> None:
    """With the built-in encoder: the demo, the command, a pipeline and the library."""
    code = BLOCKED + (
        "import spacy; from click.testing import CliRunner; from medlink.cli.main import app\n"
        f"bundle, out = {str(demo_path)!r}, {str(tmp_path)!r}\n"
        "links = ['link', bundle, out + '/n.txt', '--processes', '2', '-o', out + '/l.jsonl']\n"
        "for args in (['demo', '-o', out], links):\n"
        "    open(out + '/n.txt', 'w').write('Mitral stenosis (MS) with xfever')\n"
        "    result = CliRunner().invoke(app, args, catch_exceptions=False)\n"
        "    assert result.exit_code == 0, result.output\n"
        "nlp = spacy.blank('en')\n"
        "nlp.add_pipe('medlink_mentions', config={'bundle': bundle})\n"
        "nlp.add_pipe('biolord_linker', config={'bundle': bundle})\n"
        "print([s._.medlink['expanded'] for s in nlp('Mitral stenosis (MS).').ents])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout == "[None, 'Mitral stenosis']\n"
