"""Lines of a term list: decoded one by one from a file as it stood when it was opened."""

from __future__ import annotations

import os
import stat
from codecs import IncrementalDecoder, getincrementaldecoder, lookup
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from medlink.errors import ConfigError, InputError

SHOWN = 5
"""Lines that could not be used and are named."""
LONGEST_LINE = 1 << 20
"""Bytes of the longest line that is looked at; of a longer one nothing is kept."""
_BLOCK = 1 << 16
_WIDE = ("utf-16", "utf-32")  # a line end is not one byte there
# these decode bytes into text that nobody wrote, or carry a state from line to line
_NO_LINES = ("hz", "idna", "iso2022", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
_PLAIN = b'azAZ09\t,;"\r\n'


@dataclass(slots=True)
class Left:
    """Lines that were left out, by reason."""

    path: str
    lines: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def out(self, reason: str, line: int) -> None:
        """Count a line that is left out; the first few are named."""
        shown = self.lines.setdefault(reason, [])
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(shown) < SHOWN:
            shown.append(line)

    def notes(self) -> list[str]:
        """What was left out, for a reader."""
        return [
            f"{self.path}: lines left out: {self.counts[reason]}, {reason} (line {', '.join(map(str, lines))}"
            + (" ...)" if self.counts[reason] > len(lines) else ")")
            for reason, lines in sorted(self.lines.items())
        ]


def text_encoding(encoding: str) -> str:
    """Python's name of an encoding in which a file can be read line by line.

    Raises:
        ConfigError: there is no such encoding, or it is none of lines of text.

    >>> text_encoding("UTF8"), text_encoding("latin-1")
    ('utf-8', 'iso8859-1')
    """
    try:
        name = lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise ConfigError(f"unknown encoding {encoding!r}", remedy="give one such as utf-8 or latin-1") from error
    if name.startswith(_WIDE):
        return name
    try:
        plain = not name.replace("_", "-").startswith(_NO_LINES) and _PLAIN.decode(name) == _PLAIN.decode("ascii")
    except (LookupError, ValueError):
        plain = False
    if not plain:
        raise ConfigError(f"encoding {encoding!r} cannot be read line by line", remedy="convert the file to UTF-8")
    return name


class Lines:
    """Lines of one input, without their ends.

    A line ends with ``\\n``, ``\\r\\n`` or ``\\r``; in a table with ``\\r`` only where the file has no ``\\n``, for a
    cell may hold a ``\\r``, which is then a blank. Memory does not grow with the input nor with a line.

    Args:
        stream: the input.
        path: what to call it.
        encoding: as :func:`text_encoding` gives it.
        table: whether it is a table.
        progress: called with the bytes taken in since the last call.

    Attributes:
        left: lines that were left out.
        line: number of the line given last.
        grew: whether the file grew while it was read.
    """

    def __init__(
        self, stream: BinaryIO, path: str, encoding: str, table: bool, progress: Callable[[int], object] | None
    ) -> None:
        self.path, self.table = path, table
        self.left = Left(path)
        self.line = 0
        self.grew = False
        self._stream, self._encoding, self._progress = stream, encoding, progress
        self._wide = encoding.startswith(_WIDE)

    def __iter__(self) -> Iterator[str]:
        encoding = "utf-8" if self._wide else self._encoding
        for raw, ended in self._split():
            self.line += 1
            if raw is None:
                self.left.out(f"longer than {LONGEST_LINE:,} bytes", self.line)
                continue
            if self.grew and not ended:
                self.left.out("cut off, the file was still being written", self.line)
                continue
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError:
                self.left.out(f"not {encoding.upper()}, see --encoding", self.line)
                continue
            # universal line ends have left no \r where a line may not hold one
            text = text.replace("\r", " ")
            yield text.removeprefix("\ufeff") if self.line == 1 else text

    def notes(self) -> list[str]:
        """What was left out of the file, and whether it grew."""
        grown = [f"{self.path}: the file grew while it was read; what came later is left out"] if self.grew else []
        return self.left.notes() + grown

    def _split(self) -> Iterator[tuple[bytes | None, bool]]:
        """Lines, ``None`` for one that is too long, and whether they have a line end."""
        held, dropped, universal = b"", False, None
        for block in self._blocks():
            if universal is None:
                universal = not self.table or (b"\n" not in block and b"\r" in block)
            held += block
            # the second half of a \r\n may be in the next block
            half = b"\r" if held.endswith(b"\r") else b""
            if universal:
                held = held.removesuffix(half).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + half
            *lines, held = held.split(b"\n")
            for line in lines:
                yield None if dropped or len(line) > LONGEST_LINE else line.removesuffix(b"\r"), True
                dropped = False
            if dropped or len(held) > LONGEST_LINE:
                held, dropped = half, True
        if held or dropped:
            yield None if dropped else held.removesuffix(b"\r"), bool(universal) and held.endswith(b"\r")

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the input; those of an encoding with wide line ends as UTF-8."""
        status = _file_status(self._stream)
        rest = None if status is None else status.st_size - self._stream.tell()
        decoder = getincrementaldecoder(self._encoding)() if self._wide else None
        first = True
        while block := self._stream.read(_BLOCK if rest is None else max(0, min(_BLOCK, rest))):
            if rest is not None:
                rest -= len(block)
            if self._progress:
                self._progress(len(block))
            self.grew = status is not None and os.fstat(self._stream.fileno()).st_size > status.st_size
            if first and decoder is None:
                self._refuse_wide(block)
            first = False
            yield block if decoder is None else self._narrow(decoder, block)
        if decoder is not None and not self.grew:
            self._narrow(decoder, b"", final=True)

    def _narrow(self, decoder: IncrementalDecoder, block: bytes, *, final: bool = False) -> bytes:
        """A block as UTF-8; half a character waits for the next."""
        try:
            return decoder.decode(block, final).encode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"is not {self._encoding.upper()}", path=self.path, remedy="name its encoding with --encoding"
            ) from error

    def _refuse_wide(self, block: bytes) -> None:
        """Refuse UTF-16 that is read as something else, with or without its mark."""
        if block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(
                f"is UTF-16, not {self._encoding.upper()}", path=self.path, line=1, remedy="add --encoding utf-16"
            )
        low, high = block[1::2].count(0), block[::2].count(0)
        if 4 * (low + high) >= len(block):
            raise InputError(
                f"has the NUL bytes of UTF-16, is not {self._encoding.upper()}",
                path=self.path,
                line=1,
                remedy=f"add --encoding utf-16-{'le' if low >= high else 'be'}",
            )


def _file_status(stream: BinaryIO) -> os.stat_result | None:
    """What the system says of a file on a disk, ``None`` for a stream without an end to foresee."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
