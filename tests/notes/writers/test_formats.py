"""Each output, read back by another program: all rows are there, and offsets match the note."""

from __future__ import annotations

import configparser
import csv
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from medlink import LinkedNote, Note, link_notes
from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.index import extend_bundle
from medlink.kb import Input, KnowledgeBase
from medlink.mapping.targets import Targets
from medlink.notes import gold, writers
from medlink.notes.database import SqlNotes
from medlink.notes.options import FORMATS, OutputOptions
from medlink.notes.reading import Fields
from medlink.notes.writers import LinkedMention, TextWriter, create_writer
from tests.notes import tricky
from tests.notes.writers.conftest import TEXTS, Run
from tests.reading.bundles import bundle_of

Rows = list[dict[str, Any]]


def code_of(concept_id: str | None) -> Rows:
    return [{"system": "ICD10CM", "code": f"R{concept_id[-2:]}", "type": "exact"}] if concept_id else []


def expected(linked: dict[str, LinkedNote], bundle: str) -> Rows:
    """The rows, made from the links."""
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
            **{name: getattr(one.qualifiers, name) for name in ("presence", "temporality", "experiencer")},
            **{name: getattr(one.qualifiers, name) or None for name in ("section", "relative")},
            **{name: getattr(one.qualifiers, name) for name in ("onset_age", "allergy")},
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


def read_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return [typed(row) for row in csv.DictReader(file)]


