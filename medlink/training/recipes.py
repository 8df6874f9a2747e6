"""Recipes of encoders and regressors: hyperparameters with range, default, meaning and source. No torch is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN
from medlink.models.static.encoder import is_static
from medlink.settings import Settings

# In the 32 bits of training 1e6 leaves room for products. Cosines differ by at least 6e-8, so a sharper loss gains
# nothing.
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
FeatureDropout = Annotated[float, Field(ge=0, lt=1, description="Share of n-grams dropped from a name.")]
MiniBatch = Annotated[
    int, Field(ge=0, description="Rows embedded at a time with cached gradients; 0: the whole batch.")
]
CheckpointSteps = Annotated[int, Field(ge=1, description="Steps between checkpoints.")]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Random seed.")]


class Recipe(Settings):
    """Hyperparameters of every trainer. The same recipe, data and start give the same weights on a CPU.

    The learning rate rises to its peak and falls to 0, both linearly unless ``schedule`` differs. ``precision``
    ``"auto"`` is the 16-bit type of the GPU, and fp32 on a CPU. The defaults are those of BioLORD 2022, appendix A.2.
    """

    schedule: ClassVar[str] = "linear"
    """Name of the learning rate schedule in transformers."""

    learning_rate: LearningRate = 2e-5
    warmup: Warmup = 0.05
    weight_decay: WeightDecay = 0.01
    max_grad_norm: Annotated[
        float, Field(ge=0, le=MAX_VALUE, description="Norm to which gradients are clipped; 0: no clipping.")
    ] = 1.0
    precision: Annotated[Literal["auto", "fp32", "bf16", "fp16"], Field(description="Number type.")] = "auto"
    seed: Seed = 1

    @property
    def parameter_rates(self) -> dict[str, float]:
        """Learning rates that replace ``learning_rate``, by a regular expression of parameter names."""
        return {}


class PhaseRecipe(Recipe):
    """Further hyperparameters of every phase of BioLORD.

    One epoch and batches of 64 rows are the defaults of the pre-training of BioLORD 2022 (A.2; section 3.2 and A.4).
    Other defaults are those of sentence-transformers, as A.2 says. The 2023 paper gives its numbers in a supplement.
    ``mini_batch`` embeds a few rows at a time with cached gradients (Gao et al. 2021), so memory does not grow with the
    batch. A run writes the weights with the best development measure (A.4), taken each epoch or every
    ``evaluate_steps``.
    """

    epochs: Epochs = 1
    batch_size: BatchSize = 64
    mini_batch: MiniBatch = 0
    max_tokens: Annotated[
        int, Field(ge=0, description="Most tokens of a text that the model reads; 0: the limit of the model.")
    ] = 0
    evaluate_steps: Annotated[
        Annotated[int, Field(ge=1)] | Literal["epoch"],
        Field(description="Steps between two evaluations on --dev, or 'epoch'."),
    ] = "epoch"
    patience: Annotated[
        int, Field(ge=0, description="Evaluations on --dev without improvement that end training; 0: no limit.")
    ] = 0


def check_dev_options(recipe: PhaseRecipe, dev: object) -> None:
    """Raise ConfigError for options about the development measure if ``dev`` is ``None``."""
    for name in ("evaluate_steps", "patience"):
        if name in recipe.model_fields_set and dev is None:
            remedy = f"name rated pairs as dev, or leave {name} out"
            raise ConfigError(f"{name} is {getattr(recipe, name)!r} and there is no dev", remedy=remedy)


class RunOptions(Settings):
    """Options of a run that do not change the weights."""

    checkpoint_steps: CheckpointSteps = 1000
    resume: bool = Field(default=False, description="Resume from the newest checkpoint of OUT.")


class StsRecipe(PhaseRecipe):
    """Fine-tuning on rated sentence pairs: BioLORD 2022, appendix A.4, on several tables at once as in 2023.

    10 epochs and the rate 6e-6 are from A.4. Neither paper states its loss; the library's recipe for such tables used
    ``"cosine"`` at the time.
    """

    epochs: Epochs = 10
    learning_rate: LearningRate = 6e-6
    loss: Literal["cosine", "cosent"] = Field(
        default="cosine", description="Squared error of the cosines, or CoSENT on their order."
    )


class ContrastiveRecipe(PhaseRecipe):
    """The contrastive phase: the pre-training of the 2022 paper and, with other data, of the 2023 paper.

    Neither paper states the temperature; 0.05 is the library's default (a scale of 20).
    """

    temperature: float = Field(default=0.05, ge=MIN_VALUE, le=MAX_VALUE, description="Temperature of InfoNCE.")
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

    The paper reduces the targets to 64 principal components. It averages an unknown number of runs; here they have the
    seeds ``seed``, ``seed + 1`` and so on. The ``head_start`` of the paper is ``"random"``. The default, ``"ridge"``,
    fits a linear map from the embeddings of the start to the targets; the encoder then changes less in a short run
    (measured in ``docs/explanation/training-biolord.md``). The paper has no ``head_rate``. The command and the recipe
    file make the ``descriptions``; a trainer uses the given concepts.
    """

    dimension: int = Field(default=64, ge=1, description="Principal components of the targets.")
    runs: int = Field(default=3, ge=1, description="Encoders to train, each with its own seed.")
    head_start: Literal["random", "ridge"] = Field(
        default="ridge", description="Initial weights of the head: random, or fitted to the targets on the start."
    )
    descriptions: int = Field(
        default=1, ge=0, description="Descriptions made of relations for each concept without a definition."
    )
    head_rate: Annotated[LearningRate | None, Field(description="Peak of the head's own learning rate.")] = None

    @property
    def parameter_rates(self) -> dict[str, float]:
        """The learning rate of the head, if it has its own."""
        return {} if self.head_rate is None else {HEAD_WEIGHTS: self.head_rate}


