"""``MlteTrainer``: optional fine-tuning of the encoder, then a prediction model for each beta."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training.biolord.phases import cosine_correlation
from medlink.training.biolord.sts import StsBatches
from medlink.training.common.run import Run, training_run
from medlink.training.data.rated_pairs import RatedPair
from medlink.training.mlte import CONFIG_FILE
from medlink.training.mlte.regressor import (
    ExtraFeature,
    Floats,
    Head,
    MlteRegressor,
    pair_features,
    transform_extras,
    unwrap_encoder,
)
from medlink.training.recipes import MlteRecipe, RunOptions

_TEMPERATURE = 0.05  # of SimCSE (Gao et al. 2021), whose loss the paper uses


class FineTuneLoss(torch.nn.Module):
    """Loss of the fine-tuning: Feng 2023, section IV-C, with dropout of the sentence embeddings.

    "Maximizing the cosine similarity" of rated pairs is taken to mean the squared error between the cosine and the
    rating from 0 to 1, as in Sentence-BERT. The loss for labels 0 and 1 is that of SimCSE: among all second texts of
    the batch, the second text of a pair with label 1 should be nearest to its first text.
    """

    def __init__(self, kind: str, dropout: float) -> None:
        super().__init__()
        self._kind, self._dropout = kind, dropout

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor) -> Tensor:
        """Return the loss of two columns ``(n, d)`` under labels ``(n,)`` from 0 to 1."""
        first, second = (functional.normalize(functional.dropout(column, self._dropout)) for column in embeddings)
        if self._kind == "regressor":
            return functional.mse_loss((first * second).sum(dim=1), labels)
        positive = labels > 0.5
        if not positive.any():
            return (first * second).sum() * 0
        scores = first @ second.T / _TEMPERATURE
        return functional.cross_entropy(scores[positive], torch.arange(len(first), device=first.device)[positive])


class MlteTrainer:
    """Train a regressor or classifier of pairs by MLTE (Feng 2023).

    Args:
        pairs: the training pairs with their ratings, 0 and 1 for a classifier.
        start: the transformer: a folder, or ``hf:NAME``.
        dev: development pairs, to choose beta and the epoch of the fine-tuning; required with several betas.
        extras: names of the columns in :attr:`~medlink.training.data.rated_pairs.RatedPair.extra`.

    Raises ConfigError if there are no pairs, ratings do not differ, are NaN or do not fit the kind, or ``dev`` is
    missing.
    """

    def __init__(
        self,
        pairs: Sequence[RatedPair],
        start: str | Path,
        recipe: MlteRecipe | None = None,
        *,
        dev: Sequence[RatedPair] | None = None,
        extras: Sequence[str] = (),
    ) -> None:
        self.pairs, self.start, self.recipe, self.dev = pairs, start, recipe or MlteRecipe(), dev
        self._names = tuple(extras)
        if any(len(pair.extra) < len(extras) for pair in (*pairs, *(dev or ()))):
            remedy = "read the pairs with these columns"
            raise ConfigError(f"pairs without the extra features {', '.join(extras)}", remedy=remedy)
        _check(pairs, "training", self.recipe.kind)
        if dev is not None:
            _check(dev, "development", self.recipe.kind)
        elif len(self.recipe.beta) > 1:
            problem = f"{len(self.recipe.beta)} betas and no pairs to choose by"
            raise ConfigError(problem, remedy="name rated pairs as dev, or one beta")

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        checkpoint_steps: int = 1000,
        progress: Callable[[str], None] | None = None,
    ) -> MlteRegressor:
        """Run the recipe, write the folder of the regressor, and return the regressor opened from it.

        For arguments, errors and reproducibility see :meth:`medlink.training.common.trainer.Trainer.train`.
        """
        options = RunOptions(resume=resume, checkpoint_steps=checkpoint_steps)
        with training_run(out, self.recipe, options, progress, marker=CONFIG_FILE, kind="regressor") as run:
            self._run(run)
        return MlteRegressor.load(out)

    def _run(self, run: Run) -> None:
        encoder, recipe = load_encoder(self.start), self.recipe
        translate, model = unwrap_encoder(encoder)
        rows = [[[p.text_1, p.text_2, p.rating, *p.extra] for p in pairs] for pairs in (self.pairs, self.dev or ())]
        digest = hashlib.sha256(json.dumps([self._names, *rows]).encode()).hexdigest()
        inputs = {"data": digest, "start": encoder.fingerprint}
        run.bind(recipe, **inputs)
        pairs, dev = _translate_pairs(self.pairs, translate), _translate_pairs(self.dev or (), translate)
        # for a classifier too
        run.evaluate = cosine_correlation(dev, "pearson") if recipe.fine_tune and dev else None
        figures: dict[str, Any] = {}
        if recipe.fine_tune:
            batches = StsBatches({"training pairs": pairs}, recipe.batch_size, recipe.seed)
            figures = run.fit(model, batches, FineTuneLoss(recipe.kind, recipe.dropout), recipe)
        extras = tuple(ExtraFeature.fit(name, [pair.extra[i] for pair in pairs]) for i, name in enumerate(self._names))
        run.progress(f"reading {len(pairs):,} pairs by the encoder")
        heads = fit_heads(*_compute_features(model, pairs, extras), _ratings(pairs), recipe)
        best, figures["dev by beta"] = self._find_best(heads, _compute_features(model, dev, extras), run)
        figures["beta"] = recipe.beta[best]
        record = {**inputs, "pairs": len(self.pairs), "recipe": recipe.to_dict(), "figures": figures}
        if run.is_main:
            MlteRegressor(encoder, heads[best], recipe.kind, extras, record).save(run.out)
        run.wait()

    def _find_best(self, heads: list[Head], dev: tuple[Floats, Floats], run: Run) -> tuple[int, list[float]]:
        if self.dev is None:
            return 0, []
        gold, kind = _ratings(self.dev), self.recipe.kind
        measures = [score_quality(head.scores(*dev, kind), gold, kind) for head in heads]
        for beta, value in zip(self.recipe.beta, measures, strict=True):
            run.progress(f"beta {beta:g} measure {value:.4f}")
        if not np.isfinite(measures).any():
            raise EncoderError("no beta gives scores that vary", remedy="lower head_learning_rate, or give more pairs")
        figures = [round(value, 6) if np.isfinite(value) else -1.0 for value in measures]
        return int(np.nanargmax(measures)), figures


def _translate_pairs(pairs: Sequence[RatedPair], translate: Callable[[Sequence[str]], list[str]]) -> list[RatedPair]:
    first, second = translate([pair.text_1 for pair in pairs]), translate([pair.text_2 for pair in pairs])
    return [replace(pair, text_1=a, text_2=b) for pair, a, b in zip(pairs, first, second, strict=True)]


def _compute_features(model: Any, pairs: Sequence[RatedPair], extras: Sequence[ExtraFeature]) -> tuple[Floats, Floats]:
    features = pair_features(model, [pair.text_1 for pair in pairs], [pair.text_2 for pair in pairs])
    return features, transform_extras(extras, [pair.extra for pair in pairs], len(pairs))


def _ratings(pairs: Sequence[RatedPair]) -> Floats:
    return np.array([pair.rating for pair in pairs], dtype=np.float64)


def _check(pairs: Sequence[RatedPair], what: str, kind: str) -> None:
    gold = _ratings(pairs)
    if not len(gold):
        raise ConfigError(f"no {what} pairs", remedy="give two or more")
    if not np.isfinite(gold).all():
        raise ConfigError(f"ratings of the {what} pairs are NaN or infinite", remedy="give finite numbers")
    if not np.ptp(gold):
        raise ConfigError(f"the ratings of the {what} pairs do not differ", remedy="give pairs with different ratings")
    if kind == "classifier" and not np.isin(gold, (0, 1)).all():
        message = f"a classifier needs labels 0 and 1, and the {what} pairs have others"
        raise ConfigError(message, remedy="train a regressor, or give labels 0 and 1")


def order_penalty(predicted: Tensor, gold: Tensor) -> Tensor:
    """Compute the penalty ``(...,)`` for scores ``predicted (..., n)`` whose order differs from that of ``gold (n,)``.

    Feng 2023, equation 3b, second term: the sum of ``max(0, predicted_i - predicted_i+1)`` in the order of gold, with
    ties in the order of the batch.
    """
    ordered = predicted[..., torch.argsort(gold, stable=True)]
    return (ordered[..., :-1] - ordered[..., 1:]).clamp(min=0).sum(dim=-1)


def head_loss(output: Tensor, gold: Tensor, beta: Tensor | float, kind: str) -> Tensor:
    """Compute the loss ``(...,)`` of ``output (..., n)`` under ``gold (n,)``, with beta times :func:`order_penalty`.

    Feng 2023, equation 3b: the squared error and the penalty. The paper gives no loss of a classifier; here it is the
    cross-entropy of the logits, with the penalty on the probabilities.
    """
    if kind == "regressor":
        return ((output - gold) ** 2).mean(dim=-1) + beta * order_penalty(output, gold)
    error = functional.binary_cross_entropy_with_logits(output, gold.expand_as(output), reduction="none")
    return error.mean(dim=-1) + beta * order_penalty(output.sigmoid(), gold)


def fit_heads(features: Floats, extra: Floats, gold: Floats, recipe: MlteRecipe) -> list[Head]:
    """Train a head for each beta of the recipe, with the same initial weights and batches.

    The heads do not affect each other, because Adam scales each weight separately. ``features``, ``extra`` and ``gold``
    are ``(n, f)``, ``(n, c)`` and ``(n,)``. Raises EncoderError if the loss is NaN or infinite.
    """
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    # the deviation of a constant column is a rounding error
    deviation = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, 1.0)
    inputs, columns = torch.from_numpy((features - mean) / deviation), torch.from_numpy(extra)
    target, betas = torch.from_numpy(gold), torch.tensor(recipe.beta, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        layers = torch.nn.Linear(features.shape[1], recipe.hidden), torch.nn.Linear(recipe.hidden + extra.shape[1], 1)
    initial = [tensor.detach().double() for layer in layers for tensor in (layer.weight.T, layer.bias[None])]
    weights = [tensor.repeat(len(betas), 1, 1).requires_grad_() for tensor in initial]
    optimiser = torch.optim.Adam(weights, recipe.head_learning_rate, weight_decay=recipe.head_weight_decay)
    for epoch in range(recipe.head_epochs):
        order = np.random.default_rng([recipe.seed, epoch]).permutation(len(gold))
        for start in range(0, len(order), recipe.head_batch_size):
            rows = torch.from_numpy(order[start : start + recipe.head_batch_size])
            output = _forward(weights, inputs[rows], columns[rows])
            loss = head_loss(output, target[rows], betas, recipe.kind).sum()
            if not torch.isfinite(loss):
                remedy = "lower head_learning_rate or beta"
                raise EncoderError(f"the loss is {loss.item()} in epoch {epoch + 1} of the head", remedy=remedy)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
    first, first_bias, second, second_bias = (weight.detach().numpy() for weight in weights)
    arrays = zip(first, first_bias[:, 0], second[..., 0], second_bias[:, 0], strict=True)
    return [Head(mean, deviation, *layers) for layers in arrays]


def _forward(weights: Sequence[Tensor], inputs: Tensor, extra: Tensor) -> Tensor:
    """Outputs ``(betas, n)`` for ``(n, f)`` scaled features and ``(n, c)`` extra features."""
    first, first_bias, second, second_bias = weights
    hidden = (inputs @ first + first_bias).relu()
    columns = extra.expand(len(first), *extra.shape)
    return (torch.cat([hidden, columns], dim=2) @ second + second_bias)[..., 0]


def score_quality(scores: Floats, gold: Floats, kind: str) -> float:
    """Compute the Pearson correlation of scores ``(n,)``, or macro F1 of a classifier with threshold 0.5.

    Feng 2023, section IV-A. NaN if the scores do not vary.
    """
    if kind == "regressor":
        return float(np.corrcoef(scores, gold)[0, 1]) if np.ptp(scores) and np.ptp(gold) else float("nan")
    predicted, true = scores > 0.5, gold > 0.5
    f1 = [2 * (p & t).sum() / max(1, p.sum() + t.sum()) for p, t in ((predicted, true), (~predicted, ~true))]
    return float(np.mean(f1))
