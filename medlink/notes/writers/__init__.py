"""Writers: what becomes of the links of notes. A new output format is a class of this folder, and a line in _FORMATS.

``base`` has what formats that are lines of text or folders have in common, ``rows`` what is said of a mention. ``sql``
writes to the address of a database.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from medlink.errors import ConfigError
from medlink.notes.database import is_address
from medlink.notes.options import OutputOptions
from medlink.notes.pipeline import LinkedMention
from medlink.notes.writers.base import Failures, FolderWriter, Job, TextWriter, Writer
from medlink.notes.writers.fhir import FhirWriter
from medlink.notes.writers.folders import BratWriter, DocBinWriter
from medlink.notes.writers.note_nlp import NoteNlpWriter
from medlink.notes.writers.rows import CsvWriter, JsonLinesWriter, ParquetWriter
from medlink.notes.writers.sql import SqlWriter

__all__ = ["Failures", "FolderWriter", "Job", "JsonLinesWriter", "LinkedMention", "TextWriter", "Writer", "writer"]
_NLP = "note_nlp"
_FORMATS: dict[str, Callable[[str | Path | None], Writer]] = {
    "brat": BratWriter,
    "csv": CsvWriter,
    "docbin": DocBinWriter,
    "fhir": FhirWriter,
    "jsonl": JsonLinesWriter,
    "parquet": ParquetWriter,
}
# what has none of these is JSON lines
_ENDINGS = {".csv": "csv", ".fhir.ndjson": "fhir", ".parquet": "parquet"}


def writer(out: str | Path | None, options: OutputOptions) -> Writer:
    """The writer of an output: a file, a folder, the address of a database, or ``None`` for standard output.

    Raises:
        ConfigError: options do not go together.
    """
    place = "" if out is None else str(out).lower()
    asked = options.format
    if options.date is not None and asked != _NLP:
        raise ConfigError("date is for the format note_nlp alone", remedy="leave date out, or give format note_nlp")
    if is_address(place):
        if asked not in (None, _NLP):
            raise ConfigError(f"a table cannot be {asked}", remedy="leave format out, or give note_nlp")
        return SqlWriter(str(out), options.out_table, is_nlp=asked == _NLP, day=options.date)
    if options.out_table is not None:
        raise ConfigError("out_table needs a database", remedy="give the address of one with out, or leave it out")
    if asked == _NLP:
        return NoteNlpWriter(out, options.date)
    by_ending = next((name for ending, name in _ENDINGS.items() if place.endswith(ending)), "jsonl")
    return _FORMATS[asked or by_ending](out)