class MultilingualRecipe(PhaseRecipe):
    """Cross-lingual distillation: BioLORD-2023, section "Cross-lingual distillation".

    The paper states no numbers. 5 epochs, batches of 64 and the rate 2e-5 are from the sentence-transformers example by
    the authors of the method (``examples/training/multilingual/make_multilingual.py``). The ``filter`` measures whether
    two names mean the same. The paper's is LaBSE (``hf:sentence-transformers/LaBSE``), a transformer trained on
    translated sentences. The default is the built-in encoder, which knows clinical names in three languages by their
    n-grams and needs no download. Between its cosines ``low`` and ``high`` the weight of a pair grows from 0 to 1
    (:func:`~medlink.training.biolord.multilingual.alignment_weights`). By default, both are estimated from the pairs
    (:func:`~medlink.training.biolord.multilingual.estimate_thresholds`). In the paper student and teacher both have 768
    dimensions; a student of another dimension needs ``project``.
    """

    epochs: Epochs = 5
    filter: str = Field(
        default=BUILTIN,
        description="Encoder that measures whether pairs align: folder, hf:NAME such as the paper's "
        "hf:sentence-transformers/LaBSE, or 'builtin', which knows only clinical names in de, en, es; '': none.",
    )
    low: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None, description="Cosine of the filter up to which the weight of a pair is 0."
    )
    high: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None, description="Cosine of the filter from which the weight of a pair is 1."
    )
    project: bool = Field(
        default=False, description="Add a linear layer to an encoder of another width than the teacher's."
    )

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ConfigError("one of low and high is given without the other", remedy="give both, or neither")
        if self.low is not None and not self.filter:
            raise ConfigError("low and high are of a similarity filter, and there is none", remedy="name a filter")
        return self


