"""The recipe of a re-ranker. Importing needs no torch."""

from __future__ import annotations

from pydantic import Field

from medlink.settings import Settings
from medlink.training.recipes import Epochs, LearningRate, Seed, Warmup, WeightDecay


class RankerRecipe(Settings):
    """Hyperparameters of :class:`~medlink.training.ranker.trainer.RankerTrainer`."""

    candidates: int = Field(
        default=8, ge=2, le=64, description="First candidates of the linker that are re-ranked, in training and in use."
    )
    negatives: int = Field(default=3, ge=1, le=63, description="Wrong candidates for each right one.")
    context: bool = Field(default=False, description="Also read the text around a mention.")
    definitions: bool = Field(default=False, description="Also read definitions of the candidates.")
    epochs: Epochs = 2
    batch_size: int = Field(default=8, ge=1, description="Mentions in a step.")
    learning_rate: LearningRate = 5e-5
    warmup: Warmup = 0.1
    weight_decay: WeightDecay = 0.01
    max_tokens: int = Field(default=64, ge=8, le=512, description="Most tokens of mention and candidate.")
    held_share: float = Field(
        default=0.2, gt=0, lt=1, description="Share of the mentions held out to fit weights and calibration."
    )
    seed: Seed = 1
