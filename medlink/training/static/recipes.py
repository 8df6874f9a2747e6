"""How static encoders are trained. What is imported here needs no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from medlink.training.common.recipes import BatchSize, Epochs, FeatureDropout, LearningRate, PhaseRecipe, WeightDecay


class StaticStudentRecipe(PhaseRecipe):
    """How a static student learns; the numbers come from the experiments in ``docs/distillation.md``.

    A static encoder has no use for ``mini_batch`` and ``max_tokens``, which must be 0.
    """

    epochs: Epochs = 12
    batch_size: BatchSize = 128
    learning_rate: LearningRate = 5e-3
    weight_decay: WeightDecay = 0.0
    mini_batch: Annotated[int, Field(ge=0, le=0)] = 0
    max_tokens: Annotated[int, Field(ge=0, le=0)] = 0
    feature_dropout: FeatureDropout = 0.0
    held_out: Annotated[
        int, Field(ge=1, description="Names kept from training to measure on, at most one of a concept.")
    ] = 1000
