"""Record of bad and skipped rows: counts by kind, and the file and line of the first few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike

from medlink.errors import ConfigError, InputError

MAX_EXAMPLES = 5
"""Bad rows that are recorded with file and line."""
MAX_ODD_ROWS = 9
"""Up to this number, bad rows in a file of a release do not stop a load, unless they are more than half of the file."""
EARLY_CHECK_ROWS = 10_000
"""From this row on, the share of bad rows is checked while reading, not only at the end of the file."""
_MAX_SAMPLE = 10_000  # undecoded bytes that are kept
_USUAL_MARKS = frozenset("äöüßÄÖÜáéíóúñÁÉÍÓÚÑçèàêëïô¿¡µ°§–„“”’€")
_BEYOND_ASCII = bytes(range(128, 256))


def pluralize(number: int, what: str) -> str:
    """Return a count with its noun, such as ``1,234 notes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def likely_encoding(data: bytes) -> str:
    """Guess the encoding of German, Spanish or English text from its letters beyond ASCII.

    >>> [likely_encoding("Müdigkeit, año, ß".encode(name)) for name in ("latin-1", "cp1252", "cp850", "utf-8")]
    ['cp1252', 'cp1252', 'cp850', 'utf-8']
    """
    if is_utf8(data):
        return "utf-8"
    return max(("cp1252", "cp850"), key=lambda name: sum(mark in _USUAL_MARKS for mark in data.decode(name, "ignore")))


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8 and not ASCII; ignore a letter that is cut off at the end."""
    whole = data.rstrip(_BEYOND_ASCII)
    try:
        return not whole.isascii() and bool(whole.decode())
    except UnicodeDecodeError:
        return False


def encoding_remedy(encoding: str, *, is_option: bool) -> str:
    """Return how to read a file that is probably in an encoding; ``is_option``: the caller has a parameter for it."""
    if is_option:
        return f'name its encoding, probably encoding="{encoding}"'
    return f"give the file as UTF-8, for example: iconv -f {encoding.upper()} -t UTF-8 FILE"


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad row: its kind, file, line and detail."""

    kind: str
    path: str
    line: int
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}" + (f" ({self.detail})" if self.detail else "")


class Problems:
    """Bad and skipped rows of one input.

    Args:
        max_bad_share: share of bad rows in one file above which :class:`InputError` stops the load; 1 tolerates
            everything, even a truncated last line.
        max_odd_rows: up to this number, bad rows in one file do not stop the load if all of them can be decoded, they
            are at most half of the file, and ``max_bad_share`` is not 0.
        progress: called with the number of bytes read from disk since the last call.
        adjustable: whether the user can set the share; the remedy then mentions it.
        remedy: what to do about a file with too many bad rows.

    Attributes:
        bad, skipped: bad rows by kind; rows left out on purpose (filters, suppressed, inactive) by reason.
        examples, lines: the first ``MAX_EXAMPLES`` bad rows; line numbers of the first rows of each kind.
        notes: remarks for the user, such as a missing optional file.
        rows: data rows seen in all files.
        position: file and line of the current record, if the reader sets it.
    """

    def __init__(
        self,
        max_bad_share: float = 0.01,
        progress: Callable[[int], object] | None = None,
        *,
        max_odd_rows: int = MAX_ODD_ROWS,
        adjustable: bool = True,
        remedy: str = "correct or fetch the file again",
    ) -> None:
        if not 0 <= max_bad_share <= 1:
            raise ConfigError(f"max_bad_share is {max_bad_share}", remedy="give a share between 0 and 1")
        self.max_bad_share, self.progress, self.adjustable = max_bad_share, progress, adjustable
        self._max_odd_rows, self._remedy = max_odd_rows, remedy
        self.bad, self.skipped, self.rows = Counter[str](), Counter[str](), 0
        self.examples, self.lines, self.notes = list[Problem](), dict[str, list[int]](), list[str]()
        self.position: tuple[str | PathLike[str], int] | None = None
        self._undecoded, self._undecoded_kinds, self._is_option = bytearray(), set[str](), False
        # by file: bad rows by kind, and the first one
        self._in_file: dict[str, tuple[Counter[str], Problem]] = {}

    def bad_row(self, kind: str, path: str | PathLike[str], line: int, detail: str = "", rows: int = 0) -> None:
        """Count a bad row; ``rows`` is the number of rows read from its file. Raises like :meth:`check_bad_share`."""
        problem = Problem(kind, str(path), line, detail)
        self.bad[kind] += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(problem)
        if len(self.lines.setdefault(kind, [])) < MAX_EXAMPLES:
            self.lines[kind].append(line)
        self._in_file.setdefault(problem.path, (Counter(), problem))[0][kind] += 1
        if rows >= EARLY_CHECK_ROWS or self.max_bad_share == 0:
            self.check_bad_share(path, max(rows, 1))

    def add_undecoded(self, kind: str, line: bytes, *, is_option: bool) -> None:
        """Remember a line that cannot be decoded, a bad row of this ``kind``, to guess its encoding."""
        self._undecoded_kinds.add(kind)
        self._is_option = is_option
        self._undecoded += line[: _MAX_SAMPLE - len(self._undecoded)]

    def is_undecoded(self, path: str | PathLike[str], line: int) -> bool:
        """Return whether a line is among the first bad lines and cannot be decoded."""
        bad = (problem for problem in self.examples if (problem.path, problem.line) == (str(path), line))
        return any(problem.kind in self._undecoded_kinds for problem in bad)

    @property
    def encoding_remedy(self) -> str:
        """How to read the lines that cannot be decoded, ``""`` if there are none."""
        encoding = likely_encoding(bytes(self._undecoded))
        return encoding_remedy(encoding, is_option=self._is_option) if self._undecoded else ""

    def summary_lines(self) -> Iterator[str]:
        """Yield lines on the bad rows, a remedy, and the rows left out on purpose."""
        for kind, count in sorted(self.bad.items()):
            first = next((example for example in self.examples if example.kind == kind), None)
            where = "" if first is None else f", the first at {first.path}:{first.line}"
            yield f"rows that cannot be used: {count} ({kind}{where})"
        if self.encoding_remedy:
            yield self.encoding_remedy
        for reason, count in sorted(self.skipped.items()):
            yield f"rows left out: {count} ({reason})"

    def check_bad_share(self, path: str | PathLike[str], rows: int) -> None:
        """Raise :class:`InputError` if too many of the ``rows`` read from ``path`` are bad."""
        if str(path) not in self._in_file:
            return
        kinds, first = self._in_file[str(path)]
        bad, is_undecoded = kinds.total(), not self._undecoded_kinds.isdisjoint(kinds)
        few = not is_undecoded and bad <= self._max_odd_rows and 2 * bad <= rows and self.max_bad_share > 0
        if few or bad <= self.max_bad_share * rows:
            return
        parts = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
        remedy = self._remedy + (", or raise max_bad_share" if self.adjustable else "")
        if is_undecoded:
            remedy = (f"{remedy}; " if first.kind not in self._undecoded_kinds else "") + self.encoding_remedy
        raise InputError(
            f"{bad} of {rows} rows cannot be used ({parts}), more than the share of {self.max_bad_share:g} allowed; "
            f"the first: {first.kind}" + (f" ({first.detail})" if first.detail else ""),
            path=path,
            line=first.line,
            remedy=remedy,
        )
