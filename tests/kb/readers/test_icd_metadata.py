"""Metadata files of ICD-10-GM and ICD-10."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.records import Concept, Mapping, Name, Relation, SemanticType, Source
from tests.kb.writers import read_all, read_icd_metadata, write_lines

REST = ";;;V;V;1-002;2-001;3-003;4-002;001;9;9;9999;9999;9;J;J;J;J"
KODES = [
    f"3;N;X;04;E10;E10.-;E10.-;E10;Diabetes mellitus, Typ 1;Diabetes mellitus, Typ 1{REST}",
    f"4;N;S;04;E10;E10.0;E10.0;E100;Diabetes mellitus, Typ 1: Mit Koma;Diabetes mellitus, Typ 1{REST}",
    f"5;T;S;04;E10;E10.01;E10.01;E1001;Diabetes mellitus, Typ 1: Mit Koma: Entgleist;Diabetes{REST}",
    f"3;T;X;04;E99;E99*;E99;E99;Sonstiges;Sonstiges{REST}",
]
GRUPPEN = ["E10;E14;04;Diabetes mellitus"]
KAPITEL = ["04;Endokrine Krankheiten"]


def write(folder: Path, kodes: list[str] = KODES) -> Path:
    folder.mkdir(exist_ok=True)
    write_lines(folder / "icd10gm2024syst_kodes.txt", kodes)
    write_lines(folder / "icd10gm2024syst_gruppen.txt", GRUPPEN)
    write_lines(folder / "icd10gm2024syst_kapitel.txt", KAPITEL)
    return folder


def test_everything(tmp_path: Path) -> None:
    records, problems = read_all(read_icd_metadata, write(tmp_path / "m"))
    gm = "ICD-10-GM"
    assert records[:4] == [
        Source(gm, "2024", gm),
        Concept("ICD10GM:04", gm),
        Name("ICD10GM:04", "Endokrine Krankheiten", "de", "preferred", gm, True),
        Mapping("ICD10GM:04", gm, "04", "code", gm),
    ]
    assert [(one.head, one.tail) for one in records if isinstance(one, Relation)] == [
        ("ICD10GM:E10-E14", "ICD10GM:04"),
        ("ICD10GM:E10", "ICD10GM:E10-E14"),
        ("ICD10GM:E10.0", "ICD10GM:E10"),
        ("ICD10GM:E10.01", "ICD10GM:E10.0"),
        ("ICD10GM:E99", "ICD10GM:04"),
    ]
    assert (
        Name("ICD10GM:E10.01", "Diabetes mellitus, Typ 1: Mit Koma: Entgleist", "de", "preferred", gm, True) in records
    )
    assert SemanticType("ICD10GM:E10.01", "Endokrine Krankheiten", "", gm) in records
    assert (problems.rows, problems.bad, problems.skipped) == (6, {}, {})


def test_who_edition(tmp_path: Path) -> None:
    write_lines(tmp_path / "icd102019syst_codes.txt", ["3;N;X;01;A00;A00.-;A00;A00;Cholera;Cholera;;;001"])
    records, problems = read_all(read_icd_metadata, tmp_path)
    assert records[:3] == [
        Source("ICD-10", "2019", "ICD-10"),
        Concept("ICD10:A00", "ICD-10"),
        Name("ICD10:A00", "Cholera", "en", "preferred", "ICD-10", True),
    ]
    assert problems.notes == ["there is no file of chapters", "there is no file of blocks"]


def test_blocks_in_blocks(tmp_path: Path) -> None:
    """Of the blocks that begin with one category a code is in the narrowest, whatever their order."""
    write(tmp_path / "m")
    blocks = ["E10;E14;04;Diabetes mellitus", "E10;E90;04;Stoffwechsel", "E10;E11;04;eng"]
    for order in (blocks, blocks[::-1]):
        write_lines(tmp_path / "m" / "icd10gm2024syst_gruppen.txt", order)
        relations = [one for one in read_icd_metadata(tmp_path / "m") if isinstance(one, Relation)]
        assert [one.tail for one in relations if one.head == "ICD10GM:E10"] == ["ICD10GM:E10-E11"]


def test_other_folders(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").touch()
    with pytest.raises(InputError, match=r"looked for icd10\*_kodes\.txt or icd10\*_codes\.txt; found readme\.txt"):
        list(read_icd_metadata(tmp_path))
    write(tmp_path / "a")
    write(tmp_path / "b")
    with pytest.raises(InputError, match="there are two files of chapters"):
        list(read_icd_metadata(tmp_path))
