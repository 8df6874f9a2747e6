"""medlink maps what clinicians write, in English, German and Spanish, to concepts of a terminology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.errors import MedlinkError
from medlink.lazy import lazy_getattr
from medlink.records import Candidate, Concept, Definition, Link, Name, Relation

if TYPE_CHECKING:
    from medlink.clustering import TermClusterer
    from medlink.index import Bundle, ConceptIndex, Filter, build_bundle, extend_bundle
    from medlink.kb import Input, KnowledgeBase, build_kb
    from medlink.linking import LinkOptions, Mention
    from medlink.models import Encoder, load_encoder
    from medlink.notes.link import Report, link_notes
    from medlink.notes.pipeline import LinkedNote, NotePipeline
    from medlink.notes.reading import Note
    from medlink.reading.linker import Linker, load
    from medlink.training import (
        BioLordTrainer,
        CoderPlusPlusTrainer,
        ConceptualGroundingTrainer,
        MlteRegressor,
        MlteTrainer,
    )

__version__ = "0.1.0"

# Names that need a library are imported on first access: 'import medlink' loads none.
_MODULES = {
    "clustering": "TermClusterer",
    "index": "Bundle ConceptIndex Filter build_bundle extend_bundle",
    "kb": "Input KnowledgeBase build_kb",
    "linking": "LinkOptions Mention",
    "models": "Encoder load_encoder",
    "notes.link": "Report link_notes",
    "notes.pipeline": "LinkedNote NotePipeline",
    "notes.reading": "Note",
    "reading.linker": "Linker load",
    "training": "BioLordTrainer CoderPlusPlusTrainer ConceptualGroundingTrainer MlteRegressor MlteTrainer",
}
__all__ = [
    "BioLordTrainer", "Bundle", "Candidate", "CoderPlusPlusTrainer", "Concept", "ConceptIndex",
    "ConceptualGroundingTrainer", "Definition", "Encoder", "Filter", "Input", "KnowledgeBase", "Link", "LinkOptions",
    "LinkedNote", "Linker", "MedlinkError", "Mention", "MlteRegressor", "MlteTrainer", "Name", "Note", "NotePipeline",
    "Relation", "Report", "TermClusterer", "__version__", "build_bundle", "build_kb", "extend_bundle", "link_notes",
    "load", "load_encoder",
]  # fmt: skip
__getattr__ = lazy_getattr(__name__, _MODULES)
