"""Published protocols: clusters of names, ranked names of a dictionary, and similarity that people rated."""

from medlink.evaluation.clustering import Sweep, sweep
from medlink.evaluation.leaf_to_parent import LeafTask, leaf_task
from medlink.evaluation.partition import PartitionMeasures, measure_partition
from medlink.evaluation.ranking import RankMeasures, measure_ranks
from medlink.evaluation.retrieval import Answer, Dictionary, Query, measure_answers, retrieve
from medlink.evaluation.similarity import Estimate, correlate, pair_cosines, triplet_accuracy

__all__ = [
    "Answer",
    "Dictionary",
    "Estimate",
    "LeafTask",
    "PartitionMeasures",
    "Query",
    "RankMeasures",
    "Sweep",
    "correlate",
    "leaf_task",
    "measure_answers",
    "measure_partition",
    "measure_ranks",
    "pair_cosines",
    "retrieve",
    "sweep",
    "triplet_accuracy",
]
