"""``MlteTrainer``: the fine-tuning, where it is asked for, then the prediction model for each beta."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training.biolord.phases import correlation_of_cosines
from medlink.training.biolord.sts import StsBatches
from medlink.training.common.run import Run, training_run
from medlink.training.data.rated import RatedPair
from medlink.training.mlte import HOLDS
from medlink.training.mlte.regressor import Extra, Head, MlteRegressor, Vectors, extra_columns, pair_features, reader_of
from medlink.training.recipes import MlteRecipe, RunOptions

_TEMPERATURE = 0.05  # of SimCSE (Gao et al. 2021), whose loss the paper takes


class FineTuneLoss(torch.nn.Module):
    """What the encoder is fine-tuned by: Feng 2023, section IV-C, with dropout of the sentence embeddings.

    "Maximizing the cosine similarity" of rated pairs is read as the squared error of the cosine and the rating from 0
    to 1, as Sentence-BERT has it. Labels 0 and 1 have the contrastive loss of SimCSE: of all second texts of the batch
    that of a pair of label 1 is the nearest.
    """

    def __init__(self, kind: str, dropout: float) -> None:
        super().__init__()
        self._kind, self._dropout = kind, dropout

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor) -> Tensor:
        """The loss of two columns ``(n, d)`` under labels ``(n,)`` from 0 to 1."""
        one, other = (functional.normalize(functional.dropout(each, self._dropout)) for each in embeddings)
        if self._kind == "regressor":
            return functional.mse_loss((one * other).sum(dim=1), labels)
        alike = labels > 0.5
        if not alike.any():
            return (one * other).sum() * 0
        scores = one @ other.T / _TEMPERATURE
        return functional.cross_entropy(scores[alike], torch.arange(len(one), device=one.device)[alike])


class MlteTrainer:
    """Train a regressor or classifier of pairs by MLTE (Feng 2023).

    Args:
        pairs: the training pairs with their ratings, 0 and 1 for a classifier.
        start: the transformer whose blocks are read: a folder, or ``hf:NAME``.
        recipe: how to train.
        dev: pairs that choose beta, and the epoch of the fine-tuning; needed where there are several betas.
        extras: names of what :attr:`~medlink.training.data.rated.RatedPair.extra` holds.

    Raises:
        ConfigError: there are no pairs, ratings do not differ, are NaN or do not fit the kind, or ``dev`` is missing.
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
            message = f"{len(self.recipe.beta)} betas and no pairs to choose by"
            raise ConfigError(message, remedy="name rated pairs as dev, or one beta")

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        checkpoint_steps: int = 1000,
        workers: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> MlteRegressor:
        """Run the recipe and write the folder of the regressor; returns it, opened from there.

        Arguments, errors and what is promised are those of :meth:`medlink.training.common.trainer.Trainer.train`.
        """
        options = RunOptions(resume=resume, checkpoint_steps=checkpoint_steps, workers=workers)
        with training_run(out, self.recipe, options, progress, holds=HOLDS, what="regressor") as run:
            self._run(run)
        return MlteRegressor.load(out)

    def _run(self, run: Run) -> None:
        encoder, recipe = load_encoder(self.start), self.recipe
        translate, model = reader_of(encoder)
        made_of = {"data": self._digest(), "start": encoder.fingerprint}
        run.bind(recipe, **made_of)
        pairs, dev = _translated(self.pairs, translate), _translated(self.dev or (), translate)
        # what chooses the epoch of the fine-tuning, of a classifier too
        run.evaluate = correlation_of_cosines(dev, "pearson") if recipe.fine_tune and dev else None
        figures: dict[str, Any] = {}
        if recipe.fine_tune:
            batches = StsBatches({"training pairs": pairs}, recipe.batch_size, recipe.seed)
            figures = run.fit(model, batches, FineTuneLoss(recipe.kind, recipe.dropout), recipe).facts()
        extras = tuple(Extra.of(name, [pair.extra[i] for pair in pairs]) for i, name in enumerate(self._names))
        run.progress(f"{len(pairs):,} pairs are read by the encoder")
        heads = fit_heads(*_read(model, pairs, extras), _gold(pairs), recipe)
        best, figures["dev by beta"] = self._best(heads, _read(model, dev, extras), run)
        figures["beta"] = recipe.beta[best]
        record = {**made_of, "pairs": len(self.pairs), "recipe": recipe.to_dict(), "figures": figures}
        if run.first:
            MlteRegressor(encoder, heads[best], recipe.kind, extras, record).save(run.out)
        run.wait()

    def _best(self, heads: list[Head], dev: tuple[Vectors, Vectors], run: Run) -> tuple[int, list[float]]:
        if self.dev is None:
            return 0, []
        gold, kind = _gold(self.dev), self.recipe.kind
        found = [quality(head.scores(*dev, kind), gold, kind) for head in heads]
        for beta, value in zip(self.recipe.beta, found, strict=True):
            run.progress(f"beta {beta:g} measure {value:.4f}")
        if not np.isfinite(found).any():
            raise EncoderError("no beta gives scores that vary", remedy="lower head_learning_rate, or give more pairs")
        figures = [round(value, 6) if np.isfinite(value) else -1.0 for value in found]
        return int(np.nanargmax(found)), figures

    def _digest(self) -> str:
        rows = [[[p.one, p.other, p.rating, *p.extra] for p in some] for some in (self.pairs, self.dev or ())]
        return hashlib.sha256(json.dumps([self._names, *rows]).encode()).hexdigest()


