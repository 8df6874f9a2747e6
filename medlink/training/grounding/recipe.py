"""How conceptual grounding trains: every number with its source. What is imported here needs no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medlink.training.common.recipes import Epochs, LearningRate, PhaseRecipe, Warmup, WeightDecay

_Share = Annotated[float, Field(ge=0, lt=1)]


class GroundingRecipe(PhaseRecipe):
    """The recipe of Fivez et al. 2021, section 5.3: Adam at a constant rate, no decay, gradients as they are.

    Training stops at the first epoch whose validation mAP is no better, and the epoch before counts. There one name of
    each concept with two or more is for validation; here of a tenth of these concepts, as most terminologies have two
    or three names of a concept. The paper does not say how many names negatives are drawn from; 200 is that of the
    authors' code. ``epochs`` is a bound that is seldom met.

    >>> GroundingRecipe().hidden, GroundingRecipe(cca=False).margin
    (38400, 0.1)
    """

    mini_batch: Literal[0] = 0
    max_tokens: Literal[0] = 0
    evaluate_steps: Literal["epoch"] = "epoch"
    schedule: ClassVar[str] = "constant_with_warmup"

    cca: Annotated[bool, Field(description="Whether names and concepts pass the linear map first.")] = True
    hidden: Annotated[int, Field(ge=0, description="Width of the hidden layer; 0: no network, the map alone.")] = 38_400
    dropout: Annotated[_Share, Field(description="Dropout of the hidden layer.")] = 0.5
    pairs: Annotated[int, Field(ge=0, description="Synonym pairs of an epoch, in whole batches; 0: all there are.")] = 0
    margin: Annotated[float, Field(ge=0, le=2, description="Margin of the triplet loss, in cosine.")] = 0.1
    synonym_dropout: Annotated[_Share, Field(description="Share of its names left out of a concept's prototype.")] = 0.5
    neighbours: Annotated[int, Field(ge=1, le=10_000, description="Nearest names that a negative is drawn from.")] = 200
    validation: Annotated[
        float, Field(ge=0, le=1, description="Share of the concepts with synonyms that validate by one.")
    ] = 0.1
    epochs: Epochs = 100
    learning_rate: LearningRate = 1e-3
    warmup: Warmup = 0.0
    weight_decay: WeightDecay = 0.0
    max_grad_norm: Annotated[float, Field(ge=0, le=1e6, description="Longest gradient; 0: any length.")] = 0.0
    patience: Annotated[int, Field(ge=0, description="Epochs without a better mAP that end training; 0: none.")] = 1

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.hidden and not self.cca:
            raise ValueError("without cca and with a hidden layer of width 0 nothing is left to train")
        return self

    @classmethod
    def map_alone(cls) -> Self:
        """The map without a network, fitted on all names."""
        return cls(hidden=0, validation=0.0)
