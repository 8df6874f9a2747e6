"""``medlink link``: inputs, outputs, messages, and notes that cannot be read."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.linking.demo import demo_notes
from medlink.notes.link import link_notes
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Fields, Note, find_inputs, read_notes
from medlink.notes.writers import Job, JsonLinesWriter
from tests.cli import runner
from tests.cli.runner import error_of, json_lines

Link = Callable[..., Result]


@pytest.fixture(scope="module")
def link(demo_path: Path) -> Link:
    """Run ``medlink link`` with the demo bundle."""
    return lambda *words, **more: runner.run("link", demo_path, *words, **more)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("fever", encoding="utf-8")
    return tmp_path / "a.txt"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with three text files, JSON lines and a picture."""
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    for language, text in demo_notes().items():
        (folder / f"{language}.txt").write_text(text, encoding="utf-8")
    rows = [
        {"id": "n1", "text": "Paciente con fiebre y tos desde hace tres días."},
        {"text": "Husten", "language": "de"},
    ]
    (folder / "deep" / "more.jsonl").write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "image.png").write_bytes(b"\x89PNG")
    return folder


@pytest.mark.slow
def test_files_folders_and_jsonl(link: Link, notes: Path, tmp_path: Path, demo: Bundle) -> None:
    out = tmp_path / "out.jsonl"
    assert "5 notes" in link(notes, "-o", out).stderr
    assert not list(tmp_path.glob("out.jsonl.part*"))
    by_note: dict[str, set[str]] = {}
    for line in json_lines(out):
        path = Path(line["note"])
        by_note.setdefault(path.name, set()).add(line["language"])
        assert line["versions"] == demo.versions
        if path.suffix == ".txt":
            assert path.read_text("utf-8")[line["start"] : line["end"]] == line["text"]
    assert by_note == {"de.txt": {"de"}, "en.txt": {"en"}, "es.txt": {"es"}, "n1": {"es"}, "more.jsonl:3": {"de"}}


@pytest.mark.parametrize(
    ("text", "notes"),
    [("He has a fever.\nAnd a cough.\n", ["-", "-"]), ('{"text": "fever"}\n{"text": "cough"}\n', ["-:1", "-:2"])],
)
def test_standard_input_is_one_note_or_json_lines(link: Link, text: str, notes: list[str]) -> None:
    found = json_lines(link("-", "--language", "en", input=text).stdout)
    assert [(line["text"], line["note"]) for line in found] == list(zip(("fever", "cough"), notes, strict=True))


