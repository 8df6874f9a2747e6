"""The prediction model of MLTE: two layers on the features of a pair, trained with a penalty on pairs out of order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.errors import EncoderError
from medlink.training.mlte.kernels import Vectors
from medlink.training.recipes import MlteRecipe


@dataclass(frozen=True, slots=True)
class Head:
    """Two layers on scaled features: ``features (n, f)`` and ``extra (n, c)`` to scores ``(n,)``.

    Feng 2023, equation 3a: the first layer sees the features of a pair, the second its output and what else is known of
    the pair. The paper leaves open how features are scaled and what stands between the layers; here that is mean and
    standard deviation on the training pairs, and a ReLU.

    Args:
        mean, deviation: ``(f,)`` of the features.
        first, first_bias, second, second_bias: ``(f, h)``, ``(h,)``, ``(h + c,)`` and ``(1,)``, h the width between.
    """

    mean: Vectors
    deviation: Vectors
    first: Vectors
    first_bias: Vectors
    second: Vectors
    second_bias: Vectors

    def __call__(self, features: Vectors, extra: Vectors) -> Vectors:
        """Ratings, or logits of a classifier."""
        hidden = np.maximum((features - self.mean) / self.deviation @ self.first + self.first_bias, 0)
        return np.asarray(np.concatenate([hidden, extra], axis=1) @ self.second + self.second_bias)

    def tensors(self) -> dict[str, Vectors]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def order_penalty(predicted: Tensor, gold: Tensor) -> Tensor:
    """By how much neighbours are out of order, summed: ``(...,)`` of ``predicted (..., n)`` and ``gold (n,)``.

    Feng 2023, equation 3b, second term: with the batch sorted by gold, the sum of ``max(0, predicted_i -
    predicted_i+1)``. Pairs of one gold value are neighbours too, in the order of the batch.

    >>> order_penalty(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.0, 2.0, 1.0])).item()  # 3 before 2 before 1
    2.0
    """
    ordered = predicted[..., torch.argsort(gold, stable=True)]
    return (ordered[..., :-1] - ordered[..., 1:]).clamp(min=0).sum(dim=-1)


def head_loss(output: Tensor, gold: Tensor, beta: Tensor | float, kind: str) -> Tensor:
    """Loss ``(...,)`` of ``output (..., n)`` under ``gold (n,)``: squared error plus beta times :func:`order_penalty`.

    Feng 2023, equation 3b. Of a classifier, whose loss the paper does not write, the error is the cross-entropy of the
    logits, and the order is that of the probabilities.

    >>> head_loss(torch.tensor([2.0, 0.0]), torch.tensor([0.0, 1.0]), 0.5, "regressor").item()  # (4 + 1) / 2 + 0.5 * 2
    3.5
    """
    if kind == "regressor":
        return ((output - gold) ** 2).mean(dim=-1) + beta * order_penalty(output, gold)
    error = functional.binary_cross_entropy_with_logits(output, gold.expand_as(output), reduction="none")
    return error.mean(dim=-1) + beta * order_penalty(output.sigmoid(), gold)


def fit_heads(features: Vectors, extra: Vectors, gold: Vectors, recipe: MlteRecipe) -> list[Head]:
    """Train a head for each beta of the recipe; they begin alike and see the same batches.

    All are trained at once. Adam scales each weight by itself, so that none feels the others.

    Args:
        features, extra, gold: ``(n, f)``, ``(n, c)`` and ``(n,)`` of the training pairs.

    Raises:
        EncoderError: the loss is NaN or infinite.
    """
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    # what rounding leaves of a column that does not vary is no deviation
    deviation = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, 1.0)
    inputs, known = torch.from_numpy((features - mean) / deviation), torch.from_numpy(extra)
    target, betas = torch.from_numpy(gold), torch.tensor(recipe.beta, dtype=torch.float64)
    weights = _start(inputs.shape[1], known.shape[1], recipe)
    optimiser = torch.optim.Adam(weights, recipe.head_learning_rate, weight_decay=recipe.head_weight_decay)
    for epoch in range(recipe.head_epochs):
        order = np.random.default_rng([recipe.seed, epoch]).permutation(len(gold))
        for start in range(0, len(order), recipe.head_batch_size):
            rows = torch.from_numpy(order[start : start + recipe.head_batch_size])
            output = _forward(weights, inputs[rows], known[rows])
            loss = head_loss(output, target[rows], betas, recipe.kind).sum()
            if not torch.isfinite(loss):
                remedy = "lower head_learning_rate or beta"
                raise EncoderError(f"the loss is {loss.item()} in epoch {epoch + 1} of the head", remedy=remedy)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
    first, first_bias, second, second_bias = (weight.detach().numpy() for weight in weights)
    return [
        Head(mean, deviation, first[i], first_bias[i, 0], second[i, :, 0], second_bias[i, 0])
        for i in range(len(recipe.beta))
    ]


def _start(features: int, extra: int, recipe: MlteRecipe) -> list[Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        layers = [torch.nn.Linear(features, recipe.hidden), torch.nn.Linear(recipe.hidden + extra, 1)]
    drawn = [tensor for layer in layers for tensor in (layer.weight.T, layer.bias[None])]
    return [t.detach().double().repeat(len(recipe.beta), 1, 1).requires_grad_() for t in drawn]


def _forward(weights: Sequence[Tensor], inputs: Tensor, extra: Tensor) -> Tensor:
    """Outputs ``(betas, n)`` of ``(n, f)`` scaled features and ``(n, c)`` extra ones."""
    first, first_bias, second, second_bias = weights
    hidden = (inputs @ first + first_bias).relu()
    known = extra.expand(len(first), *extra.shape)
    return (torch.cat([hidden, known], dim=2) @ second + second_bias)[..., 0]


def quality(scores: Vectors, gold: Vectors, kind: str) -> float:
    """How good scores ``(n,)`` are: Pearson correlation, or macro F1 of a classifier's probabilities above 0.5.

    Feng 2023, section IV-A. NaN where the scores do not vary.

    >>> quality(np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0]), "classifier").__round__(4)
    0.6667
    """
    if kind == "regressor":
        return float(np.corrcoef(scores, gold)[0, 1]) if np.ptp(scores) and np.ptp(gold) else float("nan")
    said, true = scores > 0.5, gold > 0.5
    return float(np.mean([_f1(said, true), _f1(~said, ~true)]))


def _f1(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    both = int(said.sum()) + int(true.sum())
    return 2 * int((said & true).sum()) / both if both else 0.0
