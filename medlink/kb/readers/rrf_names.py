"""Conversion of thousands of MRCONSO rows at a time to concepts, names and codes.

Each combination of source, language, term type and status (a *kind*) is classified once; rows are processed by column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.files.streams import LineFile
from medlink.kb.readers.common import MAX_RANK, Batch, RankedName
from medlink.records import Concept, Mapping


@dataclass(frozen=True, slots=True, eq=False)
class NameKind:
    """Conversion of the rows of one kind.

    Attributes:
        source, type, rank: those of the names; a lower rank is better.
        tag, number: language, ``None`` for an unknown one, and its number.
        skip_reason: why the rows are skipped, or ``""``.
        not_a_name: why they give no name although their CUI counts, or ``""``.
        is_concept: the CUI is a concept, even if a filter skips its names.
    """

    source: str
    tag: str | None
    number: int = 0
    skip_reason: str = ""
    not_a_name: str = ""
    is_concept: bool = True
    type: str = ""
    rank: int = 0


@dataclass(slots=True)
class NameRows:
    """Rows that are not yet converted to records, by column."""

    path: Path
    cui: list[str] = field(default_factory=list)
    kinds: list[NameKind] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def extend(self, more: NameRows) -> None:
        """Append the next rows of the file."""
        for column, cells in zip(self._columns(), more._columns(), strict=True):
            column.extend(cells)

    def take_complete(self) -> NameRows:
        """Remove and return the rows of all concepts but the last, which may have more rows."""
        cut = len(self.cui)
        while cut and self.cui[cut - 1] == self.cui[-1]:
            cut -= 1
        first = NameRows(self.path, *(column[:cut] for column in self._columns()))
        for column in self._columns():
            del column[:cut]
        return first

    def _columns(self) -> tuple[list[Any], ...]:
        return self.cui, self.kinds, self.code, self.text, self.lines

    def batches(self, umls: str) -> Iterator[Batch]:
        """Yield the concepts, with the source ``umls``, their names and their codes."""
        import numpy as np

        if not self.cui:
            return
        new = np.fromiter(map(str.__ne__, self.cui, ["", *self.cui[:-1]]), bool, len(self.cui))
        run, starts = np.cumsum(new) - 1, np.flatnonzero(new)
        is_concept = np.logical_or.reduceat([kind.is_concept for kind in self.kinds], starts)
        firsts = starts[is_concept].tolist()
        ids = [self.cui[index] for index in firsts]
        yield self._batch(Concept, firsts, ids, [umls] * len(ids))
        named = [index for index, kind in enumerate(self.kinds) if not kind.not_a_name]
        if named:
            kinds = [self.kinds[index] for index in named]
            ranks = [kind.rank for kind in kinds]
            group = run[named] << 16 | np.array([kind.number for kind in kinds])
            rank = np.array(ranks)
            # best: the first row of the lowest rank of each concept and language
            order = np.lexsort((rank, group))
            order = order[rank[order] < MAX_RANK]
            best = np.zeros(len(named), bool)
            best[order[np.flatnonzero(np.diff(group[order], prepend=-1))]] = True
            texts = [[column[index] for index in named] for column in (self.cui, self.text)]
            by_kind = zip(*((kind.tag, kind.type, kind.source) for kind in kinds), strict=True)
            yield self._batch(RankedName, named, *texts, *by_kind, best.tolist(), ranks)
        alive = is_concept[run].tolist()
        coded = [index for index, code in enumerate(self.code) if code and code != "NOCODE" and alive[index]]
        runs = run.tolist()
        keys = [(runs[index], self.code[index], self.kinds[index].source) for index in coded]
        # the first row of each code of a concept
        first_rows: dict[tuple[int, str, str], int] = dict(zip(reversed(keys), reversed(coded), strict=True))
        once = sorted(first_rows.values()) if len(first_rows) < len(keys) else coded
        sources = [self.kinds[index].source for index in once]
        ids, codes = ([column[index] for index in once] for column in (self.cui, self.code))
        yield self._batch(Mapping, once, ids, sources, codes, ["code"] * len(once), sources)

    def _batch(self, kind: type, indices: list[int], *columns: Sequence[object]) -> Batch:
        return Batch(kind, columns, self.path, [self.lines[index] for index in indices])


def select_name_rows(
    lines: LineFile, classify: Callable[..., NameKind], numbers: Sequence[int], columns: list[list[str]]
) -> NameRows:
    """Return the rows whose kind is not skipped; count bad and skipped rows.

    ``columns`` are CUI, code, name, and the cells that determine a kind, beginning with the language.
    """
    bad: list[tuple[int, str, str]] = []
    if "" in columns[0] or "" in columns[2]:
        good = [bool(cui and text) for cui, text in zip(columns[0], columns[2], strict=True)]
        bad += [(number, "empty id or name", "") for number, is_good in zip(numbers, good, strict=True) if not is_good]
        numbers, columns = list(compress(numbers, good)), [list(compress(column, good)) for column in columns]
    cui, code, text, *cells = columns
    row_kinds = list(map(classify, *cells))
    counts = Counter(row_kinds)
    if any(kind.tag is None for kind in counts):
        unknown = [index for index, kind in enumerate(row_kinds) if kind.tag is None]
        bad += [(numbers[index], "unknown language", repr(cells[0][index])[:40]) for index in unknown]
    for number, reason, detail in sorted(bad):
        lines.bad_row(reason, number, detail)
    for kind, count in counts.items():
        reason = kind.skip_reason or kind.not_a_name
        if reason and kind.tag is not None:
            lines.problems.skipped[reason] += count
    chosen = [kind.tag is not None and not kind.skip_reason for kind in row_kinds]
    selected: list[list[Any]] = [list(compress(column, chosen)) for column in (cui, row_kinds, code, text, numbers)]
    return NameRows(lines.path, *selected)


@cache
def _marks() -> tuple[list[str], re.Pattern[str]]:
    data = read_json(RESOURCES / "kb" / "umls_marks.json")
    marks: dict[str, str] = data["marks"]
    return list(marks), re.compile("|".join(f"({pattern})" for pattern in marks.values()), re.MULTILINE)


def count_marks(texts: Sequence[str], counts: Counter[str]) -> None:
    """Count the names with a mark of their source, such as a tag; only the first mark of a name counts."""
    names, pattern = _marks()
    counts.update(names[(match.lastindex or 1) - 1] for match in pattern.finditer("\n".join(texts)))
