"""Notes as Parquet: one row a note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from medlink.errors import InputError, needs_extra
from medlink.files.problems import counted
from medlink.notes.readers.protocol import Fields, Note, NoteFile, as_note, no_column

_BATCH = 256  # rows that are in memory
_BUFFER = 1 << 20


def read(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """The notes of a file; of its columns only the three that are named are read."""
    with needs_extra("parquet", "reading Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    remedy = "write it again with pyarrow, pandas or Spark"
    try:
        # not all of a row group at once
        with pq.ParquetFile(file.path, buffer_size=_BUFFER, pre_buffer=False) as table:
            found = table.schema_arrow.names
            if fields.text not in found:
                raise no_column(fields.text, "text", counted(len(found), "column"))
            columns = list(dict.fromkeys(name for name in fields.named().values() if name in found))
            size, rows = file.path.stat().st_size, max(table.metadata.num_rows, 1)
            number = 0
            for batch in table.iter_batches(_BATCH, columns=columns):
                for at in range(len(batch)):
                    number += 1
                    yield _note(batch, at, f"{file.given}:{number}", fields)
                if file.problems.progress is not None:
                    file.problems.progress(size * len(batch) // rows)
    except pa.ArrowException as error:
        # the message may hold values
        raise InputError(f"is no Parquet file, or is damaged ({type(error).__name__})", remedy=remedy) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or type(error).__name__}", remedy=remedy) from error


def _note(batch: Any, at: int, place: str, fields: Fields) -> Note:
    try:
        return as_note({name: batch.column(name)[at].as_py() for name in batch.schema.names}, place, fields)
    except UnicodeDecodeError:
        return Note(place, problem="not UTF-8", remedy="write the file again: text in Parquet is UTF-8")
