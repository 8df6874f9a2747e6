"""Published protocols: how well embeddings and clusterings keep the names of one concept together."""

from medlink.evaluation.clustering import Sweep, sweep
from medlink.evaluation.partition import PartitionMeasures, measure_partition

__all__ = ["PartitionMeasures", "Sweep", "measure_partition", "sweep"]
