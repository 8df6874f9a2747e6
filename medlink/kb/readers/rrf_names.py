"""Rows of MRCONSO, thousands at a time, as concepts, names and codes.

What becomes of a row depends on its source, language, term type and standing. Combinations of these (*kinds*) are far
fewer than rows, and each is looked at once. The rest is done by column.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import compress
from pathlib import Path
from typing import Any

from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import MAX_RANK, Batch, RankedName
from medlink.records import Concept, Mapping


@dataclass(frozen=True, slots=True, eq=False)
class NameKind:
    """What becomes of the rows of one kind.

    Attributes:
        source: their source.
        tag: their language, ``None`` where it is none that is known.
        number: a number for the language.
        left_out: why they are left out, ``""`` where they are not.
        no_name: why they give no name all the same.
        is_concept: whether their CUI is a concept, also where a filter leaves out its names.
        type: type of the names.
        rank: rank of the names, lower is better.
    """

    source: str
    tag: str | None
    number: int = 0
    left_out: str = ""
    no_name: str = ""
    is_concept: bool = True
    type: str = ""
    rank: int = 0


class NameKinds(dict[tuple[str, ...], NameKind]):
    """The kinds met so far, by the cells that make them."""

    def __init__(self, judge: Callable[..., NameKind]) -> None:
        super().__init__()
        self._judge = judge
        self.foreign = False

    def __missing__(self, cells: tuple[str, ...]) -> NameKind:
        kind = self[cells] = self._judge(*cells)
        self.foreign = self.foreign or kind.tag is None
        return kind


@dataclass(slots=True)
class NameRows:
    """Rows that were read and are still to become records, by column."""

    path: Path
    cui: list[str] = field(default_factory=list)
    kinds: list[NameKind] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, chosen: Sequence[bool], *columns: Sequence[object]) -> None:
        """Take in the chosen of some rows."""
        for column, more in zip(self._columns(), columns, strict=True):
            column.extend(compress(more, chosen))

    def extend(self, more: NameRows) -> None:
        """Take in rows that follow."""
        for column, cells in zip(self._columns(), more._columns(), strict=True):
            column.extend(cells)

    def whole(self) -> NameRows:
        """The rows of all concepts but the last, of which more may come; they are taken out."""
        cut = len(self.cui)
        while cut and self.cui[cut - 1] == self.cui[-1]:
            cut -= 1
        first = NameRows(
            self.path, self.cui[:cut], self.kinds[:cut], self.code[:cut], self.text[:cut], self.lines[:cut]
        )
        for column in self._columns():
            del column[:cut]
        return first

    def _columns(self) -> tuple[list[Any], ...]:
        return self.cui, self.kinds, self.code, self.text, self.lines

    def batches(self, umls: str) -> Iterator[Batch]:
        """Concepts of the source ``umls``, their names and their codes."""
        import numpy as np

        if not self.cui:
            return
        new = np.fromiter(map(str.__ne__, self.cui, ["", *self.cui[:-1]]), bool, len(self.cui))
        run, starts = np.cumsum(new) - 1, np.flatnonzero(new)
        is_concept = np.logical_or.reduceat([kind.is_concept for kind in self.kinds], starts)
        firsts = starts[is_concept].tolist()
        ids = [self.cui[place] for place in firsts]
        yield self._batch(Concept, firsts, ids, [umls] * len(ids))
        named = [place for place, kind in enumerate(self.kinds) if not kind.no_name]
        if named:
            kinds = [self.kinds[place] for place in named]
            ranks = [kind.rank for kind in kinds]
            group = run[named] << 16 | np.array([kind.number for kind in kinds])
            rank = np.array(ranks)
            # of each concept and language the first with the lowest rank
            order = np.lexsort((rank, group))
            order = order[rank[order] < MAX_RANK]
            best = np.zeros(len(named), bool)
            best[order[np.flatnonzero(np.diff(group[order], prepend=-1))]] = True
            yield self._batch(
                RankedName,
                named,
                [self.cui[place] for place in named],
                [self.text[place] for place in named],
                [kind.tag for kind in kinds],
                [kind.type for kind in kinds],
                [kind.source for kind in kinds],
                best.tolist(),
                ranks,
            )
        alive = is_concept[run].tolist()
        coded = [at for at, code in enumerate(self.code) if code and code != "NOCODE" and alive[at]]
        runs = run.tolist()
        keys = [(runs[at], self.code[at], self.kinds[at].source) for at in coded]
        # of each code of a concept the first row
        firsts_of: dict[tuple[int, str, str], int] = dict(zip(reversed(keys), reversed(coded), strict=True))
        once = sorted(firsts_of.values()) if len(firsts_of) < len(keys) else coded
        sources = [self.kinds[place].source for place in once]
        codes = [self.code[place] for place in once]
        yield self._batch(
            Mapping, once, [self.cui[place] for place in once], sources, codes, ["code"] * len(once), sources
        )

    def _batch(self, kind: type, places: list[int], *columns: Sequence[object]) -> Batch:
        return Batch(kind, columns, self.path, [self.lines[place] for place in places])


def judged(lines: LineFile, kinds: NameKinds, numbers: Sequence[int], columns: list[list[str]]) -> NameRows:
    """Rows of the kinds that are not left out; bad rows, and those left out, are counted.

    Args:
        lines: the file.
        kinds: what becomes of rows.
        numbers: the lines of the rows.
        columns: CUI, code, name, and the cells that make a kind, of which the first is the language.
    """
    bad: list[tuple[int, str, str]] = []
    if "" in columns[0] or "" in columns[2]:
        good = [bool(cui and text) for cui, text in zip(columns[0], columns[2], strict=True)]
        bad += [(number, "empty id or name", "") for number, one in zip(numbers, good, strict=True) if not one]
        numbers, columns = list(compress(numbers, good)), [list(compress(column, good)) for column in columns]
    cui, code, text, *cells = columns
    found = list(map(kinds.__getitem__, zip(*cells, strict=True)))
    if kinds.foreign:
        foreign = [kind.tag is None for kind in found]
        bad += [(numbers[at], "unknown language", repr(cells[0][at])[:40]) for at, one in enumerate(foreign) if one]
    for number, reason, detail in sorted(bad):
        lines.bad(reason, number, detail)
    count_kinds(found, lines.problems)
    rows = NameRows(lines.path)
    rows.add([kind.tag is not None and not kind.left_out for kind in found], cui, found, code, text, numbers)
    return rows


def count_kinds(found: Sequence[NameKind], problems: Problems) -> None:
    """Count the rows that are left out, or give no name."""
    for kind, count in Counter(found).items():
        reason = kind.left_out or kind.no_name
        if reason and kind.tag is not None:
            problems.skipped[reason] += count


@cache
def _marks() -> tuple[list[str], re.Pattern[str]]:
    data = json.loads((resources.files("medlink") / "resources/kb/umls_marks.json").read_text("utf-8"))
    marks: dict[str, str] = data["marks"]
    return list(marks), re.compile("|".join(f"({pattern})" for pattern in marks.values()), re.MULTILINE)


def count_marks(texts: Sequence[str], counts: Counter[str]) -> None:
    """Count the names with something that their source adds, such as a tag; the first of them counts."""
    names, pattern = _marks()
    counts.update(names[(found.lastindex or 1) - 1] for found in pattern.finditer("\n".join(texts)))
