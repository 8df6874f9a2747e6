"""Curation: what a reader decided about clusters, the page to decide on, and a term list with both in one call."""

from medlink.curation.applied import Applied, apply
from medlink.curation.cluster_page import write_report
from medlink.curation.decisions import Decision, Decisions, read_decisions
from medlink.curation.run import cluster_list

__all__ = ["Applied", "Decision", "Decisions", "apply", "cluster_list", "read_decisions", "write_report"]