class CoderPlusPlusRecipe(Recipe):
    """The recipe of Zeng et al. 2022; the defaults are those of its section 5.1, for a transformer.

    In the paper a batch of one process has 16 anchors, and a step has 8 batches. The paper trains for 1,200,000 steps,
    and the first 10,000 are warm-up. It renews the neighbours every 60,000 steps, "for each epoch", so there are 20
    epochs. Weight decay and gradient norm are the defaults of the authors' ``coderpp/train/train.py``; the loss is
    :class:`~medlink.training.coderpp.loss.MultiSimilarityLoss`.
    """

    positives: int = Field(default=30, ge=1, description="Synonyms that join an anchor in its batch: k of the paper.")
    neighbours: int = Field(default=30, ge=1, description="Nearest terms that join an anchor: m of the paper.")
    anchors: int = Field(default=16, ge=1, description="Anchors in a batch of one process.")
    accumulation: int = Field(default=8, ge=1, description="Batches in a step.")
    mini_batch: MiniBatch = 0
    epochs: Epochs = 20
    refresh: Annotated[int, Field(ge=1)] | Literal["epoch", "never"] = Field(
        default="epoch", description="Renew the neighbours each 'epoch', 'never', or every N steps."
    )
    max_tokens: int = Field(default=32, ge=1, description="Tokens of a term that a transformer reads.")
    learning_rate: LearningRate = 4e-5
    warmup: Warmup = 1 / 120
    alpha: float = Field(default=2.0, ge=MIN_VALUE, le=MAX_VALUE, description="Sharpness of the loss on positives.")
    beta: float = Field(default=50.0, ge=MIN_VALUE, le=MAX_VALUE, description="Sharpness of the loss on negatives.")
    threshold: float = Field(default=0.5, ge=-1, le=1, description="Lambda of the loss, a cosine.")
    epsilon: float = Field(default=0.1, ge=0, le=2, description="Margin of the pair mining, in cosine.")
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> CoderPlusPlusRecipe:
        """Return the defaults for a static encoder, measured in ``docs/explanation/training-coderpp.md``."""
        sampling: dict[str, Any] = {"anchors": 64, "accumulation": 1, "epochs": 3}
        optimiser: dict[str, Any] = {"learning_rate": 1e-3, "warmup": 0.05, "weight_decay": 0.0}
        return cls(**sampling, **optimiser, threshold=0.7, feature_dropout=0.5)


class StaticRecipe(Settings):
    """Training of a static encoder from random weights; ``docs/explanation/training-static.md`` explains the defaults.

    A name in a small language is an anchor several times an epoch: the square root of the number of names in the
    largest language divided by those in its own, up to ``language_boost``.
    """

    epochs: Epochs = 8
    hard_epochs: int = Field(
        default=_HARD_EPOCHS,
        ge=0,
        description="Last epochs, whose batches have near neighbours; by default 3, or all epochs if there are fewer.",
    )
    hard_neighbours: int = Field(default=8, ge=1, description="Near neighbours that join a name in such a batch.")
    batch_size: int = Field(default=512, ge=2, description="Pairs in a batch.")
    temperature: float = Field(default=0.04, gt=0, description="Temperature of InfoNCE.")
    learning_rate: LearningRate = 2e-3
    warmup: float = Field(default=0.05, gt=0, lt=1, description="Share of the steps that warm up.")
    feature_dropout: FeatureDropout = 0.3
    language_boost: int = Field(
        default=4, ge=1, description="Most times that a name of a small language is an anchor per epoch."
    )
    foreign: float = Field(
        default=0.5, ge=0, le=1, description="Probability of a positive in another language, if the concept has one."
    )
    coarse_share: float = Field(
        default=0.2, ge=0, lt=1, description="Share of batches of coarse names, if there are any."
    )
    coarse_temperature: float = Field(
        default=0.1, gt=0, description="Temperature for coarse names; the higher, the weaker their pull."
    )
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
    held_out: int = Field(
        default=1000, ge=1, description="Names held out from training to measure on, at most one of a concept."
    )


