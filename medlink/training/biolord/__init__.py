"""BioLORD (Remy et al. 2022 and 2024), phase by phase, and all phases by one recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazily

if TYPE_CHECKING:
    from medlink.training.biolord.recipe_run import run_recipe
    from medlink.training.biolord.trainer import BioLordTrainer

RUNS = "runs.json"
"""The file by which a folder of self-distilled encoders is known."""
__all__ = ["RUNS", "BioLordTrainer", "run_recipe"]
__getattr__ = lazily(__name__, {"trainer": "BioLordTrainer", "recipe_run": "run_recipe"})