def typed(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose values are texts or ``None``."""
    found = {key: None if value == "" else value for key, value in row.items()}
    for key in ("attributes", "same_as", "presumed", "codes"):
        found[key] = json.loads(found[key])
    return found | {
        "start": int(found["start"]),
        "end": int(found["end"]),
        "allergy": found["allergy"] in (1, "True"),
        "score": found["score"] and float(found["score"]),
    }


def read_parquet(path: Path) -> Rows:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]  # it has no types


def read_jsonl(path: Path) -> Rows:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert all(row.pop("versions")["medlink"] for row in rows)
    assert all(row.pop("nil") == (row["concept_id"] is None) for row in rows)
    assert all(isinstance(row.pop("candidates"), list) for row in rows)
    return rows


def read_sqlite(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as base:
        base.row_factory = sqlite3.Row
        rows = [dict(row) for row in base.execute("select * from links order by link_id")]
    assert [row.pop("link_id") for row in rows] == list(range(1, len(rows) + 1))
    return [typed(row) for row in rows]


def read_fhir(path: Path) -> Rows:
    """By the models of fhir.resources; its Bundle of R4B is that of R4."""
    from fhir.resources.R4B.bundle import Bundle

    found = []
    for line in path.read_text("utf-8").split("\n")[:-1]:
        bundle = Bundle.model_validate_json(line)
        for entry in bundle.entry:
            (extension,) = entry.resource.extension
            values = {
                one.url: one.valueBoolean
                if one.valueBoolean is not None
                else one.valueString or one.valueInteger or one.valueDecimal
                for one in extension.extension
            }
            optional = "expanded", "section", "relative", "onset_age", "concept_id", "preferred_name", "score", "value"
            row = dict.fromkeys(optional) | values
            row["start"] = row["start"] or 0
            row["score"] = row["score"] and float(row["score"])
            for key in ("attributes", "same_as", "presumed", "codes"):
                row[key] = json.loads(row.get(key, "[]"))
            assert bundle.identifier.value == row["note"]
            # of a relative the code is that of the condition
            about = getattr(entry.resource, "condition", None) or [entry.resource]
            assert about[0].code.text == row["text"]
            codes = [one.code for one in about[0].code.coding or ()]
            assert codes == [*filter(None, [row["concept_id"]]), *(one["code"] for one in row["codes"])]
            found.append(row)
    return found


def read_brat(folder: Path) -> Rows:
    """By the rules of brat's manual, and by medlink's reader of annotated notes."""
    conf = configparser.ConfigParser(allow_no_value=True, delimiters=["\t"])
    conf.read(folder / "annotation.conf", encoding="utf-8")
    values = {name: re.split(r"\|", rule.partition("Value:")[2]) for name, rule in conf["attributes"].items()}
    found = []
    for path in sorted(folder.glob("*.ann")):
        text = path.with_suffix(".txt").read_bytes().decode()
        ids = set()
        for line in path.read_text("utf-8").split("\n")[:-1]:
            assert "\r" not in line
            id_, rest, words = [*line.split("\t"), ""][:3]
            assert id_ not in ids
            ids.add(id_)
            kind, _, spans = rest.partition(" ")
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
        (note,) = gold.read_brat(LineFile(path, Problems(0), allow_empty=True))
        assert note.text == text
        ids_of = [bool(row["concept_id"]) for row in found[-len(note.annotations) or len(found) :]]
        assert [bool(one.concepts) for one in note.annotations] == ids_of
    return found


def read_docbin(folder: Path) -> Rows:
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
                assert row["text"] in span.text  # a token may include invisible marks
                assert span.kb_id_ == (row["concept_id"] or "NIL")
                found.append(json.loads(json.dumps(row)))
    return found


READERS: dict[str, tuple[str, Callable[[Path], Rows]]] = {
    "csv": ("o.csv", read_csv),
    "parquet": ("o.parquet", read_parquet),
    "jsonl": ("o.jsonl", read_jsonl),
    "sqlite": ("sqlite:///{}/o.db", read_sqlite),
    "fhir": ("o.fhir.ndjson", read_fhir),
    "brat": ("o", read_brat),
    "docbin": ("o", read_docbin),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_round_trip(reader: str, run: Run, linked: dict[str, LinkedNote], demo: Any, tmp_path: Path) -> None:
    name, read = READERS[reader]
    options = {"format": reader} if name == "o" else {}
    out = name.format(tmp_path) if "://" in name else str(tmp_path / name)
    report = run(out, **options)
    assert (report.notes, report.problems) == (9, [])
    found = read(tmp_path / "o.db" if "://" in name else Path(out))
    wanted = expected(linked, demo.manifest["hash"])
    assert len(wanted) > 15
    assert {row["language"] for row in wanted} == {"en", "de", "es"}
    # in a cell the value is JSON
    values = [json.loads(row["value"]) if isinstance(row["value"], str) else row["value"] for row in found]
    assert [row | {"value": value} for row, value in zip(found, values, strict=True)] == wanted
    assert any(values)
    assert all(TEXTS[row["note"]][row["start"] : row["end"]] == row["text"] for row in found)
    assert any("\n" in row["text"] for row in found)
    assert not list(tmp_path.glob("*.part*"))


def test_each_file_of_writers_has_its_formats(tmp_path: Path) -> None:
    days = {"note_nlp": "2026-11-30"}
    options = [OutputOptions(format=name, date=days.get(name)) for name in FORMATS]
    classes = {type(create_writer(tmp_path / "o", each)) for each in options}
    files = {path.stem for path in Path(writers.__file__).parent.glob("*.py")} - {"__init__", "base", "sql"}
    assert {each.__module__.rpartition(".")[2] for each in classes} == files
    assert len(classes) == len(FORMATS)
    with pytest.raises(ConfigError, match="format is 'xlsx'"):
        OutputOptions(format="xlsx")


def test_note_nlp_has_the_columns_of_the_data_model(run: Run, linked: dict[str, LinkedNote], tmp_path: Path) -> None:
    run(tmp_path / "o.csv", format="note_nlp", date="2026-11-30")
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id",
        "note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime", "term_exists", "term_temporal",
        "term_modifiers",
    ]  # fmt: skip
    mentions = [(note, one) for note, known in linked.items() for one in known.mentions]
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
    # the same in a table, after rows of others
    with closing(sqlite3.connect(tmp_path / "o.db")) as base, base:
        base.execute(f"create table note_nlp ({', '.join(rows[0])}, primary key (note_nlp_id))")
        base.execute("insert into note_nlp (note_nlp_id) values (41)")
    run(f"sqlite:///{tmp_path}/o.db", format="note_nlp", date="2026-11-30")
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        base.row_factory = sqlite3.Row
        stored = [dict(row) for row in base.execute("select * from note_nlp where note_nlp_id > 41 order by 1")]
    assert [row["note_nlp_id"] for row in stored] == list(range(42, 42 + len(rows)))
    for name in ("snippet", "offset", "lexical_variant", "term_exists", "term_modifiers"):
        assert [row[name] for row in stored] == [row[name] for row in rows]


def test_a_bundle_without_ids_of_omop_is_told(run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    nlp = {"format": "note_nlp", "date": "2026-11-30"}
    for name, options in (("o.csv", nlp), ("m.csv", nlp | {"map": ["OMOP"]}), ("l.csv", {})):
        run(tmp_path / name, **options, on_message=told.append)
    assert [one for one in told if "note_nlp_concept_id" in one] == [
        "the bundle has no ids of OMOP, so note_nlp_concept_id is 0 in every row; build it from OMOP vocabularies, or "
        'give map="OMOP" if its codes have maps to them'
    ]


def test_a_note_that_a_format_cannot_hold_is_a_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text\n1,fever\nGeheim-1,fever\n", encoding="utf-8")
    failures = tmp_path / "f.jsonl"
    report = run(tmp_path / "o.csv", tmp_path / "n.csv", format="note_nlp", date="2026-11-30", failures=failures)
    assert [(one.note_id, one.text) for one in report.problems] == [("Geheim-1", "")]
    (line,) = map(json.loads, failures.read_text("utf-8").splitlines())
    assert (line["number"], line["note"], line["place"]) == (2, "Geheim-1", f"{tmp_path}/n.csv:3")
    assert "whole number" in line["problem"]
    assert "id_field=" in line["remedy"]


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("o.csv", {"date": "2026-11-30"}, "date is for the format note_nlp only"),
        ("o.csv", {"format": "note_nlp"}, "note_nlp needs the day of the run"),
        ("o.csv", {"format": "note_nlp", "date": "30.11.2026"}, "date is '30.11.2026'"),
        ("o.csv", {"out_table": "t"}, "out_table needs a database"),
        ("sqlite:///o.db", {"format": "csv"}, "a table cannot be csv"),
        (None, {"format": "parquet"}, "this format needs a file"),
        (None, {"format": "brat"}, "this format needs a folder"),
        ("notes.csv", {"format": "brat"}, "the output is a file, but this format needs a folder"),
        ("mine", {"format": "brat"}, "mine: the output is a folder that medlink did not write"),
        ("o.jsonl", {"failures": "o.jsonl"}, "the output and the failures are the same file"),
        ("sqlite:///bad.db", {}, "the table links lacks the column link_id"),
        ("sqlite:///no/o.db", {}, "the folder of the output does not exist"),
    ],
)
def test_contradictory_options(
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


def test_input_and_output_in_databases(run: Run, tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    with pytest.raises(ConfigError, match="the output is the input"):
        run(address, SqlNotes(address, "note"))
    with pytest.raises(ConfigError, match="a database address is not a file of notes"):
        run(tmp_path / "o.csv", [address])
    assert run(f"sqlite:///{tmp_path}/o.db", SqlNotes(address, "note")).notes == 9
    with pytest.raises(ConfigError, match="the table links already has this run"):
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


def test_failures_stay_if_no_note_can_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text\n1,fever,x\n2\n", encoding="utf-8")
    with pytest.raises(InputError, match="no note could be read"):
        run(tmp_path / "o.jsonl", tmp_path / "n.csv", failures=tmp_path / "f.jsonl")
    assert [json.loads(line)["number"] for line in (tmp_path / "f.jsonl").read_text().splitlines()] == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.jsonl", "n.csv", "notes.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["o.jsonl", "o.parquet", "brat", "docbin", "o.db"])
def test_new_files_are_private(name: str, run: Run, tmp_path: Path) -> None:
    out = tmp_path / name
    target, options = f"sqlite:///{out}" if name == "o.db" else str(out), {} if "." in name else {"format": name}
    run(target, **options)
    files = [path for path in (out, *out.rglob("*")) if path.is_file() and path.name != ".medlink.json"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert out.is_file() or out.stat().st_mode & 0o777 == 0o700
    out.chmod(0o755 if out.is_dir() else 0o644)
    run(target, **options, **({"out_table": "more"} if name == "o.db" else {}))
    assert out.stat().st_mode & 0o777 == (0o755 if out.is_dir() else 0o644)


def test_sqlite_keeps_a_nul(run: Run, tmp_path: Path) -> None:
    text, messages = TEXTS["1"].replace("today", "to\0ay"), list[str]()
    options = {"format": "note_nlp", "date": "2026-11-30", "on_message": messages.append}
    run(f"sqlite:///{tmp_path}/o.db", [Note("1", text)], **options)
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        assert {"to\0ay" in snippet for (snippet,) in base.execute("select snippet from note_nlp")} == {True}
    assert not any("NUL" in message for message in messages)


@pytest.mark.slow
def test_a_folder_of_medlink_is_replaced(run: Run, tmp_path: Path) -> None:
    def files() -> Iterator[str]:
        return (path.name for path in sorted((tmp_path / "o").iterdir()))

    run(tmp_path / "o", format="docbin")
    assert [*files()] == [".medlink.json", "0000000009.spacy"]
    run(tmp_path / "o", format="brat")
    assert len([*files()]) == 2 + 2 * 9


def test_a_system_without_codes(run: Run, tmp_path: Path) -> None:
    messages: list[str] = []
    run(tmp_path / "o.csv", map=("ICD10CM", "LOINC"), on_message=messages.append)
    assert messages == ["no link has a code in the system 'LOINC'", "1 note without text"]


class TsvWriter(TextWriter):
    """A user's own format is one class."""

    header = "note\tstart\tend\tconcept"

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        for mention in mentions:
            yield f"{note.note_id}\t{mention.start}\t{mention.end}\t{mention.link.concept_id or ''}"


def test_an_own_format_is_resumed(run: Run, tmp_path: Path) -> None:
    rows = [(f"{n}0{id_}", text, language) for n in range(1, 31) for id_, text, language in tricky.NOTES]
    source = tmp_path / "many.jsonl"
    source.write_text(
        "".join(json.dumps(dict(zip(("id", "text", "language"), row, strict=True))) + "\n" for row in rows)
    )
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    report = run(TsvWriter(whole), source)
    lines = whole.read_text("utf-8").splitlines()
    assert (lines[0], len(lines)) == ("note\tstart\tend\tconcept", report.mentions + 1)
    seen: list[int] = []

    def stop(done: int, total: int) -> None:
        if done > 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(TsvWriter(out), source, progress=stop)
    assert not out.exists()
    rest = run(TsvWriter(out), source, resume=True, progress=lambda done, total: seen.append(done))
    assert (rest.already_done, seen[-1]) == (128, len(rows))
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.part*"))


def resources_of(path: Path) -> list[Any]:
    from fhir.resources.R4B.bundle import Bundle

    bundles = map(Bundle.model_validate_json, path.read_text("utf-8").splitlines())
    return [entry.resource for bundle in bundles for entry in bundle.entry]


def test_relatives_and_what_is_gone(demo: Any, tmp_path: Path) -> None:
    text = "Her father had gout at age 54. The pneumonia has resolved."
    (tmp_path / "notes.csv").write_text(f"id,text\n7,{text}\n", "utf-8")
    for name, options in (("o.fhir.ndjson", {}), ("n.csv", {"format": "note_nlp", "date": "2026-11-29"})):
        assert link_notes(demo, tmp_path / "notes.csv", out=tmp_path / name, language="en", **options).notes == 1
    resources = history, condition = resources_of(tmp_path / "o.fhir.ndjson")  # in the order of the text
    assert [one.get_resource_type() for one in resources] == ["FamilyMemberHistory", "Condition"]
    assert history.relationship.coding[0].code == "FTH"
    assert (history.condition[0].code.text, history.condition[0].onsetAge.value) == ("gout", 54)
    assert condition.clinicalStatus.coding[0].code == "resolved"
    assert condition.verificationStatus.coding[0].code == "confirmed"
    gout, pneumonia = csv.DictReader((tmp_path / "n.csv").read_text("utf-8").splitlines())
    assert {"subject=family", "relative=FTH", "onset_age=54"} <= set(gout["term_modifiers"].split(","))
    assert (pneumonia["term_exists"], pneumonia["term_temporal"]) == ("N", "past")


def test_a_translated_name_has_the_system_of_its_concept(tmp_path: Path) -> None:
    """Names that another source adds do not change the system of the code."""
    names = {"HP": ["HP:0005110\tAtrial fibrillation\ten"], "hp-de": ["HP:0005110\tVorhofflimmern\tde"]}
    bundle = bundle_of(tmp_path, **{source: tuple(rows) for source, rows in names.items()})
    (tmp_path / "added.tsv").write_text("concept_id\tname\tlanguage\nHP:0005110\tVHFli\tde\n", "utf-8")
    extend_bundle(bundle, [Input("table", tmp_path / "added.tsv")])
    note = Note("1", "Vorhofflimmern, Atrial fibrillation, VHFli.", "de")
    for name in ("o.fhir.ndjson", "o.jsonl", "o.brat"):
        options = {"format": "brat"} if name == "o.brat" else {}
        link_notes(bundle, [note], out=tmp_path / name, **options)
    codes = [one.code.coding[0] for one in resources_of(tmp_path / "o.fhir.ndjson")]
    assert [(code.system, code.code) for code in codes] == [("http://human-phenotype-ontology.org", "HP:0005110")] * 3
    lines = list(map(json.loads, (tmp_path / "o.jsonl").read_text("utf-8").splitlines()))
    assert {line["candidates"][0]["source"] for line in lines} == {"HP"}
    (annotated,) = (tmp_path / "o.brat").glob("*.ann")
    assert annotated.read_text("utf-8").count("\tReference T") == annotated.read_text("utf-8").count(" HP:HP") == 3
    candidate = Targets(KnowledgeBase(bundle)).make_candidate("HP:0005110", "de", 0.5, "code")
    assert (candidate.name, candidate.source) == ("Vorhofflimmern", "HP")


def test_drugs_have_the_status_of_a_medication_statement(demo: Any, tmp_path: Path) -> None:
    text = (
        "Metformin 500 mg, Ramipril abgesetzt. Beginn mit Apixaban 5 mg geplant. Kein Heparin. Ibuprofen meiden. "
        "Evtl. Bisoprolol. Ehefrau nimmt Sertralin. Omeprazol wurde pausiert. Früher Tramadol.\nLabor: Insulin 9."
    )
    note = Note("1", text, "de", date=(day := date(2026, 11, 30)))
    link_notes(demo, [note], out=tmp_path / "o.fhir.ndjson")
    resources = resources_of(tmp_path / "o.fhir.ndjson")
    statements = [one for one in resources if one.get_resource_type() == "MedicationStatement"]
    assert [(one.medicationCodeableConcept.text, one.status) for one in statements] == [
        ("Metformin", "active"), ("Ramipril", "stopped"), ("Apixaban", "intended"), ("Heparin", "not-taken"),
        ("Ibuprofen", "not-taken"), ("Bisoprolol", "unknown"), ("Omeprazol", "stopped"), ("Tramadol", "stopped"),
    ]  # fmt: skip
    assert {one.dateAsserted for one in statements} == {day}
    others = {one.code.text for one in resources if one.get_resource_type() == "Observation"}
    assert {"Sertralin", "Insulin"} <= others


DATES = ("recordedDate", "dateAsserted", "effectiveDateTime")


def test_allergies_and_the_date_of_a_note(demo: Any, tmp_path: Path) -> None:
    texts = {
        1: "Allergien: Amoxicillin (Exanthem), Metamizol. Nimmt Ramipril.",
        2: "Keine Penicillinallergie. Keine Allergie gegen Ibuprofen. Pneumonie.",
        3: "Keine Allergien bekannt. Ramipril 5 mg.",
    }
    rows = "".join(f'{number},"{text}",2026-11-30\n' for number, text in texts.items())
    (tmp_path / "notes.csv").write_text(f"id,text,day\n{rows}", "utf-8")

    def links(name: str, **options: Any) -> Path:
        link_notes(
            demo, tmp_path / "notes.csv", out=tmp_path / name, language="de", fields=Fields(date="day"), **options
        )
        return tmp_path / name

    resources = resources_of(links("o.fhir.ndjson"))
    found = [
        (
            one.get_resource_type(),
            (getattr(one, "code", None) or one.medicationCodeableConcept).text,
            str(next(one.__dict__[at] for at in DATES if one.__dict__.get(at))),
        )
        for one in resources
    ]
    assert found[:4] == [
        ("AllergyIntolerance", "Amoxicillin", "2026-11-30"),
        ("Observation", "Exanthem", "2026-11-30"),
        ("AllergyIntolerance", "Metamizol", "2026-11-30"),
        ("MedicationStatement", "Ramipril", "2026-11-30"),
    ]
    allergies = [one for one in resources if one.get_resource_type() == "AllergyIntolerance"]
    assert [one.verificationStatus.coding[0].code for one in allergies] == ["confirmed", "confirmed", "refuted"]
    assert [one.clinicalStatus.coding[0].code for one in allergies] == ["active", "active", "inactive"]
    present = {row["text"] for row in csv.DictReader(links("p.csv", present_only=True).read_text("utf-8").splitlines())}
    assert "Ramipril" in present
    assert present.isdisjoint(("Amoxicillin", "Metamizol", "Ibuprofen"))
    nlp = csv.DictReader(links("n.csv", format="note_nlp", date="2026-12-01").read_text("utf-8").splitlines())
    modifiers = {row["lexical_variant"]: (row["term_exists"], "allergy=true" in row["term_modifiers"]) for row in nlp}
    assert modifiers["Metamizol"] == ("N", True)
    assert modifiers["Ramipril"] == ("Y", False)
    assert "Allergy T1 true" in next(links("b", format="brat").glob("*1.ann")).read_text("utf-8")


def test_what_is_planned_is_neither_affirmed_nor_denied(demo: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("id,text\n7,Koloskopie geplant. Keine Koloskopie. Koloskopie 2019.\n", "utf-8")
    link_notes(demo, tmp_path / "notes.csv", out=tmp_path / "o.fhir.ndjson", language="de")
    resources = [entry["resource"] for entry in json.loads((tmp_path / "o.fhir.ndjson").read_text("utf-8"))["entry"]]
    assert [one.get("valueBoolean") for one in resources] == [None, False, True]
