"""The knowledge base: release files in, records out, stored in one SQLite file.

:func:`build_kb` builds a file, :func:`extend_kb` adds to one, :class:`KnowledgeBase` reads it; each reader
(``medlink.kb.readers.rrf.read_rrf`` and so on) can also be used alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medlink.kb.build import build_kb, extend_kb
    from medlink.kb.report import BuildReport, ExtendReport, Input, InputReport, SourceCounts
    from medlink.kb.store import ConceptView, KnowledgeBase

# Imported when they are asked for: the readers alone, of which the command line lists the formats, need no SQLAlchemy.
_PLACES = {
    "BuildReport": "report",
    "ConceptView": "store",
    "ExtendReport": "report",
    "Input": "report",
    "InputReport": "report",
    "KnowledgeBase": "store",
    "SourceCounts": "report",
    "build_kb": "build",
    "extend_kb": "build",
}
__all__ = [
    "BuildReport",
    "ConceptView",
    "ExtendReport",
    "Input",
    "InputReport",
    "KnowledgeBase",
    "SourceCounts",
    "build_kb",
    "extend_kb",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return globals()[name]
