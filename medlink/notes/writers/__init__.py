"""Writers: what becomes of the links of notes. A new output format is one file in this folder.

A file here whose name is that of a format holds ``FORMAT = OutputFormat(endings, make)``; :func:`formats` finds it.
What is alike in formats that are lines of text is in ``text``, in those that are folders in ``folder``, in those that
have one row a mention in ``rows``. ``sql`` writes to the address of a database.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from medlink.errors import ConfigError
from medlink.notes.database import is_address
from medlink.notes.options import OutputOptions
from medlink.notes.writers.jsonl import JsonLinesWriter
from medlink.notes.writers.protocol import Job, LinkedMention, OutputFormat, Writer
from medlink.notes.writers.text import TextWriter

__all__ = ["Job", "JsonLinesWriter", "LinkedMention", "OutputFormat", "TextWriter", "Writer", "formats", "writer"]
_NLP = "note_nlp"


@cache
def formats() -> dict[str, OutputFormat]:
    """The formats that can be written, by name."""
    found = {one.name: importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)}
    return {name: module.FORMAT for name, module in found.items() if hasattr(module, "FORMAT")}


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
        from medlink.notes.writers.sql import SqlWriter

        if asked not in (None, _NLP):
            raise ConfigError(f"a table cannot be {asked}", remedy="leave format out, or give note_nlp")
        return SqlWriter(str(out), options.out_table, is_nlp=asked == _NLP, day=options.date)
    if options.out_table is not None:
        raise ConfigError("out_table needs a database", remedy="give the address of one with out, or leave it out")
    # the longest: .fhir.ndjson is another one than .ndjson
    by_ending = {ending: name for name, one in formats().items() for ending in one.endings if place.endswith(ending)}
    name = asked or by_ending.get(max(by_ending, key=len, default=""), "jsonl")
    return formats()[name].make(out, options)
