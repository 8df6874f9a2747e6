"""What every recipe of training states: each number with its range, default and meaning, declared once."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from medlink.errors import ConfigError
from medlink.settings import Settings

# Training counts in 32 bits. Ten to the sixth leaves room for products; and two cosines of 32 bits are at least 6e-8
# apart, so that a loss sharper than that tells no more.
LARGEST, SMALLEST = 1e6, 1e-6

# types of the fields that a recipe may give another default
Epochs = Annotated[int, Field(ge=1, description="Passes over the data.")]
BatchSize = Annotated[int, Field(ge=1, description="Rows of a step, over all processes.")]
LearningRate = Annotated[float, Field(gt=0, le=LARGEST, description="Peak of the learning rate.")]
Warmup = Annotated[float, Field(ge=0, lt=1, description="Share of the steps that warm up.")]
WeightDecay = Annotated[float, Field(ge=0, le=LARGEST, description="Weight decay of AdamW.")]
FeatureDropout = Annotated[float, Field(ge=0, lt=1, description="Share of n-grams left out of a name.")]
MiniBatch = Annotated[
    int, Field(ge=0, description="Rows embedded at a time with cached gradients; 0: the whole batch.")
]
CheckpointSteps = Annotated[int, Field(ge=1, description="Steps between checkpoints.")]
Workers = Annotated[int, Field(ge=0, description="Processes that prepare batches.")]


class Recipe(Settings):
    """What the recipe of every trainer states. The same recipe, data and start give the same weights on a CPU.

    The learning rate grows to its peak and falls to 0, both linearly, unless ``schedule`` says otherwise. ``precision``
    ``"auto"`` is the 16-bit type that the GPU has, and fp32 on a CPU. The defaults are those of BioLORD 2022, appendix
    A.2.

    >>> Recipe().learning_rate, Recipe(seed=2).replace(warmup=0.1).to_dict()["seed"]
    (2e-05, 2)
    """

    schedule: ClassVar[str] = "linear"
    """How the learning rate goes, in the words of transformers."""

    learning_rate: LearningRate = 2e-5
    warmup: Warmup = 0.05
    weight_decay: WeightDecay = 0.01
    max_grad_norm: Annotated[
        float, Field(ge=0, le=LARGEST, description="Length to which a gradient is cut; 0: not at all.")
    ] = 1.0
    precision: Annotated[Literal["auto", "fp32", "bf16", "fp16"], Field(description="Number type.")] = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")] = 1

    @property
    def rates(self) -> dict[str, float]:
        """Learning rates of weights that have one of their own, by a regular expression of their names."""
        return {}


class PhaseRecipe(Recipe):
    """What every phase of BioLORD needs to know besides; one epoch is the pre-training of BioLORD 2022, appendix A.2.

    The 2023 paper leaves its numbers to a supplement that is not part of it. What neither names is the default of the
    library that both train with, as appendix A.2 says. A batch has 64 rows (section 3.2 and A.4); ``mini_batch`` embeds
    few of them at a time with cached gradients (Gao et al. 2021), so that memory does not grow with the batch. The
    weights with the best development measure are kept (A.4), looked at each epoch or every ``evaluate_steps``.

    >>> PhaseRecipe(batch_size=4096, mini_batch=128).batch_size
    4096
    """

    epochs: Epochs = 1
    batch_size: BatchSize = 64
    mini_batch: MiniBatch = 0
    max_tokens: Annotated[
        int, Field(ge=0, description="Tokens of a text that the model reads; 0: as many as it did before.")
    ] = 0
    evaluate_steps: Annotated[
        Annotated[int, Field(ge=1)] | Literal["epoch"],
        Field(description="Steps between two looks at --dev, or 'epoch'."),
    ] = "epoch"
    patience: Annotated[
        int, Field(ge=0, description="Looks at --dev without a better one after which training stops; 0: never.")
    ] = 0


def check_measured(recipe: PhaseRecipe, dev: object) -> None:
    """Refuse what of a recipe means nothing without a development measure where there is none.

    Raises:
        ConfigError: it was given, and ``dev`` is ``None``.
    """
    for name in ("evaluate_steps", "patience"):
        if name in recipe.model_fields_set and dev is None:
            remedy = f"name rated pairs as dev, or leave {name} out"
            raise ConfigError(f"{name} is {getattr(recipe, name)!r} and there is no dev", remedy=remedy)


class RunOptions(Settings):
    """How a run goes. None of it changes the weights."""

    checkpoint_steps: CheckpointSteps = 1000
    workers: Workers = 0
    resume: Annotated[bool, Field(description="Go on from the newest checkpoint of OUT.")] = False
