"""Lists of terminologists in Excel: read and written by the commands; headers of sites; endings of outputs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from openpyxl import Workbook, load_workbook

from tests.cli.runner import error_of, run


def write(path: Path, *rows: tuple[object, ...]) -> Path:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def values(path: Path) -> list[tuple[object, ...]]:
    return list(load_workbook(path).active.values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "header",
    [
        ("source code", "source name", "count"),
        ("Schlüssel", "Beschreibung", "Häufigkeit"),
        ("codigo", "DENOMINACION", "cantidad"),
        ("Local_Code", "Display-Name", "Frequency"),
    ],
)
def test_map_reads_and_writes_excel(header: tuple[str, ...], demo_path: Path, tmp_path: Path) -> None:
    codes = write(tmp_path / "codes.xlsx", header, ('="=1+1"', "Fieber", 3), (7, "Herzinfarkt", 12))
    text = ",".join(header) + "\n'=1+1,Fieber,3\n7,Herzinfarkt,12\n"
    (tmp_path / "codes.csv").write_text(text, "utf-8")
    # a formula that is a text in quotes is that text
    for given, name in ((codes, "o.xlsx"), (tmp_path / "codes.csv", "o.csv")):
        run("map", demo_path, given, "-o", tmp_path / name, "--language", "de")
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    found = values(tmp_path / "o.xlsx")
    assert [row[:2] for row in found] == [("sourceCode", "sourceName"), ("7", "Herzinfarkt"), ("=1+1", "Fieber")]
    assert [str(row[2]) for row in found] == [row[2] for row in rows] == ["sourceFrequency", "12", "3"]
    assert all(isinstance(row[2], int) for row in found[1:])
    # what was written is read: a decision in it stays
    book = load_workbook(tmp_path / "o.xlsx")
    status = rows[0].index("mappingStatus")
    book.active.cell(2, status + 1).value = "APPROVED"
    book.save(tmp_path / "o.xlsx")
    again = run("map", demo_path, codes, "--before", tmp_path / "o.xlsx", "-o", tmp_path / "next.xlsx")
    assert again.stderr.splitlines()[-2:] == ["  kept: 1", "  undecided: 1"]


def test_cluster_and_kb_build_read_excel(tmp_path: Path) -> None:
    terms = write(tmp_path / "terms.xlsx", ("Begriff", "Anzahl"), ("Fieber", 2), ("fever", 1), ("Fieber", 1))
    run("cluster", terms, "-o", tmp_path / "o.xlsx")
    found = values(tmp_path / "o.xlsx")
    places = [found[0].index(name) for name in ("term", "frequency")]
    assert {tuple(row[place] for place in places) for row in found[1:]} == {("Fieber", 3), ("fever", 1)}
    table = write(
        tmp_path / "t.xlsx", ("concept_id", "name", "language"), ("X:1", "Fieber", "de"), ("X:1", "fever", "en")
    )
    for words in (["--table", table], [table]):
        printed = run("kb", "build", tmp_path / "kb.sqlite", *words).output
        assert "2 rows" in printed
        assert "t: 1 concept, names de 1, en 1" in printed


@pytest.mark.parametrize(
    "command",
    [
        "map {b} {c} -o o.tsv", "map {b} {c} -o o.csv.gz", "map {b} {c} -o o.csv --changes c.csv",
        "cluster {c} -o o.csv", "link {b} {c} -o o.xlsx", "kb changes {b} {b} -o o.xlsx",
        "kb update {b} --table {c} -o o.csv", "index update {b} --table {c} -o o.csv",
        "impact {b} {b} {c} -o o.csv", "review {b} {c} -o d.xlsx",
        "evaluate sts {c} -o o.xlsx", "map {b} {c} --format sssom -o o.xlsx", "cluster {c} --format jsonl -o o.xlsx",
    ],
)  # fmt: skip
def test_an_ending_without_a_format_is_refused(
    command: str, demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "codes.csv").write_text("code,name\nK1,Fieber\n", "utf-8")
    printed = error_of(capsys, *command.format(b=demo_path, c="codes.csv").split())
    ending = f"the ending {Path(command).suffix} names no format of this output. Remedy: end the name in one of ."
    assert ("o.xlsx: a workbook cannot hold " if "--format" in command else ending) in printed
    assert [path.name for path in tmp_path.iterdir()] == ["codes.csv"]


@pytest.mark.parametrize(
    ("header", "described"),
    [
        (("Nr", "Bez. lang"), "columns: Nr, Bez. lang. Remedy: name the column of the codes with --code-column; "),
        (("code", "Bez. lang"), "columns: code, Bez. lang. Remedy: name the column of the names with --name-col"),
        ((1, "Fieber"), "found 2 columns. Remedy"),
        (("A",), "found 1 column. Remedy"),
        (("x" * 80, "b"), "found 2 columns. Remedy"),
    ],
)
def test_a_refusal_names_the_columns(
    header: tuple[object, ...], described: str, demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = write(tmp_path / "codes.xlsx", header, ("K1", "Fieber"))
    assert described in error_of(capsys, "map", demo_path, codes, "-o", tmp_path / "o.csv")
