"""The recipes of the phases: the numbers of the papers, and values that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.training.recipes import ContrastiveRecipe, PhaseRecipe, StsRecipe


def test_the_defaults_are_those_of_appendix_a() -> None:
    contrastive, sts = ContrastiveRecipe(), StsRecipe()
    for recipe in (contrastive, sts):
        assert (recipe.batch_size, recipe.warmup, recipe.weight_decay) == (64, 0.05, 0.01)
    assert (contrastive.epochs, contrastive.learning_rate) == (1, 2e-5)
    assert (sts.epochs, sts.learning_rate, sts.evaluate_steps) == (10, 6e-6, "epoch")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (PhaseRecipe, {"epochs": 0}, "epochs is 0, at least 1 expected"),
        (PhaseRecipe, {"batch_size": 0}, "batch_size is 0, at least 1 expected"),
        (PhaseRecipe, {"mini_batch": -1}, "mini_batch is -1, at least 0 expected"),
        (PhaseRecipe, {"learning_rate": 0.0}, "learning_rate is 0.0, above 0 and at most 1e\\+06"),
        (PhaseRecipe, {"learning_rate": float("nan")}, "learning_rate is nan"),
        (PhaseRecipe, {"warmup": 1.0}, "warmup is 1.0, at least 0 and below 1 expected"),
        (PhaseRecipe, {"weight_decay": -1.0}, "weight_decay is -1.0, at least 0 and at most"),
        (PhaseRecipe, {"max_grad_norm": -1.0}, "max_grad_norm is -1.0, at least 0 and at most"),
        (PhaseRecipe, {"max_tokens": -1}, "max_tokens is -1, at least 0 expected"),
        (PhaseRecipe, {"evaluate_steps": "often"}, "evaluate_steps is 'often', a whole number or 'epoch' expected"),
        (PhaseRecipe, {"evaluate_steps": 0}, "evaluate_steps is 0, at least 1 or 'epoch' expected"),
        (PhaseRecipe, {"patience": -1}, "patience is -1, at least 0 expected"),
        (PhaseRecipe, {"precision": "fp8"}, "precision is 'fp8', 'auto', 'fp32', 'bf16' or 'fp16' expected"),
        (PhaseRecipe, {"seed": 2**32}, "seed is 4294967296, at least 0 and below 4294967296 expected"),
        (ContrastiveRecipe, {"temperature": 0.0}, "temperature is 0.0, at least 1e-06 and at most"),
        (ContrastiveRecipe, {"epochs": 0}, "epochs is 0"),
        (StsRecipe, {"loss": "mse"}, "loss is 'mse', 'cosine' or 'cosent' expected"),
    ],
)
def test_values_that_make_no_sense(kind: type[PhaseRecipe], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**given)
