"""Recipes: the numbers of the papers, and values out of range."""

from __future__ import annotations

import pytest

from medlink.training.recipes import CoderPlusPlusRecipe, ContrastiveRecipe, StsRecipe


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
