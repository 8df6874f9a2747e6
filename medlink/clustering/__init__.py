"""Cluster a list of terms into known and new concepts."""

from medlink.clustering.clusterer import ClusterOptions, TermClusterer
from medlink.clustering.clusters import Cluster, Clustering, Member, Neighbour, Summary
from medlink.clustering.terms import Columns, Terms, read_terms

__all__ = [
    "Cluster", "ClusterOptions", "Clustering", "Columns", "Member", "Neighbour", "Summary", "TermClusterer", "Terms",
    "read_terms",
]  # fmt: skip
