"""The tasks of ``medlink evaluate``, by name: a new one is a class of its own and a line here."""

from __future__ import annotations

from medlink.evaluation.clustering import ClusteringTask
from medlink.evaluation.leaf_to_parent import LeafToParentTask
from medlink.evaluation.linking import LinkingTask
from medlink.evaluation.notes import NotesTask
from medlink.evaluation.partition import PartitionTask
from medlink.evaluation.retrieval_data import RetrievalTask
from medlink.evaluation.similarity import SimilarityTask, StsTask
from medlink.evaluation.synonyms import SynonymsTask
from medlink.evaluation.task import Task

TASKS: dict[str, type[Task]] = {
    "clustering": ClusteringTask,
    "leaf-to-parent": LeafToParentTask,
    "linking": LinkingTask,
    "notes": NotesTask,
    "partition": PartitionTask,
    "retrieval": RetrievalTask,
    "similarity": SimilarityTask,
    "sts": StsTask,
    "synonyms": SynonymsTask,
}
