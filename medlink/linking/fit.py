"""Fitting the join on training mentions: which evidence counts how much, and what a score means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from medlink.index.keys import Keys
from medlink.linking.calibration import WIDEST, Curve, Curves

# Mentions without a concept in the dictionary for each one with. What notes hold is not known; a third is cautious.
_NIL_SHARE = 1 / 3
_PLAIN = "en"  # the language whose likenesses have the plain curve
_LEAST = 0.05  # share of the names and rivals in training that rank below what the curves hold for


Told = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]
"""What a curve reads of n examples ``(n, d)``, whether their best name is right, and their weights."""


@dataclass(frozen=True, slots=True)
class Example:
    """A mention with the concepts that are right for it, and the text around it where that is known."""

    text: str
    language: str
    concept_ids: frozenset[str]
    context: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Pairs of example and name, grouped by example: a concept of the name, the right one where it has that, evidence,
    whether a right concept has the name, how much the example counts, and its language."""

    example: NDArray[np.int64]
    concept: Keys
    features: NDArray[np.float32]
    gold: NDArray[np.bool_]
    weight: NDArray[np.float64]
    language: NDArray[np.str_]


def ranking_weights(table: Table, decay: float = 1e-3, least: float | None = None) -> NDArray[np.float64]:
    """Weights ``(f,)`` of the features of a table, no lower than ``least`` where that is given.

    For each example with a right name among its candidates, minimise ``-log sum_gold softmax(w . x)`` (the marginal
    likelihood over right names; BioSyn, Sung et al. 2020, equation 8, with linear scores) plus ``decay * |w|^2``.
    """
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    group = table.example - table.example[0]
    has_gold = np.logical_or.reduceat(table.gold, starts)
    used = has_gold[group]
    share_of = table.weight[starts] * has_gold
    share_of = share_of / max(share_of.sum(), 1e-12)
    x = table.features.astype(np.float64)

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        s = x @ w
        s = s - np.maximum.reduceat(s, starts)[group]
        e = np.exp(s)
        every = np.add.reduceat(e, starts)
        right = np.add.reduceat(np.where(table.gold, e, 0), starts)
        value = -(share_of[has_gold] * np.log(np.maximum(right, 1e-300) / every)[has_gold]).sum() + decay * w @ w
        share = e / every[group]
        right_share = np.where(table.gold, e, 0) / np.maximum(right, 1e-300)[group]
        pull = (share_of[group] * (share - right_share))[used, None]
        grad = (pull * x[used]).sum(axis=0) + 2 * decay * w
        return float(value), grad

    bounds = [(least, None)] * x.shape[1]
    return np.asarray(minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x)


def fit_curves(table: Table, rank: NDArray[np.float64], exact: NDArray[np.bool_], named: NDArray[np.bool_]) -> Curves:
    """The curves of the score for rank scores ``(p,)`` of the names of a table.

    Logistic regression of "the best name is right" on its rank score and its margin before other concepts (Platt 1999),
    see :func:`_curve`; one where the best name is the mention itself, one where it is not, with an addend for each
    language but English.

    Args:
        table: the names; its features are not looked at.
        rank: their rank scores.
        exact: ``(p,)`` where the mention is the name to the letter.
        named: ``(p,)`` where it is, to the letter or in another inflection.
    """
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    used = np.logical_or.reduceat(table.gold, starts)[table.example - table.example[0]]
    top, second = _best(table, rank, exact, np.ones(len(rank), dtype=bool))
    flat = Curve(0.0, 0.0, 0.0)
    rivals = second[~named[top] & np.isfinite(second)]
    bare = Curves(flat, flat, _least(rank[top][named[top]]), _least(rivals))
    tags = sorted(set(table.language.tolist()) - {_PLAIN})

    def told(top: NDArray[np.int64], second: NDArray[np.float64], *, kind: bool) -> Told:
        at = named[top] == kind
        top, second = top[at], second[at]
        margin = bare.held(rank[top], np.clip(rank[top] - second, -WIDEST, WIDEST), named[top])[1]
        spoken = [(table.language[top] == tag) & ~named[top] for tag in tags]
        x = np.column_stack([rank[top], margin, *spoken, np.ones(len(top))])
        return x, table.gold[top], table.weight[top]

    # what the score must tell apart is also a mention whose concept the dictionary lacks: the same examples once more
    # without their right names
    lacking = _best(table, rank, exact, ~table.gold & used)
    curves = [_curve(told(top, second, kind=kind), told(*lacking, kind=kind)) for kind in (False, True)]
    alike, like_name = (Curve(slope, wide, offset) for slope, wide, *_, offset in curves)
    languages = dict(zip(tags, curves[0][2:-1], strict=True))
    return replace(bare, alike=alike, named=like_name, languages=languages)


def _best(
    table: Table, rank: NDArray[np.float64], exact: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best of the pairs that are ``kept`` of each example, and the rank of the best one of another concept."""
    at = np.flatnonzero(kept)
    # as the linker orders them: a name to the letter first
    order = at[np.lexsort((at, -rank[at], ~exact[at], table.example[at]))]
    top = order[np.diff(table.example[order], prepend=-1) != 0]
    group = np.searchsorted(table.example[top], table.example[at])
    other = table.concept[at] != table.concept[top][group]
    second = np.full(len(top), -np.inf)
    np.maximum.at(second, group[other], rank[at][other])
    return top, second


def _least(rank: NDArray[np.float64]) -> float:
    return round(float(np.quantile(rank, _LEAST)), 4) if len(rank) else 0.0


def _curve(has: Told, lacks: Told) -> list[float]:
    """Weights of rank, margin, languages, and 1, of which the first two are not negative.

    Fitted on examples that the dictionary has and, with a third of their weight, on those that it lacks; then languages
    and offset once more on the first alone, so that their scores are the share of right links. With nothing to fit on,
    nearly a flat curve.
    """
    (x, right, weight), (x_, right_, weight_) = has, lacks
    both = np.concatenate([x, x_]), np.concatenate([right, right_]), np.concatenate([weight, weight_ * _NIL_SHARE])
    slopes = _logistic(*both, np.zeros(len(both[0])), [(1e-3, None), (0.0, None), *[(None, None)] * (x.shape[1] - 2)])
    rest = _logistic(x[:, 2:], right, weight, x[:, :2] @ slopes[:2], [(None, None)] * (x.shape[1] - 2))
    return [round(float(v), 4) for v in (*slopes[:2], *rest)]


def _logistic(
    x: NDArray[np.float64],
    right: NDArray[np.bool_],
    weight: NDArray[np.float64],
    given: NDArray[np.float64],
    bounds: list[tuple[float | None, float | None]],
) -> NDArray[np.float64]:
    share = weight / max(weight.sum(), 1e-12)

    def loss(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z = given + x @ p
        value = np.logaddexp(0, np.where(right, -z, z)) @ share + 1e-6 * p @ p
        pull = (1 / (1 + np.exp(-z)) - right) * share
        return float(value), pull @ x + 2e-6 * p

    start = np.zeros(x.shape[1])
    start[0] = 1.0
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
