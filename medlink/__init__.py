"""medlink maps what clinicians write, in English, German and Spanish, to concepts of a terminology."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from medlink.errors import MedlinkError
from medlink.records import Candidate, Concept, Link

if TYPE_CHECKING:
    from pathlib import Path

    from medlink.linking import Linker

__version__ = "0.1.0"

# Names that need a library are imported when they are asked for: 'import medlink' loads none.
_LAZY = {
    "BioLordTrainer": "medlink.training",
    "Bundle": "medlink.index",
    "CoderPlusPlusTrainer": "medlink.training",
    "ConceptIndex": "medlink.index",
    "KnowledgeBase": "medlink.kb",
    "Linker": "medlink.linking",
    "Mention": "medlink.linking",
    "TermClusterer": "medlink.clustering",
    "build_bundle": "medlink.index",
    "build_kb": "medlink.kb",
    "extend_bundle": "medlink.index",
    "load_encoder": "medlink.models",
}
__all__ = ["Candidate", "Concept", "Link", "MedlinkError", "__version__", "load", *_LAZY]  # noqa: PLE0604 # names come lazily


def load(bundle: str | Path, **options: Any) -> Linker:
    """Open a bundle for linking: memory-mapped, read-only, in well under a second.

    Args:
        bundle: a folder made by ``medlink index build``.
        options: those of :class:`medlink.Linker`, such as ``threshold`` and ``language``.

    Returns:
        A linker; its ``kb`` and ``index`` are the bundle's.

    Raises:
        BundleError: the parts of the bundle are missing or do not belong together.
    """
    from medlink.linking import Linker

    return Linker(bundle, **options)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'medlink' has no attribute {name!r}")
