"""BioLORD (Remy et al. 2022 and 2024), phase by phase, and all phases by one recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazy_getattr

if TYPE_CHECKING:
    from medlink.training.biolord.pipeline import run_recipe
    from medlink.training.biolord.trainer import BioLordTrainer

RUNS = "runs.json"
"""The file that marks a folder of self-distilled encoders."""
__all__ = ["RUNS", "BioLordTrainer", "run_recipe"]
__getattr__ = lazy_getattr(__name__, {"trainer": "BioLordTrainer", "pipeline": "run_recipe"})
