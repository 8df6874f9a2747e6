"""Readers of notes: one file for each format, which no other file names.

A reader holds a function ``read(file, fields)`` that yields a :class:`~medlink.notes.readers.protocol.Note` for
each note, and ``FORMAT = NoteFormat(endings, read)``, through which :func:`formats` finds it. ``file`` brings the
bytes, unpacked; it handles encodings, progress and the refusal of what is no text for every format. A note that cannot
be read is yielded in its place with its problem, and the message holds no word of it. ``sql`` reads tables of a
database, which have no file and no ending.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from medlink.notes.readers.protocol import Fields, Note, NoteFormat

__all__ = ["Fields", "Note", "NoteFormat", "formats"]


@cache
def formats() -> dict[str, NoteFormat]:
    """The formats that can be read, by the endings of their files."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return {ending: one for one in found for ending in sorted(one.endings)}
