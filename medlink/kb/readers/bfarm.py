"""What the text files of BfArM (DIMDI) share: the encoding, and how codes are marked."""

from __future__ import annotations

import re
from os import PathLike

from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file

_MARKS = re.compile(r"[!*+†#]+$|\.?-$")


def open_bfarm(path: str | PathLike[str], problems: Problems) -> LineFile:
    """The lines of a file of BfArM: UTF-8, or ISO-8859-1 as the older ones are, which a note says.

    It is ISO-8859-1 where most of the lines with other letters than those of ASCII are no UTF-8; a damaged byte of a
    UTF-8 file stays a bad row.
    """
    plain = other = 0
    for line in _raw(path):
        if not line.isascii():
            try:
                line.decode("utf-8")
                plain += 1
            except UnicodeDecodeError:
                other += 1
    if other <= plain:
        return LineFile(path, problems)
    problems.notes.append(f"{existing_file(path)}: is read as ISO-8859-1")
    return LineFile(path, problems, encoding="latin-1")


def _raw(path: str | PathLike[str]) -> list[bytes]:
    """The lines of a file as bytes; of a long one, those at its beginning."""
    held = b""
    for block in LineFile(path, Problems(1.0), may_be_empty=True).blocks():
        held += block
        if len(held) > 1 << 22:
            break
    return held.split(b"\n")


def code_of(cell: str) -> str:
    """A code of ICD-10-GM without the marks of cross, star and exclamation point, and without the dash of a category.

    >>> [code_of(cell) for cell in ("A00.-", "B96.5!", "A17.0+", "G01*", "E10.01", "C00-")]
    ['A00', 'B96.5', 'A17.0', 'G01', 'E10.01', 'C00']
    """
    code = cell.strip()
    while (bare := _MARKS.sub("", code)) != code:
        code = bare
    return code