def _translated(pairs: Sequence[RatedPair], translate: Callable[[Sequence[str]], list[str]]) -> list[RatedPair]:
    ones, others = (translate([getattr(pair, side) for pair in pairs]) for side in ("one", "other"))
    return [replace(pair, one=one, other=two) for pair, one, two in zip(pairs, ones, others, strict=True)]


def _read(model: Any, pairs: Sequence[RatedPair], extras: Sequence[Extra]) -> tuple[Vectors, Vectors]:
    features = pair_features(model, [pair.one for pair in pairs], [pair.other for pair in pairs])
    return features, extra_columns(extras, [pair.extra for pair in pairs], len(pairs))


def _gold(pairs: Sequence[RatedPair]) -> Vectors:
    return np.array([pair.rating for pair in pairs], dtype=np.float64)


def _check(pairs: Sequence[RatedPair], what: str, kind: str) -> None:
    gold = _gold(pairs)
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
    """By how much neighbours are out of order, summed: ``(...,)`` of ``predicted (..., n)`` and ``gold (n,)``.

    Feng 2023, equation 3b, second term: with the batch sorted by gold, the sum of ``max(0, predicted_i -
    predicted_i+1)``. Pairs of one gold value are neighbours too, in the order of the batch.
    """
    ordered = predicted[..., torch.argsort(gold, stable=True)]
    return (ordered[..., :-1] - ordered[..., 1:]).clamp(min=0).sum(dim=-1)


def head_loss(output: Tensor, gold: Tensor, beta: Tensor | float, kind: str) -> Tensor:
    """Loss ``(...,)`` of ``output (..., n)`` under ``gold (n,)``: squared error plus beta times :func:`order_penalty`.

    Feng 2023, equation 3b. Of a classifier, whose loss the paper does not write, the error is the cross-entropy of the
    logits, and the order is that of the probabilities.
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
    """
    if kind == "regressor":
        return float(np.corrcoef(scores, gold)[0, 1]) if np.ptp(scores) and np.ptp(gold) else float("nan")
    said, true = scores > 0.5, gold > 0.5
    return float(np.mean([_f1(said, true), _f1(~said, ~true)]))


def _f1(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    both = int(said.sum()) + int(true.sum())
    return 2 * int((said & true).sum()) / both if both else 0.0
