"""Recipes: the numbers of the papers, and values out of range."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest

from medlink.errors import ConfigError
from medlink.training.recipes import CoderPlusPlusRecipe, ContrastiveRecipe, PhaseRecipe, Recipe, StsRecipe


def test_the_defaults_are_those_of_appendix_a() -> None:
    contrastive, sts = ContrastiveRecipe(), StsRecipe()
    for recipe in (contrastive, sts):
        assert (recipe.batch_size, recipe.warmup, recipe.weight_decay) == (64, 0.05, 0.01)
    assert (contrastive.epochs, contrastive.learning_rate) == (1, 2e-5)
    assert (sts.epochs, sts.learning_rate, sts.evaluate_steps) == (10, 6e-6, "epoch")


def test_the_coderpp_defaults_are_those_of_section_5_1() -> None:
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
def test_table_5_of_coderpp(setting: Literal["a", "b", "c"], expected: tuple[int, int, str]) -> None:
    base = CoderPlusPlusRecipe.static()
    recipe = base.table5(setting)
    assert (recipe.positives, recipe.neighbours, recipe.refresh) == expected
    assert recipe.replace(positives=30, neighbours=30, refresh="epoch") == base


@pytest.mark.parametrize(
    ("kind", "field", "value", "expected"),
    [
        (PhaseRecipe, "epochs", 0, "at least 1"),
        (PhaseRecipe, "batch_size", 0, "at least 1"),
        (PhaseRecipe, "mini_batch", -1, "at least 0"),
        (PhaseRecipe, "learning_rate", 0.0, "above 0 and at most 1e\\+06"),
        (PhaseRecipe, "learning_rate", float("nan"), ""),
        (PhaseRecipe, "warmup", 1.0, "at least 0 and below 1"),
        (PhaseRecipe, "weight_decay", -1.0, "at least 0 and at most 1e\\+06"),
        (PhaseRecipe, "max_grad_norm", -1.0, "at least 0 and at most 1e\\+06"),
        (PhaseRecipe, "max_tokens", -1, "at least 0"),
        (PhaseRecipe, "evaluate_steps", "often", "a whole number or 'epoch'"),
        (PhaseRecipe, "evaluate_steps", 0, "at least 1 or 'epoch'"),
        (PhaseRecipe, "patience", -1, "at least 0"),
        (PhaseRecipe, "precision", "fp8", "'auto', 'fp32', 'bf16' or 'fp16'"),
        (PhaseRecipe, "seed", 2**32, "at least 0 and below 4294967296"),
        (ContrastiveRecipe, "temperature", 0.0, "at least 1e-06"),
        (StsRecipe, "loss", "mse", "'cosine' or 'cosent'"),
        (CoderPlusPlusRecipe, "positives", 0, "at least 1"),
        (CoderPlusPlusRecipe, "neighbours", 0, "at least 1"),
        (CoderPlusPlusRecipe, "anchors", 0, "at least 1"),
        (CoderPlusPlusRecipe, "accumulation", 0, "at least 1"),
        (CoderPlusPlusRecipe, "max_tokens", 0, "at least 1"),
        (CoderPlusPlusRecipe, "alpha", 1e308, "at least 1e-06 and at most 1e\\+06"),
        (CoderPlusPlusRecipe, "beta", 1e-300, "at least 1e-06"),
        (CoderPlusPlusRecipe, "threshold", 1.01, "at least -1 and at most 1"),
        (CoderPlusPlusRecipe, "epsilon", -0.01, "at least 0 and at most 2"),
        (CoderPlusPlusRecipe, "feature_dropout", -0.1, "at least 0 and below 1"),
        (CoderPlusPlusRecipe, "refresh", "often", "a whole number or 'epoch' or 'never'"),
        (CoderPlusPlusRecipe, "refresh", 0, ""),
    ],
)
def test_values_out_of_range(kind: type[Recipe], field: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {re.escape(repr(value))}.*{expected}"):
        kind(**{field: value})
