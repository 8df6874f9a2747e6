"""Training: one folder for each trainer, on one common run. What is imported here needs neither torch nor more."""

from medlink.training.biolord.trainer import BioLordTrainer
from medlink.training.coderpp.trainer import CoderPlusPlusTrainer

__all__ = ["BioLordTrainer", "CoderPlusPlusTrainer"]
