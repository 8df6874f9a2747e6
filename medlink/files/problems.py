"""What could not be used of a file: counted by kind, with the first few named by file and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike

from medlink.errors import ConfigError, InputError

EXAMPLES = 5
"""How many bad rows are kept with file and line."""
GRACE = 10
"""Fewer bad rows than this in one file do not stop a load, unless they are more than half or the share is 0."""
EARLY = 10_000
"""After this many rows the share is judged while reading, not only at the end of the file."""
BAD_BYTES = "bad bytes"
"""Kind of the rows that are not UTF-8, where nobody can say what else they are."""
UTF8_REMEDY = "give the file as UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8 FILE"


def counted(number: int, what: str) -> str:
    """A number of things, such as ``1,234 notes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad row: what was wrong with it and where it stands."""

    kind: str
    path: str
    line: int
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}" + (f" ({self.detail})" if self.detail else "")


class Problems:
    """What went wrong, and what was left out on purpose, while one input was read.

    Args:
        max_bad_share: share of bad rows in one file above which :class:`InputError` stops the load. Fewer than
            ``GRACE`` bad rows do not stop it, except when they are more than half of the file or the share is 0; 1
            tolerates everything, a last line that is cut off too.
        adjustable: whether the user can set the share, which the remedy then says.
        progress: called with the number of bytes taken in from disk since the last call.

    Attributes:
        bad, skipped: bad rows by kind; rows left out on purpose (filters, suppressed, inactive) by reason.
        examples, lines: the first ``EXAMPLES`` bad rows; line numbers of as many of each kind.
        notes: remarks for the user, such as an optional file that is not there.
        rows: data rows seen in all files.
        at: file and line of what was read last, where the reader says so.
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
        self.at: tuple[str | PathLike[str], int] | None = None
        # by file: its bad rows by kind, and the first of them
        self._in_file: dict[str, tuple[Counter[str], Problem]] = {}

    def bad_row(self, kind: str, path: str | PathLike[str], line: int, detail: str = "", rows: int = 0) -> None:
        """Count one bad row; ``rows`` is how many of its file were seen so far. Raises as :meth:`judge` does."""
        problem = Problem(kind, str(path), line, detail)
        self.bad[kind] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(problem)
        if len(self.lines.setdefault(kind, [])) < EXAMPLES:
            self.lines[kind].append(line)
        self._in_file.setdefault(problem.path, (Counter(), problem))[0][kind] += 1
        if rows >= EARLY or self.max_bad_share == 0:
            self.judge(path, max(rows, 1))

    def left_out(self) -> Iterator[str]:
        """Lines that say which rows could not be used, what helps, and which were left out on purpose."""
        for kind, count in sorted(self.bad.items()):
            first = next((one for one in self.examples if one.kind == kind), None)
            where = "" if first is None else f", the first at {first.path}:{first.line}"
            yield f"rows that cannot be used: {count} ({kind}{where})"
        if BAD_BYTES in self.bad:
            yield UTF8_REMEDY
        for reason, count in sorted(self.skipped.items()):
            yield f"rows left out: {count} ({reason})"

    def judge(self, path: str | PathLike[str], rows: int) -> None:
        """Raise :class:`InputError` when too large a share of the ``rows`` seen in ``path`` is bad."""
        if str(path) not in self._in_file:
            return
        kinds, first = self._in_file[str(path)]
        bad = kinds.total()
        # a short list with bad bytes in most of its rows is in another encoding, and the rest would be of no use
        tolerated = bad < GRACE and 2 * bad <= rows and self.max_bad_share > 0
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
