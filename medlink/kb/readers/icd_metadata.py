"""Reader of the metadata files of ICD-10: those of ICD-10-GM (BfArM) and of ICD-10 (WHO), which have one layout.

Three files without header, parted by semicolons, found by their names: the codes (``..._kodes.txt``,
``..._codes.txt``), the blocks (``..._gruppen.txt``, ``..._blocks.txt``, ``..._groups.txt``) and the chapters
(``..._kapitel.txt``, ``..._chapters.txt``). Of a code the columns 1 (level), 4 (chapter), 5 (first category of its
block), 7 (code without marks) and 9 (title) are read. Inclusion terms are not in these files; ClaML has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.bfarm import code_of, open_bfarm
from medlink.kb.readers.common import Format, existing_folder, is_id, known_language, nothing_found
from medlink.kb.systems import System, named
from medlink.records import Concept, Mapping, Name, Record, Relation, SemanticType, Source

_KINDS = {
    "chapters": re.compile(r"(icd10.*)_(kapitel|chapters)(_\w+)?\.txt(\.gz)?", re.IGNORECASE),
    "blocks": re.compile(r"(icd10.*)_(gruppen|blocks|groups)(_\w+)?\.txt(\.gz)?", re.IGNORECASE),
    "codes": re.compile(r"(icd10.*)_(kodes|codes)(_\w+)?\.txt(\.gz)?", re.IGNORECASE),
}
_YEAR = re.compile(r"icd10(?:gm)?(\d{4})", re.IGNORECASE)
_LEVELS = {"3": 3, "4": 5, "5": 6}  # characters of the code of a level, its point included


def read_icd_metadata(
    folder: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read the metadata files of an edition.

    The semantic type of a code is the title of its chapter. Memory grows with the codes.

    Without ``source`` it is ``ICD-10-GM`` where the names of the files say so, otherwise ``ICD-10``; without
    ``version`` it is the year in the names; without ``language`` it is German for ICD-10-GM, otherwise English.
    """
    problems = problems or Problems()
    files = _find(folder)
    gm = files["codes"].name.lower().startswith("icd10gm")
    system = named("ICD-10-GM" if gm else "ICD-10")
    year = _YEAR.match(files["codes"].name)
    name, tag = source or system.name, ("de" if gm else "en") if language is None else known_language(language)
    yield Source(name, (year[1] if year else "") if version is None else version, system.name)
    known: dict[str, str] = {}
    blocks: dict[str, str] = {}
    for lines, line, cells in _rows(files, "chapters", 2, problems):
        code, title = cells
        if _usable(lines, line, code, title, known):
            known[code] = title
            yield from _concept(system, code, title, tag, name)
    for lines, line, (first, last, chapter, title) in _rows(files, "blocks", 4, problems):
        code = f"{first}-{last}"
        if _usable(lines, line, code, title, known):
            known[code] = title
            # of blocks in each other the narrowest
            blocks[first] = min(blocks.get(first, code), code)
            yield from _concept(system, code, title, tag, name)
            yield from _below(system, code, chapter, name)
            if chapter in known:
                yield SemanticType(system.concept_id(code), known[chapter], "", name)
    for lines, line, cells in _rows(files, "codes", 9, problems):
        level, chapter, first, code, title = cells[0], cells[3], cells[4], code_of(cells[6]), cells[8]
        if level not in _LEVELS or len(code) != _LEVELS[level]:
            lines.bad("level that is not that of the code", line)
        elif _usable(lines, line, code, title, known):
            known[code] = title
            yield from _concept(system, code, title, tag, name)
            above = code[: _LEVELS[str(int(level) - 1)]] if level != "3" else blocks.get(first, chapter)
            yield from _below(system, code, above, name)
            if chapter in known:
                yield SemanticType(system.concept_id(code), known[chapter], "", name)


def _usable(lines: LineFile, line: int, code: str, title: str, known: dict[str, str]) -> bool:
    if not is_id(code) or not title:
        lines.bad("no code, or no title", line)
        return False
    if code in known:
        lines.problems.skipped["code given more than once"] += 1
    return code not in known


def _concept(system: System, code: str, title: str, tag: str, source: str) -> Iterator[Record]:
    concept_id = system.concept_id(code)
    yield Concept(concept_id, source)
    yield Name(concept_id, title, tag, "preferred", source, True)
    yield Mapping(concept_id, system.name, code, "code", source)


def _below(system: System, code: str, above: str, source: str) -> Iterator[Record]:
    if above:
        yield Relation(system.concept_id(code), "isa", system.concept_id(above), source)


def _rows(
    files: dict[str, Path], kind: str, columns: int, problems: Problems
) -> Iterator[tuple[LineFile, int, list[str]]]:
    """Rows of a kind of file, which may have further columns where it has the most."""
    if kind not in files:
        problems.notes.append(f"there is no file of {kind}")
        return
    lines = open_bfarm(files[kind], problems)
    for line, text in lines:
        cells = [cell.strip() for cell in text.split(";")]
        problems.at = lines.path, line
        if len(cells) == columns or (kind == "codes" and len(cells) > columns):
            yield lines, line, cells
        elif text:
            lines.bad("column count", line, f"{len(cells)} columns, {columns} expected")
        else:
            lines.no_rows += 1


def _find(folder: str | PathLike[str]) -> dict[str, Path]:
    top = existing_folder(folder, "name the folder of the metadata files")
    files: dict[str, Path] = {}
    below = sorted(path for path in top.rglob("*") if path.is_file())
    for path in below:
        for kind, pattern in _KINDS.items():
            if pattern.fullmatch(path.name):
                if kind in files:
                    message = f"there are two files of {kind}: {files[kind].name} and {path.name}"
                    raise InputError(message, path=folder, remedy="name the folder of one edition")
                files[kind] = path
    if "codes" not in files:
        remedy = "name the folder of the metadata of ICD-10-GM or ICD-10"
        raise nothing_found(folder, "icd10*_kodes.txt or icd10*_codes.txt", (path.name for path in below), remedy)
    return files


FORMAT = Format(
    "icd_metadata",
    read_icd_metadata,
    "--icd-metadata",
    "Folder of the metadata files of ICD-10-GM or ICD-10 (_kodes.txt, _gruppen.txt, _kapitel.txt).",
    34,
    folder=True,
)
