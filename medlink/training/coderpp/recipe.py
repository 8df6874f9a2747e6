"""How CODER++ trains: every number of the recipe with its source, and the settings that its paper compares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from medlink.training.common.recipes import (
    LARGEST,
    SMALLEST,
    Epochs,
    FeatureDropout,
    LearningRate,
    MiniBatch,
    Recipe,
    Warmup,
)


class CoderPlusPlusRecipe(Recipe):
    """The recipe of Zeng et al. 2022; the defaults are those of its section 5.1, for a transformer.

    There a batch of one process has 16 anchors, and 8 batches make a step. The paper makes 1,200,000 steps, of which
    10,000 warm up, and renews the neighbours every 60,000, "for each epoch", which is 20 epochs. Weight decay and the
    length of a gradient are the defaults of the authors' ``coderpp/train/train.py``; the loss is
    :func:`~medlink.training.coderpp.loss.multi_similarity`.

    Raises:
        ConfigError: a value is of another type or out of its range.

    >>> CoderPlusPlusRecipe().positives, CoderPlusPlusRecipe().table5("b").refresh
    (30, 'never')
    """

    positives: Annotated[int, Field(ge=1, description="Terms of its concept that join an anchor: k of the paper.")] = 30
    neighbours: Annotated[int, Field(ge=1, description="Nearest terms that join an anchor: m of the paper.")] = 30
    anchors: Annotated[int, Field(ge=1, description="Anchors in a batch of one process.")] = 16
    accumulation: Annotated[int, Field(ge=1, description="Batches in a step.")] = 8
    mini_batch: MiniBatch = 0
    epochs: Epochs = 20
    refresh: Annotated[
        Annotated[int, Field(ge=1)] | Literal["epoch", "never"],
        Field(description="Find the neighbours anew each 'epoch', 'never', or every N steps."),
    ] = "epoch"
    max_tokens: Annotated[int, Field(ge=1, description="Tokens of a term that a transformer reads.")] = 32
    learning_rate: LearningRate = 4e-5
    warmup: Warmup = 1 / 120
    alpha: Annotated[float, Field(ge=SMALLEST, le=LARGEST, description="Sharpness of the loss on positives.")] = 2.0
    beta: Annotated[float, Field(ge=SMALLEST, le=LARGEST, description="Sharpness of the loss on negatives.")] = 50.0
    threshold: Annotated[float, Field(ge=-1, le=1, description="Lambda of the loss, a cosine.")] = 0.5
    epsilon: Annotated[float, Field(ge=0, le=2, description="Margin of the pair mining, in cosine.")] = 0.1
    feature_dropout: FeatureDropout = 0.0

    @classmethod
    def static(cls) -> CoderPlusPlusRecipe:
        """The recipe for a static encoder: what differs comes from the experiments in ``docs/training.md``."""
        return cls(
            anchors=64,
            accumulation=1,
            epochs=3,
            learning_rate=1e-3,
            warmup=0.05,
            weight_decay=0.0,
            threshold=0.7,
            feature_dropout=0.5,
        )

    def table5(self, setting: Literal["a", "b", "c"]) -> CoderPlusPlusRecipe:
        """This recipe with the sampling of one row of Table 5 of the paper.

        Args:
            setting: ``"a"`` (k = 1, m = 30, neighbours never renewed), ``"b"`` (k = m = 30, never renewed) or ``"c"``
                (k = m = 30, renewed each epoch: CODER++ as proposed).
        """
        changes: dict[str, Any] = {"positives": 1 if setting == "a" else 30, "neighbours": 30}
        return self.replace(**changes, refresh="epoch" if setting == "c" else "never")
