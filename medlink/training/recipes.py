"""The recipes of all trainers: each number with its range, default, meaning and source. No torch is needed here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN
from medlink.models.static.encoder import is_static
from medlink.settings import Settings

# Training counts in 32 bits. Ten to the sixth leaves room for products; and two cosines of 32 bits are at least 6e-8
# apart, so that a loss sharper than that tells no more.
LARGEST, SMALLEST = 1e6, 1e-6
HAIR = 1e-9
"""By how much shares that make a whole may miss it."""
HEAD = r"(^|\.)head\.linear\.(weight|bias)$"
"""The names of the weights of a head, among those of the model that it is on, which may have linear layers too."""
BETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_HARD_EPOCHS = 3

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
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")]


class Recipe(Settings):
    """What the recipe of every trainer states. The same recipe, data and start give the same weights on a CPU.

    The learning rate grows to its peak and falls to 0, both linearly, unless ``schedule`` says otherwise. ``precision``
    ``"auto"`` is the 16-bit type that the GPU has, and fp32 on a CPU. The defaults are those of BioLORD 2022, appendix
    A.2.
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
    seed: Seed = 1

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
    """Refuse (ConfigError) what of a recipe means nothing without a development measure where there is none."""
    for name in ("evaluate_steps", "patience"):
        if name in recipe.model_fields_set and dev is None:
            remedy = f"name rated pairs as dev, or leave {name} out"
            raise ConfigError(f"{name} is {getattr(recipe, name)!r} and there is no dev", remedy=remedy)


class RunOptions(Settings):
    """How a run goes. None of it changes the weights."""

    checkpoint_steps: CheckpointSteps = 1000
    workers: Workers = 0
    resume: bool = Field(default=False, description="Go on from the newest checkpoint of OUT.")


class PairRecipe(Settings):
    """Which pairs, and how many: the defaults are those of Remy et al. 2022, sections 3.1 and 3.2.

    Without a number of pairs an epoch has as many as there are when each definition comes ``definition_repeats`` times;
    without definitions, each relation or name once. The paper has no pairs of two names of a concept, as other models
    have them, on purpose (section 3). The pairs that are neither have a description, which begins with the name of an
    ancestor, a semantic type or "something"; the paper names the three and no shares, hence a third each. A concept
    without a semantic type or an ancestor gets "something". Two shares that are more than 1 together are refused.
    """

    pairs: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Pairs in an epoch.")
    definition_share: float = Field(default=0.15, ge=0, le=1, description="Share of pairs with a definition.")
    name_share: float = Field(default=0.0, ge=0, le=1, description="Share of pairs of two names of a concept.")
    definition_repeats: int = Field(
        default=50, ge=1, description="How often a definition comes in an epoch where --pairs does not say it."
    )
    open_share: float = Field(
        default=1 / 3, ge=0, le=1, description="Share of descriptions that begin with 'something'."
    )
    semantic_type_share: float = Field(
        default=1 / 3, ge=0, le=1, description="Share of descriptions that begin with a semantic type."
    )
    seed: Seed = 1

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        for one, other in (("definition_share", "name_share"), ("open_share", "semantic_type_share")):
            if getattr(self, one) + getattr(self, other) > 1 + HAIR:
                raise ValueError(f"{one} and {other} together are more than 1")
        return self

    @property
    def description_share(self) -> float:
        """Share of pairs with a description: what the other two leave."""
        rest = 1 - self.definition_share - self.name_share
        # 1 - 0.7 - 0.3 is a hair above 0
        return rest if rest > HAIR else 0.0


class StsRecipe(PhaseRecipe):
    """Fine-tuning on rated sentence pairs: BioLORD 2022, appendix A.4, on several tables at once as in 2023.

    10 epochs and the rate 6e-6 are of A.4. Neither paper names its loss; ``"cosine"`` is what the library's own recipe
    for such tables used at the time.
    """

    epochs: Epochs = 10
    learning_rate: LearningRate = 6e-6
    loss: Literal["cosine", "cosent"] = Field(
        default="cosine", description="Squared error of the cosines, or CoSENT on their order."
    )


class ContrastiveRecipe(PhaseRecipe):
    """The contrastive phase: the 2022 paper's pre-training, which the 2023 paper keeps with other data.

    Neither paper names the temperature; 0.05 is the library's default (a scale of 20).
    """

    temperature: float = Field(default=0.05, ge=SMALLEST, le=LARGEST, description="Temperature of InfoNCE.")
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> Self:
        """The recipe for a static encoder: what differs is as measured in ``docs/explanation/training-biolord.md``."""
        return cls(batch_size=256, learning_rate=1e-3, weight_decay=0.0, feature_dropout=0.1)

    def suited(self, start: str | Path) -> Self:
        """This recipe, where the start is a static encoder with its defaults for all that was not given."""
        if start != BUILTIN and not is_static(Path(start)):
            return self
        return self.static().replace(**{name: getattr(self, name) for name in self.model_fields_set})


