"""Tables of definitions."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.records import Definition
from medlink.training.data.selection import definitions_by_code, read_definitions
from tests.kb.writers import conso, write_lines


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("agct.tsv", ["concept_id\tdefinition", 'H:1\tA  "state", that\u00a0harms.']),
        ("agct.csv", ["ID,text", 'H:1,"A ""state"", that harms."']),
        ("agct.txt", ["text;id;note", '"A ""state"", that\nharms.";H:1;x']),
    ],
)
def test_layouts(tmp_path: Path, file: str, lines: list[str]) -> None:
    problems = Problems()
    path = write_lines(tmp_path / file, lines)
    wanted = [Definition("H:1", 'A "state", that harms.', "en", "agct")]
    assert list(read_definitions(path, problems=problems)) == wanted
    assert len(problems.notes) == (file == "agct.txt")
    packed = path.with_name(f"{file}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert list(read_definitions(packed)) == wanted


def test_language(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.tsv", ["id\ttext\tlanguage", "1\tetwas\tGER", "2\talgo\t"])
    assert [record.language for record in read_definitions(path)] == ["de", "en"]
    assert [record.language for record in read_definitions(path, language="es")] == ["de", "es"]
    with pytest.raises(ConfigError, match=r"unknown language 'Spanish'.*Remedy: write es, its BCP 47 tag"):
        list(read_definitions(path, language="Spanish"))


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "t.tsv",
        ["id\ttext\tlanguage", "1\tgood\t", "2\t \t", "\tno id\t", "3\tbad\txx", "4\tshort", *["1\tgood\t"] * 3],
    )
    problems = Problems()
    assert [record.text for record in read_definitions(path, problems=problems)] == ["good"] * 4
    assert problems.bad == {"empty id or definition": 2, "unknown language": 1, "column count": 1}
    assert str(problems.examples[0]) == f"{path}:3: empty id or definition"
    with pytest.raises(InputError, match=r"t.tsv:3: .*rows cannot be used.*Remedy: mend or fetch the file again"):
        list(read_definitions(path, problems=Problems(0)))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id\tname", r"t.tsv:1: looked for .* found 2 columns\. Remedy: .*; definition must be there"),
        ("note", r"found 1 column\. Remedy: .*; concept_id and definition must be there"),
        ("id\tconcept_id\ttext", r"a column for the concept_id is there twice\. Remedy: rename or delete one of them"),
    ],
)
def test_columns(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_definitions(write_lines(tmp_path / "t.tsv", [header, "1\t2\t3"])))


def test_codes_of_another_system(tmp_path: Path) -> None:
    rows = [("C1", "cold", "10"), ("C2", "common cold", "10"), ("C2", "coryza", "11"), ("C3", "pain", "12")]
    lines = [conso(cui, text, SAB="SNOMEDCT_US", CODE=code) for cui, text, code in rows]
    write_lines(tmp_path / "META" / "MRCONSO.RRF", lines)
    build_kb(tmp_path / "kb.sqlite", [Input("rrf", tmp_path / "META")])
    given = [Definition(code, f"text {code}", "en") for code in ("12", "10", "99")]
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        found = [(one.concept_id, one.text) for one in definitions_by_code(kb, given, "SNOMEDCT_US")]
        assert found == [("C3", "text 12"), ("C1", "text 10"), ("C2", "text 10"), ("99", "text 99")]
        with pytest.raises(ConfigError, match=r"no codes of the system 'SNOMED'.*Remedy: name the system as"):
            list(definitions_by_code(kb, given, "SNOMED"))