@pytest.mark.slow
def test_databases_formats_and_failures(link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.csv").write_text("key;body\n1;No fever.\n2;cough;Geheimnis\n", encoding="utf-8")
    columns = ["--text-field", "body", "--id-field", "key", "--language", "en"]
    out = ["-o", "sqlite:///o.db", "--out-table", "found", "--failures", "f.jsonl"]
    result = link("n.csv", *columns, *out, exit_code=3)
    (failed,) = json_lines(Path("f.jsonl"))
    assert (failed["number"], failed["note"], failed["problem"]) == (2, "n.csv:3", "3 columns, 2 expected")
    assert "Geheimnis" not in Path("f.jsonl").read_text("utf-8") + result.stderr
    database = ["--sql", "sqlite:///o.db", "--language", "en", "--id-field", "link_id"]
    for words in (["--table", "found"], ["--query", "select text, link_id from found"]):
        link(*database, *words, "-o", "o.csv", "--map", "ICD10CM")
        assert [row["text"] for row in csv.DictReader(Path("o.csv").read_text("utf-8").splitlines())] == ["fever"]
    link(*database, "--table", "found", "-o", "brat", "--format", "brat")
    assert Path("brat", "annotation.conf").exists()
    link(*database, "--table", "found", "-o", "nlp", "--format", "note_nlp", "--date", "2026-11-30")
    assert Path("nlp").exists()
    with pytest.raises(ConfigError, match="--table and --query need a database"):
        link("n.csv", "--table", "found")


@pytest.mark.slow
def test_each_option_changes_the_output(link: Link) -> None:
    text = json.dumps({"text": "heart attack, aspirin and MS", "body": "Fieber", "id": "a", "key": "b", "tongue": "es"})

    def rows(*options: object) -> list[dict[str, object]]:
        return json_lines(link("-", *options, input=text + "\n").stdout)

    base = rows()
    assert rows("-o", "-") == base
    assert {(row["language"], row["note"], row["presence"]) for row in base} == {("en", "a", "present")}
    assert all(len(row["candidates"]) == 1 for row in rows("--k", 1))  # type: ignore[arg-type]  # JSON
    assert all(row["nil"] for row in rows("--threshold", 1))
    assert [row["text"] for row in rows("--semantic-types", "Drug")] == ["aspirin"]
    assert rows("--sources", "DEMO", "--prefer", "DEMO", "--no-presume", "--present-only") == base
    (row,) = rows("--text-field", "body", "--id-field", "key", "--language-field", "tongue")
    assert (row["text"], row["note"], row["language"]) == ("Fieber", "b", "es")
    dated = json.dumps({"text": "stroke in 2003", "when": "2003-05-06"})
    for options, temporality in (([], "historical"), (["--date-field", "when"], "current")):
        (row,) = json_lines(link("-", *options, input=dated + "\n").stdout)
        assert row["temporality"] == temporality
    assert {row["language"] for row in rows("--language", "de")} == {"de"}
    assert {row["presence"] for row in rows("--no-qualifiers")} == {None}
    for resolve, status in (("none", "ambiguous"), ("first", "linked")):
        (row,) = json_lines(link("-", "--language", "en", "--resolve", resolve, input="Known MS.\n").stdout)
        assert row["status"] == status
    assert rows("--processes", 2) == base


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--sources X", "no source 'X'"),
        ("--prefer DEMO,X", "no source, semantic type or kind 'X' in this .* known: DEMO"),
        ("--no-qualifiers --present-only", "present_only needs qualifiers"),
        ("--language zzz", "unknown language 'zzz'"),
        ("--resume", "standard input cannot be resumed"),
        ("--encoding latin-one", r"unknown encoding 'latin-one'\. Remedy: give one such as utf-8 or latin-1"),
        ("-o n.db --format csv", r"n.db is the name of a database\. Remedy: write the address sqlite:///n.db"),
        ("-o no/out.jsonl", "the folder of the output does not exist"),
        ("--k 99999999999999999999", "k is 99999999999999999999, at least 1 and at most 10000 expected"),
    ],
)
def test_options_that_are_refused(link: Link, options: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        link("-", *options.split(), input="x")


def test_missing_scispacy_is_an_error_of_the_option(
    link: Link, note: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scispacy", "scispacy.abbreviation"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"needs scispacy.*, which is not installed\. .*medlink\[scispacy\]"):
        link(note, "--abbreviations", "scispacy", "-o", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_inputs_that_do_not_exist_or_hold_no_notes(link: Link, notes: Path, demo_path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("nothing", "nothing: no such file or folder"),
        ("fifo", r"fifo: a pipe or a device cannot be read\. Remedy: give its notes to standard input, and name"),
        ("empty", "found no file"),
    ):
        with pytest.raises(InputError, match=message):
            find_inputs([str(tmp_path / name)])
    (tmp_path / "empty" / "scan.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match=r"looked for \.csv, \.jsonl, \.ndjson, \.parquet, \.text, \.tsv, \.txt"):
        link(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"notes: is not a bundle\. Remedy: name .* first"):
        runner.run("link", notes, demo_path)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.docx",
            b"PK\x03\x04\x14\0",
            "",
            "a document or a zip file, not text. Remedy: save a spreadsheet as CSV in UTF",
        ),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "", "a picture, not text. Remedy: save its text as plain text in"),
        ("a.pdf", b"%PDF-1.4\n%\xe2\xe3", "", "is PDF or RTF, not plain text. Remedy: save it as plain text in"),
        ("a.jsonl", b'{"body": "Geheimnis"}\n', "", "Remedy: name the field of the text with --text-field."),
        ("a.jsonl", b'{"id": [1], "text": "Geheimnis"}\n', "", "Remedy: name the field of the id with --id-field."),
        ("a.jsonl", b"Geheimnis\n", "", "not JSON. Remedy: give one JSON object a line, or name a text file NAME.txt."),
        ("a.txt", b"Geheimnis, M\xfcller", "", "encoding of all notes, probably --encoding cp1252, or convert them."),
        ("a.txt", b"fever", "--resume", "only a file can be resumed. Remedy: leave --resume out, or name a file."),
        ("a.txt", b"fever", "--prefer=", "medlink: --prefer is empty. Remedy: give a value, or leave it out."),
        ("a.txt", b"fever", "--prefer= , ", "medlink: --prefer is empty. Remedy: give a value, or leave it out."),
    ],
)
def test_errors_name_what_to_type_and_no_word_of_a_note(
    name: str, content: bytes, options: str, message: str, demo_path: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / name).write_bytes(content)
    printed = error_of(capsys, "link", demo_path, tmp_path / name, *filter(None, [options]))
    assert message in printed
    assert "Geheimnis" not in printed


