"""The recipe of MLTE: every number with its source. What is imported here needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from medlink.training.common.recipes import LARGEST, BatchSize, Epochs, LearningRate, PhaseRecipe, Warmup, WeightDecay

HOLDS = "mlte.json"
"""The file by which the folder of a regressor is known."""
BETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


class MlteRecipe(PhaseRecipe):
    """How a regressor or classifier of pairs is trained: Feng 2023, section IV-C.

    The prediction model: Adam, 30 epochs, rate 0.02, weight decay 0.001, batches of 24, and beta from 0 to 3 by 0.5, of
    which the development set chooses. Equation 3a has two layers; the width between them, ``hidden``, is ours. The
    fine-tuning: AdamW, 10 epochs, rate 1e-5, weight decay 1e-4, batches of 8, 10 % linear warm-up, dropout 0.1 of the
    sentence embeddings, the best epoch on the development set.

    >>> MlteRecipe().head_epochs, MlteRecipe(fine_tune=True).epochs
    (30, 10)
    """

    kind: Annotated[
        Literal["regressor", "classifier"], Field(description="What is learned: ratings, or labels 0 and 1.")
    ] = "regressor"
    fine_tune: Annotated[bool, Field(description="Fine-tune the encoder first; else it is frozen.")] = False
    epochs: Epochs = 10
    batch_size: BatchSize = 8
    learning_rate: LearningRate = 1e-5
    weight_decay: WeightDecay = 1e-4
    warmup: Warmup = 0.1
    dropout: Annotated[
        float, Field(ge=0, lt=1, description="Share of the sentence embedding left out in fine-tuning.")
    ] = 0.1
    head_epochs: Annotated[int, Field(ge=1, description="Passes of the prediction model over the data.")] = 30
    head_batch_size: Annotated[int, Field(ge=2, description="Pairs of a step of the prediction model.")] = 24
    head_learning_rate: Annotated[
        float, Field(gt=0, le=LARGEST, description="Learning rate of the prediction model.")
    ] = 0.02
    head_weight_decay: Annotated[
        float, Field(ge=0, le=LARGEST, description="Weight decay of the prediction model, by Adam.")
    ] = 0.001
    hidden: Annotated[int, Field(ge=1, description="Width between its two layers.")] = 8
    beta: Annotated[
        tuple[float, ...],
        Field(strict=False, min_length=1, description="Weight of pairs out of order; of several --dev chooses."),
    ] = BETAS

    @model_validator(mode="after")
    def _betas(self) -> Self:
        if min(self.beta) < 0 or max(self.beta) > LARGEST:
            raise ValueError(f"beta is {self.beta}, at least 0 and at most {LARGEST:g} expected")
        return self


def is_mlte(folder: str | Path) -> bool:
    """Whether a folder holds a regressor."""
    return (Path(folder) / HOLDS).is_file()
