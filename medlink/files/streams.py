"""The one stream reader: lines of a file, plain or compressed, decoded one by one and numbered."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from codecs import getincrementaldecoder, lookup
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TextIO

from medlink.errors import ConfigError, InputError
from medlink.files.problems import BAD_BYTES, UTF8_REMEDY, Problems

LONGEST_LINE = 1 << 20
"""Bytes of the longest line that is looked at; of a longer one nothing is kept."""
_BLOCK = 1 << 18
_GZIP = b"\x1f\x8b"
_AS_TEXT = "save its text as plain text in UTF-8, or leave it out"
_NAME_IT = "name its encoding with encoding=..."
_PLACE = "name the file that holds the text"
# how files begin that are no text, what they are, and what helps
_NO_TEXT = tuple(
    (re.compile(begins, re.DOTALL), message, remedy)
    for begins, message, remedy in (
        (
            rb"PK\x03\x04|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",  # .xlsx, .docx, .odt and other zip files; .xls, .doc
            "is a spreadsheet or document file, or zipped, and no text",
            "save a spreadsheet as CSV in UTF-8, another document as plain text, and unpack what is zipped",
        ),
        (rb"%PDF-|\{\\rtf", "is PDF or RTF, and no plain text", "save it as plain text in UTF-8"),
        (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*", "is a picture, and no text", _AS_TEXT),
        (rb".{128}DICM|RIFF.{4}(WEBP|WAVE)", "is a picture or a sound, and no text", _AS_TEXT),
        (
            rb"BZh|\xfd7zXZ\0|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x28\xb5\x2f\xfd",
            "is packed, and no text",
            "unpack it; only gzip files are read as they are",
        ),
        (rb"SQLite format 3\0", "is a database of SQLite, and no text", _PLACE),
        (rb"\x7fELF|\xca\xfe\xba\xbe", "is a program, and no text", _PLACE),
    )
)
_WIDE = ("utf-16", "utf-32")  # a line end is not one byte there
# these decode bytes into text that nobody wrote, or carry a state from line to line
_NO_LINES = ("hz", "idna", "iso2022", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
_PLAIN = b'azAZ09\t,;"\r\n'


def existing_file(path: str | PathLike[str], *, pipes: bool = False) -> Path:
    """``path`` if it is a file, plain or with ``.gz`` behind its name, or with ``pipes`` a pipe or a device; else an
    :class:`InputError`."""
    plain = Path(path)
    # the working folder and the root have no name to lengthen
    for found in (plain, plain.with_name(plain.name + ".gz")) if plain.name else ():
        if found.is_file():
            return found
    if plain.is_dir():
        message, remedy = "is a folder, a file is needed", "name a file in it"
    elif not plain.exists():
        message, remedy = "no such file", "check the path"
    elif pipes:
        return plain
    else:
        message, remedy = "is a pipe or a device, a file is needed", "write what it gives to a file"
    raise InputError(message, path=path, remedy=remedy)


def standard_input() -> BinaryIO:
    """The bytes of standard input; raises :class:`InputError` where it is closed."""
    # None where it was closed before Python began
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise InputError("standard input is closed", remedy="name a file, or write to standard input")
    return stdin.buffer


def input_size(path: str | PathLike[str]) -> int:
    """Bytes on disk at and below ``path``; what cannot be looked at is left out."""
    size = 0
    for file in (Path(path), *Path(path).rglob("*")):
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def text_encoding(encoding: str) -> str:
    """Python's name of an encoding in which a file can be read line by line; :class:`ConfigError` for another one."""
    try:
        name = lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise ConfigError(f"unknown encoding {encoding!r}", remedy="give one such as utf-8 or latin-1") from error
    with suppress(LookupError, ValueError):
        lined = not name.replace("_", "-").startswith(_NO_LINES)
        if name.startswith(_WIDE) or (lined and _PLAIN.decode(name) == _PLAIN.decode("ascii")):
            return name
    raise ConfigError(f"encoding {encoding!r} cannot be read line by line", remedy="convert the file to UTF-8")


