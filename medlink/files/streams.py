"""Reading text files: plain or gzip, decoded line by line, with line numbers."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from codecs import getincrementaldecoder, lookup
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BytesIO
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TextIO

from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems, encoding_remedy, likely_encoding
from medlink.files.workbooks import is_workbook, read_sheet

MAX_LINE_BYTES = 1 << 20
"""A longer line is a bad row, and is not kept in memory."""
_BLOCK_BYTES = 1 << 18
_ENCODING_SAMPLE_BYTES = 1 << 22
_GZIP_MAGIC = b"\x1f\x8b"
_AS_TEXT = "save its text as plain text in UTF-8, or leave it out"
_AS_CSV = "save a spreadsheet as CSV in UTF-8, another document as plain text, and unpack what is zipped"
_UNPACK = "unpack it; only gzip files are read as they are"
_NAME_ENCODING = "name its encoding with encoding=..."
_NAME_TEXT_FILE = "name the file that holds the text"
# signatures of files that are not text, with the message and the remedy
_SIGNATURES = (
    # .xlsx, .docx, .odt and other zip files; .xls, .doc
    (rb"PK\x03\x04|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a spreadsheet, a document or a zip file, not text", _AS_CSV),
    (rb"%PDF-|\{\\rtf", "is PDF or RTF, not plain text", "save it as plain text in UTF-8"),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*", "is a picture, not text", _AS_TEXT),
    (rb".{128}DICM|RIFF.{4}(WEBP|WAVE)", "is a picture or a sound, not text", _AS_TEXT),
    (rb"BZh|\xfd7zXZ\0|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x28\xb5\x2f\xfd", "is compressed, not text", _UNPACK),
    (rb"SQLite format 3\0", "is an SQLite database, not text", _NAME_TEXT_FILE),
    (rb"\x7fELF|\xca\xfe\xba\xbe", "is a program, not text", _NAME_TEXT_FILE),
)
_WIDE = ("utf-16", "utf-32")  # encodings in which a line end is several bytes
# encodings that decode bytes to other text, or carry state from line to line
_STATEFUL = ("hz", "idna", "iso2022", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
_ASCII_SAMPLE = b'azAZ09\t,;"\r\n'


def existing_file(path: str | PathLike[str], *, allow_pipes: bool = False) -> Path:
    """Return ``path``, or ``path`` with ``.gz`` appended, whichever is a file.

    With ``allow_pipes``, also accepts a named pipe or a device. Raises :class:`InputError` for anything else.
    """
    plain = Path(path)
    # the working folder and the root have no name to extend
    for candidate in (plain, plain.with_name(plain.name + ".gz")) if plain.name else ():
        if candidate.is_file():
            return candidate
    if plain.is_dir():
        message, remedy = "is a folder, a file is needed", "name a file in it"
    elif not plain.exists():
        message, remedy = "no such file", "check the path"
    elif allow_pipes:
        return plain
    else:
        message, remedy = "is a pipe or a device, a file is needed", "write its content to a file"
    raise InputError(message, path=path, remedy=remedy)


def standard_input() -> BinaryIO:
    """Return standard input as a binary stream; raises :class:`InputError` if it is closed."""
    # None if it was closed before Python began
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise InputError("standard input is closed", remedy="name a file, or write to standard input")
    return stdin.buffer


def input_size(path: str | PathLike[str]) -> int:
    """Return the size in bytes of a file, or of all files in a folder; unreadable files count 0."""
    size = 0
    for file in (Path(path), *Path(path).rglob("*")):
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def resolve_encoding(encoding: str) -> str:
    """Return Python's name of an encoding; raises :class:`ConfigError` if a file cannot be read line by line in it."""
    try:
        name = lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise ConfigError(f"unknown encoding {encoding!r}", remedy="give one such as utf-8 or latin-1") from error
    with suppress(LookupError, ValueError):
        stateless = not name.replace("_", "-").startswith(_STATEFUL)
        if name.startswith(_WIDE) or (stateless and _ASCII_SAMPLE.decode(name) == _ASCII_SAMPLE.decode("ascii")):
            return name
    raise ConfigError(f"encoding {encoding!r} cannot be read line by line", remedy="convert the file to UTF-8")


