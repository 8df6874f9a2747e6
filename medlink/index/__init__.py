"""The concept index: exact and inflected forms, words, and embeddings of every name; and the bundle that holds it."""

from medlink.index.bundle import Bundle
from medlink.index.concept_index import ConceptIndex
from medlink.index.names import Filter
from medlink.index.writers import AddReport, UpdateReport, build_bundle, extend_bundle, update_bundle

__all__ = [
    "AddReport", "Bundle", "ConceptIndex", "Filter", "UpdateReport", "build_bundle", "extend_bundle", "update_bundle",
]  # fmt: skip
