"""How the phases of BioLORD train: every number of the recipes with its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from medlink.errors import ConfigError

PRECISIONS = ("auto", "fp32", "bf16", "fp16")

Range = tuple[Callable[[Any], bool], str]
"""Whether a value fits, and what is expected of it."""

# Training counts in 32 bits. Ten to the sixth leaves room for products; and two cosines of 32 bits are at least 6e-8
# apart, so that a loss sharper than that tells no more.
LARGEST, SMALLEST = 1e6, 1e-6
COUNT: Range = (lambda x: x >= 1, "at least 1")
NOT_BELOW_0: Range = (lambda x: x >= 0, "at least 0")
POSITIVE: Range = (lambda x: 0 < x <= LARGEST, f"a number above 0, at most {LARGEST:g}")
NOT_NEGATIVE: Range = (lambda x: 0 <= x <= LARGEST, f"a number from 0 to {LARGEST:g}")
SHARPNESS: Range = (lambda x: SMALLEST <= x <= LARGEST, f"a number from {SMALLEST:g} to {LARGEST:g}")
SHARE: Range = (lambda x: 0 <= x < 1, "a share from 0 to below 1")
SEED: Range = (lambda x: 0 <= x < 2**32, f"a whole number from 0 to {2**32 - 1}")


def check_recipe(recipe: Any, ranges: Mapping[str, Range]) -> None:
    """Refuse values out of range, and a precision that does not exist.

    Args:
        recipe: an object with a ``precision``, and with each name in ``ranges``.
        ranges: what is expected of each value.

    Raises:
        ConfigError: a value is out of range; the first one is named.

    >>> check_recipe(PhaseRecipe(), {"epochs": COUNT})
    """
    for name, (fits, expected) in ranges.items():
        # no comparison with "not a number" is true
        if not fits(getattr(recipe, name)):
            raise ConfigError(f"{name} is {getattr(recipe, name)}, {expected} expected")
    if recipe.precision not in PRECISIONS:
        raise ConfigError(f"precision is {recipe.precision!r}", remedy=f"give one of {', '.join(PRECISIONS)}")


@dataclass(frozen=True, slots=True)
class PhaseRecipe:
    """What every phase needs to know; the defaults are those of the pre-training of BioLORD 2022, appendix A.2.

    The 2023 paper leaves its numbers to a supplement that is not part of it. What neither names is the default of the
    library that both train with, as appendix A.2 says.

    Args:
        epochs: passes over the data (1 in A.2).
        batch_size: rows of a step, over all processes together (64 in section 3.2 and A.4).
        mini_batch: rows embedded at a time, with cached gradients (Gao et al. 2021), so that memory does not grow with
            the batch; 0 embeds the batch at once.
        learning_rate: peak of the linear warm-up and decay (2e-5 in A.2).
        warmup: share of the steps that the warm-up takes (5 % in A.2).
        weight_decay: of AdamW (0.01 in A.2).
        max_grad_norm: length to which a gradient is cut, 0 for not at all; 1 is the library's default.
        max_tokens: length at which a text is cut, in training and afterwards; 0 leaves the model's own.
        evaluate_steps: steps between two looks at the development measure, or ``"epoch"`` (A.4).
        patience: looks without a better measure after which training stops; 0 goes on to the end. The best weights
            are kept either way (A.4).
        precision: ``"fp32"``, ``"bf16"``, ``"fp16"``, or ``"auto"``: the 16-bit type that the GPU has, fp32 on a CPU
            (automatic mixed precision in A.2).
        seed: of all that is random.

    >>> PhaseRecipe().learning_rate, PhaseRecipe(batch_size=4096, mini_batch=128).batch_size
    (2e-05, 4096)
    """

    epochs: int = 1
    batch_size: int = 64
    mini_batch: int = 0
    learning_rate: float = 2e-5
    warmup: float = 0.05
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    max_tokens: int = 0
    evaluate_steps: int | Literal["epoch"] = "epoch"
    patience: int = 0
    precision: str = "auto"
    seed: int = 1

    RANGES: ClassVar[Mapping[str, Range]] = {
        "epochs": COUNT,
        "batch_size": COUNT,
        "mini_batch": NOT_BELOW_0,
        "learning_rate": POSITIVE,
        "warmup": SHARE,
        "weight_decay": NOT_NEGATIVE,
        "max_grad_norm": NOT_NEGATIVE,
        "max_tokens": NOT_BELOW_0,
        "evaluate_steps": (lambda x: x == "epoch" or (isinstance(x, int) and x >= 1), "'epoch' or at least 1"),
        "patience": NOT_BELOW_0,
        "seed": SEED,
    }

    def __post_init__(self) -> None:
        check_recipe(self, self.RANGES)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ContrastiveRecipe(PhaseRecipe):
    """The contrastive phase: the 2022 paper's pre-training, which the 2023 paper keeps with other data.

    Args:
        temperature: what cosines are divided by in InfoNCE. Neither paper names it; 0.05 is the library's default
            (a scale of 20).

    >>> ContrastiveRecipe().temperature
    0.05
    """

    temperature: float = 0.05

    RANGES: ClassVar[Mapping[str, Range]] = {**PhaseRecipe.RANGES, "temperature": SHARPNESS}


@dataclass(frozen=True, slots=True)
class StsRecipe(PhaseRecipe):
    """Fine-tuning on rated sentence pairs: BioLORD 2022, appendix A.4, on several tables at once as in 2023.

    Args:
        epochs: 10 in A.4.
        learning_rate: 6e-6 in A.4.
        loss: ``"cosine"`` (squared error of the cosine) or ``"cosent"`` (order of the cosines). Neither paper names its
            loss; the first is what the library's own recipe for such tables used at the time.

    >>> StsRecipe().epochs, StsRecipe().loss
    (10, 'cosine')
    """

    epochs: int = 10
    learning_rate: float = 6e-6
    loss: Literal["cosine", "cosent"] = "cosine"

    RANGES: ClassVar[Mapping[str, Range]] = {
        **PhaseRecipe.RANGES,
        "loss": (lambda x: x in ("cosine", "cosent"), "'cosine' or 'cosent'"),
    }
