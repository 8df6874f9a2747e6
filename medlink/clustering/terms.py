"""Term lists: millions of short texts in a few arrays, and how they are read."""

from __future__ import annotations

import csv
import os
from array import array
from codecs import lookup
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, InputError
from medlink.kb.languages import language_tag

LONGEST = 2_000
"""Characters of the longest line that is taken for a term."""
SHOWN = 5
"""Lines that could not be used and are named."""

_TERM, _FREQUENCY, _ID, _LANGUAGE = ("term", "name", "text", "mention"), ("frequency", "count"), ("id",), ("language",)
_NO_TABLE = ("utf-16", "utf-32", "utf-7")  # a line end is not one byte there


class Texts(Sequence[str]):
    """Texts in one block of bytes: some 30 bytes for a term where a ``str`` takes 80 and its place in a list 8.

    >>> list(Texts(["Fieber", "fiebre"])), Texts(["a", "b"])[1]
    (['Fieber', 'fiebre'], 'b')
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._block = bytearray()
        self._ends = array("q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._block += text.encode("utf-8")
        self._ends.append(len(self._block))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self._block[self._ends[place - 1] if place else 0 : self._ends[place]].decode("utf-8")


@dataclass(slots=True)
class Terms:
    """Distinct rows of a term list.

    ``frequency (n,)`` adds up equal rows; ``language`` holds places in ``languages``, whose first is ``""``. ``ids`` is
    empty where the list has none. ``notes`` say what was left out, by line number and without a word of the list.
    """

    texts: Texts
    frequency: NDArray[np.int64]
    language: NDArray[np.int16]
    languages: tuple[str, ...] = ("",)
    ids: Texts = field(default_factory=Texts)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, str, str]], notes: Sequence[str] = ()) -> Terms:
        """Terms from rows of text, frequency, language and id; equal rows become one.

        >>> terms = Terms.of([("Fieber", 2, "de", ""), ("Fieber", 3, "de", ""), ("fever", 1, "en", "")])
        >>> list(terms.texts), terms.frequency.tolist()
        (['Fieber', 'fever'], [5, 1])
        """
        texts, ids, frequency, language = Texts(), Texts(), array("q"), array("h")
        places: dict[str, int] = {"": 0}
        seen: dict[bytes, int] = {}
        any_id = False
        for text, count, tag, identifier in rows:
            key = blake2b(f"{len(text)} {text}{tag} {identifier}".encode(), digest_size=12).digest()
            place = seen.setdefault(key, len(texts))
            if place < len(texts):
                frequency[place] += count
                continue
            texts.append(text)
            ids.append(identifier)
            any_id = any_id or bool(identifier)
            frequency.append(count)
            language.append(places.setdefault(tag, len(places)))
        return cls(
            texts,
            np.array(frequency, dtype=np.int64),
            np.array(language, dtype=np.int16),
            tuple(places),
            ids if any_id else Texts(),
            tuple(notes),
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a table; where one is ``None`` the usual names are looked for."""

    term: str | None = None
    frequency: str | None = None
    id: str | None = None
    language: str | None = None

    def named(self) -> bool:
        """Whether any column is named, which makes any input a table."""
        return any((self.term, self.frequency, self.id, self.language))


@dataclass(slots=True)
class _Left:
    """Lines that were left out, by reason."""

    path: str
    lines: dict[str, list[int]] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def out(self, reason: str, line: int) -> None:
        """Count a line that is left out; the first few are named."""
        shown = self.lines.setdefault(reason, [])
        self.more[reason] = self.more.get(reason, 0) + 1
        if len(shown) < SHOWN:
            shown.append(line)

    def notes(self) -> list[str]:
        """What was left out, for a reader."""
        return [
            f"{self.path}: lines left out: {self.more[reason]}, {reason} (line {', '.join(map(str, lines))}"
            + (" ...)" if self.more[reason] > len(lines) else ")")
            for reason, lines in sorted(self.lines.items())
        ]


class _Reader:
    """Lines of one input as it stood when it was opened, decoded one by one."""

    def __init__(self, stream: BinaryIO, path: str, encoding: str, progress: Callable[[int], object] | None) -> None:
        self._stream, self.path, self._encoding, self._progress = stream, path, encoding, progress
        self.left = _Left(path)
        self.good = 0
        self.line = 0
        self.grew = False

    def __iter__(self) -> Iterator[str]:
        status = os.fstat(self._stream.fileno()) if _has_size(self._stream) else None
        rest = status.st_size if status else None
        while raw := self._stream.readline() if rest is None else self._stream.readline(rest):
            self.line += 1
            if rest is not None:
                rest -= len(raw)
            if self._progress:
                self._progress(len(raw))
            if self.line == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(
                    "is UTF-16, not UTF-8", path=self.path, line=1, remedy="convert it: iconv -f UTF-16 -t UTF-8 FILE"
                )
            self.grew = status is not None and os.fstat(self._stream.fileno()).st_size > status.st_size
            if rest == 0 and self.grew and not raw.endswith(b"\n"):
                self.left.out("cut off, the file was still being written", self.line)
                continue
            try:
                text = raw.decode(self._encoding)
            except UnicodeDecodeError:
                self.left.out(f"not {self._encoding.upper()}, see --encoding", self.line)
                continue
            yield text.removeprefix("\ufeff").rstrip("\r\n") if self.line == 1 else text.rstrip("\r\n")

    def notes(self) -> list[str]:
        """What was left out of the file, and whether it grew."""
        grown = [f"{self.path}: the file grew while it was read; what came later is left out"] if self.grew else []
        return self.left.notes() + grown


