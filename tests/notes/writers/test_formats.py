"""Each output, read back by another program: every row is there, and its offsets cut the mention out of the note."""

from __future__ import annotations

import configparser
import csv
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medlink import LinkedNote, Note
from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.notes.gold import read_brat
from tests.notes.writers.conftest import TEXTS, Run

Found = list[dict[str, Any]]
OPTIONS = {"note_nlp": {"date": "2026-11-30"}}


def code_of(concept_id: str | None) -> Found:
    return [{"system": "ICD10CM", "code": f"R{concept_id[-2:]}", "type": "exact"}] if concept_id else []


def expected(linked: dict[str, LinkedNote], bundle: str) -> Found:
    """What every row says, of the links themselves."""
    return [
        {
            "note": note.note.note_id,
            "start": one.start,
            "end": one.end,
            "text": one.link.mention,
            "language": note.language,
            "concept_id": one.link.concept_id,
            "preferred_name": None if one.link.nil else one.link.candidates[0].preferred_name,
            "score": None if one.link.nil else one.link.candidates[0].score,
            "status": one.link.status,
            "presence": one.qualifiers.presence,  # type: ignore[union-attr]  # languages with cues
            "temporality": one.qualifiers.temporality,  # type: ignore[union-attr]  # the same
            "experiencer": one.qualifiers.experiencer,  # type: ignore[union-attr]  # the same
            "section": one.qualifiers.section or None,  # type: ignore[union-attr]  # the same
            "attributes": [attribute.to_dict() for attribute in one.attributes or ()],
            "value": one.value and one.value.to_dict(),
            "same_as": [] if one.link.nil else list(one.link.candidates[0].same_as),
            "presumed": [] if one.link.nil else list(one.link.candidates[0].presumed),
            "expanded": one.link.expanded,
            "codes": code_of(one.link.concept_id),
            "bundle": bundle,
        }
        for note in linked.values()
        for one in note.mentions
    ]  # fmt: skip


def of_csv(path: Path) -> Found:
    with path.open(encoding="utf-8", newline="") as file:
        return [typed(row) for row in csv.DictReader(file)]


