"""Parquet: one row for each mention, lists as lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from medlink.errors import needs_extra
from medlink.files.whole import whole_file
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention
from medlink.notes.writers.rows import COLUMNS, row
from medlink.notes.writers.text import TextWriter

_GROUP = 65_536  # rows of a group, which readers take in at once


class ParquetWriter(TextWriter):
    """The columns of :data:`~medlink.notes.writers.rows.COLUMNS`.

    A Parquet file ends with its index, and nothing can be added to one: until all is there the rows are JSON lines in
    the unfinished file, which goes on after a kill as any other.
    """

    is_file = True

    def open(self, job: Job) -> int:
        """Begin or go on; ConfigError where pyarrow is not installed."""
        self._schema = _schema()  # before any note is linked
        return super().open(job)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Rows of one note, as JSON."""
        return (json.dumps(row(note, language, one, self.bundle), ensure_ascii=False) for one in mentions)

    def place(self, part: Path, out: Path) -> None:
        """Make the file of the rows, a group at a time."""
        with needs_extra("parquet", "writing Parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        with (
            part.open(encoding="utf-8", newline="\n") as lines,
            whole_file(out) as file,
            pq.ParquetWriter(file, self._schema, compression="zstd") as writer,
        ):
            while rows := [json.loads(line) for line in islice(lines, _GROUP)]:
                writer.write_table(pa.Table.from_pylist(rows, schema=self._schema), row_group_size=_GROUP)


def _schema() -> Any:
    with needs_extra("parquet", "writing Parquet"):
        import pyarrow as pa
    text = pa.string()
    attribute = {"start": pa.int64(), "end": pa.int64(), "text": text, "kind": text, "concept_id": text, "name": text}
    lists = {
        "attributes": pa.struct(list(attribute.items())),
        "same_as": text,
        "presumed": text,
        "codes": pa.struct([("system", text), ("code", text), ("type", text)]),
    }
    plain = {str: text, int: pa.int64(), float: pa.float64()}
    columns = [(name, pa.list_(lists[name]) if kind is list else plain[kind]) for name, kind in COLUMNS.items()]
    return pa.schema(columns)