class DistillationRecipe(PhaseRecipe):
    """Self-distillation: BioLORD-2023, section "Self-distillation phase".

    The paper reduces the targets to 64 principal components. It averages several runs and does not say how many; here
    they have the seeds ``seed``, ``seed + 1`` and so on. A ``head_start`` that is ``"random"`` is the paper's; the
    default, ``"ridge"``, is the linear map that fits the targets best on the start, which a short run bends less
    (measured in ``docs/explanation/training-biolord.md``). The paper names no rate of the
    head's own (``head_rate``). The command and the recipe file make the ``descriptions``; a trainer that is given
    concepts takes these as they are.
    """

    dimension: int = Field(default=64, ge=1, description="Principal components of the targets.")
    runs: int = Field(default=3, ge=1, description="Encoders to train, each by a seed of its own.")
    head_start: Literal["random", "ridge"] = Field(
        default="ridge", description="Where the head begins: drawn by the seed, or fitted to the targets on the start."
    )
    descriptions: int = Field(
        default=1, ge=0, description="Descriptions made of relations for each concept without a definition."
    )
    head_rate: Annotated[LearningRate | None, Field(description="Peak of the head's own learning rate.")] = None

    @property
    def rates(self) -> dict[str, float]:
        """The rate of the head, where it has one of its own."""
        return {} if self.head_rate is None else {HEAD: self.head_rate}


class MultilingualRecipe(PhaseRecipe):
    """Cross-lingual distillation: BioLORD-2023, section "Cross-lingual distillation".

    What the paper does not name is that of the example with which sentence-transformers presents the method
    (``examples/training/multilingual/make_multilingual.py``, by its authors): 5 epochs, batches of 64, rate 2e-5.
    ``filter`` says how far two names mean the same. The paper's is LaBSE (``hf:sentence-transformers/LaBSE``), a
    transformer trained on translated sentences. The default is not of that kind: the built-in encoder knows clinical
    names in three languages by their n-grams, and needs no download. Between its cosines ``low`` and ``high`` the
    weight of a pair grows from 0 to 1 (:func:`~medlink.training.biolord.multilingual.sense_weights`); without them both
    are found from the pairs (:func:`~medlink.training.biolord.multilingual.thresholds`). In the paper student and
    teacher both have 768 dimensions; without ``project`` a student of another width is refused.
    """

    epochs: Epochs = 5
    filter: str = Field(
        default=BUILTIN,
        description="Encoder that tells which pairs align: folder, hf:NAME such as the paper's "
        "hf:sentence-transformers/LaBSE, or 'builtin', which knows clinical names in de, en, es alone; '': none.",
    )
    low: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None, description="Cosine of the filter below which a pair counts nothing."
    )
    high: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None, description="Cosine of the filter above which a pair counts fully."
    )
    project: bool = Field(
        default=False, description="Add a linear layer to an encoder of another width than the teacher's."
    )

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ConfigError("one of low and high is given without the other", remedy="give both, or neither")
        if self.low is not None and not self.filter:
            raise ConfigError("low and high are of a similarity filter, and there is none", remedy="name a filter")
        return self


class CoderPlusPlusRecipe(Recipe):
    """The recipe of Zeng et al. 2022; the defaults are those of its section 5.1, for a transformer.

    There a batch of one process has 16 anchors, and 8 batches make a step. The paper makes 1,200,000 steps, of which
    10,000 warm up, and renews the neighbours every 60,000, "for each epoch", which is 20 epochs. Weight decay and the
    length of a gradient are the defaults of the authors' ``coderpp/train/train.py``; the loss is
    :func:`~medlink.training.coderpp.loss.multi_similarity`.
    """

    positives: int = Field(default=30, ge=1, description="Terms of its concept that join an anchor: k of the paper.")
    neighbours: int = Field(default=30, ge=1, description="Nearest terms that join an anchor: m of the paper.")
    anchors: int = Field(default=16, ge=1, description="Anchors in a batch of one process.")
    accumulation: int = Field(default=8, ge=1, description="Batches in a step.")
    mini_batch: MiniBatch = 0
    epochs: Epochs = 20
    refresh: Annotated[int, Field(ge=1)] | Literal["epoch", "never"] = Field(
        default="epoch", description="Find the neighbours anew each 'epoch', 'never', or every N steps."
    )
    max_tokens: int = Field(default=32, ge=1, description="Tokens of a term that a transformer reads.")
    learning_rate: LearningRate = 4e-5
    warmup: Warmup = 1 / 120
    alpha: float = Field(default=2.0, ge=SMALLEST, le=LARGEST, description="Sharpness of the loss on positives.")
    beta: float = Field(default=50.0, ge=SMALLEST, le=LARGEST, description="Sharpness of the loss on negatives.")
    threshold: float = Field(default=0.5, ge=-1, le=1, description="Lambda of the loss, a cosine.")
    epsilon: float = Field(default=0.1, ge=0, le=2, description="Margin of the pair mining, in cosine.")
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> CoderPlusPlusRecipe:
        """The recipe for a static encoder: what differs is measured in ``docs/explanation/training-coderpp.md``."""
        sampling: dict[str, Any] = {"anchors": 64, "accumulation": 1, "epochs": 3}
        optimiser: dict[str, Any] = {"learning_rate": 1e-3, "warmup": 0.05, "weight_decay": 0.0}
        return cls(**sampling, **optimiser, threshold=0.7, feature_dropout=0.5)

    def table5(self, setting: Literal["a", "b", "c"]) -> CoderPlusPlusRecipe:
        """This recipe with the sampling of one row of Table 5 of the paper.

        Args:
            setting: ``"a"`` (k = 1, m = 30, neighbours never renewed), ``"b"`` (k = m = 30, never renewed) or ``"c"``
                (k = m = 30, renewed each epoch: CODER++ as proposed).
        """
        changes: dict[str, Any] = {"positives": 1 if setting == "a" else 30, "neighbours": 30}
        return self.replace(**changes, refresh="epoch" if setting == "c" else "never")