def typed(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose values are texts or nothing."""
    found = {key: None if value == "" else value for key, value in row.items()}
    for key in ("attributes", "same_as", "presumed", "codes"):
        found[key] = json.loads(found[key])
    return found | {
        "start": int(found["start"]),
        "end": int(found["end"]),
        "score": found["score"] and float(found["score"]),
    }


def of_parquet(path: Path) -> Found:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]  # it has no types


def of_jsonl(path: Path) -> Found:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert all(row.pop("versions")["medlink"] for row in rows)
    assert all(row.pop("nil") == (row["concept_id"] is None) for row in rows)
    assert all(isinstance(row.pop("candidates"), list) for row in rows)
    return rows


def of_sqlite(path: Path) -> Found:
    with closing(sqlite3.connect(path)) as base:
        base.row_factory = sqlite3.Row
        rows = [dict(row) for row in base.execute("select * from links order by link_id")]
    assert [row.pop("link_id") for row in rows] == list(range(1, len(rows) + 1))
    return [typed(row) for row in rows]


def of_fhir(path: Path) -> Found:
    """By the models of fhir.resources, whose Bundle of R4B is that of R4."""
    from fhir.resources.R4B.bundle import Bundle

    found = []
    for line in path.read_text("utf-8").split("\n")[:-1]:
        bundle = Bundle.model_validate_json(line)
        for entry in bundle.entry:
            (said,) = entry.resource.extension
            values = {one.url: one.valueString or one.valueInteger or one.valueDecimal for one in said.extension}
            row = dict.fromkeys(("expanded", "section", "concept_id", "preferred_name", "score", "value")) | values
            row["start"] = row["start"] or 0
            row["score"] = row["score"] and float(row["score"])
            for key in ("attributes", "same_as", "presumed", "codes"):
                row[key] = json.loads(row.get(key, "[]"))
            assert bundle.identifier.value == row["note"]
            assert entry.resource.code.text == row["text"]
            codes = [one.code for one in entry.resource.code.coding or ()]
            assert codes == [*filter(None, [row["concept_id"]]), *(one["code"] for one in row["codes"])]
            found.append(row)
    return found


def of_brat(folder: Path) -> Found:
    """By the rules of brat's manual, and by medlink's own reader of annotated notes."""
    conf = configparser.ConfigParser(allow_no_value=True, delimiters=["\t"])
    conf.read(folder / "annotation.conf", encoding="utf-8")
    values = {name: re.split(r"\|", said.partition("Value:")[2]) for name, said in conf["attributes"].items()}
    found = []
    for path in sorted(folder.glob("*.ann")):
        text = path.with_suffix(".txt").read_bytes().decode()
        ids = set()
        for line in path.read_text("utf-8").split("\n")[:-1]:
            assert "\r" not in line
            id_, said, words = [*line.split("\t"), ""][:3]
            assert id_ not in ids
            ids.add(id_)
            kind, _, spans = said.partition(" ")
            if id_[0] == "T":
                assert kind in conf["entities"] or kind.lower() in conf["entities"]
                pieces = [tuple(map(int, one.split())) for one in spans.split(";")]
                assert all("\n" not in text[a:b] for a, b in pieces)
                assert " ".join(text[a:b] for a, b in pieces) == words
            elif id_[0] == "A":
                assert spans.split()[1] in values[kind.lower()]
            elif id_[0] == "#":
                found.append(json.loads(words))
                assert f"T{id_[1:]}" in ids
        (note,) = read_brat(LineFile(path, Problems(0), may_be_empty=True))
        assert note.text == text
        ids_of = [bool(row["concept_id"]) for row in found[-len(note.annotations) or len(found) :]]
        assert [bool(one.concepts) for one in note.annotations] == ids_of
    return found


def of_docbin(folder: Path) -> Found:
    import spacy
    from spacy.tokens import DocBin, Span

    nlp = spacy.blank("xx")
    found = []
    for path in sorted(folder.glob("*.spacy")):
        for doc in DocBin().from_disk(path).get_docs(nlp.vocab):
            assert doc.text == TEXTS[doc.user_data["note"]]
            assert [(one.start, one.end, one.kb_id_) for one in doc.ents] == [
                (one.start, one.end, one.kb_id_) for one in doc.spans["medlink"]
            ]
            for span in doc.ents:
                assert isinstance(span, Span)
                row = doc.user_data["._.", "medlink", span.start_char, span.end_char]
                assert row["text"] in span.text  # a token may have marks that nobody sees
                assert span.kb_id_ == (row["concept_id"] or "NIL")
                found.append(json.loads(json.dumps(row)))
    return found


READERS: dict[str, tuple[str, Callable[[Path], Found]]] = {
    "csv": ("o.csv", of_csv),
    "parquet": ("o.parquet", of_parquet),
    "jsonl": ("o.jsonl", of_jsonl),
    "sqlite": ("sqlite:///{}/o.db", of_sqlite),
    "fhir": ("o.fhir.ndjson", of_fhir),
    "brat": ("o", of_brat),
    "docbin": ("o", of_docbin),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_format_comes_back_whole(
    reader: str, run: Run, linked: dict[str, LinkedNote], demo: Any, tmp_path: Path
) -> None:
    name, read = READERS[reader]
    fmt = {"format": reader} if name == "o" else {}
    out = name.format(tmp_path) if "://" in name else str(tmp_path / name)
    report = run(out, **fmt)
    assert (report.notes, report.problems) == (9, [])
    found = read(tmp_path / "o.db" if "://" in name else Path(out))
    wanted = expected(linked, demo.manifest["hash"])
    assert len(wanted) > 15
    assert {row["language"] for row in wanted} == {"en", "de", "es"}
    # a cell holds the value as JSON
    values = [json.loads(row["value"]) if isinstance(row["value"], str) else row["value"] for row in found]
    assert [row | {"value": value} for row, value in zip(found, values, strict=True)] == wanted
    assert any(values)
    assert all(TEXTS[row["note"]][row["start"] : row["end"]] == row["text"] for row in found)
    assert any("\n" in row["text"] for row in found)
    assert not list(tmp_path.glob("*.part*"))


def test_note_nlp_has_the_columns_of_the_data_model(run: Run, linked: dict[str, LinkedNote], tmp_path: Path) -> None:
    run(tmp_path / "o.csv", format="note_nlp", date="2026-11-30")
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id",
        "note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime", "term_exists", "term_temporal",
        "term_modifiers",
    ]  # fmt: skip
    mentions = [(note, one) for note, held in linked.items() for one in held.mentions]
    assert [int(row["note_nlp_id"]) for row in rows] == list(range(1, len(mentions) + 1))
    for row, (note, one) in zip(rows, mentions, strict=True):
        at = int(row["offset"])
        assert (row["note_id"], TEXTS[note][at : at + len(row["lexical_variant"])]) == (note, one.link.mention)
        assert row["lexical_variant"] in row["snippet"]
        assert row["term_exists"] == ("Y" if one.qualifiers and one.qualifiers.is_present else "N")
        assert dict(part.split("=") for part in row["term_modifiers"].split(","))["concept"] == one.link.concept_id
    assert {row["term_exists"] for row in rows} == {"Y", "N"}
    assert ",value=temperature 39.2 °C," in rows[0]["term_modifiers"]
    assert rows[0]["nlp_date"] == "2026-11-30"
    # the same in a table, behind what others have in it
    with closing(sqlite3.connect(tmp_path / "o.db")) as base, base:
        base.execute(f"create table note_nlp ({', '.join(rows[0])}, primary key (note_nlp_id))")
        base.execute("insert into note_nlp (note_nlp_id) values (41)")
    run(f"sqlite:///{tmp_path}/o.db", format="note_nlp", date="2026-11-30")
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        base.row_factory = sqlite3.Row
        held = [dict(row) for row in base.execute("select * from note_nlp where note_nlp_id > 41 order by 1")]
    assert [row["note_nlp_id"] for row in held] == list(range(42, 42 + len(rows)))
    for name in ("snippet", "offset", "lexical_variant", "term_exists", "term_modifiers"):
        assert [row[name] for row in held] == [row[name] for row in rows]


def test_a_note_that_a_format_cannot_hold_is_a_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text\n1,fever\nGeheim-1,fever\n", encoding="utf-8")
    failures = tmp_path / "f.jsonl"
    report = run(tmp_path / "o.csv", tmp_path / "n.csv", format="note_nlp", date="2026-11-30", failures=failures)
    assert [(one.note_id, one.text) for one in report.problems] == [("Geheim-1", "")]
    (line,) = map(json.loads, failures.read_text("utf-8").splitlines())
    assert (line["number"], line["note"], line["place"]) == (2, "Geheim-1", f"{tmp_path}/n.csv:3")
    assert "no whole number" in line["problem"]
    assert "id_field=" in line["remedy"]


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("o.csv", {"date": "2026-11-30"}, "date is for the format note_nlp alone. Remedy: leave date out, or give"),
        ("o.csv", {"format": "note_nlp"}, "note_nlp needs the day of the run. Remedy: give it with date=..., such as"),
        ("o.csv", {"format": "note_nlp", "date": "30.11.2026"}, "date is '30.11.2026', a day such as 2026-11-30 expe"),
        ("o.csv", {"out_table": "t"}, "out_table needs a database. Remedy: give the address of one with out, or lea"),
        ("sqlite:///o.db", {"format": "csv"}, "a table cannot be csv. Remedy: leave format out, or give note_nlp"),
        (None, {"format": "parquet"}, "this format needs a file. Remedy: name a file with out"),
        (None, {"format": "brat"}, "this format needs a folder for its output. Remedy: name one with out"),
        ("notes.csv", {"format": "brat"}, "the output is a file, and this format is a folder. Remedy: name a folder"),
        ("mine", {"format": "brat"}, "mine: the output is a folder that medlink did not write. Remedy: move it away"),
        ("o.jsonl", {"failures": "o.jsonl"}, "the output and the failures are one file. Remedy: name another file"),
        ("sqlite:///bad.db", {}, "the table links lacks the column link_id. Remedy: name another table with out_t"),
        ("sqlite:///no/o.db", {}, "the folder of the output does not exist. Remedy: make it, or name another file"),
    ],
)
def test_what_does_not_go_together(
    out: str | None, options: dict[str, str], message: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my.ann").write_text("mine")
    with closing(sqlite3.connect("bad.db")) as base, base:
        base.execute("create table links (mine integer)")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(ConfigError) as caught:
        run(out, **options)  # type: ignore[arg-type]  # standard output
    assert message in str(caught.value)
    assert caught.value.remedy
    assert sorted(path.name for path in tmp_path.rglob("*") if path.name != "no") == before


def test_a_database_is_not_read_and_written_at_once(run: Run, tmp_path: Path) -> None:
    from medlink.notes.database import SqlNotes
    from tests.notes import tricky

    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    with pytest.raises(ConfigError, match="the output is the input"):
        run(address, SqlNotes(address, "note"))
    with pytest.raises(ConfigError, match="the address of a database is no file of notes"):
        run(tmp_path / "o.csv", [address])
    assert run(f"sqlite:///{tmp_path}/o.db", SqlNotes(address, "note")).notes == 9
    with pytest.raises(ConfigError, match="the table links has this run already"):
        run(f"sqlite:///{tmp_path}/o.db", SqlNotes(address, "note"))
    assert run(f"sqlite:///{tmp_path}/o.db", SqlNotes(address, "note"), out_table="more").notes == 9


def test_a_run_that_fails_leaves_no_table_and_no_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,body\n1,fever\n", encoding="utf-8")
    for out, options in ((f"sqlite:///{tmp_path}/o.db", {}), (str(tmp_path / "o"), {"format": "brat"})):
        with pytest.raises(InputError, match="no note could be read"):
            run(out, tmp_path / "n.csv", **options)
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        assert base.execute("select name from sqlite_master").fetchall() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.csv", "notes.csv", "o.db"]


def test_failures_are_kept_where_no_note_can_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text\n1,fever,x\n2\n", encoding="utf-8")
    with pytest.raises(InputError, match="no note could be read"):
        run(tmp_path / "o.jsonl", tmp_path / "n.csv", failures=tmp_path / "f.jsonl")
    assert [json.loads(line)["number"] for line in (tmp_path / "f.jsonl").read_text().splitlines()] == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.jsonl", "n.csv", "notes.csv"]


@pytest.mark.parametrize("name", ["o.jsonl", "o.parquet", "brat", "docbin", "o.db"])
def test_new_files_with_words_of_notes_are_for_their_owner(name: str, run: Run, tmp_path: Path) -> None:
    out = tmp_path / name
    place, options = f"sqlite:///{out}" if name == "o.db" else str(out), {} if "." in name else {"format": name}
    run(place, **options)
    files = [path for path in (out, *out.rglob("*")) if path.is_file() and path.name != ".medlink.json"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert out.is_file() or out.stat().st_mode & 0o777 == 0o700
    out.chmod(0o755 if out.is_dir() else 0o644)
    run(place, **options, **({"out_table": "more"} if name == "o.db" else {}))
    assert out.stat().st_mode & 0o777 == (0o755 if out.is_dir() else 0o644)


def test_sqlite_keeps_a_nul(run: Run, tmp_path: Path) -> None:
    text, said = TEXTS["1"].replace("today", "to\0ay"), list[str]()
    run(f"sqlite:///{tmp_path}/o.db", [Note("1", text)], format="note_nlp", date="2026-11-30", say=said.append)
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        assert {"to\0ay" in snippet for (snippet,) in base.execute("select snippet from note_nlp")} == {True}
    assert said == []


def test_a_folder_of_medlink_is_replaced(run: Run, tmp_path: Path) -> None:
    def files() -> Iterator[str]:
        return (path.name for path in sorted((tmp_path / "o").iterdir()))

    run(tmp_path / "o", format="docbin")
    assert [*files()] == [".medlink.json", "0000000009.spacy"]
    run(tmp_path / "o", format="brat")
    assert len([*files()]) == 2 + 2 * 9


def test_a_system_without_codes_is_said(run: Run, tmp_path: Path) -> None:
    said: list[str] = []
    run(tmp_path / "o.csv", map=("ICD10CM", "LOINC"), say=said.append)
    assert said == ["no link has a code in the system 'LOINC'", "1 note without text"]
