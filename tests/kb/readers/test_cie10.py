"""CIE-10-ES."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.records import Concept, Mapping, Name, Relation, Source
from tests.kb.writers import read_all, read_cie10, write_lines

ROWS = ["Código;Descripción;Sexo", "I21;Infarto de miocardio;", "I219;Infarto, no especificado;", "A00.0;Cólera;"]


def test_everything(tmp_path: Path) -> None:
    records, problems = read_all(read_cie10, write_lines(tmp_path / "x.csv", ROWS))
    cie = "CIE-10-ES"
    assert records == [
        Source(cie, "", "Clasificación Internacional de Enfermedades, décima revisión, España"),
        Concept("CIE10ES:I21", cie),
        Name("CIE10ES:I21", "Infarto de miocardio", "es", "preferred", cie, True),
        Mapping("CIE10ES:I21", cie, "I21", "code", cie),
        Concept("CIE10ES:I21.9", cie),
        Name("CIE10ES:I21.9", "Infarto, no especificado", "es", "preferred", cie, True),
        Mapping("CIE10ES:I21.9", cie, "I21.9", "code", cie),
        Concept("CIE10ES:A00.0", cie),
        Name("CIE10ES:A00.0", "Cólera", "es", "preferred", cie, True),
        Mapping("CIE10ES:A00.0", cie, "A00.0", "code", cie),
        Relation("CIE10ES:I21.9", "isa", "CIE10ES:I21", cie),
    ]
    assert (problems.rows, problems.bad, problems.skipped) == (3, {}, {})


def test_a_header_in_another_encoding(tmp_path: Path) -> None:
    """The accents of the header are what is lost first; the remedy is not to name the columns."""
    (tmp_path / "x.csv").write_bytes("Código;Descripción\nA00;Cólera\nA01;Fiebre\n".encode("latin-1"))
    with pytest.raises(
        InputError,
        match=r"x\.csv:1: the first line, which names the columns, is not UTF-8\. Remedy: give the file as UTF-8",
    ):
        list(read_cie10(tmp_path / "x.csv", problems=Problems(1)))