class StaticRecipe(Settings):
    """How a static encoder is trained from nothing; the numbers come from experiments
    (``docs/explanation/training-static.md``).

    A language with few names is worth more: each of its names is an anchor as often an epoch as the square root of how
    many times fewer they are than those of the largest language, ``language_boost`` times at most.
    """

    epochs: Epochs = 8
    hard_epochs: int = Field(
        default=_HARD_EPOCHS,
        ge=0,
        description="Last epochs, whose batches hold near neighbours; by default 3 or all of fewer.",
    )
    hard_neighbours: int = Field(default=8, ge=1, description="Near neighbours that join a name in such a batch.")
    batch_size: int = Field(default=512, ge=2, description="Pairs in a batch.")
    temperature: float = Field(default=0.04, gt=0, description="What cosines are divided by in the loss.")
    learning_rate: LearningRate = 2e-3
    warmup: float = Field(default=0.05, gt=0, lt=1, description="Share of the steps that warm up.")
    feature_dropout: FeatureDropout = 0.3
    language_boost: int = Field(
        default=4, ge=1, description="How often a name of a language with few is an anchor per epoch, at most."
    )
    foreign: float = Field(
        default=0.5, ge=0, le=1, description="Chance of a name to meet one in another language where there is one."
    )
    coarse_share: float = Field(
        default=0.2, ge=0, lt=1, description="Share of the batches that are of coarse names, where there are some."
    )
    coarse_temperature: float = Field(
        default=0.1, gt=0, description="What their cosines are divided by; the higher, the weaker they are drawn."
    )
    seed: Seed = 1

    @model_validator(mode="before")
    @classmethod
    def _no_more_than_all(cls, values: dict[str, Any]) -> dict[str, Any]:
        epochs = values.get("epochs")
        return {"hard_epochs": min(_HARD_EPOCHS, epochs), **values} if isinstance(epochs, int) else values

    @model_validator(mode="after")
    def _hard_epochs_are_epochs(self) -> Self:
        if self.hard_epochs > self.epochs:
            raise ValueError(f"hard_epochs is {self.hard_epochs}, at most the {self.epochs} epochs expected")
        return self


class StaticStudentRecipe(PhaseRecipe):
    """How a static student learns; the numbers come from the experiments in ``docs/explanation/training-biolord.md``.

    A static encoder has no use for ``mini_batch`` and ``max_tokens``, which must be 0.
    """

    epochs: Epochs = 12
    batch_size: BatchSize = 128
    learning_rate: LearningRate = 5e-3
    weight_decay: WeightDecay = 0.0
    mini_batch: Annotated[int, Field(ge=0, le=0)] = 0
    max_tokens: Annotated[int, Field(ge=0, le=0)] = 0
    feature_dropout: FeatureDropout = 0.0
    held_out: int = Field(
        default=1000, ge=1, description="Names kept from training to measure on, at most one of a concept."
    )