def _has_size(stream: BinaryIO) -> bool:
    """Whether a stream is a file on a disk: a pipe has no end to foresee."""
    try:
        return stream.seekable() and stream.fileno() >= 0
    except OSError:
        return False


def read_terms(
    path: str | Path,
    *,
    stream: BinaryIO | None = None,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int], object] | None = None,
) -> Terms:
    """Read a term list: one term a line, or a table with a header.

    A file whose name ends in ``.tsv`` or ``.csv`` is a table, as is any input for which a column is named: TSV without
    quoting where the header has a tab, else CSV with ``,`` or ``;``. A line that cannot be used is left out and noted
    by its number. A file is read as long as it was when it was opened.

    Args:
        path: the file, or what to call ``stream``.
        stream: where to read instead of opening ``path``.
        columns: names of the columns.
        encoding: of the text; one in which a line ends with one byte.
        progress: called with the bytes taken in since the last call.

    Returns:
        Distinct terms.

    Raises:
        InputError: the file cannot be read, has no usable line, or lacks a column.
        ConfigError: the encoding is not known.
    """
    columns = columns or Columns()
    try:
        known = lookup(encoding).name
    except LookupError as error:
        raise ConfigError(f"unknown encoding {encoding!r}", remedy="give one such as utf-8 or latin-1") from error
    if known.startswith(_NO_TABLE):
        raise ConfigError(f"encoding {encoding!r} cannot be read line by line", remedy="convert the file to UTF-8")
    if stream is not None:
        return _read(_Reader(stream, str(path), known, progress), columns, str(path))
    try:
        with open(path, "rb") as file:
            return _read(_Reader(file, str(path), known, progress), columns, str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path, remedy="name a text file") from error


def _read(reader: _Reader, columns: Columns, path: str) -> Terms:
    table = columns.named() or path.lower().endswith((".tsv", ".csv"))
    rows = _table(reader, columns) if table else ((text, 1, "", "") for text in reader)
    terms = Terms.of(_usable(rows, reader))
    terms.notes = tuple(reader.notes())
    if not len(terms):
        raise InputError(
            "no usable line" + (f"; {terms.notes[0].removeprefix(path + ': ')}" if terms.notes else ""),
            path=path,
            remedy="give one term a line as UTF-8, or name the encoding with --encoding (latin-1)",
        )
    return terms


def _usable(rows: Iterable[tuple[str, int, str, str]], reader: _Reader) -> Iterator[tuple[str, int, str, str]]:
    for text, count, language, identifier in rows:
        term = " ".join(text.replace("\x00", " ").split())
        if not term:
            reader.left.out("empty", reader.line)
        elif len(term) > LONGEST:
            reader.left.out(f"longer than {LONGEST:,} characters", reader.line)
        else:
            yield term, count, language, identifier


def _table(reader: _Reader, columns: Columns) -> Iterator[tuple[str, int, str, str]]:
    """Rows of a table."""
    lines = iter(reader)
    first = next(lines, "")
    cells: Iterable[list[str]]
    if "\t" in first or reader.path.lower().endswith(".tsv"):
        header, cells = first.split("\t"), (line.split("\t") for line in lines)
    else:
        separator = ";" if first.count(";") > first.count(",") else ","
        header = next(csv.reader([first], delimiter=separator), [])
        cells = csv.reader((line + "\n" for line in lines), delimiter=separator)
    names = [name.strip().lower() for name in header]
    term = _place(names, columns.term, _TERM, reader.path)
    if term is None:
        raise InputError(
            f"no column {' or '.join(_TERM)}; found {', '.join(header)[:300] or 'no header'}",
            path=reader.path,
            line=1,
            remedy="name the column of the terms with --column",
        )
    frequency = _place(names, columns.frequency, _FREQUENCY, reader.path)
    identifier = _place(names, columns.id, _ID, reader.path)
    language = _place(names, columns.language, _LANGUAGE, reader.path)
    for row in cells:
        if len(row) != len(header):
            reader.left.out("empty" if not any(row) else f"not {len(header)} columns", reader.line)
            continue
        count = row[frequency].strip() if frequency is not None else "1"
        if not count.isdecimal() or not 0 < int(count) < 1 << 40:
            reader.left.out("the frequency is no number above 0", reader.line)
            continue
        code = row[language].strip() if language is not None else ""
        tag = language_tag(code) if code else ""
        if tag is None:
            reader.left.out("the language is no BCP 47 tag", reader.line)
            continue
        yield row[term], int(count), tag, row[identifier].strip() if identifier is not None else ""


def _place(header: Sequence[str], wanted: str | None, usual: Sequence[str], path: str) -> int | None:
    """Place of a column; one that was asked for by name must be there."""
    if wanted is None:
        return next((header.index(name) for name in usual if name in header), None)
    if wanted.strip().lower() not in header:
        raise InputError(
            f"no column {wanted!r}; found {', '.join(header)[:300] or 'no header'}",
            path=path,
            line=1,
            remedy="name a column of the first line",
        )
    return list(header).index(wanted.strip().lower())
