"""Published protocols for names, pairs and clusters, linked mentions and notes, and one report of all systems."""

from medlink.evaluation.clustering import Sweep, sweep
from medlink.evaluation.leaf_to_parent import Leaves, read_leaves
from medlink.evaluation.names import Dictionary
from medlink.evaluation.partition import PartitionMeasures, measure_partition
from medlink.evaluation.ranking import RankMeasures, measure_ranks
from medlink.evaluation.resampling import Estimate
from medlink.evaluation.retrieval import Answer, Query, measure_answers, retrieve
from medlink.evaluation.similarity import correlate, pair_cosines, triplet_accuracy
from medlink.evaluation.task import Report, Task
from medlink.evaluation.tasks import TASKS

__all__ = [
    "TASKS", "Answer", "Dictionary", "Estimate", "Leaves", "PartitionMeasures", "Query", "RankMeasures", "Report",
    "Sweep", "Task", "correlate", "measure_answers", "measure_partition", "measure_ranks", "pair_cosines",
    "read_leaves", "retrieve", "sweep", "triplet_accuracy",
]  # fmt: skip
