"""The recipes of BioLORD's phases: every number with its source. What is imported here needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN
from medlink.models.static.encoder import is_static
from medlink.training.common.recipes import LARGEST, SMALLEST, Epochs, FeatureDropout, LearningRate, PhaseRecipe

HEAD = r"(^|\.)head\.linear\.(weight|bias)$"
"""The names of the weights of a head, among those of the model that it is on, which may have linear layers too."""
RUNS = "runs.json"
"""The file by which a folder of self-distilled encoders is known."""


class StsRecipe(PhaseRecipe):
    """Fine-tuning on rated sentence pairs: BioLORD 2022, appendix A.4, on several tables at once as in 2023.

    10 epochs and the rate 6e-6 are of A.4. Neither paper names its loss; ``"cosine"`` is what the library's own recipe
    for such tables used at the time.

    >>> StsRecipe().epochs, StsRecipe().loss
    (10, 'cosine')
    """

    epochs: Epochs = 10
    learning_rate: LearningRate = 6e-6
    loss: Annotated[
        Literal["cosine", "cosent"], Field(description="Squared error of the cosines, or CoSENT on their order.")
    ] = "cosine"


class ContrastiveRecipe(PhaseRecipe):
    """The contrastive phase: the 2022 paper's pre-training, which the 2023 paper keeps with other data.

    Neither paper names the temperature; 0.05 is the library's default (a scale of 20).

    >>> ContrastiveRecipe().temperature
    0.05
    """

    temperature: Annotated[float, Field(ge=SMALLEST, le=LARGEST, description="Temperature of InfoNCE.")] = 0.05
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> Self:
        """The recipe for a static encoder: what differs is as in the run that ``docs/biolord.md`` measures."""
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
    (measured in ``docs/distillation.md``). The paper names no rate of the head's own, which ``head_rate`` is. The
    command and the recipe file make the ``descriptions``; a trainer that is given concepts takes these as they are.

    >>> DistillationRecipe().dimension, DistillationRecipe().runs
    (64, 3)
    """

    dimension: Annotated[int, Field(ge=1, description="Principal components of the targets.")] = 64
    runs: Annotated[int, Field(ge=1, description="Encoders to train, each by a seed of its own.")] = 3
    head_start: Annotated[
        Literal["random", "ridge"],
        Field(description="Where the head begins: drawn by the seed, or fitted to the targets on the start."),
    ] = "ridge"
    descriptions: Annotated[
        int, Field(ge=0, description="Descriptions made of relations for each concept without a definition.")
    ] = 1
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
    weight of a pair grows from 0 to 1 (:func:`~medlink.training.biolord.multilingual_data.sense_weights`); without them
    both are found from the pairs (:func:`~medlink.training.biolord.multilingual_data.thresholds`). In the paper student
    and teacher both have 768 dimensions; without ``project`` a student of another width is refused.

    Raises:
        ConfigError: one of ``low`` and ``high`` is given without the other, or either without a filter.

    >>> MultilingualRecipe().epochs, MultilingualRecipe().filter
    (5, 'builtin')
    """

    epochs: Epochs = 5
    filter: Annotated[
        str,
        Field(
            description="Encoder that tells which pairs align: folder, hf:NAME such as the paper's "
            "hf:sentence-transformers/LaBSE, or 'builtin', which knows clinical names in de, en, es alone; '': none."
        ),
    ] = BUILTIN
    low: Annotated[
        Annotated[float, Field(ge=-1, le=1)] | None,
        Field(description="Cosine of the filter below which a pair counts nothing."),
    ] = None
    high: Annotated[
        Annotated[float, Field(ge=-1, le=1)] | None,
        Field(description="Cosine of the filter above which a pair counts fully."),
    ] = None
    project: Annotated[
        bool, Field(description="Add a linear layer to an encoder of another width than the teacher's.")
    ] = False

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ConfigError("one of low and high is given without the other", remedy="give both, or neither")
        if self.low is not None and not self.filter:
            raise ConfigError("low and high are of a similarity filter, and there is none", remedy="name a filter")
        return self