class GroundingRecipe(PhaseRecipe):
    """The recipe of Fivez et al. 2021, section 5.3: Adam at a constant rate, no decay, gradients as they are.

    Training stops at the first epoch whose validation mAP is no better, and the epoch before counts. There one name of
    each concept with two or more is for validation; here of a tenth of these concepts, as most terminologies have two
    or three names of a concept. The paper does not say how many names negatives are drawn from; 200 is that of the
    authors' code. ``epochs`` is a bound that is seldom met.
    """

    mini_batch: Literal[0] = 0
    max_tokens: Literal[0] = 0
    evaluate_steps: Literal["epoch"] = "epoch"
    schedule: ClassVar[str] = "constant_with_warmup"

    cca: bool = Field(default=True, description="Whether names and concepts pass the linear map first.")
    hidden: int = Field(default=38_400, ge=0, description="Width of the hidden layer; 0: no network, the map alone.")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="Dropout of the hidden layer.")
    pairs: int = Field(default=0, ge=0, description="Synonym pairs of an epoch, in whole batches; 0: all there are.")
    margin: float = Field(default=0.1, ge=0, le=2, description="Margin of the triplet loss, in cosine.")
    synonym_dropout: float = Field(
        default=0.5, ge=0, lt=1, description="Share of its names left out of a concept's prototype."
    )
    neighbours: int = Field(default=200, ge=1, le=10_000, description="Nearest names that a negative is drawn from.")
    validation: float = Field(
        default=0.1, ge=0, le=1, description="Share of the concepts with synonyms that validate by one."
    )
    epochs: Epochs = 100
    learning_rate: LearningRate = 1e-3
    warmup: Warmup = 0.0
    weight_decay: WeightDecay = 0.0
    max_grad_norm: float = Field(default=0.0, ge=0, le=1e6, description="Longest gradient; 0: any length.")
    patience: int = Field(default=1, ge=0, description="Epochs without a better mAP that end training; 0: none.")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.hidden and not self.cca:
            raise ValueError("without cca and with a hidden layer of width 0 nothing is left to train")
        return self

    @classmethod
    def map_alone(cls) -> Self:
        """The map without a network, fitted on all names."""
        return cls(hidden=0, validation=0.0)


class MlteRecipe(PhaseRecipe):
    """How a regressor or classifier of pairs is trained: Feng 2023, section IV-C.

    The prediction model: Adam, 30 epochs, rate 0.02, weight decay 0.001, batches of 24, and beta from 0 to 3 by 0.5, of
    which the development set chooses. Equation 3a has two layers; the width between them, ``hidden``, is ours. The
    fine-tuning: AdamW, 10 epochs, rate 1e-5, weight decay 1e-4, batches of 8, 10 % linear warm-up, dropout 0.1 of the
    sentence embeddings, the best epoch on the development set.
    """

    kind: Literal["regressor", "classifier"] = Field(
        default="regressor", description="What is learned: ratings, or labels 0 and 1."
    )
    fine_tune: bool = Field(default=False, description="Fine-tune the encoder first; else it is frozen.")
    epochs: Epochs = 10
    batch_size: BatchSize = 8
    learning_rate: LearningRate = 1e-5
    weight_decay: WeightDecay = 1e-4
    warmup: Warmup = 0.1
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="Share of the sentence embedding left out in fine-tuning."
    )
    head_epochs: int = Field(default=30, ge=1, description="Passes of the prediction model over the data.")
    head_batch_size: int = Field(default=24, ge=2, description="Pairs of a step of the prediction model.")
    head_learning_rate: float = Field(
        default=0.02, gt=0, le=LARGEST, description="Learning rate of the prediction model."
    )
    head_weight_decay: float = Field(
        default=0.001, ge=0, le=LARGEST, description="Weight decay of the prediction model, by Adam."
    )
    hidden: int = Field(default=8, ge=1, description="Width between its two layers.")
    beta: Annotated[
        tuple[float, ...],
        Field(strict=False, min_length=1, description="Weight of pairs out of order; of several --dev chooses."),
    ] = BETAS

    @model_validator(mode="after")
    def _betas(self) -> Self:
        if min(self.beta) < 0 or max(self.beta) > LARGEST:
            raise ValueError(f"beta is {self.beta}, at least 0 and at most {LARGEST:g} expected")
        return self


class RankerRecipe(Settings):
    """The numbers of :class:`~medlink.training.ranker.trainer.RankerTrainer`; the same ones give the same ranker."""

    candidates: int = Field(
        default=8, ge=2, le=64, description="First candidates of the linker that are read, in training and in use."
    )
    negatives: int = Field(default=3, ge=1, le=63, description="Wrong candidates that a right one is set against.")
    context: bool = Field(default=False, description="Also read the text around a mention.")
    definitions: bool = Field(default=False, description="Also read definitions of the candidates.")
    epochs: Epochs = 2
    batch_size: int = Field(default=8, ge=1, description="Mentions of a step.")
    learning_rate: LearningRate = 5e-5
    warmup: Warmup = 0.1
    weight_decay: WeightDecay = 0.01
    max_tokens: int = Field(default=64, ge=8, le=512, description="Tokens of mention and candidate that are read.")
    held_share: float = Field(
        default=0.2, gt=0, lt=1, description="Share of the mentions that is held back to fit weights and curves."
    )
    seed: Seed = 1
