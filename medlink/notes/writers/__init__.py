"""Writers of links.

A new format is a class in a file of this folder, and a line in ``FORMATS`` of :mod:`medlink.notes.options`.
``base`` has the base classes of text and folder formats, and ``rows`` has the rows of mentions; ``sql`` writes to a
database.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from medlink.errors import ConfigError
from medlink.files.atomic import format_of_ending
from medlink.notes.database import is_database_address
from medlink.notes.options import FORMATS, OutputOptions
from medlink.notes.writers.base import Failures, FolderWriter, Job, TextWriter, Writer
from medlink.notes.writers.rows import JsonLinesWriter
from medlink.notes.writers.sql import SqlWriter
from medlink.records import LinkedMention

__all__ = [
    "Failures",
    "FolderWriter",
    "Job",
    "JsonLinesWriter",
    "LinkedMention",
    "TextWriter",
    "Writer",
    "create_writer",
]
_NLP = "note_nlp"


def create_writer(out: str | Path | None, options: OutputOptions) -> Writer:
    """Return the writer of a file, a folder, the address of a database, or ``None`` for standard output.

    Raises:
        ConfigError: options contradict each other, or the ending does not name a format.
    """
    target = "" if out is None else str(out).lower()
    name: str | None = options.format
    if options.date is not None and name != _NLP:
        raise ConfigError("date is for the format note_nlp only", remedy="leave date out, or give format note_nlp")
    if is_database_address(target):
        if name not in (None, _NLP):
            raise ConfigError(f"a table cannot be {name}", remedy="leave format out, or give note_nlp")
        return SqlWriter(str(out), options.out_table, is_nlp=name == _NLP, day=options.date)
    if target.endswith((".db", ".sqlite", ".sqlite3")):
        raise ConfigError(f"{out} is the name of a database", remedy=f"write the address sqlite:///{out}")
    if options.out_table is not None:
        raise ConfigError("out_table needs a database", remedy="give the address of one with out, or leave it out")
    if name is None:
        by_ending = {ending: name for name, (_, *endings) in FORMATS.items() for ending in endings}
        name = "jsonl" if out is None else format_of_ending(out, by_ending, "jsonl")
    module, _, writer = FORMATS[name][0].partition(".")
    given = (out, options.date) if name == _NLP else (out,)
    opened: Writer = getattr(import_module(f"{__name__}.{module}"), writer)(*given)
    return opened
