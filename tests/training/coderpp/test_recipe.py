"""The recipe: the paper's numbers, the settings of Table 5, and values that make no sense."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from medlink.errors import ConfigError
from medlink.training.recipes import CoderPlusPlusRecipe


def test_the_defaults_are_those_of_section_5_1() -> None:
    recipe = CoderPlusPlusRecipe()
    assert (recipe.positives, recipe.neighbours, recipe.anchors, recipe.accumulation) == (30, 30, 16, 8)
    # 16 anchors with 30 + 30 terms each, 8 batches, 8 processes: the 62,464 terms of a step
    assert recipe.anchors * (1 + recipe.positives + recipe.neighbours) * recipe.accumulation * 8 == 62_464
    assert (recipe.max_tokens, recipe.learning_rate, recipe.refresh) == (32, 4e-5, "epoch")
    assert recipe.warmup == pytest.approx(10_000 / 1_200_000)
    assert recipe.epochs == 1_200_000 // 60_000


@pytest.mark.parametrize(
    ("setting", "expected"), [("a", (1, 30, "never")), ("b", (30, 30, "never")), ("c", (30, 30, "epoch"))]
)
def test_table_5(setting: Literal["a", "b", "c"], expected: tuple[int, int, str]) -> None:
    base = CoderPlusPlusRecipe.static()
    recipe = base.table5(setting)
    assert (recipe.positives, recipe.neighbours, recipe.refresh) == expected
    assert recipe.replace(positives=30, neighbours=30, refresh="epoch") == base


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"positives": 0}, "positives is 0, at least 1"),
        ({"neighbours": 0}, "neighbours is 0, at least 1"),
        ({"anchors": 0}, "anchors is 0"),
        ({"accumulation": 0}, "accumulation is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, above 0 and at most 1e+06 expected"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1, at least 0 and at most 1e+06 expected"),
        ({"max_grad_norm": -1.0}, "max_grad_norm is -1.0, at least 0 and at most 1e+06 expected"),
        ({"alpha": -1.0}, "alpha is -1.0, at least 1e-06 and at most 1e+06 expected"),
        ({"alpha": 1e308}, "alpha is 1e+308, at least"),
        ({"beta": 1e-300}, "beta is 1e-300, at least 1e-06"),
        ({"threshold": 1.01}, "threshold is 1.01, at least -1 and at most 1 expected"),
        ({"threshold": -1.01}, "threshold is -1.01, at least"),
        ({"epsilon": 2.01}, "epsilon is 2.01, at least 0 and at most 2 expected"),
        ({"epsilon": -0.01}, "epsilon is -0.01, at least"),
        ({"warmup": 1.0}, "warmup is 1.0, at least 0 and below 1 expected"),
        ({"feature_dropout": -0.1}, "feature_dropout is -0.1, at least"),
        ({"seed": -1}, "seed is -1, at least 0 and below 4294967296 expected"),
        ({"seed": 2**32}, "seed is 4294967296, at least"),
        ({"refresh": "often"}, "refresh is 'often', a whole number or 'epoch' or 'never' expected"),
        ({"refresh": 0}, "refresh is 0"),
        ({"precision": "fp8"}, "precision is 'fp8', 'auto', 'fp32', 'bf16' or 'fp16' expected"),
    ],
)
def test_values_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        CoderPlusPlusRecipe(**given)
    assert message in str(error.value)
