"""Reader of the Spanish edition of ICD-10-CM, CIE-10-ES, as a table of codes and descriptions.

The columns are ``Código`` and ``Descripción`` (with or without accents), in TSV or CSV, as the reference tables of
diagnoses are saved from a spreadsheet. A code stands below the longest beginning of it that the table has too. Codes
are written with a point after the third character, whether the table has it or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike

from medlink.files.problems import Problems
from medlink.files.tables import Table, found_columns, open_table
from medlink.kb.readers.common import Format, known_language
from medlink.kb.systems import named
from medlink.records import Concept, Mapping, Name, Record, Relation, Source

_CIE = named("CIE-10-ES")
_CODE = re.compile(r"[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?")
_COLUMNS = (("código", "codigo", "code"), ("descripción", "descripcion", "description"))


def read_cie10(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str = "",
    language: str = "es",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a table of codes of CIE-10-ES and their descriptions.

    Other columns are passed over. Memory grows with the codes.

    Without ``source`` it is ``CIE-10-ES``.
    """
    problems = problems or Problems()
    tag = known_language(language)
    table = open_table(path, problems)
    code_at, name_at = _places(table)
    name = source or _CIE.name
    yield Source(name, version, "Clasificación Internacional de Enfermedades, décima revisión, España")
    codes: dict[str, int] = {}
    for line, cells in table.rows:
        problems.at = table.lines.path, line
        code, text = cells[code_at].strip().upper(), cells[name_at].strip()
        if not _CODE.fullmatch(code) or not text:
            table.lines.bad("no code of CIE-10-ES, or no description", line)
            continue
        plain = code.replace(".", "")
        if plain in codes:
            problems.skipped["code given more than once"] += 1
            continue
        codes[plain] = line
        concept_id = _CIE.concept_id(_pointed(plain))
        yield Concept(concept_id, name)
        yield Name(concept_id, text, tag, "preferred", name, True)
        yield Mapping(concept_id, _CIE.name, _pointed(plain), "code", name)
    # the table need not have a code before those below it
    for plain, line in codes.items():
        problems.at = table.lines.path, line
        above = next((plain[:end] for end in range(len(plain) - 1, 2, -1) if plain[:end] in codes), None)
        if above:
            yield Relation(_CIE.concept_id(_pointed(plain)), "isa", _CIE.concept_id(_pointed(above)), name)


def _pointed(plain: str) -> str:
    """A code with its point."""
    return f"{plain[:3]}.{plain[3:]}" if len(plain) > 3 else plain


def _places(table: Table) -> tuple[int, ...]:
    """Where code and description stand."""
    found = [[at for at, column in enumerate(table.header) if column in words] for words in _COLUMNS]
    if any(len(places) != 1 for places in found):
        message = f"looked for the columns Código and Descripción, each once; found {found_columns(table.first)}"
        raise table.error(message, "name the columns in the first line")
    return tuple(places[0] for places in found)


FORMAT = Format("cie10", read_cie10, "--cie", "CIE-10-ES as a table with the columns Código and Descripción.", 39)
