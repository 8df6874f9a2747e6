"""Readers of notes: one file for each format, which nothing else names.

A reader holds a function ``read(file, fields)`` that yields a :class:`~medlink.notes.readers.protocol.Note` for
each note, and ``FORMAT = NoteFormat(endings, read)``, by which :func:`formats` finds it. ``file`` brings the bytes,
unpacked, with the refusal of what is no text, encodings and progress as everywhere. A note that cannot be read is given
with its problem, in its place, and no word of it is in the message. ``sql`` reads tables of a database, which have no
file and no ending.
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
