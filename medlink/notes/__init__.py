"""Notes: read, linked, written. What needs a library is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medlink.notes.link import Report, link_notes
    from medlink.notes.pipeline import LinkedNote, NotePipeline
    from medlink.notes.reading import Fields, Note

_LAZY = {
    "Fields": "medlink.notes.reading",
    "LinkedNote": "medlink.notes.pipeline",
    "Note": "medlink.notes.reading",
    "NotePipeline": "medlink.notes.pipeline",
    "Report": "medlink.notes.link",
    "link_notes": "medlink.notes.link",
}
__all__ = ["Fields", "LinkedNote", "Note", "NotePipeline", "Report", "link_notes"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
