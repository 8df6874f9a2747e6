"""How a cross-encoder is trained to rank candidates."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from medlink.settings import Settings
from medlink.training.common.recipes import Epochs, LearningRate, Warmup, WeightDecay


class RankerRecipe(Settings):
    """The numbers of :class:`~medlink.training.ranker.trainer.RankerTrainer`; the same ones give the same ranker.

    >>> RankerRecipe(epochs=1).candidates
    8
    """

    candidates: Annotated[
        int, Field(ge=2, le=64, description="First candidates of the linker that are read, in training and in use.")
    ] = 8
    negatives: Annotated[int, Field(ge=1, le=63, description="Wrong candidates that a right one is set against.")] = 3
    context: Annotated[bool, Field(description="Also read the text around a mention.")] = False
    definitions: Annotated[bool, Field(description="Also read definitions of the candidates.")] = False
    epochs: Epochs = 2
    batch_size: Annotated[int, Field(ge=1, description="Mentions of a step.")] = 8
    learning_rate: LearningRate = 5e-5
    warmup: Warmup = 0.1
    weight_decay: WeightDecay = 0.01
    max_tokens: Annotated[int, Field(ge=8, le=512, description="Tokens of mention and candidate that are read.")] = 64
    held_share: Annotated[
        float, Field(gt=0, lt=1, description="Share of the mentions that is held back to fit weights and curves.")
    ] = 0.2
    seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")] = 1
