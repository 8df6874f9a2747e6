"""Training: one folder for each trainer, on one common run. What is imported here needs neither torch nor more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medlink.training.biolord.trainer import BioLordTrainer
    from medlink.training.coderpp.trainer import CoderPlusPlusTrainer

__all__ = ["BioLordTrainer", "CoderPlusPlusTrainer"]


def __getattr__(name: str) -> Any:
    """A trainer, imported when it is asked for: recipes alone need little."""
    from importlib import import_module

    places = {"BioLordTrainer": "biolord", "CoderPlusPlusTrainer": "coderpp"}
    if name not in places:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{places[name]}.trainer"), name)
