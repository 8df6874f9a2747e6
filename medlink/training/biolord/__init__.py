"""BioLORD (Remy et al. 2022 and 2024), phase by phase, and all phases by one recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medlink.training.biolord.recipe_run import run_recipe
    from medlink.training.biolord.trainer import BioLordTrainer

__all__ = ["BioLordTrainer", "run_recipe"]


def __getattr__(name: str) -> Any:
    """What is offered, imported when it is asked for: recipes alone need little."""
    from importlib import import_module

    places = {"BioLordTrainer": "trainer", "run_recipe": "recipe_run"}
    if name not in places:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{places[name]}"), name)
