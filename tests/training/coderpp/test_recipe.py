"""The recipe: the paper's numbers, the settings of Table 5, and values that make no sense."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Literal

import pytest

from medlink.errors import ConfigError
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe


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
    varied = {"positives", "neighbours", "refresh"}
    assert all(getattr(recipe, f.name) == getattr(base, f.name) for f in fields(recipe) if f.name not in varied)


def test_it_is_plain_data() -> None:
    recipe = CoderPlusPlusRecipe.static()
    assert CoderPlusPlusRecipe(**json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"positives": 0}, "positives is 0, at least 1"),
        ({"neighbours": 0}, "neighbours is 0, at least 1"),
        ({"anchors": 0}, "anchors is 0"),
        ({"accumulation": 0}, "accumulation is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, a number above 0, at most 1e+06 expected"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1, a number from 0 to 1e+06 expected"),
        ({"max_grad_norm": -1.0}, "max_grad_norm is -1.0, a number from 0 to 1e+06 expected"),
        ({"alpha": -1.0}, "alpha is -1.0, a number from 1e-06 to 1e+06 expected"),
        ({"alpha": 1e308}, "alpha is 1e+308, a number"),
        ({"beta": 1e-300}, "beta is 1e-300, a number from 1e-06"),
        ({"threshold": 1.01}, "threshold is 1.01, a cosine from -1 to 1 expected"),
        ({"threshold": -1.01}, "threshold is -1.01, a cosine"),
        ({"epsilon": 2.01}, "epsilon is 2.01, a difference of cosines from 0 to 2 expected"),
        ({"epsilon": -0.01}, "epsilon is -0.01, a difference"),
        ({"warmup": 1.0}, "warmup is 1.0, a share from 0 to below 1 expected"),
        ({"feature_dropout": -0.1}, "feature_dropout is -0.1, a share"),
        ({"seed": -1}, "seed is -1, a whole number from 0 to 4294967295 expected"),
        ({"seed": 2**32}, "seed is 4294967296, a whole number"),
        ({"refresh": "often"}, "refresh is 'often'. Remedy: give 'epoch', 'never' or a number of steps"),
        ({"refresh": 0}, "refresh is 0"),
        ({"precision": "fp8"}, "precision is 'fp8'. Remedy: give one of auto, fp32, bf16, fp16"),
    ],
)
def test_values_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        CoderPlusPlusRecipe(**given)
    assert message in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [f.name for f in fields(CoderPlusPlusRecipe) if f.type == "float"])
def test_no_number_is_no_value(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is {value}, .* expected$"):
        CoderPlusPlusRecipe(**{name: value})


def test_the_ends_of_the_ranges_are_within() -> None:
    for ends in (
        {"learning_rate": 1e6, "weight_decay": 1e6, "max_grad_norm": 0, "alpha": 1e6, "beta": 1e-6, "seed": 2**32 - 1},
        {"threshold": -1, "epsilon": 2, "warmup": 0, "weight_decay": 0, "seed": 0},
        {"threshold": 1, "epsilon": 0, "alpha": 1e-6, "beta": 1e6},
    ):
        assert ends.items() <= CoderPlusPlusRecipe(**ends).to_dict().items()  # type: ignore[arg-type]  # of several types
