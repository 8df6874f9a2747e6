"""Trainers, one folder each, on one common run. Importing this package loads no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medlink.errors import needs_extra
from medlink.lazy import lazy_getattr

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
_get = lazy_getattr(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    with needs_extra("train", "training"):
        return _get(name)
