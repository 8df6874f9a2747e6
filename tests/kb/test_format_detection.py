"""Detecting the formats of files and folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.kb.format_detection import DetectedInput, detect_formats
from medlink.kb.readers import formats
from tests.kb.readers import test_alphaid, test_atc, test_claml, test_fhir, test_icd_metadata, test_loinc, test_omop
from tests.kb.writers import write_lines

FILES = {
    "obo": ("x.obo", "format-version: 1.2\n\n[Term]\nid: X:1\n"),
    "obograph": ("x.json", '{\n "graphs": [{"nodes": []}]}'),
    "fhir": ("y.json", json.dumps(test_fhir.CODE_SYSTEM)),
    "scispacy": ("x.jsonl", '{"concept_id": "C1", "canonical_name": "x", "aliases": []}\n'),
    "claml": ("x.xml", test_claml.HEAD + test_claml.TITLE + "</ClaML>"),
    "alphaid": ("alpha.txt", test_alphaid.ALPHA_ID_SE[0] + "\n"),
    "loinc": ("loinc.csv", ",".join(f'"{column}"' for column in test_loinc.VARIANT) + "\n"),
    "atc": ("atc.csv", test_atc.HEADER + "\n"),
    "cie10": ("cie.csv", "Código;Descripción\n"),
    "babelon": ("x.tsv", "subject_id\tpredicate_id\ttranslation_language\ttranslation_value\n"),
    "sssom": ("x.sssom.tsv", "# curie_map:\n#   X: x\nsubject_id\tpredicate_id\tobject_id\n"),
    "table": ("ward.csv", "id,name,language\n"),
}


def write(folder: Path, kind: str) -> Path:
    name, text = FILES[kind]
    (folder / name).write_text(text, "utf-8")
    return folder / name


def releases(folder: Path) -> dict[str, Path]:
    (folder / "umls" / "META").mkdir(parents=True)
    (folder / "umls" / "META" / "MRCONSO.RRF").touch()
    (folder / "umls" / "META" / "MRSTY.RRF").touch()
    (folder / "snomed" / "Snapshot").mkdir(parents=True)
    (folder / "snomed" / "Snapshot" / "sct2_Concept_Snapshot_INT_20260101.txt").touch()
    (folder / "snomed" / "Snapshot" / "sct2_Description_Snapshot-en_INT_20260101.txt").touch()
    test_omop.write(folder / "athena")
    test_icd_metadata.write(folder / "icd")
    return {
        "rrf": folder / "umls" / "META",
        "rf2": folder / "snomed",
        "omop": folder / "athena",
        "icd_metadata": folder / "icd",
    }


@pytest.mark.parametrize("kind", sorted(FILES))
@pytest.mark.parametrize("packed", [False, True])
def test_files(kind: str, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    if packed:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path = path.with_name(path.name + ".gz")
    assert detect_formats(path) == ([DetectedInput(kind, path)], [])


def test_all_formats_are_covered(tmp_path: Path) -> None:
    assert {*FILES, *releases(tmp_path)} == set(formats())


@pytest.mark.parametrize("release", ["rrf", "rf2", "omop", "icd_metadata"])
def test_files_beside_a_release(release: str, tmp_path: Path) -> None:
    """A file of another format in the folder of a release is an input of its own."""
    folder = releases(tmp_path)[release]
    files = {DetectedInput(kind, write(folder, kind)) for kind in ("obo", "claml", "alphaid", "table")}
    (folder / "notes of the release.xlsx").write_bytes(b"PK\x03\x04")
    found, left = detect_formats(folder)
    assert set(found) == {DetectedInput(release, folder), *files}
    assert left == [folder / "notes of the release.xlsx"]


def test_releases(tmp_path: Path) -> None:
    places = releases(tmp_path)
    for kind, folder in places.items():
        assert detect_formats(folder) == ([DetectedInput(kind, folder)], [])
    assert detect_formats(tmp_path / "umls")[0] == [DetectedInput("rrf", places["rrf"])]
    # a file of a release stands for it
    assert detect_formats(places["omop"] / "CONCEPT.csv")[0] == [DetectedInput("omop", places["omop"])]
    found, left = detect_formats(tmp_path)
    assert {one.format for one in found} == set(places)
    assert left == []


def test_a_folder_of_files(tmp_path: Path) -> None:
    for kind in FILES:
        write(tmp_path, kind)
    (tmp_path / "LICENSE").write_text("As is.\n")
    (tmp_path / ".hidden.csv").write_text("id,name\n")
    (tmp_path / "list.xlsx").write_bytes(b"PK\x03\x04")
    found, left = detect_formats(tmp_path)
    assert {one.format: one.path for one in found} == {kind: tmp_path / name for kind, (name, _) in FILES.items()}
    assert left == [tmp_path / "LICENSE", tmp_path / "list.xlsx"]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_is_classes_in_claml(mark: bytes, tmp_path: Path) -> None:
    encoding = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    (tmp_path / "x.xml").write_bytes(mark + FILES["claml"][1].replace("UTF-8", "UTF-16").encode(encoding))
    assert detect_formats(tmp_path / "x.xml")[0] == [DetectedInput("claml", tmp_path / "x.xml")]
    (tmp_path / "x.csv").write_bytes(mark + "id,name\n".encode(encoding))
    with pytest.raises(InputError, match=r"is UTF-16.* iconv"):
        detect_formats(tmp_path / "x.csv")


@pytest.mark.parametrize("lines", ["sep=;\nid;name\n", '"sep=|"\r\nid|name\r\n', "\ufeffsep=\t\nid\tname\n"])
def test_a_stated_separator_is_no_header(lines: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(lines, "utf-8", newline="")
    assert detect_formats(tmp_path / "x.csv")[0] == [DetectedInput("table", tmp_path / "x.csv")]


@pytest.mark.slow
def test_late_resource_type(tmp_path: Path) -> None:
    data = dict(reversed(test_fhir.CODE_SYSTEM.items()))
    data["concept"] = [{"code": str(number), "display": "x"} for number in range(20_000)]
    (tmp_path / "x.json").write_text(json.dumps(data, sort_keys=True))
    assert detect_formats(tmp_path / "x.json")[0] == [DetectedInput("fhir", tmp_path / "x.json")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Fieber\nHusten\n", "its beginning matches no known format; options are --umls, --snomed, --omop"),
        ("id,name,LOINC_NUM,COMPONENT\n", "may be of 2 formats. Remedy: use --loinc or --table"),
        ('<?xml version="1.0"?>\n<rdf:RDF>', "is OWL, which is not supported. Remedy: convert it to OBO-graphs JSON"),
        ("", "the file is empty"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        detect_formats(tmp_path / "x.txt")


def test_other_folders(tmp_path: Path) -> None:
    write_lines(tmp_path / "notes.txt", ["Fieber"])
    with pytest.raises(InputError, match=r"looked for releases and files of terminologies; found notes\.txt"):
        detect_formats(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        detect_formats(tmp_path / "missing")
