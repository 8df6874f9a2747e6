"""Curation: decisions about clusters, links and codes, and the pages to review them."""

from medlink.curation.applied_decisions import AppliedDecisions, apply_decisions
from medlink.curation.decisions import Decisions, read_decisions
from medlink.curation.note_page import write_note_page
from medlink.curation.review_page import write_cluster_page
from medlink.curation.run import cluster_list
from medlink.kb.decision_table import Decision

__all__ = [
    "AppliedDecisions", "Decision", "Decisions", "apply_decisions", "cluster_list", "read_decisions",
    "write_cluster_page", "write_note_page",
]  # fmt: skip