def test_notes_that_cannot_be_read_leave_the_others(link: Link, tmp_path: Path) -> None:
    """They are named by file, line and reason; no word of them is printed."""
    (tmp_path / "a_latin.txt").write_bytes("Frau Müller hat Fieber".encode("latin-1"))
    (tmp_path / "b_empty.txt").write_text("")
    (tmp_path / "c_emoji.txt").write_text("😀🫀" * 40, encoding="utf-8")
    (tmp_path / "d_control.txt").write_text("\x01\x1b fever \x7f", encoding="utf-8")
    (tmp_path / "e_rtl.txt").write_text("المريض fever السعال", encoding="utf-8")
    (tmp_path / "f_bom.txt").write_bytes(b"\xef\xbb\xbffever")
    (tmp_path / "g.jsonl").write_bytes(
        b'{"text": "fever"}\n{"broken"\n{"text": 3}\n[]\n\xff\n'
        b'{"other": "Geheimnis"}\n{"text": ""}\n{"text": "\\ud800 fever"}\n'
        b'{"text": "fever", "id": null}\n{"text": "fever", "id": 12}\n'
    )
    (tmp_path / os.fsdecode(b"h\xff.txt")).write_text("fever", encoding="utf-8")
    result = link(tmp_path, "--language", "en", exit_code=3)
    found = {Path(row["note"]).name for row in json_lines(result.stdout)}
    assert found == {"d_control.txt", "e_rtl.txt", "f_bom.txt", "g.jsonl:1", "g.jsonl:9", "12", "h\\udcff.txt"}
    for line in ("7 notes could not be read", "a_latin.txt: not UTF-8 at byte 6", "g.jsonl:2: not JSON", "  and 2 more",
                 "  remedy: give one JSON object a line"):  # fmt: skip
        assert line in result.stderr
    assert not re.search("Müller|Geheimnis", result.stderr)


