"""Curation: what a reader decided about clusters, the pages of clusters and notes, a term list to both in one call."""

from medlink.curation.applied import Applied, apply
from medlink.curation.cluster_page import write_report
from medlink.curation.decisions import Decision, Decisions, read_decisions
from medlink.curation.note_page import write_notes
from medlink.curation.run import cluster_list

__all__ = ["Applied", "Decision", "Decisions", "apply", "cluster_list", "read_decisions", "write_notes", "write_report"]
