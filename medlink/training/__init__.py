"""Training: one folder for each trainer, on one common run. What is imported here needs neither torch nor more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazily

if TYPE_CHECKING:
    from medlink.training.biolord.trainer import BioLordTrainer
    from medlink.training.coderpp.trainer import CoderPlusPlusTrainer
    from medlink.training.grounding.trainer import ConceptualGroundingTrainer
    from medlink.training.mlte.regressor import MlteRegressor
    from medlink.training.mlte.trainer import MlteTrainer
    from medlink.training.ranker.trainer import RankerTrainer

_MODULES = {
    "biolord.trainer": "BioLordTrainer",
    "coderpp.trainer": "CoderPlusPlusTrainer",
    "grounding.trainer": "ConceptualGroundingTrainer",
    "mlte.regressor": "MlteRegressor",
    "mlte.trainer": "MlteTrainer",
    "ranker.trainer": "RankerTrainer",
}
__all__ = [
    "BioLordTrainer",
    "CoderPlusPlusTrainer",
    "ConceptualGroundingTrainer",
    "MlteRegressor",
    "MlteTrainer",
    "RankerTrainer",
]
__getattr__ = lazily(__name__, _MODULES)
