"""German terms of ICD-10-GM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medlink.files.problems import Problems
from medlink.records import Concept, Mapping, Name, Record, Relation, Source
from tests.kb.writers import read_all, read_alphaid, write_lines

ALPHA_ID_SE = [
    "1|I1|A17.0+|G01*|||3389|Tuberkulöse Meningitis",
    "1|I2|A17.0+||B95.0!||3389|Meningitis bei Tuberkulose",
    "1|I3|I21.9||||| Herzinfarkt ",
    "0|I4|I21.9|||||Alter Infarkt",
]
ALPHABET = [
    "0;97888;1;;;;Achsel - s. Achselhöhle;",
    "1;5;1;I21.9;;;Herzruptur;",
    "3;6;0;B37.0;;U61.1!;Soor der Mundhöhle;",
    "5;7;1;;;B96.5!;Acinetobacter als Erreger;",
]


def kinds(records: list[Record]) -> Counter[str]:
    return Counter(type(one).__name__ for one in records)


def test_alpha_id_se(tmp_path: Path) -> None:
    problems = Problems()
    path = write_lines(tmp_path / "alphaidse.txt", ALPHA_ID_SE)
    name = "Alpha-ID"
    assert list(read_alphaid(path, problems=problems)) == [
        Source(name, "", "alphaidse"),
        Concept("Orphanet:3389", name),
        Name("Orphanet:3389", "Tuberkulöse Meningitis", "de", "exact", name),
        Mapping("Orphanet:3389", "ICD-10-GM", "A17.0", "broad", name),
        Mapping("Orphanet:3389", "ICD-10-GM", "G01", "broad", name),
        Mapping("Orphanet:3389", "Orphanet", "3389", "exact", name),
        Mapping("Orphanet:3389", "Alpha-ID", "I1", "code", name),
        Relation("Orphanet:3389", "isa", "ICD10GM:A17.0", name),
        Relation("Orphanet:3389", "isa", "ICD10GM:G01", name),
        Name("Orphanet:3389", "Meningitis bei Tuberkulose", "de", "exact", name),
        Mapping("Orphanet:3389", "ICD-10-GM", "A17.0", "broad", name),
        Mapping("Orphanet:3389", "ICD-10-GM", "B95.0", "related", name),
        Mapping("Orphanet:3389", "Orphanet", "3389", "exact", name),
        Mapping("Orphanet:3389", "Alpha-ID", "I2", "code", name),
        Relation("Orphanet:3389", "isa", "ICD10GM:A17.0", name),
        Concept("ALPHAID:I3", name),
        Name("ALPHAID:I3", "Herzinfarkt", "de", "preferred", name, True),
        Mapping("ALPHAID:I3", "ICD-10-GM", "I21.9", "broad", name),
        Mapping("ALPHAID:I3", "Alpha-ID", "I3", "code", name),
        Relation("ALPHAID:I3", "isa", "ICD10GM:I21.9", name),
    ]
    assert (problems.rows, problems.bad, problems.skipped) == (4, {}, {"term that is no longer valid": 1})


def test_a_term_with_an_orpha_code_alone(tmp_path: Path) -> None:
    """It is a name of that disease, and no reference to another term."""
    path = write_lines(tmp_path / "alphaid.txt", ["1|I3|||||173|Skelettdysplasie"])
    problems = Problems()
    assert list(read_alphaid(path, problems=problems))[1:] == [
        Concept("Orphanet:173", "Alpha-ID"),
        Name("Orphanet:173", "Skelettdysplasie", "de", "exact", "Alpha-ID"),
        Mapping("Orphanet:173", "Orphanet", "173", "exact", "Alpha-ID"),
        Mapping("Orphanet:173", "Alpha-ID", "I3", "code", "Alpha-ID"),
    ]
    assert problems.skipped == {}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_alphabet(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("".join(f"{line}\r\n" for line in ALPHABET).encode(encoding))
    records, problems = read_all(read_alphaid, tmp_path / "a.txt")
    assert records == [
        Source("Alphabet", "", "a"),
        Concept("ALPHABET:5", "Alphabet"),
        Name("ALPHABET:5", "Herzruptur", "de", "preferred", "Alphabet", True),
        Mapping("ALPHABET:5", "ICD-10-GM", "I21.9", "broad", "Alphabet"),
        Relation("ALPHABET:5", "isa", "ICD10GM:I21.9", "Alphabet"),
        Concept("ALPHABET:6", "Alphabet"),
        Name("ALPHABET:6", "Soor der Mundhöhle", "de", "preferred", "Alphabet", True),
        Mapping("ALPHABET:6", "ICD-10-GM", "B37.0", "broad", "Alphabet"),
        Mapping("ALPHABET:6", "ICD-10-GM", "U61.1", "related", "Alphabet"),
        Relation("ALPHABET:6", "isa", "ICD10GM:B37.0", "Alphabet"),
        Concept("ALPHABET:7", "Alphabet"),
        Name("ALPHABET:7", "Acinetobacter als Erreger", "de", "preferred", "Alphabet", True),
        Mapping("ALPHABET:7", "ICD-10-GM", "B96.5", "broad", "Alphabet"),
        Relation("ALPHABET:7", "isa", "ICD10GM:B96.5", "Alphabet"),
    ]
    assert problems.skipped == {"reference to another term": 1}
    assert problems.notes == ([f"{tmp_path / 'a.txt'}: is read as ISO-8859-1"] if encoding == "latin-1" else [])


def test_a_damaged_byte_is_no_other_encoding(tmp_path: Path) -> None:
    lines = [f"1|I{n}|I21.9|||||Übelkeit {n}\n".encode() for n in range(100)]
    (tmp_path / "a.txt").write_bytes(b"".join(lines).replace("Ü".encode(), b"\xff", 1))
    records, problems = read_all(read_alphaid, tmp_path / "a.txt")
    assert problems.bad == {"not UTF-8": 1}
    assert {one.text for one in records if isinstance(one, Name)} == {f"Übelkeit {n}" for n in range(1, 100)}


@pytest.mark.slow
def test_files_of_bfarm(shared: Path) -> None:
    """Counts are those of the cells of the files."""
    folder = shared / "data" / "terminologies" / "icd_de"
    path = folder / "icd10gm2020_alphaid_se_muster_edvtxt_20191004.txt"
    cells = [line.split("|") for line in path.read_text("utf-8").splitlines()]
    valid = [row for row in cells if row[0] == "1"]
    records = list(read_alphaid(path))
    assert {one.concept_id for one in records if isinstance(one, Concept)} == {f"Orphanet:{row[6]}" for row in valid}
    assert kinds(records)["Name"] == len(valid) == 7_269
    path = folder / "icd10gm2010alpha_edv_ascii_20091030.txt"
    cells = [line.split(";") for line in path.read_text("latin-1").split("\n") if line]
    coded = [row for row in cells if any(row[3:6])]
    records = list(read_alphaid(path))
    assert [one.text for one in records if isinstance(one, Name)] == [row[6].strip() for row in coded]
    assert len(coded) == 75_826
    codes = {one.code for one in records if isinstance(one, Mapping)}
    assert codes == {cell.rstrip("+*!") for row in coded for cell in row[3:6] if cell}
