"""``medlink link``: what goes in, what comes out, and what a bad note costs."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app, main
from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.index import Bundle
from medlink.linking.demo import demo_notes
from medlink.notes.link import link_notes
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Fields, Note, read_notes
from medlink.notes.writers import Job, JsonLinesWriter


def run(*args: object, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, ["link", *map(str, args)], input=text)
    if isinstance(result.exception, MedlinkError):
        raise result.exception
    assert result.exit_code == (3 if "could not be read" in result.stderr else 0), result.output
    return result


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    for language, note in demo_notes().items():
        (folder / f"{language}.txt").write_text(note, encoding="utf-8")
    (folder / "deep" / "more.jsonl").write_text(
        json.dumps({"id": "n1", "text": "Paciente con fiebre y tos desde hace tres días."})
        + "\n\n"
        + json.dumps({"text": "Husten", "language": "de"})
        + "\n",
        encoding="utf-8",
    )
    (folder / "image.png").write_bytes(b"\x89PNG")
    return folder


def test_files_folders_and_jsonl(demo_path: Path, notes: Path, tmp_path: Path, demo: Bundle) -> None:
    out = tmp_path / "out.jsonl"
    result = run(demo_path, notes, "-o", out)
    found = lines(out)
    assert "5 notes" in result.stderr
    assert not list(tmp_path.glob("out.jsonl.part*"))
    by_note: dict[str, set[str]] = {}
    for line in found:
        by_note.setdefault(Path(str(line["note"])).name, set()).add(str(line["language"]))
        assert line["versions"] == demo.versions
        if str(line["note"]).endswith(".txt"):
            text = Path(str(line["note"])).read_text("utf-8")
            assert text[line["start"] : line["end"]] == line["text"]  # type: ignore[misc]  # JSON
    assert by_note == {"de.txt": {"de"}, "en.txt": {"en"}, "es.txt": {"es"}, "n1": {"es"}, "more.jsonl:3": {"de"}}
    first = found[0]
    assert first["candidates"][0]["concept_id"] == first["concept_id"]  # type: ignore[index]  # JSON
    assert (first["nil"], first["expanded"]) == (False, None)
    assert isinstance(first["score"], float)


def test_standard_input_and_output(demo_path: Path) -> None:
    whole = run(demo_path, "-", "--language", "en", text="He has a fever.\nAnd a cough.\n")
    assert [(r["text"], r["start"], r["note"]) for r in map(json.loads, whole.stdout.splitlines())] == [
        ("fever", 9, "-"),
        ("cough", 22, "-"),
    ]
    rows = '{"text": "fever"}\n{"text": "cough"}\n'
    each = run(demo_path, "-", "--language", "en", text=rows)
    assert [json.loads(line)["note"] for line in each.stdout.splitlines()] == ["-:1", "-:2"]


def test_databases_formats_and_failures(demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.csv").write_text("key;body\n1;No fever.\n2;cough;Geheimnis\n", encoding="utf-8")
    columns = ["--text-field", "body", "--id-field", "key", "--language", "en"]
    result = run(demo_path, "n.csv", *columns, "-o", "sqlite:///o.db", "--out-table", "found", "--failures", "f.jsonl")
    assert result.exit_code == 3
    (failed,) = lines(Path("f.jsonl"))
    assert (failed["number"], failed["note"], failed["problem"]) == (2, "n.csv:3", "3 columns, 2 expected")
    assert "Geheimnis" not in Path("f.jsonl").read_text("utf-8") + result.stderr
    table = ["--sql", "sqlite:///o.db", "--language", "en", "--id-field", "link_id"]
    for words in (["--table", "found"], ["--query", "select text, link_id from found"]):
        run(demo_path, *table, *words, "-o", "o.csv", "--map", "ICD10CM")
        assert [row["text"] for row in csv.DictReader(Path("o.csv").read_text("utf-8").splitlines())] == ["fever"]
    for format_, written in (("brat", "annotation.conf"), ("note_nlp", "")):
        day = ["--date", "2026-11-30"] if format_ == "note_nlp" else []
        run(demo_path, *table, "--table", "found", "-o", format_, "--format", format_, *day)
        assert Path(format_, written).exists()
    with pytest.raises(ConfigError, match="--table and --query need a database"):
        run(demo_path, "n.csv", "--table", "found")


def test_present_only(demo_path: Path) -> None:
    note = "No fever. Cough.\n"
    for options, wanted in (((), ["fever", "Cough"]), (("--present-only",), ["Cough"])):
        result = run(demo_path, "-", "--language", "en", *options, text=note)
        assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == wanted
    with pytest.raises(ConfigError, match="present_only needs qualifiers"):
        run(demo_path, "-", "--no-qualifiers", "--present-only", text=note)


@pytest.mark.parametrize(("resolve", "status"), [("none", "ambiguous"), ("first", "linked")])
def test_ambiguous_mentions_are_resolved_where_that_is_asked_for(demo_path: Path, resolve: str, status: str) -> None:
    result = run(demo_path, "-", "--language", "en", "--resolve", resolve, text="Known MS.\n")
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == [status]


def test_each_option_changes_the_output(demo_path: Path, tmp_path: Path) -> None:
    text = json.dumps({"text": "heart attack, aspirin and MS", "body": "Fieber", "id": "a", "key": "b", "tongue": "es"})

    def rows(*options: object) -> list[dict[str, object]]:
        return [json.loads(line) for line in run(demo_path, "-", *options, text=text + "\n").stdout.splitlines()]

    base = rows()
    assert {r["language"] for r in base} == {"en"}
    assert {r["note"] for r in base} == {"a"}
    assert all(len(r["candidates"]) == 1 for r in rows("--k", 1))  # type: ignore[arg-type]  # JSON
    assert all(r["nil"] for r in rows("--threshold", 1))
    assert [r["text"] for r in rows("--semantic-types", "Drug")] == ["aspirin"]
    assert rows("--sources", "DEMO") == rows("--prefer", "DEMO") == rows("--no-presume") == base
    assert [r["text"] for r in rows("--text-field", "body")] == ["Fieber"]
    assert {r["note"] for r in rows("--id-field", "key")} == {"b"}
    assert {r["language"] for r in rows("--language-field", "tongue")} == {"es"}
    assert {r["language"] for r in rows("--language", "de")} == {"de"}
    assert rows("--processes", 2) == base
    assert {r["presence"] for r in base} == {"present"}
    assert {r["presence"] for r in rows("--no-qualifiers")} == {None}
    assert rows("--present-only") == base
    with pytest.raises(ConfigError, match="no source 'X'"):
        rows("--sources", "X")
    with pytest.raises(ConfigError, match=r"no source, semantic type or kind 'X' in this .* known: DEMO"):
        rows("--prefer", "DEMO,X")
    out = tmp_path / "o.jsonl"
    run(demo_path, "-", "-o", out, text=text + "\n")
    assert lines(out) == base


def test_strange_notes_cost_only_themselves(demo_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "n"
    folder.mkdir()
    (folder / "a_latin.txt").write_bytes("Frau Müller hat Fieber".encode("latin-1"))
    (folder / "b_empty.txt").write_text("")
    (folder / "c_emoji.txt").write_text("😀🫀" * 40, encoding="utf-8")
    (folder / "d_control.txt").write_text("\x01\x1b fever \x7f", encoding="utf-8")
    (folder / "e_rtl.txt").write_text("المريض fever السعال", encoding="utf-8")
    (folder / "f_bom.txt").write_bytes(b"\xef\xbb\xbffever")
    (folder / "g.jsonl").write_bytes(
        b'{"text": "fever"}\n{"broken"\n{"text": 3}\n[]\n\xff\n'
        b'{"other": "Geheimnis"}\n{"text": ""}\n{"text": "\\ud800 fever"}\n'
        b'{"text": "fever", "id": null}\n{"text": "fever", "id": 12}\n'
    )
    out = tmp_path / "out.jsonl"
    result = run(demo_path, folder, "--language", "en", "-o", out)
    found = {Path(str(r["note"])).name for r in lines(out)}
    assert found == {"d_control.txt", "e_rtl.txt", "f_bom.txt", "g.jsonl:1", "g.jsonl:9", "12"}
    assert "7 notes could not be read" in result.stderr
    assert "a_latin.txt: not UTF-8 at byte 6, see --encoding" in result.stderr
    assert "g.jsonl:2: not JSON" in result.stderr
    assert "g.jsonl:3: no field 'text' with a text" in result.stderr
    # the words of a note stay in the note
    assert "Müller" not in result.stderr
    assert "Geheimnis" not in result.stderr


def test_a_file_of_another_kind_is_plain_text_and_said_so(demo_path: Path, tmp_path: Path) -> None:
    for name in ("a.log", "b.txt", "c"):
        (tmp_path / name).write_text("fever", encoding="utf-8")
    result = run(demo_path, *(tmp_path / name for name in ("a.log", "b.txt", "c")), "--language", "en")
    assert f"{tmp_path / 'a.log'}: taken for plain text, one note" in result.stderr
    assert result.stderr.count("taken for plain text") == 1


def test_an_id_is_a_text_or_a_number(demo_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    ids = ("true", '["Geheimnis"]', '{"a": 1}', "NaN", '"nan"')
    path.write_text("".join(f'{{"text": "fever", "id": {one}}}\n' for one in (*ids, "7.5")), encoding="utf-8")
    result = run(demo_path, path, "--language", "en", "-o", tmp_path / "out.jsonl")
    assert [row["note"] for row in lines(tmp_path / "out.jsonl")] == [f"{path}:4", "nan", "7.5"]
    for line in (1, 2, 3):
        assert f"n.jsonl:{line}: the field 'id' is no text and no number" in result.stderr
    assert "Geheimnis" not in result.stderr


def test_notes_with_one_id_are_counted(demo_path: Path, tmp_path: Path) -> None:
    """Linked too, and counted over files, files given twice, and what a run before this one had finished."""
    one, other, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "out.jsonl"
    one.write_text('{"id": 1, "text": "fever"}\n{"id": "1", "text": "cough"}\nbad\nbad\n', encoding="utf-8")
    other.write_text('{"text": "fever"}\n{"id": 2, "text": "cough"}\n', encoding="utf-8")
    said = f"1 note has the id of an earlier note, the first: {one}:2: 1; the output does not tell them apart\n"
    assert said in run(demo_path, one, other, "--language", "en", "-o", out).stderr
    assert [row["note"] for row in lines(out)] == ["1", "1", f"{other}:1", "2"]
    assert "the id of an earlier" not in run(demo_path, other, "--language", "en").stderr
    said = f"2 notes have the id of an earlier note, the first: {other}:1; the output"
    assert said in run(demo_path, other, other, "--language", "en", "--processes", 2).stderr

    one.write_text("".join(f'{{"id": {i % 80}, "text": "fever"}}\n' for i in range(100)), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        link_notes(demo_path, one, out=out, language="en", progress=_stop)
    report = link_notes(demo_path, one, out=out, language="en", resume=True)
    assert (report.before, report.same_id) == (64, 20)
    assert report.first_same_id == Note("0", place=f"{one}:81")


def test_an_error_says_what_to_type(
    demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.docx").write_bytes(b"PK\x03\x04\x14\0")
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    Path("a.pdf").write_bytes(b"%PDF-1.4\n%\xe2\xe3")
    Path("a.jsonl").write_text('{"id": [1], "body": "Geheimnis"}\n', encoding="utf-8")
    Path("b.jsonl").write_text("Geheimnis\n", encoding="utf-8")
    Path("a.txt").write_bytes("Müller".encode("latin-1"))
    Path("c.txt").write_text("fever")
    Path("out.jsonl.part").write_text("x")
    empty = "empty. Remedy: give a value, or leave it out."
    for words, said in (
        (["a.docx"], "document file, or zipped, and no text. Remedy: save a spreadsheet as CSV in UTF-8, another "
         "document as plain text, and unpack what is zipped."),
        (["a.png"], "is a picture, and no text. Remedy: save its text as plain text in UTF-8, or leave it out."),
        (["a.pdf"], "is PDF or RTF, and no plain text. Remedy: save it as plain text in UTF-8."),
        (["a.jsonl"], "no field 'text' with a text. Remedy: name the field of the text with --text-field, "),
        (["a.jsonl", "--text-field", "body"], "no text and no number. Remedy: name the field of the id with --id-f"),
        (["b.jsonl"], "not JSON. Remedy: give one JSON object a line, or name a text so: NAME.txt."),
        (["a.txt"], "see --encoding. Remedy: name the encoding that all notes have, such as latin-1, or convert them."),
        (["c.txt", "--resume"], "only a file can be resumed. Remedy: leave --resume out, or name a file."),
        (["c.txt", "--prefer", ""], f"medlink: --prefer is {empty}"),
        (["c.txt", "--prefer", " , "], f"medlink: --prefer is {empty}"),
        (["c.txt", "--semantic-types", ""], f"medlink: --semantic-types is {empty}"),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main(["link", str(demo_path), *words])
        assert stop.value.code == 1
        told = capsys.readouterr().err
        assert said in told
        assert "Geheimnis" not in told
    with pytest.raises(SystemExit):
        main(["link", str(demo_path), "c.txt", "a.pdf", "a.jsonl"])
    told = capsys.readouterr().err
    assert told.count("\n  remedy: ") == 2
    assert "taken for plain text" not in told
    Path("out.jsonl.part").unlink()
    for wrong in ("had other inputs", "is shorter"):
        with pytest.raises(KeyboardInterrupt):
            link_notes(demo_path, [Path("c.txt")] * 70, out="out.jsonl", language="en", progress=_stop)
        if wrong == "is shorter":
            os.truncate("out.jsonl.part", 1)
        k = ["--k", "2"] * (wrong != "is shorter")
        with pytest.raises(SystemExit):
            main(["link", str(demo_path), *["c.txt"] * 70, "-o", "out.jsonl", "--resume", "--language", "en", *k])
        told = capsys.readouterr().err
        assert wrong in told
        assert "Remedy: run without --resume to start anew." in told


def _stop(done: int, whole: int) -> None:
    if done >= 64:
        raise KeyboardInterrupt


def test_a_note_that_is_too_long(demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.notes.pipeline.MAX_LENGTH", 10)
    (tmp_path / "a.txt").write_text("fever and cough")
    (tmp_path / "b.txt").write_text("fever")
    result = run(demo_path, tmp_path / "a.txt", tmp_path / "b.txt", "--language", "en")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["fever"]
    assert "a.txt: 15 characters, 10 at most" in result.stderr


def test_inputs_that_are_not_there(demo_path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing: no such file or folder"):
        run(demo_path, tmp_path / "nothing")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(
        InputError, match=r"fifo: is a pipe or a device\. Remedy: give its notes to standard input, and name"
    ):
        run(demo_path, tmp_path / "fifo")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found no file"):
        run(demo_path, tmp_path / "empty")
    (tmp_path / "empty" / "scan.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match=r"looked for \.csv, \.jsonl, \.ndjson, \.parquet, \.text, \.tsv, \.txt"):
        run(demo_path, tmp_path / "empty")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="only a file can be resumed"):
        run(demo_path, bad, "--resume")
    with pytest.raises(InputError, match=r"bad\.txt: no note could be read"):
        run(demo_path, bad)
    with pytest.raises(ConfigError, match="the folder of the output does not exist"):
        run(demo_path, "-", "-o", tmp_path / "no" / "out.jsonl", text="x")
    with pytest.raises(ConfigError, match="standard input cannot be resumed"):
        run(demo_path, "-", "--resume", text="x")
    with pytest.raises(ConfigError, match="unknown language 'zzz'"):
        run(demo_path, "-", "--language", "zzz", text="x")


def test_the_old_output_stays_when_a_run_fails(demo_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError):
        run(demo_path, bad, "-o", out)
    assert out.read_text() == "old\n"


def test_a_language_that_a_note_names(demo_path: Path) -> None:
    """Any spelling of a tag serves; a language that is unknown or without blanks is a problem, not another one."""
    named = ("DE", "de_AT", "ger", "", "German", "ja")
    notes = [{"id": la, "text": "Patient hat Husten und Ödeme.", "language": la} for la in named]
    result = run(demo_path, "-", text="".join(json.dumps(note) + "\n" for note in notes))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["note"], row["language"]) for row in rows] == [(la, "de") for la in named[:4] for _ in range(2)]
    assert {row["text"] for row in rows} == {"Husten", "Ödeme"}
    assert "6 notes, 8 mentions, 8 linked, 2 notes could not be read" in result.stderr
    assert "German: unknown language 'German'" in result.stderr
    assert "ja: words of the language 'ja' are not parted by blanks" in result.stderr


def test_byte_order_marks_and_deep_brackets(demo_path: Path, tmp_path: Path) -> None:
    rows = b'\xef\xbb\xbf{"id": 7, "text": "fever"}\r\n' + b"[" * 200_000 + b'\r\n\n{"text": "cough"}'
    (tmp_path / "n.jsonl").write_bytes(rows)
    for source, given in ((tmp_path / "n.jsonl", None), ("-", rows)):
        result = run(demo_path, source, "--language", "en", text=given)
        assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["fever", "cough"]
        assert "1 note could not be read" in result.stderr


def test_bad_lines_stay_in_their_place_and_long_ones_are_read(tmp_path: Path) -> None:
    long = json.dumps({"id": "long", "text": "fever " * 300_000})
    rows = b'{"text": "a"}\n{"text": "\xff"}\n\n{"broken"\n' + long.encode() + b"\n\xe4"
    (tmp_path / "n.jsonl").write_bytes(rows)
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(rows))
    (tmp_path / "cut.jsonl").write_bytes(gzip.compress(rows)[:-9])
    for name in ("n", "packed"):
        found = list(read_notes([str(tmp_path / f"{name}.jsonl")]))
        ids = [note.note_id.rpartition("jsonl:")[2] for note in found]
        assert [(at, note.problem) for at, note in zip(ids, found, strict=True)] == [
            ("1", None),
            ("2", "not UTF-8 at byte 10, see encoding=..."),
            ("4", "not JSON"),
            ("long", None),
            ("6", "not UTF-8 at byte 0, see encoding=..."),
        ]
    assert "cut off" in str(list(read_notes([str(tmp_path / "cut.jsonl")]))[-1].problem)


def test_outputs_that_would_lose_something(demo_path: Path, notes: Path, tmp_path: Path) -> None:
    more, note = notes / "deep" / "more.jsonl", notes / "de.txt"
    before = more.read_bytes()
    (tmp_path / "hard.jsonl").hardlink_to(more)
    (tmp_path / "soft.jsonl").symlink_to(more)
    part = tmp_path / "list.part"
    part.write_text("fever", encoding="utf-8")
    for given, out, message in (
        (notes, notes, "the output is a folder"),
        (notes, more, "the output lies in a folder that is read"),
        (notes, tmp_path / "hard.jsonl", "the output is the input"),
        (more, tmp_path / "soft.jsonl", "the output is the input"),
        (notes, notes / "links.jsonl", "the output lies in a folder that is read"),
        (note, demo_path / "kb.sqlite", "the output lies in a folder that is read"),
        (part, tmp_path / "list", "list.part: the unfinished output is the input"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(demo_path, given, "-o", out)
    assert (more.read_bytes(), part.read_text("utf-8")) == (before, "fever")
    for given, out, message in (
        ("-", tmp_path / "o.jsonl", "standard input cannot be resumed"),
        (note, os.devnull, "only a file can be resumed"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(demo_path, given, "-o", out, "--resume", text="x")


def test_a_file_beside_the_output_that_is_not_of_medlink(demo_path: Path, notes: Path, tmp_path: Path) -> None:
    out, part, state = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part", tmp_path / "out.jsonl.part.json"
    note = notes / "de.txt"
    part.write_text("mine", encoding="utf-8")
    for options in ((), ("--resume",)):
        with pytest.raises(ConfigError, match=r"out\.jsonl\.part: is no unfinished output of medlink"):
            run(demo_path, note, "-o", out, *options)
    state.write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"out\.jsonl\.part\.json: is no state of an unfinished output"):
        run(demo_path, note, "-o", out)
    assert (part.read_text("utf-8"), state.read_text("utf-8")) == ("mine", "[]")


def test_an_unfinished_output_that_was_cut(
    demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"text": f"fever {i}"}) + "\n" for i in range(200)), encoding="utf-8")
    linked: list[int] = []

    def stopped(self: NotePipeline, notes: list[Note]) -> list[LinkedNote]:
        linked.append(len(notes))
        if sum(linked) > 100:
            raise KeyboardInterrupt
        return link(self, notes)

    link = NotePipeline.link
    monkeypatch.setattr(NotePipeline, "link", stopped)
    words = ["link", str(demo_path), str(source), "--language", "en", "-o", str(out)]
    with pytest.raises(SystemExit, match="130"):
        main(words)
    said = "medlink: interrupted. Remedy: the same run with --resume goes on where it stopped."
    assert capsys.readouterr().err.strip().endswith(said)
    monkeypatch.setattr(NotePipeline, "link", link)
    part = tmp_path / "out.jsonl.part"
    whole, state = part.read_bytes(), json.loads((tmp_path / "out.jsonl.part.json").read_text("utf-8"))
    part.write_bytes(whole[: state["bytes"] - 1])
    with pytest.raises(ConfigError, match=r"out\.jsonl\.part: is shorter than its state says"):
        run(demo_path, source, "--language", "en", "-o", out, "--resume")
    # what was written behind the last state is written again
    part.write_bytes(whole + b'{"half')
    run(demo_path, source, "--language", "en", "-o", out, "--resume")
    assert [row["note"] for row in lines(out)] == [f"{source}:{i}" for i in range(1, 201)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.jsonl", "out.jsonl"]


def test_the_name_of_a_note_may_be_no_utf8(demo_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / os.fsdecode(b"a\xff.txt")).write_text("fever", encoding="utf-8")
    run(demo_path, folder, "--language", "en", "-o", tmp_path / "out.jsonl")
    assert [row["note"] for row in lines(tmp_path / "out.jsonl")] == [f"{folder}/a\\udcff.txt"]


def test_standard_input_and_output_of_a_shell(demo_path: Path, notes: Path) -> None:
    code = "import sys; from medlink.cli.main import main; main(['link', *sys.argv[1:]])"
    begin = f'"{sys.executable}" -c "{code}" "{demo_path}"'

    def said(command: str) -> str:
        return subprocess.run(
            ["bash", "-c", command], cwd=notes, capture_output=True, text=True, timeout=120, check=False
        ).stderr

    before = (notes / "de.txt").read_bytes()
    assert said(f"{begin} - -o de.txt < de.txt") == (
        "medlink: de.txt: the output is the input. Remedy: name another file.\n"
    )
    assert (notes / "de.txt").read_bytes() == before
    assert said(f"{begin} de.txt >&-") == ("medlink: standard output is closed. Remedy: name a file with --out.\n")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_notes_in_another_encoding(demo_path: Path, tmp_path: Path, encoding: str) -> None:
    text = "Die Patientin hat Ödeme."
    rows = "".join(json.dumps({"id": n, "text": text}, ensure_ascii=False) + "\n" for n in range(2)).encode(encoding)
    (tmp_path / "n.jsonl").write_bytes(rows)
    (tmp_path / "n.txt").write_bytes(text.encode(encoding))
    for source, given, count in ((tmp_path, None, 3), ("-", rows, 2), ("-", text.encode(encoding), 1)):
        result = run(demo_path, source, "--language", "de", "--encoding", encoding, text=given)
        assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["Ödeme"] * count
    with pytest.raises(ConfigError, match=r"unknown encoding 'latin-one'\. Remedy: give one such as utf-8 or latin-1"):
        run(demo_path, tmp_path, "--encoding", "latin-one", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_encoding_that_is_not_named(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Ödeme".encode("utf-16"))
    (tmp_path / "b.txt").write_text("Ödeme", "utf-8")
    problems = [note.problem for note in read_notes([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])]
    assert problems == ["is UTF-16, not UTF-8", None]
    with pytest.raises(InputError, match="no note could be read; the first: not UTF-32"):
        run(demo_path, tmp_path / "b.txt", "--encoding", "utf-32")


def test_a_second_writer_of_an_output_is_told_and_the_first_goes_on(demo_path: Path, tmp_path: Path) -> None:
    note, out = tmp_path / "a.txt", tmp_path / "out.jsonl"
    note.write_text("fever", encoding="utf-8")
    first = JsonLinesWriter(out)
    first.open(Job("first", (), {}, resume=False))
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    for options in ((), ("--resume",)):
        with pytest.raises(
            ConfigError,
            match=r"out\.jsonl: another process is writing the output\. "
            r"Remedy: wait for it to end, or name another file",
        ):
            run(demo_path, note, "--language", "en", "-o", out, *options)
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before
    first.write(Note("n"), "en", [])
    first.commit(1)
    first.close()
    assert out.read_bytes() == b""
    run(demo_path, note, "--language", "en", "-o", out)
    assert [row["text"] for row in lines(out)] == ["fever"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.jsonl"]


def test_an_empty_draft_that_a_kill_left_before_its_state_bars_nobody(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fever", encoding="utf-8")
    for resume in ((), ("--resume",)):
        (tmp_path / "out.jsonl.part").touch()
        run(demo_path, tmp_path / "a.txt", "--language", "en", "-o", tmp_path / "out.jsonl", *resume)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.jsonl"]
        assert [row["text"] for row in lines(tmp_path / "out.jsonl")] == ["fever"]


def test_scispacy_that_is_not_there_is_no_fault_of_the_notes(
    demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scispacy.abbreviation", None)
    monkeypatch.setitem(sys.modules, "scispacy", None)
    (tmp_path / "a.txt").write_text("fever", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"needs scispacy.*, which is not installed\. .*medlink\[scispacy\]"):
        run(demo_path, tmp_path / "a.txt", "--abbreviations", "scispacy", "-o", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_files_that_are_left_out_are_counted_by_ending(demo_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / ".git").mkdir(parents=True)
    for name in ("a.txt", "b.rtf", "c.md", "d.MD", ".h.txt", ".git/x.txt", "README"):
        (folder / name).write_text("fever", encoding="utf-8")
    (folder / "gone.txt").symlink_to(folder / "nothing")
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    result = run(demo_path, folder, "--language", "en")
    assert [Path(json.loads(line)["note"]).name for line in result.stdout.splitlines()] == ["a.txt"]
    assert "8 files left out: .md (2), hidden (2), .rtf, links to folders, links to nothing, others\n" in result.stderr
    (folder / ".git" / "x.txt").unlink()
    for name in ("c.md", "d.MD", ".h.txt", "README", "up"):
        (folder / name).unlink()
    assert run(demo_path, folder, "--language", "en").stderr.endswith("2 files left out: .rtf, links to nothing\n")
    assert "left out" not in run(demo_path, folder / "a.txt", "--language", "en").stderr
    (folder / ".h.txt").write_text("fever", encoding="utf-8")
    assert "1 note," in run(demo_path, folder / ".h.txt", "--language", "en").stderr


def test_notes_that_cannot_be_read_are_found_by_file_and_line(demo_path: Path, tmp_path: Path) -> None:
    rows = [{"id": "good", "text": "fever"}, *({"id": f"n{i}", "text": "fever", "language": "zzz"} for i in range(7))]
    source = tmp_path / "n.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = run(demo_path, source).stderr.splitlines()
    assert [line.partition(": unknown")[0] for line in said[1:6]] == [f"  {source}:{i + 2}: n{i}" for i in range(5)]
    assert said[6:] == ["  and 2 more", "  remedy: give a BCP 47 tag such as de, en or es"]
    source.write_text(json.dumps(rows[1]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"n\.jsonl:1: no note could be read; the first: unknown language 'zzz'"):
        run(demo_path, source)


def test_notes_that_cannot_be_read_are_an_exit_code(demo_path: Path, tmp_path: Path) -> None:
    good, bad, out = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "out.jsonl"
    good.write_text("fever", encoding="utf-8")
    bad.write_bytes("Frau Müller".encode("latin-1"))
    failures = tmp_path / "failures.jsonl"
    for paths, code in (((good, bad), 3), ((good,), 0), ((bad,), 1)):
        words = [*map(str, paths), "-o", str(out), "--language", "en", "--failures", str(failures)]
        with pytest.raises(SystemExit) as stop:
            main(["link", str(demo_path), *words])
        assert stop.value.code == code
        # what could be read is written, and so are the failures where nothing could be read
        assert [row["text"] for row in lines(out)] == ["fever"]
        assert [row["note"] for row in lines(failures)] == [str(bad)] * (bad in paths)


def test_nothing_to_resume_is_said(demo_path: Path, tmp_path: Path) -> None:
    note, out = tmp_path / "a.txt", tmp_path / "out.jsonl"
    note.write_text("fever", encoding="utf-8")
    said = "nothing to resume: the run begins with the first note\n"
    options = ["--language", "en", "-o", out]
    assert said in run(demo_path, note, *options, "--resume").stderr
    assert "to resume" not in run(demo_path, note, *options).stderr
    with pytest.raises(KeyboardInterrupt):
        link_notes(demo_path, [note] * 70, out=out, language="en", progress=_stop)
    assert "to resume" not in run(demo_path, *[note] * 70, *options, "--resume").stderr


def test_a_language_without_rules_or_names_is_said(demo_path: Path, tmp_path: Path) -> None:
    rules = "medlink has no rules for it: words are found as the bundle has them, and no status is read\n"
    names = "the bundle has no names in it, only in de, en, es\n"
    told = run(demo_path, "-", "--language", "fr-CA", text="La fièvre, fever.").stderr
    assert told.startswith(f"language 'fr': {rules}language 'fr': {names}1 note")
    assert told.count("'fr'") == 2
    rows = [{"text": "fever", "language": tag} for tag in ("fr", "en", "fr", "pt")]
    told = run(demo_path, "-", text="".join(json.dumps(row) + "\n" for row in rows)).stderr
    for start in ("2 notes, language 'fr': ", "1 note, language 'pt': "):
        assert start + rules in told
        assert start + names in told
    assert "language 'en'" not in told
    assert "language '" not in run(demo_path, "-", "--language", "de", text="Fieber").stderr


def test_a_field_that_no_note_has_is_said(demo_path: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    rows = '{"text": "fever", "language": "en", "id": 1}\nbad\n{"text": "cough", "language": "en", "id": "2"}\n'
    wrong = ("--language-field", "tongue", "--id-field", "key")
    told = run(demo_path, "-", *wrong, text=rows).stderr
    assert "no note has the field 'tongue': languages were found out\n" in told
    assert "no note has the field 'key': notes are named by file and line\n" in told
    one = '{"text": "fever", "tongue": "en", "key": 1}\n'
    for options, text in ((wrong, rows + one), ((), '{"text": "fever"}\n'), (wrong, "fever")):
        assert "no note has" not in run(demo_path, "-", *options, text=text).stderr
    (tmp_path / "n.jsonl").write_text(rows, encoding="utf-8")
    link_notes(demo_path, tmp_path / "n.jsonl", fields=Fields(language="tongue"), out=os.devnull)
    assert [record.getMessage() for record in caplog.records] == [
        "no note has the field 'tongue': languages were found out"
    ]


def test_packed_notes_are_what_they_are(demo_path: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "n", tmp_path / "out.jsonl"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fever"}\n{"text": "cough"}\n'))
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"fever"))
    (folder / "c.gz").write_bytes(gzip.compress(b"fever"))
    result = run(demo_path, folder, "--language", "en", "-o", out)
    assert "3 notes," in result.stderr
    assert result.stderr.endswith("1 file left out: .gz\n")
    assert [row["note"] for row in lines(out)] == [f"{folder}/a.jsonl.gz:{n}" for n in (1, 2)] + [f"{folder}/b.txt.gz"]
    result = run(demo_path, folder / "a.jsonl.gz", folder / "b.txt.gz", folder / "c.gz", "--language", "en")
    assert "4 notes," in result.stderr
    assert [line for line in result.stderr.splitlines() if "taken for" in line] == [
        f"{folder}/c.gz: taken for plain text, one note"
    ]


def test_empty_notes_are_counted(demo_path: Path) -> None:
    rows = '{"text": "fever"}\n{"text": " "}\n{"text": ""}\n'
    assert "2 notes without text\n" in run(demo_path, "-", "--language", "en", text=rows).stderr
    assert "without text" not in run(demo_path, "-", "--language", "en", text="fever").stderr


def test_json_that_is_no_object_or_cannot_be_used_comes_with_what_helps(demo_path: Path) -> None:
    told = run(demo_path, "-", text='{"text": "fever"}\n[{"text": "Geheimnis"}]\n{"text": "a", "text": "b"}\n').stderr
    assert "  -:2: no JSON object\n" in told
    assert "  -:3: JSON that cannot be used: a key is there twice\n" in told
    assert "  remedy: give one JSON object a line\n  remedy: write such lines anew\n" in told
    assert "Geheimnis" not in told


def test_a_language_of_a_note_is_a_text(demo_path: Path) -> None:
    values = ("3", "true", '["Geheimnis"]', "NaN", "null", '""', '"en"')
    rows = "".join(f'{{"text": "fever", "language": {value}}}\n' for value in values)
    result = run(demo_path, "-", text=rows)
    assert [json.loads(line)["note"] for line in result.stdout.splitlines()] == ["-:4", "-:5", "-:6", "-:7"]
    assert "  -:1: the field 'language' is no text\n" in result.stderr
    assert "remedy: name the field of the language with --language-field" in result.stderr
    assert "Geheimnis" not in result.stderr


def test_arguments_the_wrong_way_round(demo_path: Path, notes: Path) -> None:
    with pytest.raises(ConfigError, match=r"notes: is no bundle, but .* looks like one\. Remedy: name it first"):
        run(notes, demo_path)
    with pytest.raises(ConfigError, match="k is 99999999999999999999, at least 1 and at most 10000 expected"):
        run(demo_path, notes, "--k", "99999999999999999999")


@pytest.mark.parametrize("number", ["0", "100000"])
def test_no_more_processes_than_a_machine_has(number: str, demo_path: Path) -> None:
    done = CliRunner().invoke(app, ["link", str(demo_path), "-", "--processes", number])
    assert done.exit_code == 2
    assert "is not in the range 1<=x<=256" in done.output
