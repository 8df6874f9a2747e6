"""The knowledge base: terminology releases in one SQLite file.

:func:`build_kb` builds a file, :func:`extend_kb` adds to one, :func:`update_kb` replaces it with a new release,
:func:`compare_kbs` lists differences, and :class:`KnowledgeBase` reads it. The readers in :mod:`medlink.kb.readers` can
be used on their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazy_getattr

if TYPE_CHECKING:
    from medlink.kb.build import build_kb, extend_kb
    from medlink.kb.changes import Change, ChangeReport, compare_kbs, iter_changes, update_kb
    from medlink.kb.report import BuildReport, ExtendReport, Input, InputReport, SourceCounts
    from medlink.kb.store import KnowledgeBase
    from medlink.kb.views import ConceptView

__all__ = [
    "BuildReport", "Change", "ChangeReport", "ConceptView", "ExtendReport", "Input", "InputReport", "KnowledgeBase",
    "SourceCounts", "build_kb", "compare_kbs", "extend_kb", "iter_changes", "update_kb",
]  # fmt: skip
# lazy, since the command line lists the formats without importing SQLAlchemy
_MODULES = {
    "build": "build_kb extend_kb",
    "changes": "Change ChangeReport compare_kbs iter_changes update_kb",
    "report": "BuildReport ExtendReport Input InputReport SourceCounts",
    "store": "KnowledgeBase",
    "views": "ConceptView",
}
__getattr__ = lazy_getattr(__name__, _MODULES)
