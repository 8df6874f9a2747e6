"""Fitting the join on training mentions: which evidence counts how much, and what a score means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking.calibration import Curves
from medlink.linking.candidates import Asked
from medlink.linking.join import Join
from medlink.linking.measures import FEATURES, gather
from medlink.linking.ranking import LinearJoin

_BATCH = 256
# Mentions without a concept in the dictionary for each one with. What notes hold is not known; a third is cautious.
_NIL_SHARE = 1 / 3
_LEAST = 0.01  # share of the names in training that rank below what the curve holds for


@dataclass(frozen=True, slots=True)
class Example:
    """A mention with the concepts that are right for it."""

    text: str
    language: str
    concept_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Pairs of example and name, grouped by example: evidence, whether a right concept has the name, and how much the
    example counts."""

    example: NDArray[np.int64]
    features: NDArray[np.float32]
    gold: NDArray[np.bool_]
    weight: NDArray[np.float64]


def tabulate(bundle: Bundle, examples: Sequence[Example], weight: float = 1.0) -> Table:
    """Gather the evidence of all examples with one bundle; ``weight`` is how much each of them counts."""
    index = bundle.index
    parts: list[Table] = []
    for start in range(0, len(examples), _BATCH):
        batch = examples[start : start + _BATCH]
        found = gather(Asked(index, bundle.encoder, [e.text for e in batch], [e.language for e in batch]))
        entries = index.entries(found.name)
        ids = index.concept_ids(entries.concept)
        gold = np.zeros(len(found.name), dtype=bool)
        for position, concept_id in zip(entries.position.tolist(), ids, strict=True):
            gold[position] |= concept_id in batch[found.mention[position]].concept_ids
        parts.append(Table(found.mention + start, found.features, gold, np.full(len(gold), weight)))
    return join_tables(parts)


def join_tables(parts: Sequence[Table]) -> Table:
    """Several tables as one; examples are numbered on."""
    if not parts:
        raise ConfigError("no training mentions")
    example, shift = [], 0
    for part in parts:
        _, numbers = np.unique(part.example, return_inverse=True)
        example.append(numbers + shift)
        shift += int(numbers.max(initial=-1)) + 1
    columns = zip(*((part.features, part.gold, part.weight) for part in parts), strict=True)
    return Table(np.concatenate(example), *map(np.concatenate, columns))


def fit(table: Table, *, decay: float = 1e-3, nearest: float = 0.5) -> Join:
    """Fit ranking weights, then the curves of the score.

    Ranking: for each example with a right name among its candidates, minimise ``-log sum_gold softmax(w . x)`` (the
    marginal likelihood over right names; BioSyn, Sung et al. 2020, equation 8, with linear scores) plus
    ``decay * |w|^2``. Curves: logistic regression of "the best name is right" on its rank score (Platt 1999), over the
    examples and, with a third of their weight, the same examples without their right names; one curve where the best
    name is the mention itself (``exact`` or ``inflected``), one where it is not.

    Args:
        table: the evidence.
        decay: weight decay.
        nearest: weight of being the nearest name by embedding. Fitted on training mentions it comes out so high that
            the encoder alone would decide; 0.5 was chosen on development mentions (0.4 to 0.6 do as well).

    Returns:
        The join. The same table gives the same weights.
    """
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    group = table.example - table.example[0]
    has_gold = np.logical_or.reduceat(table.gold, starts)
    used = has_gold[group]
    share_of = table.weight[starts] * has_gold
    share_of = share_of / max(share_of.sum(), 1e-12)
    x = table.features.astype(np.float64)
    x[:, FEATURES.index("nearest")] = 0  # its weight is given, not fitted

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

    w = minimize(loss, np.zeros(len(FEATURES)), jac=True, method="L-BFGS-B").x
    w[FEATURES.index("nearest")] = nearest
    rank = table.features.astype(np.float64) @ w
    exact, inflected = (table.features[:, FEATURES.index(kind)] > 0 for kind in ("exact", "inflected"))
    # What the score must tell apart is also a mention whose concept the dictionary lacks: the same examples once more
    # with their right names taken away.
    where = np.concatenate([np.arange(len(rank)), np.flatnonzero(~table.gold & used)])
    again = np.arange(len(where)) >= len(rank)
    # as the linker orders them: a name to the letter first
    order = np.lexsort((where, -rank[where], ~exact[where], group[where], again))
    where, again = where[order], again[order]
    best = (np.diff(group[where], prepend=-1) != 0) | (np.diff(again, prepend=False))
    top, again = where[best], again[best]
    truth = (rank[top], table.gold[top], table.weight[top] * np.where(again, _NIL_SHARE, 1.0))
    is_named = exact[top] | inflected[top]
    curves = [_curve(*(column[at] for column in truth)) for at in (~is_named, is_named)]
    least = float(np.quantile(truth[0][is_named], _LEAST)) if is_named.any() else 0.0
    ranker = LinearJoin(tuple(round(float(v), 4) for v in w))
    return Join(ranker, Curves(*curves[0], *curves[1], round(least, 4)))


def _curve(rank: NDArray[np.float64], right: NDArray[np.bool_], weight: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and offset of the share of right names by rank score; with nothing to fit on, nearly a flat one."""
    share = weight / max(weight.sum(), 1e-12)

    def loss(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        z = p[0] * rank + p[1]
        value = np.logaddexp(0, np.where(right, -z, z)) @ share + 1e-6 * p @ p
        pull = (1 / (1 + np.exp(-z)) - right) * share
        return float(value), np.array([pull @ rank, pull.sum()]) + 2e-6 * p

    slope, offset = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return round(max(float(slope), 1e-3), 4), round(float(offset), 4)