@pytest.mark.parametrize(
    ("line", "note_id", "problem"),
    [
        (b'{"text": "a"}', "1", None),
        (b'{"text": "\xff"}', "1", "not UTF-8 at byte 13"),
        (b'{"broken"', "1", "not JSON"),
        (b"[" * 200_000, "1", "nested too deeply"),
        (b'[{"text": "Geheimnis"}]', "1", "JSON object"),
        (b'{"text": "a", "text": "b"}', "1", "a key occurs twice"),
        (b'{"text": 3}', "1", "no field 'text' with text"),
        (b'{"text": "a", "id": true}', "1", "the field 'id' is neither text nor a number"),
        (b'{"text": "a", "id": ["Geheimnis"]}', "1", "the field 'id' is neither text nor a number"),
        (b'{"text": "a", "id": NaN}', "1", None),
        (b'{"text": "a", "id": "nan"}', "nan", None),
        (b'{"text": "a", "id": 7.5}', "7.5", None),
        (b'{"text": "a", "language": ["Geheimnis"]}', "1", "the field 'language' is not text"),
        (b'{"text": "a", "language": NaN}', "1", None),
        (b'{"text": "a", "language": ""}', "1", None),
        (b'{"id": "long", "text": "' + b"fever " * 300_000 + b'"}', "long", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_line_of_json_lines_is_a_note_or_a_problem(
    line: bytes, note_id: str, problem: str | None, tmp_path: Path
) -> None:
    """A byte order mark, Windows line ends and empty lines do not count, packed or not."""
    rows = b"\xef\xbb\xbf" + line + b'\r\n\n{"text": "last"}'
    (tmp_path / "n.jsonl").write_bytes(rows)
    (tmp_path / "n.jsonl.gz").write_bytes(gzip.compress(rows))
    for path in (tmp_path / "n.jsonl", tmp_path / "n.jsonl.gz"):
        first, last = read_notes([str(path)])
        assert first.note_id.removeprefix(f"{path}:") == note_id
        assert str(problem) in str(first.problem)
        assert "Geheimnis" not in str(first.problem)
        assert (last.note_id, last.text) == (f"{path}:3", "last")


def test_packed_files_are_read_as_their_inner_ending_says(link: Link, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fever"}\n{"text": "cough"}\n'))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"fever"))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"fever"))
    result = link(tmp_path, "--language", "en")
    assert result.stderr.endswith("1 file left out: .gz\n")
    found = [row["note"] for row in json_lines(result.stdout)]
    assert found == [f"{tmp_path}/a.jsonl.gz:1", f"{tmp_path}/a.jsonl.gz:2", f"{tmp_path}/b.txt.gz"]
    result = link(*sorted(tmp_path.iterdir()), "--language", "en")
    assert "4 notes," in result.stderr
    assert result.stderr.count("taken for") == 1
    assert f"{tmp_path}/c.gz: taken for plain text, one note\n" in result.stderr
    (tmp_path / "cut.jsonl").write_bytes(gzip.compress(b'{"text": "fever"}\n')[:-9])
    assert "cut off" in str(list(read_notes([str(tmp_path / "cut.jsonl")]))[-1].problem)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
def test_notes_in_another_encoding(link: Link, tmp_path: Path, encoding: str) -> None:
    text = "Die Patientin hat Ödeme."
    rows = "".join(json.dumps({"id": n, "text": text}, ensure_ascii=False) + "\n" for n in range(2)).encode(encoding)
    (tmp_path / "n.jsonl").write_bytes(rows)
    (tmp_path / "n.txt").write_bytes(text.encode(encoding))
    for source, given, count in ((tmp_path, None, 3), ("-", rows, 2), ("-", text.encode(encoding), 1)):
        result = link(source, "--language", "de", "--encoding", encoding, input=given)
        assert [row["text"] for row in json_lines(result.stdout)] == ["Ödeme"] * count


def test_notes_in_an_encoding_that_was_not_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Ödeme".encode("utf-16"))
    (tmp_path / "b.txt").write_text("Ödeme", "utf-8")
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert [note.problem for note in read_notes(paths)] == ["is UTF-16, not UTF-8", None]
    assert [str(note.problem)[:10] for note in read_notes(paths[1:], encoding="utf-32")] == ["not UTF-32"]


def test_notes_that_are_too_long(link: Link, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.notes.pipeline.MAX_LENGTH", 10)
    note.with_name("b.txt").write_text("fever and cough")
    result = link(note, note.with_name("b.txt"), "--language", "en", exit_code=3)
    assert [row["text"] for row in json_lines(result.stdout)] == ["fever"]
    assert "b.txt: 15 characters, 10 at most" in result.stderr


def test_files_left_out_are_counted_by_ending(link: Link, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / ".git").mkdir(parents=True)
    for name in ("a.txt", "b.rtf", "c.md", "d.MD", ".h.txt", ".git/x.txt", "README"):
        (folder / name).write_text("fever", encoding="utf-8")
    (folder / "gone.txt").symlink_to(folder / "nothing")
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    result = link(folder, "--language", "en")
    assert [Path(row["note"]).name for row in json_lines(result.stdout)] == ["a.txt"]
    assert "8 files left out: .md (2), hidden (2), .rtf, links to folders, links to nothing, others\n" in result.stderr
    # named itself, any file is a note
    assert find_inputs([str(folder / ".h.txt")]) == ([str(folder / ".h.txt")], {})


FEVER = '{"text": "fever"}'


@pytest.mark.parametrize(
    ("rows", "options", "messages", "absent"),
    [
        ([FEVER, '{"text": " "}', '{"text": ""}'], "", ["2 notes without text\n"], "the field"),
        ([FEVER, '{"text": "cough", "id": "2"}'], "--language-field tongue --id-field key --date-field day", [
            "'tongue' is missing or empty in all notes read: languages were detected\n",
            "the field 'key' is missing or empty in all notes read: notes are named by file and line\n",
            "the field 'day' is missing or empty in all notes read: the dates of the notes are unknown\n",
        ], "without text"),
        ([FEVER, '{"text": "fever", "tongue": "en", "key": 1}'], "--language-field tongue --id-field key", ["2 notes,"],
         "no note has"),
        (['{"text": "fever", "language": "fr-CA"}', '{"text": "fever", "language": "en"}'], "", [
            "1 note, language 'fr': medlink has no rules for it",
            "1 note, language 'fr': the bundle has no names in it, only in de, en, es\n",
        ], "language 'en'"),
        ([FEVER], "--language fr", [
            "language 'fr': medlink has no rules for it", "language 'fr': the bundle has no names in it",
        ], "note, language"),
    ],
)  # fmt: skip
def test_what_the_run_points_out(link: Link, rows: list[str], options: str, messages: list[str], absent: str) -> None:
    printed = link("-", *options.split(), input="\n".join(rows)).stderr
    assert all(message in printed for message in messages), printed
    assert absent not in printed


def test_a_library_run_logs_what_it_points_out(demo: Bundle, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "n.jsonl").write_text('{"text": "fever", "id": 1}\n', encoding="utf-8")
    link_notes(demo, tmp_path / "n.jsonl", fields=Fields(language="tongue"), out=os.devnull)
    assert [one.getMessage() for one in caplog.records] == [
        "the field 'tongue' is missing or empty in all notes read: languages were detected"
    ]


@pytest.mark.slow
def test_notes_of_one_id_are_counted(link: Link, demo: Bundle, tmp_path: Path) -> None:
    """Over files, files given twice, and the finished notes of an earlier run."""
    one, other, out = (tmp_path / f"{name}.jsonl" for name in ("a", "b", "out"))
    one.write_text('{"id": 1, "text": "fever"}\n{"id": "1", "text": "cough"}\nbad\nbad\n', encoding="utf-8")
    other.write_text('{"text": "fever"}\n{"id": 2, "text": "cough"}\n', encoding="utf-8")
    printed = link(one, other, "--language", "en", "-o", out, exit_code=3).stderr
    assert f"1 note has the id of an earlier note, the first: {one}:2: 1; the output does not tell them" in printed
    assert [row["note"] for row in json_lines(out)] == ["1", "1", f"{other}:1", "2"]
    printed = link(other, other, "--language", "en", "--processes", 2).stderr
    assert f"2 notes have the id of an earlier note, the first: {other}:1; the output" in printed

    one.write_text("".join(f'{{"id": {i % 80}, "text": "fever"}}\n' for i in range(100)), encoding="utf-8")

    def stop(done: int, total: int) -> None:
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        link_notes(demo, one, out=out, language="en", progress=stop)
    report = link_notes(demo, one, out=out, language="en", resume=True)
    assert (report.already_done, report.duplicate_ids) == (64, 20)
    assert report.first_duplicate == Note("0", location=f"{one}:81")


def test_exit_code_of_notes_that_cannot_be_read(
    demo_path: Path, note: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could be read is written; the failures too, where nothing could be read."""
    bad, out, failures = (note.with_name(name) for name in ("b.txt", "out.jsonl", "failures.jsonl"))
    bad.write_bytes("Frau Müller".encode("latin-1"))
    for paths, code in (((note, bad), 3), ((note,), 0), ((bad,), 1)):
        options = ("-o", out, "--language", "en", "--failures", failures)
        error_of(capsys, "link", demo_path, *paths, *options, exit_code=code)
        assert [row["text"] for row in json_lines(out)] == ["fever"]
        assert [row["note"] for row in json_lines(failures)] == [str(bad)] * (bad in paths)


def test_remedies_name_options(link: Link, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text,day\n1,fever,autumn\n2,cough,\n", "utf-8")
    (tmp_path / "m.csv").write_text("id,body\n1,fever\n", "utf-8")
    failures = tmp_path / "f.jsonl"
    printed = link(
        tmp_path / "n.csv", tmp_path / "m.csv", "--date-field", "day", "--language", "en", "-o", tmp_path / "o.jsonl",
        "--failures", failures, exit_code=3,
    ).stderr  # fmt: skip
    remedies = [
        "write it as 2026-11-30 or 30.11.2026, or leave it empty", "name the field of the text with --text-field",
    ]  # fmt: skip
    assert printed.splitlines()[-2:] == [f"  remedy: {remedy}" for remedy in remedies]
    assert [row["remedy"] for row in json_lines(failures)] == remedies


def test_outputs_that_would_lose_something(link: Link, demo_path: Path, notes: Path, tmp_path: Path) -> None:
    more, part = notes / "deep" / "more.jsonl", tmp_path / "list.part"
    before = more.read_bytes()
    part.write_text("fever", encoding="utf-8")
    for given, out, message in (
        (notes, notes, "the output is a folder"),
        (notes, more, "the output is in a folder that is read"),
        (more, more, "the output is the input"),
        (more, demo_path / "links.jsonl", "the output is in a folder that is read"),
        (part, tmp_path / "list", "list.part: the unfinished output is the input"),
    ):
        with pytest.raises(ConfigError, match=message):
            link(given, "-o", out)
    with pytest.raises(ConfigError, match="only a file can be resumed"):
        link(more, "-o", os.devnull, "--resume")
    assert (more.read_bytes(), part.read_text("utf-8")) == (before, "fever")


def test_an_unfinished_output_of_another_program_stays(link: Link, note: Path) -> None:
    out, part, state = (note.with_name(f"out.jsonl{ending}") for ending in ("", ".part", ".part.json"))
    part.write_text("mine", encoding="utf-8")
    for options in ((), ("--resume",)):
        with pytest.raises(ConfigError, match=r"out\.jsonl\.part: not an unfinished output of medlink"):
            link(note, "-o", out, *options)
    state.write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"out\.jsonl\.part\.json: not the state of an unfinished output"):
        link(note, "-o", out)
    assert (part.read_text("utf-8"), state.read_text("utf-8")) == ("mine", "[]")
    state.unlink()
    for options in ((), ("--resume",)):
        part.write_text("")  # without a state: left by a kill
        link(note, "--language", "en", "-o", out, *options)
        assert sorted(path.name for path in note.parent.iterdir()) == ["a.txt", "out.jsonl"]


def test_a_second_writer_is_refused_and_the_first_goes_on(link: Link, note: Path) -> None:
    out = note.with_name("out.jsonl")
    first = JsonLinesWriter(out)
    first.open(Job("first", (), {}, resume=False))
    before = sorted((path.name, path.read_bytes()) for path in note.parent.iterdir())
    for options in ((), ("--resume",)):
        with pytest.raises(ConfigError, match=r"out\.jsonl: another process is writing the output\. Remedy: wait for"):
            link(note, "--language", "en", "-o", out, *options)
    assert sorted((path.name, path.read_bytes()) for path in note.parent.iterdir()) == before
    first.write(Note("n"), "en", [])
    first.commit(1)
    first.close()
    assert out.read_bytes() == b""


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(
    link: Link, demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What follows the last state is written again; an output that was cut or has other options is refused."""
    source, out, part = tmp_path / "notes.jsonl", tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    source.write_text("".join(json.dumps({"text": f"fever {i}"}) + "\n" for i in range(200)), encoding="utf-8")
    linked: list[int] = []
    link_batch = NotePipeline.link

    def stop(self: NotePipeline, notes: list[Note]) -> list[LinkedNote]:
        linked.append(len(notes))
        if sum(linked) > 100:
            raise KeyboardInterrupt
        return link_batch(self, notes)

    words = (source, "--language", "en", "-o", out)
    with monkeypatch.context() as patch:
        patch.setattr(NotePipeline, "link", stop)
        printed = error_of(capsys, "link", demo_path, *words, exit_code=130)
    assert printed.strip().endswith("medlink: interrupted. Remedy: repeat the run with --resume to continue it.")
    content, state = part.read_bytes(), json.loads((tmp_path / "out.jsonl.part.json").read_text("utf-8"))
    for options, size, message in (((), state["bytes"] - 1, "is shorter"), (("--k", 2), None, "had other inputs")):
        part.write_bytes(content[:size])
        printed = error_of(capsys, "link", demo_path, *words, "--resume", *options)
        assert re.search(f"{message}.*Remedy: run without --resume to start again.", printed)
    part.write_bytes(content + b'{"half')
    assert "to resume" not in link(*words, "--resume").stderr
    assert [row["note"] for row in json_lines(out)] == [f"{source}:{i}" for i in range(1, 201)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.jsonl", "out.jsonl"]
    if not hasattr(os, "setxattr"):
        pytest.skip("this system has no extended attributes")
    written = out.stat().st_mtime_ns
    sentence = f"{out} is finished: nothing to resume; run without --resume to write it again\n"
    assert link(*words, "--resume").stderr == sentence
    assert out.stat().st_mtime_ns == written
    begins = "nothing to resume: the run begins with the first note\n"
    assert begins in link(*words, "--resume", "--k", 2).stderr  # another job, though newer than all inputs
    assert sentence not in link(*words, "--resume").stderr
    out.write_text("other links", "utf-8")
    assert begins in link(*words, "--resume").stderr
    source.touch()  # other notes, for all that is known
    assert begins in link(*words, "--resume").stderr
    assert out.stat().st_mtime_ns > written


@pytest.mark.slow
def test_an_encoding_or_language_that_most_notes_contradict(link: Link, tmp_path: Path) -> None:
    for name, text in (("a", "Der Patient hat seit gestern Fieber und keine Müdigkeit."), ("b", "Größe 170 cm")):
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
    wrong = link(tmp_path, "--encoding", "cp1252", "--language", "de").stderr
    assert wrong.startswith("2 notes read as CP1252, but probably UTF-8: give --encoding utf-8\n")
    (tmp_path / "b.txt").unlink()
    found = link(tmp_path, "--language", "es").stderr
    assert found.startswith("1 of 1 note probably in 'de', not in 'es': give --language de\n")
    assert "probably" not in link(tmp_path, "--language", "de").stderr