class LineFile:
    r"""The lines of a file, plain or gzip, one at a time, decoded, without line ends.

    A line ends with ``\n`` or ``\r\n``, and with ``\r`` where the file has no ``\n``: otherwise a ``\r`` is part of a
    cell and read as a blank. A line that cannot be decoded, or is longer than ``longest``, is counted as a bad
    row and left out. A file is read as long as it was when it was opened. Memory grows neither with the file nor with
    a line. :class:`InputError` where a file is missing, unreadable, empty, cut off, no text, UTF-16 and not said to be,
    or too much of it is bad.

    Args:
        path: the file, or what to call ``stream``, which is read instead.
        problems: where bad rows are counted.
        encoding: what the user says of the file; UTF-8 when nobody could say.
        pipes: whether ``path`` may be a pipe or a device.
        universal: a ``\r`` always ends a line, as in a list that is no table.
        may_be_empty: an empty file is no error.
        ended: every line has a line end, so that a last one without it is cut off.

    Attributes:
        no_rows: lines so far that hold no row: those of a header, empty ones, further lines of a row.
        rows: number of the line given last, those without a row included.
        cut: whether that line has no line end, which is so only at the end of a file.
        grew: whether the file grew while it was read.
        wrong: why the bad line that is counted now cannot be decoded; ``None`` where it can.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        problems: Problems,
        *,
        stream: BinaryIO | None = None,
        encoding: str | None = None,
        pipes: bool = False,
        universal: bool = False,
        may_be_empty: bool = False,
        ended: bool = False,
        longest: int | None = None,
    ) -> None:
        self._given = encoding is not None
        self._encoding = text_encoding(encoding or "utf-8")
        self._wide = self._encoding.startswith(_WIDE)
        self._inner = "utf-8" if self._wide else self._encoding
        self.path = existing_file(path, pipes=pipes) if stream is None else Path(path)
        self.problems, self.may_be_empty, self._longest = problems, may_be_empty, longest or LONGEST_LINE
        self.no_rows, self.rows, self.cut, self.grew = 0, 0, False, False
        self.wrong: UnicodeDecodeError | None = None
        self._stream, self._universal, self._ended = stream, universal, ended

    def bad(self, kind: str, line: int, detail: str = "") -> None:
        self.problems.bad_row(kind, self.path, line, detail, min(line, self.rows) - self.no_rows)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Line numbers, from 1, and lines."""
        for first, lines in self.in_bulk():
            # whoever asks for the number of rows asks for those so far
            for self.rows, text in enumerate(lines, first):
                yield self.rows, text

    def in_bulk(self) -> Iterator[tuple[int, list[str]]]:
        """As by iteration, many lines at a time: the number of the first, and lines that follow each other."""
        with self._open() as stream:
            yield from self._texts(stream)
        self._check_empty(not self.rows)
        if self.grew:
            self.problems.notes.append(f"{self.path}: the file grew while it was read; what came later is left out")
        self.problems.rows += self.rows - self.no_rows
        self.problems.judge(self.path, self.rows - self.no_rows)

    def text(self) -> str:
        """The whole file as one text."""
        with self._open() as stream:
            raw = b"".join(self._blocks(stream))
        self._check_empty(not raw.strip())
        if (at := raw.find(0)) >= 0:
            raise self.refused(f"is no text: byte {at + 1} is NUL", _AS_TEXT)
        try:
            return raw.decode(self._inner).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            remedy = _NAME_IT if self._given else UTF8_REMEDY
            raise self.refused(f"byte {error.start + 1} is not {error.encoding.upper()}", remedy) from error

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, unpacked, a part at a time, for a parser of its own."""
        empty = True
        with self._open() as stream:
            for block in self._blocks(stream):
                empty = empty and not block.strip()
                yield block
        self._check_empty(empty)

    def refused(self, message: str, remedy: str, line: int | None = None) -> InputError:
        """What to raise of this file."""
        return InputError(message, path=self.path, line=line, remedy=remedy)

    def cut_off(self, message: str) -> None:
        """Refuse the last line, which is not whole, by an :class:`InputError`, unless every bad row is tolerated."""
        if self.problems.max_bad_share < 1:
            remedy = "fetch, unpack or export the file again"
            raise self.refused(f"the last line is cut off{message}", remedy, self.rows)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with open(self.path, "rb") if self._stream is None else nullcontext(self._stream) as stream:
                yield stream
        except (EOFError, zlib.error) as error:
            message = f"the compressed file is damaged or cut off after line {self.rows}: {error}"
            raise self.refused(message, "fetch or compress it again") from error
        except OSError as error:
            raise self.refused(f"cannot be read: {error.strerror or error}", "check the file and its rights") from error

    def _check_empty(self, empty: bool) -> None:
        if empty and not self.may_be_empty:
            raise self.refused("the file is empty", "fetch or export it again")

    def _texts(self, stream: BinaryIO) -> Iterator[tuple[int, list[str]]]:
        for raws, ended in self._split(stream):
            try:
                lines = b"\n".join(raws).decode(self._inner) if ended else None  # type: ignore[arg-type]  # too long: None
            except (TypeError, UnicodeDecodeError):
                lines = None
            if lines is None:
                yield from self._one_by_one(raws, ended)
                continue
            first = self.rows + 1
            self.rows += len(raws)
            self.cut = False
            yield first, _without_mark(lines, first).replace("\r", " ").split("\n")

    def _one_by_one(self, raws: list[bytes | None], ended: bool) -> Iterator[tuple[int, list[str]]]:
        """Lines of which one is bad, or the last of a file: a bad one is counted behind those before it."""
        good: list[str] = []
        for raw in raws:
            found, detail, self.wrong = "", "", None
            if raw is None:
                found = f"longer than {self._longest:,} bytes"
            elif self.grew and not ended:
                found = "cut off, the file was still being written"
            else:
                try:
                    good.append(_without_mark(raw.decode(self._inner).replace("\r", " "), self.rows + 1))
                except UnicodeDecodeError as error:
                    found = f"not {self._inner.upper()}, see encoding=..." if self._given else BAD_BYTES
                    detail = f"byte {error.start + 1} of the line is not {self._inner.upper()}"
                    self.wrong = error
            if found and good:
                yield self.rows - len(good) + 1, good
                good = []
            self.rows += 1
            self.cut = not ended
            if self.cut and self._ended:
                self.cut_off(": it has no line end")
            if found:
                self.bad(found, self.rows, detail)
        if good:
            yield self.rows - len(good) + 1, good

    def _split(self, stream: BinaryIO) -> Iterator[tuple[list[bytes | None], bool]]:
        """Some lines at a time, ``None`` for one that is too long, and whether they have a line end."""
        held, dropped, universal = b"", False, True if self._universal else None
        for block in self._blocks(stream):
            held += block
            # the first line end tells which they are; a \r at the end may be half of one
            if universal is None and (b"\n" in held or b"\r" in held[:-1]):
                universal = b"\n" not in held
            # the second half of a \r\n may be in the next block
            half = b"\r" if held.endswith(b"\r") else b""
            if universal:
                held = held.removesuffix(half).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + half
            returns = b"\r" in held
            *parts, held = held.split(b"\n")
            lines: list[bytes | None] = list(parts)
            if returns or len(max(parts, key=len, default=b"")) > self._longest:
                lines = [line.removesuffix(b"\r") if len(line) <= self._longest else None for line in parts]
            if lines:
                if dropped:
                    lines[0], dropped = None, False
                yield lines, True
            if dropped or len(held) > self._longest:
                held, dropped = half, True
        if held or dropped:
            yield [None if dropped else held.removesuffix(b"\r")], universal is not False and held.endswith(b"\r")

    def _blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """The bytes of the input, unpacked; those of an encoding with wide line ends as UTF-8."""
        blocks = self._raw(stream)
        first = next(blocks, b"")
        if first.startswith(_GZIP):
            blocks = _unpacked(first, blocks)
            first = next(blocks, b"")
        blocks = chain(filter(None, [first]), blocks)
        for begins, message, remedy in _NO_TEXT:
            if begins.match(first):
                raise self.refused(message, remedy)
        if not self._wide:
            self._refuse_wide(first)
            yield from blocks
            return
        decoder = getincrementaldecoder(self._encoding)()
        try:
            # half a character waits for the next block
            yield from (decoder.decode(block).encode() for block in blocks)
            if not self.grew:
                decoder.decode(b"", True)
        except UnicodeError as error:  # of UTF-16 without its mark it is no other kind
            raise self.refused(f"is not {self._encoding.upper()}", _NAME_IT) from error

    def _raw(self, stream: BinaryIO) -> Iterator[bytes]:
        """The bytes of the input as they are, up to where a file ended when it was opened."""
        status = _file_status(stream)
        rest = None if status is None else status.st_size - stream.tell()
        while block := stream.read(_BLOCK if rest is None else max(0, min(_BLOCK, rest))):
            if rest is not None:
                rest -= len(block)
            if self.problems.progress:
                self.problems.progress(len(block))
            self.grew = status is not None and os.fstat(stream.fileno()).st_size > status.st_size
            yield block

    def _refuse_wide(self, block: bytes) -> None:
        marked = block.startswith((b"\xff\xfe", b"\xfe\xff"))
        low, high = block[1::2].count(0), block[::2].count(0)
        if not block or not (marked or 4 * (low + high) >= len(block)):
            return
        found = "is" if marked else "has the NUL bytes of"
        wide = "utf-16" if marked else f"utf-16-{'le' if low >= high else 'be'}"
        remedy = f'add encoding="{wide}"' if self._given else UTF8_REMEDY.replace("ISO-8859-1", wide.upper())
        raise self.refused(f"{found} UTF-16, {'' if marked else 'is '}not {self._encoding.upper()}", remedy, 1)


def _without_mark(text: str, line: int) -> str:
    return text.removeprefix("\ufeff") if line == 1 else text  # a byte order mark


def _unpacked(block: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip packed; several packed files may stand one behind the other."""
    unpack, begun = zlib.decompressobj(wbits=31), False
    while block:
        while block := block if begun else block.lstrip(b"\0"):
            begun = True
            # a little may unpack to very much
            if text := unpack.decompress(block, _BLOCK):
                yield text
            block = unpack.unconsumed_tail
            if unpack.eof:
                block, unpack, begun = unpack.unused_data, zlib.decompressobj(wbits=31), False
        block = next(blocks, b"")
    if begun:
        raise EOFError("it ends before its end mark")


def _file_status(stream: BinaryIO) -> os.stat_result | None:
    """What the system says of a file on a disk, ``None`` for a stream without an end to foresee."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) and status.st_size else None