class GroundingRecipe(PhaseRecipe):
    """The recipe of Fivez et al. 2021, section 5.3: Adam at a constant rate, no decay, no clipping.

    Training stops at the first epoch without a better validation mAP, and writes the weights of the epoch before. The
    paper validates on one name of each concept with two or more; here a tenth of these concepts suffices, because
    concepts of most terminologies have two or three names. Negatives are drawn from 200 names as in the authors' code;
    the paper gives no number. Training seldom reaches the bound ``epochs``.
    """

    mini_batch: Literal[0] = 0
    max_tokens: Literal[0] = 0
    evaluate_steps: Literal["epoch"] = "epoch"
    schedule: ClassVar[str] = "constant_with_warmup"

    cca: bool = Field(default=True, description="Apply the linear map to names and concepts first.")
    hidden: int = Field(default=38_400, ge=0, description="Width of the hidden layer; 0: no network, only the map.")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="Dropout of the hidden layer.")
    pairs: int = Field(default=0, ge=0, description="Synonym pairs of an epoch, in whole batches; 0: all there are.")
    margin: float = Field(default=0.1, ge=0, le=2, description="Margin of the triplet loss, in cosine.")
    synonym_dropout: float = Field(
        default=0.5, ge=0, lt=1, description="Share of its names dropped from a concept's prototype."
    )
    neighbours: int = Field(default=200, ge=1, le=10_000, description="Nearest names that a negative is drawn from.")
    validation: float = Field(
        default=0.1, ge=0, le=1, description="Share of the concepts with synonyms of which one is for validation."
    )
    epochs: Epochs = 100
    learning_rate: LearningRate = 1e-3
    warmup: Warmup = 0.0
    weight_decay: WeightDecay = 0.0
    max_grad_norm: float = Field(
        default=0.0, ge=0, le=1e6, description="Norm to which gradients are clipped; 0: no clipping."
    )
    patience: int = Field(default=1, ge=0, description="Epochs without a better mAP that end training; 0: no limit.")

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

    The prediction model is trained by Adam for 30 epochs at rate 0.02, with weight decay 0.001, batches of 24, and the
    best beta on the development set, from 0 to 3 by 0.5. Equation 3a has two layers; the width between them,
    ``hidden``, is ours. The fine-tuning uses AdamW for 10 epochs at rate 1e-5, with weight decay 1e-4, batches of 8, 10
    % linear warm-up, dropout 0.1 of the sentence embeddings, and the best epoch on the development set.
    """

    kind: Literal["regressor", "classifier"] = Field(
        default="regressor", description="Predict ratings, or labels 0 and 1."
    )
    fine_tune: bool = Field(default=False, description="Fine-tune the encoder first; else it is frozen.")
    epochs: Epochs = 10
    batch_size: BatchSize = 8
    learning_rate: LearningRate = 1e-5
    weight_decay: WeightDecay = 1e-4
    warmup: Warmup = 0.1
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout of the sentence embedding in fine-tuning.")
    head_epochs: int = Field(default=30, ge=1, description="Passes of the prediction model over the data.")
    head_batch_size: int = Field(default=24, ge=2, description="Pairs in a step of the prediction model.")
    head_learning_rate: float = Field(
        default=0.02, gt=0, le=MAX_VALUE, description="Learning rate of the prediction model."
    )
    head_weight_decay: float = Field(
        default=0.001, ge=0, le=MAX_VALUE, description="Weight decay of the prediction model, by Adam."
    )
    hidden: int = Field(default=8, ge=1, description="Width of its hidden layer.")
    beta: Annotated[
        tuple[float, ...],
        Field(strict=False, min_length=1, description="Weight of the order penalty; of several the best on --dev."),
    ] = BETAS

    @model_validator(mode="after")
    def _check_beta(self) -> Self:
        if min(self.beta) < 0 or max(self.beta) > MAX_VALUE:
            raise ValueError(f"beta is {self.beta}, at least 0 and at most {MAX_VALUE:g} expected")
        return self
