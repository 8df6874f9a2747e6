"""How static encoders are trained. What is imported here needs no torch."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from medlink.settings import Settings
from medlink.training.common.recipes import BatchSize, Epochs, FeatureDropout, LearningRate, PhaseRecipe, WeightDecay

_HARD_EPOCHS = 3


class StaticRecipe(Settings):
    """How a static encoder is trained from nothing; the numbers come from the experiments in ``docs/training.md``.

    A language with few names is worth more: each of its names is an anchor as often an epoch as the square root of how
    many times fewer they are than those of the largest language, ``language_boost`` times at most.

    Raises:
        ConfigError: a value is of another type or out of its range, or there are more hard epochs than epochs.

    >>> StaticRecipe().hard_epochs, StaticRecipe(epochs=2).hard_epochs
    (3, 2)
    """

    epochs: Epochs = 8
    hard_epochs: Annotated[
        int, Field(ge=0, description="Last epochs, whose batches hold near neighbours; by default 3 or all of fewer.")
    ] = _HARD_EPOCHS
    hard_neighbours: Annotated[int, Field(ge=1, description="Near neighbours that join a name in such a batch.")] = 8
    batch_size: Annotated[int, Field(ge=2, description="Pairs in a batch.")] = 512
    temperature: Annotated[float, Field(gt=0, description="What cosines are divided by in the loss.")] = 0.04
    learning_rate: LearningRate = 2e-3
    warmup: Annotated[float, Field(gt=0, lt=1, description="Share of the steps that warm up.")] = 0.05
    feature_dropout: FeatureDropout = 0.3
    language_boost: Annotated[
        int, Field(ge=1, description="How often a name of a language with few is an anchor per epoch, at most.")
    ] = 4
    foreign: Annotated[
        float, Field(ge=0, le=1, description="Chance of a name to meet one in another language where there is one.")
    ] = 0.5
    coarse_share: Annotated[
        float, Field(ge=0, lt=1, description="Share of the batches that are of coarse names, where there are some.")
    ] = 0.2
    coarse_temperature: Annotated[
        float, Field(gt=0, description="What their cosines are divided by; the higher, the weaker they are drawn.")
    ] = 0.1
    seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")] = 1

    @model_validator(mode="before")
    @classmethod
    def _no_more_than_all(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The default of hard epochs follows a small number of epochs."""
        epochs = values.get("epochs")
        return {"hard_epochs": min(_HARD_EPOCHS, epochs), **values} if isinstance(epochs, int) else values

    @model_validator(mode="after")
    def _hard_epochs_are_epochs(self) -> Self:
        if self.hard_epochs > self.epochs:
            raise ValueError(f"hard_epochs is {self.hard_epochs}, at most the {self.epochs} epochs expected")
        return self


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
