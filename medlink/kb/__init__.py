"""The knowledge base: release files in, records out, stored in one SQLite file.

:func:`build_kb` builds a file, :func:`extend_kb` adds to one, :class:`KnowledgeBase` reads it; each reader
(``medlink.kb.readers.rrf.read_rrf`` and so on) can also be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazily

if TYPE_CHECKING:
    from medlink.kb.build import build_kb, extend_kb
    from medlink.kb.report import BuildReport, ExtendReport, Input, InputReport, SourceCounts
    from medlink.kb.store import ConceptView, KnowledgeBase

__all__ = [
    "BuildReport", "ConceptView", "ExtendReport", "Input", "InputReport", "KnowledgeBase", "SourceCounts", "build_kb",
    "extend_kb",
]  # fmt: skip
# The readers alone, of which the command line lists the formats, need no SQLAlchemy.
_MODULES = {
    "build": "build_kb extend_kb",
    "report": "BuildReport ExtendReport Input InputReport SourceCounts",
    "store": "ConceptView KnowledgeBase",
}
__getattr__ = lazily(__name__, _MODULES)
