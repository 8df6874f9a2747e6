"""How CODER++ trains: every number of the recipe with its source, and the settings that its paper compares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from medlink.errors import ConfigError
from medlink.training.common.recipes import COUNT, NOT_NEGATIVE, POSITIVE, SEED, SHARE, SHARPNESS, Range, check_recipe

_COUNTS = ("positives", "neighbours", "anchors", "accumulation", "epochs", "max_tokens")
_RANGES: dict[str, Range] = {
    **dict.fromkeys(_COUNTS, COUNT),
    "learning_rate": POSITIVE,
    "warmup": SHARE,
    "weight_decay": NOT_NEGATIVE,
    "max_grad_norm": NOT_NEGATIVE,
    "alpha": SHARPNESS,
    "beta": SHARPNESS,
    "threshold": (lambda x: -1 <= x <= 1, "a cosine from -1 to 1"),
    "epsilon": (lambda x: 0 <= x <= 2, "a difference of cosines from 0 to 2"),
    "feature_dropout": SHARE,
    "seed": SEED,
}


@dataclass(frozen=True, slots=True)
class CoderPlusPlusRecipe:
    """The recipe of Zeng et al. 2022; the defaults are those of its section 5.1, for a transformer.

    Args:
        positives: k, terms of the anchor's concept that join the batch with it.
        neighbours: m, terms now nearest to the anchor that join the batch with it.
        anchors: terms drawn at random for one batch of one process (16 in the paper).
        accumulation: batches whose gradients make one step (8 in the paper).
        epochs: passes over all terms. The paper makes 1,200,000 steps and renews the neighbours every 60,000, "for
            each epoch", which is 20 of them.
        refresh: when the neighbours are found anew from the model as it stands: each ``"epoch"``, ``"never"`` (those of
            the first model stay), or every so many steps.
        max_tokens: length at which a transformer cuts a term; a static encoder has no such limit.
        learning_rate: peak of the linear warm-up and decay.
        warmup: share of the steps that the warm-up takes (10,000 of 1,200,000 in the paper).
        weight_decay: of AdamW; 0.01 is the default of the authors' ``coderpp/train/train.py``.
        max_grad_norm: length to which a gradient is cut, 0 for not at all; 1 as in the authors' code.
        alpha, beta, threshold, epsilon: see :func:`medlink.training.coderpp.loss.multi_similarity`.
        feature_dropout: share of n-grams that a static encoder leaves out of each term.
        precision: ``"fp32"``, ``"bf16"``, ``"fp16"``, or ``"auto"``: the 16-bit type that the GPU has, fp32 on a CPU.
        seed: of all that is random.

    >>> CoderPlusPlusRecipe().positives, CoderPlusPlusRecipe().table5("b").refresh
    (30, 'never')
    """

    positives: int = 30
    neighbours: int = 30
    anchors: int = 16
    accumulation: int = 8
    epochs: int = 20
    refresh: int | Literal["epoch", "never"] = "epoch"
    max_tokens: int = 32
    learning_rate: float = 4e-5
    warmup: float = 1 / 120
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    alpha: float = 2.0
    beta: float = 50.0
    threshold: float = 0.5
    epsilon: float = 0.1
    feature_dropout: float = 0.0
    precision: str = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        check_recipe(self, _RANGES)
        if self.refresh not in ("epoch", "never") and (isinstance(self.refresh, str) or self.refresh < 1):
            raise ConfigError(
                f"refresh is {self.refresh!r}", remedy="give 'epoch', 'never' or a number of steps of at least 1"
            )

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
        return replace(self, **_TABLE_5[setting])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


_TABLE_5: dict[str, dict[str, Any]] = {
    "a": {"positives": 1, "neighbours": 30, "refresh": "never"},
    "b": {"positives": 30, "neighbours": 30, "refresh": "never"},
    "c": {"positives": 30, "neighbours": 30, "refresh": "epoch"},
}
