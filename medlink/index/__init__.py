"""The concept index: exact and inflected forms, character n-grams, and embeddings of every name."""

from medlink.index.bundle import Bundle, build_bundle
from medlink.index.concept_index import ConceptIndex
from medlink.index.extend import AddReport, extend_bundle
from medlink.index.names import Filter
from medlink.index.update import UpdateReport, update_bundle

__all__ = [
    "AddReport", "Bundle", "ConceptIndex", "Filter", "UpdateReport", "build_bundle", "extend_bundle", "update_bundle",
]  # fmt: skip
