"""Record of bad and skipped rows: counts by kind, and the file and line of the first few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike

from medlink.errors import ConfigError, InputError

MAX_EXAMPLES = 5
"""Bad rows that are recorded with file and line."""
MIN_BAD_ROWS = 10
"""Fewer bad rows in one file do not stop a load, unless they are more than half of it or the allowed share is 0."""
EARLY_CHECK_ROWS = 10_000
"""From this row on the share of bad rows is checked while reading, not only at the end of the file."""
BAD_BYTES = "bad bytes"
"""Kind of rows that are not UTF-8, when the encoding was not given."""
UTF8_REMEDY = "give the file as UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8 FILE"


def pluralize(number: int, what: str) -> str:
    """Return a count with its noun, such as ``1,234 notes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


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
        max_bad_share: share of bad rows in one file above which :class:`InputError` stops the load. Fewer than
            ``MIN_BAD_ROWS`` bad rows do not stop it, unless they are more than half of the file or the share is 0; 1
            tolerates everything, a truncated last line too.
        progress: called with the number of bytes read from disk since the last call.
        adjustable: whether the user can set the share, which the remedy then mentions.

    Attributes:
        bad, skipped: bad rows by kind; rows left out on purpose (filters, suppressed, inactive) by reason.
        examples, lines: the first ``MAX_EXAMPLES`` bad rows; line numbers of as many of each kind.
        notes: remarks for the user, such as a missing optional file.
        rows: data rows seen in all files.
        position: file and line of the current record, if the reader sets it.
    """

    def __init__(
        self, max_bad_share: float = 0.01, progress: Callable[[int], object] | None = None, *, adjustable: bool = True
    ) -> None:
        if not 0 <= max_bad_share <= 1:
            raise ConfigError(f"max_bad_share is {max_bad_share}", remedy="give a share between 0 and 1")
        self.max_bad_share, self.progress, self.adjustable = max_bad_share, progress, adjustable
        self.bad, self.skipped = Counter[str](), Counter[str]()
        self.examples: list[Problem] = []
        self.lines: dict[str, list[int]] = {}
        self.notes: list[str] = []
        self.rows = 0
        self.position: tuple[str | PathLike[str], int] | None = None
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

    def summary_lines(self) -> Iterator[str]:
        """Yield lines on the bad rows, a remedy, and the rows left out on purpose."""
        for kind, count in sorted(self.bad.items()):
            first = next((example for example in self.examples if example.kind == kind), None)
            where = "" if first is None else f", the first at {first.path}:{first.line}"
            yield f"rows that cannot be used: {count} ({kind}{where})"
        if BAD_BYTES in self.bad:
            yield UTF8_REMEDY
        for reason, count in sorted(self.skipped.items()):
            yield f"rows left out: {count} ({reason})"

    def check_bad_share(self, path: str | PathLike[str], rows: int) -> None:
        """Raise :class:`InputError` if too many of the ``rows`` read from ``path`` are bad."""
        if str(path) not in self._in_file:
            return
        kinds, first = self._in_file[str(path)]
        bad = kinds.total()
        # a short list with bad bytes in most rows is in another encoding, so its other rows are useless too
        tolerated = bad < MIN_BAD_ROWS and 2 * bad <= rows and self.max_bad_share > 0
        if tolerated or bad <= self.max_bad_share * rows:
            return
        parts = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
        remedy = "mend or fetch the file again" + (", or raise max_bad_share" if self.adjustable else "")
        if BAD_BYTES in kinds:
            remedy = UTF8_REMEDY if first.kind == BAD_BYTES else f"{remedy}; {UTF8_REMEDY}"
        raise InputError(
            f"{bad} of {rows} rows cannot be used ({parts}), more than the share of {self.max_bad_share:g} allowed; "
            f"the first: {first.kind}" + (f" ({first.detail})" if first.detail else ""),
            path=path,
            line=first.line,
            remedy=remedy,
        )
