"""Published protocols for names, pairs and clusters, linked mentions and notes."""

from medlink.evaluation.clusters import ClusteringTask, PartitionTask, measure_partition, sweep
from medlink.evaluation.linking import LinkingTask
from medlink.evaluation.measures import measure_ranks
from medlink.evaluation.names import Dictionary
from medlink.evaluation.notes import NotesTask
from medlink.evaluation.retrieval import (
    Answer,
    LeafToParentTask,
    Query,
    RetrievalTask,
    measure_answers,
    read_leaves,
    retrieve,
)
from medlink.evaluation.similarity import SimilarityTask, StsTask, correlate, pair_cosines, triplet_accuracy
from medlink.evaluation.synonyms import SynonymsTask
from medlink.evaluation.task import Report, Task

TASKS: dict[str, type[Task]] = {
    "clustering": ClusteringTask, "leaf-to-parent": LeafToParentTask, "linking": LinkingTask, "notes": NotesTask,
    "partition": PartitionTask, "retrieval": RetrievalTask, "similarity": SimilarityTask, "sts": StsTask,
    "synonyms": SynonymsTask,
}  # fmt: skip
"""The tasks by name; each is a command. A new task is a class and an entry here."""

__all__ = [
    "TASKS", "Answer", "Dictionary", "Query", "Report", "Task", "correlate", "measure_answers", "measure_partition",
    "measure_ranks", "pair_cosines", "read_leaves", "retrieve", "sweep", "triplet_accuracy",
]  # fmt: skip
