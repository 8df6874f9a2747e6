"""The knowledge base: release files in, records out, stored in one SQLite file.

:func:`build_kb` builds a file, :func:`extend_kb` adds to one, :class:`KnowledgeBase` reads it; each reader
(``medlink.kb.readers.rrf.read_rrf`` and so on) can also be used alone.
"""

from medlink.kb.build import BuildReport, Input, InputReport, SourceCounts, build_kb
from medlink.kb.extend import ExtendReport, extend_kb
from medlink.kb.store import ConceptView, KnowledgeBase

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
