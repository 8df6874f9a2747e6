"""What is said of a mention: all of it as JSON lines, and one flat row for CSV, Parquet and databases."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from medlink.errors import needs_extra
from medlink.files.atomic import whole_file
from medlink.files.escapes import visible
from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note
from medlink.notes.writers.base import Job, TextWriter, note_name
from medlink.records import attributed, qualified, valued

COLUMNS: dict[str, type] = {
    "note": str, "start": int, "end": int, "text": str, "language": str, "concept_id": str, "preferred_name": str,
    "score": float, "status": str, "presence": str, "temporality": str, "experiencer": str, "section": str,
    "attributes": list, "value": str, "same_as": list, "presumed": list, "expanded": str, "codes": list, "bundle": str,
}  # fmt: skip
"""The columns and the kind of each; lists are lists in Parquet and JSON elsewhere, ``value`` is JSON everywhere."""
LISTS: dict[str, dict[str, type] | type] = {
    "attributes": {"start": int, "end": int, "text": str, "kind": str, "concept_id": str, "name": str},
    "same_as": str,
    "presumed": str,
    "codes": {"system": str, "code": str, "type": str},
}
"""What the lists of the columns hold: records with these fields, or texts."""
_GROUP = 65_536  # rows of a group of Parquet, which readers take in at once


def whole(note: Note, language: str, mention: LinkedMention, bundle: str, versions: dict[str, Any]) -> dict[str, Any]:
    """All that is said of a mention, as plain data: what a row has, all candidates, and what the link depends on."""
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
        **qualified(mention.qualifiers),
        **attributed(mention.attributes),
        **valued(mention.value),
        "same_as": list(best.same_as) if best else [],
        "presumed": list(best.presumed) if best else [],
        "expanded": link.expanded,
        "codes": [{"system": one.system, "code": one.code, "type": one.type} for one in mention.codes],
        "candidates": [candidate.to_dict() for candidate in link.candidates],
        "versions": versions,
        "bundle": bundle,
    }


def row(note: Note, language: str, mention: LinkedMention, bundle: str) -> dict[str, Any]:
    """The row of a mention, columns as in :data:`COLUMNS`; ``None`` for what there is not."""
    found = whole(note, language, mention, bundle, {})
    if found["value"] is not None:
        found["value"] = json.dumps(found["value"], ensure_ascii=False)
    return {name: found[name] for name in COLUMNS}


def flat(one: dict[str, Any]) -> dict[str, Any]:
    """A row with its lists as JSON."""
    return {k: json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for k, v in one.items()}


def csv_line(values: Iterable[Any]) -> str:
    r"""One line of CSV without its end; a cell with a comma, a quote or any line end stands in quotes."""
    held = StringIO()
    # with this line end both of its characters are quoted
    csv.writer(held, lineterminator="\r\n").writerow(values)
    return held.getvalue()[:-2]


class JsonLinesWriter(TextWriter):
    """Note, offsets, language, concept, score, status, attributes, value, candidates, and what the link depends on."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        for one in mentions:
            yield visible(json.dumps(whole(note, language, one, self.bundle, self.versions), ensure_ascii=False))


class CsvWriter(TextWriter):
    """One row for each mention; empty cells are what there is not, lists are JSON."""

    header = csv_line(COLUMNS)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        return (csv_line(flat(row(note, language, one, self.bundle)).values()) for one in mentions)


class ParquetWriter(TextWriter):
    """One row for each mention, lists as lists.

    A Parquet file ends with its index, and nothing can be added to one: until all is there the rows are JSON lines in
    the unfinished file, which goes on after a kill as any other.
    """

    is_file = True

    def open(self, job: Job) -> int:
        """Begin or go on; ConfigError where pyarrow is not installed."""
        self._schema = _schema()  # before any note is linked
        return super().open(job)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        return (json.dumps(row(note, language, one, self.bundle), ensure_ascii=False) for one in mentions)

    def place(self, part: Path, out: Path) -> None:
        with needs_extra("parquet", "writing Parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

        with (
            part.open(encoding="utf-8", newline="\n") as lines,
            whole_file(out, private=True) as file,
            pq.ParquetWriter(file, self._schema, compression="zstd") as writer,
        ):
            while rows := [json.loads(line) for line in islice(lines, _GROUP)]:
                writer.write_table(pa.Table.from_pylist(rows, schema=self._schema), row_group_size=_GROUP)


def _schema() -> Any:
    with needs_extra("parquet", "writing Parquet"):
        import pyarrow as pa
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64()}

    def kind(of: Any) -> Any:
        return pa.struct([(name, plain[one]) for name, one in of.items()]) if isinstance(of, dict) else plain[of]

    return pa.schema([(name, pa.list_(kind(LISTS[name])) if of is list else plain[of]) for name, of in COLUMNS.items()])
