"""Curation: the page on which clusters, links and codes are reviewed, what a reader decided, and the page of notes."""

from medlink.curation.applied_decisions import Applied, apply
from medlink.curation.decisions import Decision, Decisions, read_decisions
from medlink.curation.note_page import write_notes
from medlink.curation.review_page import write_report
from medlink.curation.run import cluster_list

__all__ = ["Applied", "Decision", "Decisions", "apply", "cluster_list", "read_decisions", "write_notes", "write_report"]
