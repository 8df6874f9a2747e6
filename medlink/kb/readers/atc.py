"""Reader of the ATC classification with German names, the official version for Germany.

A table parted by tabs with the columns ``ATC-Code`` and ``ATC-Bedeutung``, and one of daily doses (``DDD-Info``). Codes
have one, three, four, five or seven characters, and stand below the code that is their beginning. A substance may
stand in several places of the classification, each of which is a concept; the name of a group (*Verschiedene*,
*Kombinationen*) means something below its parent only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, known_language, stem
from medlink.kb.systems import named
from medlink.records import Concept, Mapping, Name, Record, Relation, SemanticType, Source

_ATC = named("ATC")
_CODE = re.compile(r"[A-Z](\d\d([A-Z]([A-Z](\d\d)?)?)?)?")
# the last line of a dose may run into the row that follows it
_RUN_INTO = re.compile(r".*[\s)]([A-Z]\d\d[A-Z]{2}\d\d)")
_MOST_LINES = 100  # of one row
_ABOVE = {1: 0, 3: 1, 4: 3, 5: 4, 7: 5}
_WANTED = ("atc-code", "atc-bedeutung")


def read_atc(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str = "de",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read the table of ATC codes.

    A cell may run over several lines, as daily doses do, and a row over a hundred at most. The semantic type is the
    anatomical main group. Memory grows with the codes.

    Without ``source`` it is ``ATC``; without ``version`` it is the year in the name of the file.
    """
    problems = problems or Problems()
    tag = known_language(language)
    lines = LineFile(path, problems)
    numbered = iter(lines)
    _, first = next(numbered, (1, ""))
    header = [cell.strip().lower() for cell in first.split("\t")]
    if any(header.count(column) != 1 for column in _WANTED):
        message = f"looked for the columns ATC-Code and ATC-Bedeutung; found {len(header)} columns"
        raise InputError(message, path=lines.path, line=1, remedy="give the ATC table with German names")
    lines.no_rows += 1
    code_at, name_at = (header.index(column) for column in _WANTED)
    year = re.search(r"(?:19|20)\d\d", stem(path))
    name = source or _ATC.name
    yield Source(name, (year[0] if year else "") if version is None else version, "Anatomical Therapeutic Chemical")
    titles: dict[str, str] = {}
    for line, cells in _rows(lines, numbered, len(header)):
        problems.at = lines.path, line
        into = _RUN_INTO.fullmatch(cells[code_at].strip())
        code, text = into[1] if into else cells[code_at].strip(), " ".join(cells[name_at].split())
        if not _CODE.fullmatch(code) or not text:
            lines.bad("no ATC code, or no name", line)
        elif code in titles:
            problems.skipped["code given more than once"] += 1
        else:
            titles[code] = text
            concept_id = _ATC.concept_id(code)
            yield Concept(concept_id, name)
            yield Name(concept_id, text, tag, "preferred", name, True)
            yield Mapping(concept_id, _ATC.name, code, "code", name)
            if above := code[: _ABOVE[len(code)]]:
                yield Relation(concept_id, "isa", _ATC.concept_id(above), name)
                if code[0] in titles:
                    yield SemanticType(concept_id, titles[code[0]], code[0], name)


def _rows(lines: LineFile, numbered: Iterator[tuple[int, str]], columns: int) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line each begins in; a row that ends too early goes on in the lines that follow."""
    begun: tuple[int, list[str]] | None = None
    for number, text in numbered:
        cells = text.split("\t")
        if not text.strip():
            lines.no_rows += 1
        elif (
            begun
            and number - begun[0] < _MOST_LINES
            and len(begun[1]) + len(cells) - 1 <= columns
            and not _CODE.fullmatch(cells[0].strip())
        ):
            lines.no_rows += 1
            start, held = begun
            begun = start, [*held[:-1], f"{held[-1]} {cells[0]}", *cells[1:]]
        else:
            if begun:
                yield from _whole(lines, begun, columns)
            begun = number, cells
    if begun:
        yield from _whole(lines, begun, columns)


def _whole(lines: LineFile, row: tuple[int, list[str]], columns: int) -> Iterator[tuple[int, list[str]]]:
    """A row if it has all its cells."""
    line, cells = row
    if len(cells) == columns:
        yield line, cells
    else:
        lines.bad("column count", line, f"{len(cells)} columns, {columns} expected")


FORMAT = Format("atc", read_atc, "--atc", "ATC classification with German names (table with tabs).", 38)
