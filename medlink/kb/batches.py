"""Many records of one kind at a time, by column: how the readers of large releases hand them over.

To make an object of each row takes longer than to read and to store it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medlink.records import Record


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one kind, in the order in which they were read.

    Attributes:
        kind: their class.
        columns: the fields of the class, in its order, each with the values of all records.
        path: the file that they were read from.
        lines: their lines in it.
    """

    kind: type[Record]
    columns: tuple[Sequence[Any], ...]
    path: Path
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        return map(self.kind, *self.columns)


def one_by_one(records: Iterable[Record | Batch]) -> Iterator[Record]:
    """The records of a stream that has batches among them."""
    for record in records:
        if isinstance(record, Batch):
            yield from record.records()
        else:
            yield record
