"""Recipes of all trainers: hyperparameters with range, default, meaning and source. No torch is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN
from medlink.models.static.encoder import is_static
from medlink.settings import Settings, option

# 1e6 leaves room for products in 32 bits. Cosines differ by at least 6e-8, so a sharper loss gains nothing.
MAX_VALUE, MIN_VALUE = 1e6, 1e-6
HEAD_WEIGHTS = r"(^|\.)head\.linear\.(weight|bias)$"
"""Regular expression for the parameter names of a distillation head; the model below may also have linear layers."""
BETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_HARD_EPOCHS = 3

# types of fields whose default differs between recipes
Epochs = Annotated[int, Field(ge=1, description="Passes over the data.")]
BatchSize = Annotated[int, Field(ge=1, description="Rows of a step, over all processes.")]
LearningRate = Annotated[float, Field(gt=0, le=MAX_VALUE, description="Peak of the learning rate.")]
Warmup = Annotated[float, Field(ge=0, lt=1, description="Share of the steps that warm up.")]
WeightDecay = Annotated[float, Field(ge=0, le=MAX_VALUE, description="Weight decay of AdamW.")]
GradientNorm = Annotated[
    float, Field(ge=0, le=MAX_VALUE, description="Norm to which gradients are clipped; 0: no clipping.")
]
FeatureDropout = Annotated[float, Field(ge=0, lt=1, description="Share of n-grams dropped from a name.")]
MiniBatch = Annotated[
    int, Field(ge=0, description="Rows embedded at a time with cached gradients; 0: the whole batch.")
]
CheckpointSteps = Annotated[int, Field(ge=1, description="Steps between checkpoints.")]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Random seed.")]
Steps = Annotated[int, Field(ge=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]


class Recipe(Settings):
    """Hyperparameters of every trainer. The same recipe, data and start give the same weights on a CPU.

    The learning rate rises linearly to its peak and falls linearly to 0, unless ``schedule`` differs. ``precision``
    ``"auto"`` is the 16-bit type of the GPU, and fp32 on a CPU. The defaults are those of BioLORD 2022, appendix A.2.
    """

    schedule: ClassVar[str] = "linear"
    """Name of the learning rate schedule in transformers."""

    learning_rate: LearningRate = 2e-5
    warmup: Warmup = 0.05
    weight_decay: WeightDecay = 0.01
    max_grad_norm: GradientNorm = 1.0
    precision: Literal["auto", "fp32", "bf16", "fp16"] = option("auto", "Number type.")
    seed: Seed = 1

    @property
    def parameter_rates(self) -> dict[str, float]:
        """Learning rates that replace ``learning_rate``, by a regular expression of parameter names."""
        return {}


class PhaseRecipe(Recipe):
    """Further hyperparameters of every phase of BioLORD.

    One epoch and batches of 64 rows are those of BioLORD 2022 (section 3.2, A.2 and A.4). Other defaults are those of
    sentence-transformers, as A.2 says. Cached gradients (Gao et al. 2021) of ``mini_batch`` rows bound the memory. A
    run writes the weights with the best development measure (A.4), taken each epoch or every ``evaluate_steps``.
    """

    epochs: Epochs = 1
    batch_size: BatchSize = 64
    mini_batch: MiniBatch = 0
    max_tokens: int = option(0, "Most tokens of a text that the model reads; 0: the limit of the model.", ge=0)
    evaluate_steps: Steps | Literal["epoch"] = option("epoch", "Steps between two evaluations on --dev, or 'epoch'.")
    patience: int = option(0, "Evaluations on --dev without improvement that end training; 0: no limit.", ge=0)


def check_dev_options(recipe: PhaseRecipe, dev: object) -> None:
    """Raise ConfigError for options about the development measure if ``dev`` is ``None``."""
    for name in ("evaluate_steps", "patience"):
        if name in recipe.model_fields_set and dev is None:
            remedy = f"name rated pairs as dev, or leave {name} out"
            raise ConfigError(f"{name} is {getattr(recipe, name)!r} and there is no dev", remedy=remedy)


class RunOptions(Settings):
    """Options of a run that do not change the weights."""

    checkpoint_steps: CheckpointSteps = 1000
    resume: bool = option(False, "Resume from the newest checkpoint of OUT.")


class StsRecipe(PhaseRecipe):
    """Fine-tuning on rated sentence pairs: BioLORD 2022, appendix A.4, on several tables at once as in 2023.

    10 epochs and the rate 6e-6 are from A.4. Neither paper states its loss; ``"cosine"`` was the default of
    sentence-transformers for such tables.
    """

    epochs: Epochs = 10
    learning_rate: LearningRate = 6e-6
    loss: Literal["cosine", "cosent"] = option("cosine", "Squared error of the cosines, or CoSENT on their order.")


class ContrastiveRecipe(PhaseRecipe):
    """The contrastive phase: the pre-training of the 2022 paper and, with other data, of the 2023 paper.

    Neither paper states the temperature; 0.05 is the default of sentence-transformers (a scale of 20).
    """

    temperature: float = option(0.05, "Temperature of InfoNCE.", ge=MIN_VALUE, le=MAX_VALUE)
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> Self:
        """Return the defaults for a static encoder, measured in ``docs/explanation/training-biolord.md``."""
        return cls(batch_size=256, learning_rate=1e-3, weight_decay=0.0, feature_dropout=0.1)

    def for_encoder(self, start: str | Path) -> Self:
        """Return this recipe, for a static ``start`` with the defaults of :meth:`static` in unset fields."""
        if start != BUILTIN and not is_static(Path(start)):
            return self
        return self.static().replace(**{name: getattr(self, name) for name in self.model_fields_set})


class DistillationRecipe(PhaseRecipe):
    """Self-distillation: BioLORD-2023, section "Self-distillation phase".

    The paper reduces the targets to 64 principal components, has a ``"random"`` head and no ``head_rate``, and averages
    an unknown number of runs; here these have the seeds ``seed``, ``seed + 1`` and so on. A ``"ridge"`` head is a
    linear map from the embeddings of the start to the targets; the encoder then changes less in a short run (measured
    in ``docs/explanation/training-biolord.md``). The command and the recipe file make the ``descriptions``.
    """

    dimension: int = option(64, "Principal components of the targets.", ge=1)
    runs: int = option(3, "Encoders to train, each with its own seed.", ge=1)
    head_start: Literal["random", "ridge"] = option(
        "ridge", "Initial weights of the head: random, or fitted to the targets on the start."
    )
    descriptions: int = option(1, "Descriptions made of relations for each concept without a definition.", ge=0)
    head_rate: LearningRate | None = option(None, "Peak of the head's own learning rate.")

    @property
    def parameter_rates(self) -> dict[str, float]:
        """The learning rate of the head, if it has its own."""
        return {} if self.head_rate is None else {HEAD_WEIGHTS: self.head_rate}


class MultilingualRecipe(PhaseRecipe):
    """Cross-lingual distillation: BioLORD-2023, section "Cross-lingual distillation".

    The paper states no numbers. 5 epochs, batches of 64 and the rate 2e-5 are from the sentence-transformers example by
    the authors of the method (``examples/training/multilingual/make_multilingual.py``). The ``filter`` measures whether
    two names mean the same. The paper's is LaBSE; the built-in encoder needs no download. The weight of a pair grows
    from 0 to 1 between the cosines ``low`` and ``high``, by default
    :func:`~medlink.training.biolord.multilingual.estimate_thresholds` of the pairs. In the paper student and teacher
    both have 768 dimensions; a student of another dimension needs ``project``.
    """

    epochs: Epochs = 5
    filter: str = option(
        BUILTIN,
        "Encoder that measures whether pairs align: folder, hf:NAME such as the paper's "
        "hf:sentence-transformers/LaBSE, or 'builtin', which knows only clinical names in de, en, es; '': none.",
    )
    low: Cosine | None = option(None, "Cosine of the filter up to which the weight of a pair is 0.")
    high: Cosine | None = option(None, "Cosine of the filter from which the weight of a pair is 1.")
    project: bool = option(False, "Add a linear layer if the encoder and its teacher differ in width.")

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ConfigError("one of low and high is given without the other", remedy="give both, or neither")
        if self.low is not None and not self.filter:
            raise ConfigError("low and high are of a similarity filter, and there is none", remedy="name a filter")
        return self


class CoderPlusPlusRecipe(Recipe):
    """The recipe of Zeng et al. 2022; the defaults are those of its section 5.1, for a transformer.

    The paper trains for 1,200,000 steps and warms up for the first 10,000. It renews the neighbours every 60,000
    steps, "for each epoch", so there are 20 epochs. Weight decay and gradient norm are the defaults of the authors'
    ``coderpp/train/train.py``; the loss is :class:`~medlink.training.coderpp.loss.MultiSimilarityLoss`.
    """

    positives: int = option(30, "Synonyms that join an anchor in its batch: k of the paper.", ge=1)
    neighbours: int = option(30, "Nearest terms that join an anchor: m of the paper.", ge=1)
    anchors: int = option(16, "Anchors in a batch of one process.", ge=1)
    accumulation: int = option(8, "Batches in a step.", ge=1)
    mini_batch: MiniBatch = 0
    epochs: Epochs = 20
    refresh: Steps | Literal["epoch", "never"] = option(
        "epoch", "Renew the neighbours each 'epoch', 'never', or every N steps."
    )
    max_tokens: int = option(32, "Tokens of a term that a transformer reads.", ge=1)
    learning_rate: LearningRate = 4e-5
    warmup: Warmup = 1 / 120
    alpha: float = option(2.0, "Sharpness of the loss on positives.", ge=MIN_VALUE, le=MAX_VALUE)
    beta: float = option(50.0, "Sharpness of the loss on negatives.", ge=MIN_VALUE, le=MAX_VALUE)
    threshold: float = option(0.5, "Lambda of the loss, a cosine.", ge=-1, le=1)
    epsilon: float = option(0.1, "Margin of the pair mining, in cosine.", ge=0, le=2)
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> Self:
        """Return the defaults for a static encoder, measured in ``docs/explanation/training-coderpp.md``."""
        optimiser: dict[str, Any] = {"learning_rate": 1e-3, "warmup": 0.05, "weight_decay": 0.0}
        return cls(anchors=64, accumulation=1, epochs=3, threshold=0.7, feature_dropout=0.5, **optimiser)


class StaticRecipe(Settings):
    """Training of a static encoder from random weights; ``docs/explanation/training-static.md`` explains the defaults.

    A name in a small language is an anchor several times an epoch: the square root of the number of names in the
    largest language divided by those in its own, up to ``language_boost``.
    """

    epochs: Epochs = 8
    hard_epochs: int = option(
        _HARD_EPOCHS,
        "Last epochs, whose batches have near neighbours; by default 3, or all epochs if there are fewer.",
        ge=0,
    )
    hard_neighbours: int = option(8, "Near neighbours that join a name in such a batch.", ge=1)
    batch_size: int = option(512, "Pairs in a batch.", ge=2)
    temperature: float = option(0.04, "Temperature of InfoNCE.", gt=0)
    learning_rate: LearningRate = 2e-3
    warmup: float = option(0.05, "Share of the steps that warm up.", gt=0, lt=1)
    feature_dropout: FeatureDropout = 0.3
    language_boost: int = option(4, "Most times that a name of a small language is an anchor per epoch.", ge=1)
    foreign: float = option(0.5, "Probability of a positive in another language, if the concept has one.", ge=0, le=1)
    coarse_share: float = option(0.2, "Share of batches of coarse names, if there are any.", ge=0, lt=1)
    coarse_temperature: float = option(0.1, "Temperature for coarse names; the higher, the weaker their pull.", gt=0)
    seed: Seed = 1

    @model_validator(mode="before")
    @classmethod
    def _default_hard_epochs(cls, values: dict[str, Any]) -> dict[str, Any]:
        epochs = values.get("epochs")
        return {"hard_epochs": min(_HARD_EPOCHS, epochs), **values} if isinstance(epochs, int) else values

    @model_validator(mode="after")
    def _check_hard_epochs(self) -> Self:
        if self.hard_epochs > self.epochs:
            raise ValueError(f"hard_epochs is {self.hard_epochs}, at most the {self.epochs} epochs expected")
        return self


class StaticStudentRecipe(PhaseRecipe):
    """Distillation into a static encoder; ``docs/explanation/training-biolord.md`` explains the defaults.

    ``mini_batch`` and ``max_tokens`` must be 0: a static encoder does not use them.
    """

    epochs: Epochs = 12
    batch_size: BatchSize = 128
    learning_rate: LearningRate = 5e-3
    weight_decay: WeightDecay = 0.0
    mini_batch: Annotated[int, Field(ge=0, le=0)] = 0
    max_tokens: Annotated[int, Field(ge=0, le=0)] = 0
    feature_dropout: FeatureDropout = 0.0
    held_out: int = option(1000, "Names held out from training to measure on, at most one of a concept.", ge=1)


class GroundingRecipe(PhaseRecipe):
    """The recipe of Fivez et al. 2021, section 5.3: Adam at a constant rate, no decay, no clipping.

    Training stops at the first epoch without a better validation mAP, and writes the weights of the epoch before. The
    paper validates on one name of each concept with two or more; here a tenth of these concepts suffices, because
    concepts of most terminologies have two or three names. Negatives are drawn from 200 names as in the authors' code.
    """

    mini_batch: Literal[0] = 0
    max_tokens: Literal[0] = 0
    evaluate_steps: Literal["epoch"] = "epoch"
    schedule: ClassVar[str] = "constant_with_warmup"

    cca: bool = option(True, "Apply the linear map to names and concepts first.")
    hidden: int = option(38_400, "Width of the hidden layer; 0: no network, only the map.", ge=0)
    dropout: float = option(0.5, "Dropout of the hidden layer.", ge=0, lt=1)
    pairs: int = option(0, "Synonym pairs of an epoch, in whole batches; 0: all there are.", ge=0)
    margin: float = option(0.1, "Margin of the triplet loss, in cosine.", ge=0, le=2)
    synonym_dropout: float = option(0.5, "Share of its names dropped from a concept's prototype.", ge=0, lt=1)
    neighbours: int = option(200, "Nearest names that a negative is drawn from.", ge=1, le=10_000)
    validation: float = option(0.1, "Share of the concepts with synonyms that give a name for validation.", ge=0, le=1)
    epochs: Epochs = 100
    learning_rate: LearningRate = 1e-3
    warmup: Warmup = 0.0
    weight_decay: WeightDecay = 0.0
    max_grad_norm: GradientNorm = 0.0
    patience: int = option(1, "Epochs without a better mAP that end training; 0: no limit.", ge=0)

    @model_validator(mode="after")
    def _check_trainable(self) -> Self:
        if not self.hidden and not self.cca:
            raise ValueError("without cca and with a hidden layer of width 0 nothing is left to train")
        return self

    @classmethod
    def map_only(cls) -> Self:
        """Return the recipe of the linear map without a network, fitted on all names."""
        return cls(hidden=0, validation=0.0)


class MlteRecipe(PhaseRecipe):
    """Training of a regressor or classifier of pairs: Feng 2023, section IV-C.

    The prediction model is trained by Adam, with the best beta on the development set, from 0 to 3 by 0.5. Equation 3a
    has two layers; the paper does not state the width ``hidden`` between them. The fine-tuning uses AdamW, linear
    warm-up, and the best epoch on the development set. The paper's numbers for both are the defaults.
    """

    kind: Literal["regressor", "classifier"] = option("regressor", "Predict ratings, or labels 0 and 1.")
    fine_tune: bool = option(False, "Fine-tune the encoder first; else it is frozen.")
    epochs: Epochs = 10
    batch_size: BatchSize = 8
    learning_rate: LearningRate = 1e-5
    weight_decay: WeightDecay = 1e-4
    warmup: Warmup = 0.1
    dropout: float = option(0.1, "Dropout of the sentence embedding in fine-tuning.", ge=0, lt=1)
    head_epochs: int = option(30, "Passes of the prediction model over the data.", ge=1)
    head_batch_size: int = option(24, "Pairs in a step of the prediction model.", ge=2)
    head_learning_rate: float = option(0.02, "Learning rate of the prediction model.", gt=0, le=MAX_VALUE)
    head_weight_decay: float = option(0.001, "Weight decay of the prediction model, by Adam.", ge=0, le=MAX_VALUE)
    hidden: int = option(8, "Width of its hidden layer.", ge=1)
    beta: tuple[float, ...] = option(
        BETAS, "Weight of the order penalty; of several the best on --dev.", strict=False, min_length=1
    )

    @model_validator(mode="after")
    def _check_beta(self) -> Self:
        if min(self.beta) < 0 or max(self.beta) > MAX_VALUE:
            raise ValueError(f"beta is {self.beta}, at least 0 and at most {MAX_VALUE:g} expected")
        return self


class RankerRecipe(Settings):
    """Hyperparameters of :class:`~medlink.training.ranker.trainer.RankerTrainer`."""

    candidates: int = option(
        8, "First candidates of the linker that are re-ranked, in training and in use.", ge=2, le=64
    )
    negatives: int = option(3, "Wrong candidates for each right one.", ge=1, le=63)
    context: bool = option(False, "Also read the text around a mention.")
    definitions: bool = option(False, "Also read definitions of the candidates.")
    epochs: Epochs = 2
    batch_size: int = option(8, "Mentions in a step.", ge=1)
    learning_rate: LearningRate = 5e-5
    warmup: Warmup = 0.1
    weight_decay: WeightDecay = 0.01
    max_tokens: int = option(64, "Most tokens of mention and candidate.", ge=8, le=512)
    held_share: float = option(0.2, "Share of the mentions held out to fit weights and calibration.", gt=0, lt=1)
    seed: Seed = 1