def choose_encoding(path: str | PathLike[str], first: str, second: str) -> str:
    """Return the first of two encodings, or the second if most non-ASCII lines at the beginning of a file are not in
    the first.
    """
    sample = b""
    for block in LineFile(path, Problems(1.0), allow_empty=True).iter_blocks():
        sample += block
        if len(sample) > _ENCODING_SAMPLE_BYTES:
            break
    lines, decodable = [line for line in sample.split(b"\n") if not line.isascii()], 0
    for line in lines:
        with suppress(UnicodeDecodeError):
            decodable += bool(line.decode(first))
    return second if 2 * decodable < len(lines) else first


class LineFile:
    r"""Lines of a plain or gzip file, decoded, without line ends.

    A line ends with ``\n`` or ``\r\n``; in a file without ``\n`` it ends with ``\r``. Any other ``\r`` becomes a blank.
    Lines that cannot be decoded or are too long are bad rows. A growing file is read up to its size at the start.
    Memory grows neither with the file nor with a line.

    Args:
        path: the file, or the name of ``stream``, which is then read instead.
        problems: where bad rows are counted.
        encoding: the encoding that the user gave; UTF-8 by default.
        allow_pipes: ``path`` may be a named pipe or a device.
        universal_newlines: ``\r`` always ends a line.
        allow_empty: accept an empty file.
        require_line_end: a last line without a line end is truncated.
        max_line_bytes: length of the longest line, ``MAX_LINE_BYTES`` by default.

    Attributes:
        lines_without_row: lines so far that hold no row: header lines, empty lines, continuation lines.
        rows: number of the last line.
        unterminated: whether the last line has no line end; set at the end of the file.
        grew: whether the file grew while it was read.
        encoding: encoding of the blocks; wide characters are recoded to UTF-8.
        remarks: remarks on a workbook.
        decode_error: why the current bad line cannot be decoded, ``None`` if it can.

    Raises:
        InputError: the file is missing, unreadable, empty, truncated, not text, in undeclared UTF-16, or has too many
            bad rows.
    """

    reads_workbooks = True
    """Whether a file .xlsx is read as the lines of its first sheet."""

    def __init__(
        self,
        path: str | PathLike[str],
        problems: Problems,
        *,
        stream: BinaryIO | None = None,
        encoding: str | None = None,
        allow_pipes: bool = False,
        universal_newlines: bool = False,
        allow_empty: bool = False,
        require_line_end: bool = False,
        max_line_bytes: int | None = None,
    ) -> None:
        self._encoding_given = encoding is not None
        self._encoding = resolve_encoding(encoding or "utf-8")
        self._wide = self._encoding.startswith(_WIDE)
        self.encoding = "utf-8" if self._wide else self._encoding
        self.remarks = list[str]()
        self.path = existing_file(path, allow_pipes=allow_pipes) if stream is None else Path(path)
        if stream is None and self.reads_workbooks and is_workbook(self.path):
            sheet, self.remarks = read_sheet(self.path)
            stream, self._encoding, self._wide, self.encoding = BytesIO(sheet), "utf-8", False, "utf-8"
            remarks = (f"{self.path}: {remark}" for remark in self.remarks)
            problems.notes += (remark for remark in remarks if remark not in problems.notes)
        self.problems, self.allow_empty = problems, allow_empty
        self._max_line_bytes = max_line_bytes or MAX_LINE_BYTES
        self.lines_without_row, self.rows, self.unterminated, self.grew = 0, 0, False, False
        self.decode_error: UnicodeDecodeError | None = None
        self._stream, self._universal, self._require_line_end = stream, universal_newlines, require_line_end

    def bad_row(self, kind: str, line: int, detail: str = "") -> None:
        self.problems.bad_row(kind, self.path, line, detail, min(line, self.rows) - self.lines_without_row)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for first, lines in self.iter_chunks():
            # self.rows must be right after each line
            for self.rows, text in enumerate(lines, first):
                yield self.rows, text

    def iter_chunks(self) -> Iterator[tuple[int, list[str]]]:
        """Yield many consecutive lines at a time, with the number of the first."""
        with self._open() as stream:
            yield from self._decoded(stream)
        self._check_empty(not self.rows)
        if self.grew:
            self.problems.notes.append(f"{self.path}: the file grew while it was read; what came later is left out")
        self.problems.rows += self.rows - self.lines_without_row
        self.problems.check_bad_share(self.path, self.rows - self.lines_without_row)

    def read_text(self) -> str:
        with self._open() as stream:
            raw = b"".join(self._text_blocks(stream))
        self._check_empty(not raw.strip())
        if (index := raw.find(0)) >= 0:
            raise self.error(f"is not text: byte {index + 1} is NUL", _AS_TEXT)
        try:
            return raw.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            remedy = encoding_remedy(likely_encoding(raw), is_option=self._encoding_given)
            raise self.error(f"byte {error.start + 1} is not {error.encoding.upper()}", remedy) from error

    def iter_blocks(self) -> Iterator[bytes]:
        empty = True
        with self._open() as stream:
            for block in self._text_blocks(stream):
                empty = empty and not block.strip()
                yield block
        self._check_empty(empty)

    def error(self, message: str, remedy: str, line: int | None = None) -> InputError:
        return InputError(message, path=self.path, line=line, remedy=remedy)

    def report_truncated(self, detail: str = "") -> None:
        """Raise :class:`InputError` for a truncated last line, unless all bad rows are tolerated."""
        if self.problems.max_bad_share < 1:
            remedy = "fetch, unpack or export the file again"
            raise self.error(f"the last line is cut off{detail}", remedy, self.rows)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with open(self.path, "rb") if self._stream is None else nullcontext(self._stream) as stream:
                yield stream
        except (EOFError, zlib.error) as error:
            message = f"the compressed file is damaged or cut off after line {self.rows}: {error}"
            raise self.error(message, "fetch or compress it again") from error
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}", "check the file and its rights") from error

    def _check_empty(self, empty: bool) -> None:
        if empty and not self.allow_empty:
            raise self.error("the file is empty", "fetch or export it again")

    def _decoded(self, stream: BinaryIO) -> Iterator[tuple[int, list[str]]]:
        for raws, ended in self._split(stream):
            try:
                lines = b"\n".join(raws).decode(self.encoding) if ended else None  # type: ignore[arg-type]  # too long: None
            except (TypeError, UnicodeDecodeError):
                lines = None
            if lines is None:
                yield from self._decoded_singly(raws, ended)
                continue
            first = self.rows + 1
            self.rows += len(raws)
            self.unterminated = False
            yield first, _without_bom(lines, first).replace("\r", " ").split("\n")

    def _decoded_singly(self, raws: list[bytes | None], ended: bool) -> Iterator[tuple[int, list[str]]]:
        """Decode lines one by one: one of them is bad or the last; count a bad row after the preceding lines."""
        good: list[str] = []
        for raw in raws:
            kind, detail, self.decode_error = "", "", None
            if raw is None:
                kind = f"longer than {self._max_line_bytes:,} bytes"
            elif self.grew and not ended:
                kind = "cut off, the file was still being written"
            else:
                try:
                    good.append(_without_bom(raw.decode(self.encoding).replace("\r", " "), self.rows + 1))
                except UnicodeDecodeError as error:
                    kind = f"not {self.encoding.upper()}"
                    self.problems.add_undecoded(kind, raw, is_option=self._encoding_given)
                    detail = f"byte {error.start + 1} of the line is not {self.encoding.upper()}"
                    self.decode_error = error
            if kind and good:
                yield self.rows - len(good) + 1, good
                good = []
            self.rows += 1
            self.unterminated = not ended
            if self.unterminated and self._require_line_end:
                self.report_truncated(": it has no line end")
            if kind:
                self.bad_row(kind, self.rows, detail)
        if good:
            yield self.rows - len(good) + 1, good

    def _split(self, stream: BinaryIO) -> Iterator[tuple[list[bytes | None], bool]]:
        """Yield raw lines, ``None`` for a line that is too long, and whether they have a line end."""
        rest, dropped, universal = b"", False, True if self._universal else None
        for block in self._text_blocks(stream):
            rest += block
            # the first line end decides; a \r at the end of the block may be half of \r\n
            if universal is None and (b"\n" in rest or b"\r" in rest[:-1]):
                universal = b"\n" not in rest
            half = b"\r" if rest.endswith(b"\r") else b""
            if universal:
                rest = rest.removesuffix(half).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + half
            returns = b"\r" in rest
            *parts, rest = rest.split(b"\n")
            lines: list[bytes | None] = list(parts)
            if returns or len(max(parts, key=len, default=b"")) > self._max_line_bytes:
                lines = [line.removesuffix(b"\r") if len(line) <= self._max_line_bytes else None for line in parts]
            if lines:
                if dropped:
                    lines[0], dropped = None, False
                yield lines, True
            if dropped or len(rest) > self._max_line_bytes:
                rest, dropped = half, True
        if rest or dropped:
            yield [None if dropped else rest.removesuffix(b"\r")], universal is not False and rest.endswith(b"\r")

    def _text_blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield decompressed bytes; UTF-16 and UTF-32 are converted to UTF-8."""
        blocks = self._raw_blocks(stream)
        first = next(blocks, b"")
        if first.startswith(_GZIP_MAGIC):
            blocks = _decompressed(first, blocks)
            first = next(blocks, b"")
        blocks = chain(filter(None, [first]), blocks)
        for signature, message, remedy in _SIGNATURES:
            if re.match(signature, first, re.DOTALL):
                raise self.error(message, remedy)
        if not self._wide:
            self._check_not_utf16(first)
            yield from blocks
            return
        decoder = getincrementaldecoder(self._encoding)()
        try:
            yield from (decoder.decode(block).encode() for block in blocks)
            if not self.grew:
                decoder.decode(b"", True)
        except UnicodeError as error:  # not UnicodeDecodeError for UTF-16 without a byte order mark
            raise self.error(f"is not {self._encoding.upper()}", _NAME_ENCODING) from error

    def _raw_blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the bytes of the input, up to the end that a file had when it was opened."""
        status: os.stat_result | None = None
        with suppress(OSError):
            status = os.fstat(stream.fileno())
        if status is not None and not (stat.S_ISREG(status.st_mode) and status.st_size):
            status = None  # of unknown length
        left = None if status is None else status.st_size - stream.tell()
        while block := stream.read(_BLOCK_BYTES if left is None else max(0, min(_BLOCK_BYTES, left))):
            if left is not None:
                left -= len(block)
            if self.problems.progress:
                self.problems.progress(len(block))
            self.grew = status is not None and os.fstat(stream.fileno()).st_size > status.st_size
            yield block

    def _check_not_utf16(self, block: bytes) -> None:
        marked = block.startswith((b"\xff\xfe", b"\xfe\xff"))
        low, high = block[1::2].count(0), block[::2].count(0)
        if not block or not (marked or 4 * (low + high) >= len(block)):
            return
        verb = "is" if marked else "has the NUL bytes of"
        wide = "utf-16" if marked else f"utf-16-{'le' if low >= high else 'be'}"
        remedy = f'add encoding="{wide}"' if self._encoding_given else encoding_remedy(wide, is_option=False)
        raise self.error(f"{verb} UTF-16, {'' if marked else 'is '}not {self._encoding.upper()}", remedy, 1)


def _without_bom(text: str, line: int) -> str:
    return text.removeprefix("\ufeff") if line == 1 else text  # a byte order mark


def _decompressed(block: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    decompressor, begun = zlib.decompressobj(wbits=31), False
    while block:
        while block := block if begun else block.lstrip(b"\0"):
            begun = True
            # limited, since a small block may decompress to a huge one
            if text := decompressor.decompress(block, _BLOCK_BYTES):
                yield text
            block = decompressor.unconsumed_tail
            if decompressor.eof:
                block, decompressor, begun = decompressor.unused_data, zlib.decompressobj(wbits=31), False
        block = next(blocks, b"")
    if begun:
        raise EOFError("it ends before its end mark")
