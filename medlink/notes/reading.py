"""Reading notes from files, folders and standard input. No note text ever leaves this module in a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from medlink.errors import InputError
from medlink.files.json import parse_json
from medlink.files.streams import standard_input
from medlink.notes.readers import delimited, jsonl, parquet
from medlink.notes.readers.protocol import Fields, Note, NoteFile, Progress, not_decoded

__all__ = ["KINDS", "STANDARD_INPUT", "Fields", "Note", "ending", "find_inputs", "read_notes"]
STANDARD_INPUT = "-"


def _read_text(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """A text file is one note, named by its path."""
    yield Note(file.given, file.text())


_READERS = {
    ".txt": _read_text,
    ".text": _read_text,
    ".csv": delimited.read,
    ".tsv": delimited.read,
    ".jsonl": jsonl.read,
    ".ndjson": jsonl.read,
    ".parquet": parquet.read,
}
KINDS = frozenset(_READERS)
"""Endings of the files of a folder that are notes; a file that is named itself is a note whatever its ending."""


def find_inputs(paths: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """Files behind the given paths, folders searched for files of notes, in a fixed order.

    With them what else is in the folders, by ending: it is left out, and so is what is hidden (``.name``).

    Raises:
        InputError: a path does not exist, or a folder has no note.
    """
    found: list[str] = []
    left_out: Counter[str] = Counter()
    for given in paths:
        path = Path(given)
        if given == STANDARD_INPUT or path.is_file():
            found.append(given)
        elif path.is_dir():
            kinds = {str(p): _kind(p, path) for p in path.rglob("*") if p.is_symlink() or not p.is_dir()}
            inside = sorted(file for file, kind in kinds.items() if kind in KINDS)
            if not inside:
                others = ", ".join(sorted(set(kinds.values()))) or "no file"
                looked = ", ".join(sorted(KINDS))
                message = f"no notes: looked for {looked}, found {others}"
                raise InputError(message, path=path, remedy="name the files that are notes")
            found += inside
            left_out.update(kind for kind in kinds.values() if kind not in KINDS)
        elif path.exists():
            raise InputError("is a pipe or a device", path=given, remedy="give its notes to standard input, and name -")
        else:
            raise InputError("no such file or folder", path=given, remedy="name files or folders with notes")
    return found, left_out


def ending(path: str | Path) -> str:
    """The ending of a file, in lower case; that of a packed file is the one before ``.gz``.

    >>> ending("a/B.TXT"), ending("a.jsonl.gz"), ending("a.gz"), ending("a")
    ('.txt', '.jsonl', '.gz', '')
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix or Path(name).suffix


def _kind(path: Path, folder: Path) -> str:
    """Ending of a file in a folder, or why it is not looked at."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return "hidden"
    if path.is_file():
        return ending(path) or "no ending"
    return "links to nothing" if not path.exists() else "links to folders" if path.is_dir() else "pipes or devices"


def read_notes(
    inputs: Sequence[str], fields: Fields | None = None, encoding: str = "utf-8", progress: Progress | None = None
) -> Iterator[Note]:
    """Notes of all inputs, one at a time; a note that cannot be read is given with its problem.

    A file is read as its ending says, one of another ending as one note. Standard input is JSONL when its first line is
    a JSON object, else one note. ``progress`` is called with the number of bytes that were taken in.

    Raises:
        ConfigError: ``encoding``, that of all inputs, is not known, or none of lines of text; or a library is missing.
    """
    for given in inputs:
        kind, stream = ending(given), None
        if given == STANDARD_INPUT:
            first = _first_line(standard_input())
            kind, stream = ".jsonl" if _is_object(first, encoding) else ".txt", _StandardInput(first)
        file = NoteFile(given, encoding, progress, stream)
        try:
            yield from _READERS.get(kind, _read_text)(file, fields or Fields())
        except InputError as error:
            cause = error.__cause__
            said, remedy = (cause.strerror, error.remedy) if isinstance(cause, OSError) else not_decoded(cause)
            yield Note(given, problem=said or error.message, remedy=remedy or error.remedy)


def _first_line(stream: BinaryIO) -> bytes:
    """A stream up to the end of its first line that is not empty."""
    first = b""
    for line in stream:
        first += line
        if line.strip():
            break
    return first


def _is_object(line: bytes, encoding: str) -> bool:
    with suppress(ValueError):
        # half a character of a wide line end may be missing
        return isinstance(parse_json(line.decode(encoding, "ignore").removeprefix("\ufeff")), dict)
    return False


class _StandardInput(BytesIO):
    """Standard input, whose first line was read before."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size) or standard_input().read(-1 if size is None else size)
