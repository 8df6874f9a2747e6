"""medlink maps what clinicians write, in English, German and Spanish, to concepts of a terminology."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from medlink.errors import MedlinkError
from medlink.records import Candidate, Concept, Definition, Link, Name, Relation

if TYPE_CHECKING:
    from medlink.clustering import TermClusterer
    from medlink.index import Bundle, ConceptIndex, Filter, build_bundle, extend_bundle
    from medlink.kb import Input, KnowledgeBase, build_kb
    from medlink.linking import Linker, LinkOptions, Mention, load
    from medlink.models import Encoder, load_encoder
    from medlink.notes.link import Report, link_notes
    from medlink.notes.pipeline import LinkedNote, NotePipeline
    from medlink.notes.reading import Note
    from medlink.training import BioLordTrainer, CoderPlusPlusTrainer

__version__ = "0.1.0"

# Names that need a library are imported when they are asked for: 'import medlink' loads none.
_LAZY = {
    "BioLordTrainer": "medlink.training",
    "Bundle": "medlink.index",
    "CoderPlusPlusTrainer": "medlink.training",
    "ConceptIndex": "medlink.index",
    "Encoder": "medlink.models",
    "Filter": "medlink.index",
    "Input": "medlink.kb",
    "KnowledgeBase": "medlink.kb",
    "LinkOptions": "medlink.linking",
    "LinkedNote": "medlink.notes.pipeline",
    "Linker": "medlink.linking",
    "Mention": "medlink.linking",
    "Note": "medlink.notes.reading",
    "NotePipeline": "medlink.notes.pipeline",
    "Report": "medlink.notes.link",
    "TermClusterer": "medlink.clustering",
    "build_bundle": "medlink.index",
    "build_kb": "medlink.kb",
    "extend_bundle": "medlink.index",
    "link_notes": "medlink.notes.link",
    "load": "medlink.linking",
    "load_encoder": "medlink.models",
}
__all__ = [
    "BioLordTrainer",
    "Bundle",
    "Candidate",
    "CoderPlusPlusTrainer",
    "Concept",
    "ConceptIndex",
    "Definition",
    "Encoder",
    "Filter",
    "Input",
    "KnowledgeBase",
    "Link",
    "LinkOptions",
    "LinkedNote",
    "Linker",
    "MedlinkError",
    "Mention",
    "Name",
    "Note",
    "NotePipeline",
    "Relation",
    "Report",
    "TermClusterer",
    "__version__",
    "build_bundle",
    "build_kb",
    "extend_bundle",
    "link_notes",
    "load",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'medlink' has no attribute {name!r}")
