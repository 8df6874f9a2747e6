"""Rows of mentions: complete as JSON lines, and flat for CSV, Parquet and databases."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from medlink.errors import needs_extra
from medlink.files.atomic import atomic_writer
from medlink.files.escapes import escape_controls
from medlink.notes.reading import Note
from medlink.notes.writers.base import Job, TextWriter, note_name
from medlink.records import LinkedMention

COLUMNS: dict[str, type] = {
    "note": str, "start": int, "end": int, "text": str, "language": str, "concept_id": str, "preferred_name": str,
    "score": float, "status": str, "presence": str, "temporality": str, "experiencer": str, "section": str,
    "relative": str, "onset_age": int, "allergy": bool, "attributes": list, "value": str, "same_as": list,
    "presumed": list, "expanded": str, "codes": list, "bundle": str,
}  # fmt: skip
"""Columns and their types. Lists are lists in Parquet and JSON elsewhere; ``value`` is JSON everywhere."""
LISTS: dict[str, dict[str, type] | type] = {
    "attributes": {"start": int, "end": int, "text": str, "kind": str, "concept_id": str, "name": str},
    "same_as": str,
    "presumed": str,
    "codes": {"system": str, "code": str, "type": str},
}
"""Elements of the list columns: records with these fields, or texts."""
_GROUP = 65_536  # rows of a row group of Parquet


def mention_record(
    note: Note, language: str, mention: LinkedMention, bundle: str, versions: dict[str, Any]
) -> dict[str, Any]:
    """Return a mention as plain data: its row, all candidates, and the versions that the link depends on."""
    link = mention.link
    best = None if link.nil else link.candidates[0]
    return {
        "note": note_name(note),
        "start": mention.start,
        "end": mention.end,
        "text": link.mention,
        "language": language,
        "concept_id": link.concept_id,
        "preferred_name": best.preferred_name if best else None,
        "score": best.score if best else None,
        "nil": link.nil,
        "status": link.status,
        **mention.readings(),
        "same_as": list(best.same_as) if best else [],
        "presumed": list(best.presumed) if best else [],
        "expanded": link.expanded,
        "codes": [{"system": mapping.system, "code": mapping.code, "type": mapping.type} for mapping in mention.codes],
        "candidates": [candidate.to_dict() for candidate in link.candidates],
        "versions": versions,
        "bundle": bundle,
    }


def mention_row(note: Note, language: str, mention: LinkedMention, bundle: str) -> dict[str, Any]:
    """Return the row of a mention with the columns :data:`COLUMNS`; ``None`` for missing values."""
    record = mention_record(note, language, mention, bundle, {})
    if record["value"] is not None:
        record["value"] = json.dumps(record["value"], ensure_ascii=False)
    return {name: record[name] for name in COLUMNS}


def flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its lists as JSON."""
    return {k: json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for k, v in row.items()}


def csv_line(values: Iterable[Any]) -> str:
    """Return one line of CSV without line end; quotes cells with a comma, a quote or a line end."""
    line = StringIO()
    # csv quotes cells with a character of this line end
    csv.writer(line, lineterminator="\r\n").writerow(values)
    return line.getvalue()[:-2]


class JsonLinesWriter(TextWriter):
    """One JSON object for each mention, with all candidates and the versions that the link depends on."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        records = (mention_record(note, language, mention, self.bundle, self.versions) for mention in mentions)
        return (escape_controls(json.dumps(record, ensure_ascii=False)) for record in records)


class CsvWriter(TextWriter):
    """One row for each mention; missing values are empty cells, lists are JSON."""

    header = csv_line(COLUMNS)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        return (csv_line(flatten(mention_row(note, language, mention, self.bundle)).values()) for mention in mentions)


class ParquetWriter(TextWriter):
    """One row for each mention, with list columns.

    A Parquet file ends with its index, so rows cannot be appended. The unfinished file holds JSON lines, which a killed
    run can resume.
    """

    is_file = True

    def open(self, job: Job) -> int:
        """Begin or resume; raises ConfigError without pyarrow."""
        self._schema = _schema()  # fail before linking
        return super().open(job)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        rows = (mention_row(note, language, mention, self.bundle) for mention in mentions)
        return (json.dumps(row, ensure_ascii=False) for row in rows)

    def finish(self, part: Path, out: Path) -> None:
        with needs_extra("parquet", "writing Parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

        with (
            part.open(encoding="utf-8", newline="\n") as lines,
            atomic_writer(out, private=True) as file,
            pq.ParquetWriter(file, self._schema, compression="zstd") as writer,
        ):
            while rows := [json.loads(line) for line in islice(lines, _GROUP)]:
                writer.write_table(pa.Table.from_pylist(rows, schema=self._schema), row_group_size=_GROUP)


def _schema() -> Any:
    with needs_extra("parquet", "writing Parquet"):
        import pyarrow as pa
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}

    def element(of: Any) -> Any:
        return pa.struct([(name, plain[own]) for name, own in of.items()]) if isinstance(of, dict) else plain[of]

    columns = ((name, pa.list_(element(LISTS[name])) if of is list else plain[of]) for name, of in COLUMNS.items())
    return pa.schema(columns)
