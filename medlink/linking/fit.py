"""Fitting on training mentions: which evidence counts how much, what a score means, and how a re-ranker is weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from medlink.errors import ConfigError
from medlink.index.names import Keys
from medlink.language.tags import base
from medlink.linking.calibration import WIDEST, Curve, Curves
from medlink.linking.candidates import EXACT, INFLECTED, Mention
from medlink.linking.linker import Linker
from medlink.linking.rankers.common import Shown, shown
from medlink.linking.rankers.cross_encoder import mention_text
from medlink.linking.ranking import default_join

# Mentions without a concept in the dictionary for each one with. What notes hold is not known; a third is cautious.
_NIL_SHARE = 1 / 3
_PLAIN = "en"  # the language whose likenesses have the plain curve
_BATCH = 1024
_NAMED = 20  # mentions that are names; with fewer their curve is not fitted
_SCALE = 0.05  # weight of the old rank score below which it does not count
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
    see :func:`_curve`; one where the best name is the mention itself (``named``, and ``exact`` to the letter), one
    where it is not, with an addend for each language but English.
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


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A mention and its first candidates, n of them.

    ``text`` is what is read of the mention, ``texts`` what is read of each candidate. ``ranks (n,)`` are the rank
    scores of the evidence, ``names`` and ``concepts (n,)`` keys of the index, ``routes (n,)`` how the names were found,
    ``right (n,)`` which candidates are right. ``missing`` is the text of a right concept where no candidate is right.
    """

    text: str
    language: str
    texts: tuple[str, ...]
    ranks: NDArray[np.float64]
    names: Keys
    concepts: Keys
    routes: NDArray[np.int64]
    right: NDArray[np.bool_]
    missing: str = ""


def gather_groups(
    linker: Linker, examples: Sequence[Example], candidates: int, *, context: bool = False, definitions: bool = False
) -> list[Group]:
    """Groups of examples, but for those without a candidate or without a right concept in the bundle.

    So many ``candidates`` of each are taken; ``context`` and ``definitions`` say whether these are read, too.
    """
    groups: list[Group] = []
    known = [one for one in examples if any(concept_id in linker.kb for concept_id in one.concept_ids)]
    for start in range(0, len(known), _BATCH):
        batch = known[start : start + _BATCH]
        mentions = [Mention(one.text, one.language or None) for one in batch]
        ranked = [some[:candidates] for some in linker.rank(mentions)]
        languages = [mention.language for mention in mentions]
        told = shown(linker.bundle, ranked, languages, definitions=definitions)
        for one, some, texts in zip(batch, ranked, told, strict=True):
            if not some:
                continue
            right = np.array([text.concept_id in one.concept_ids for text in texts])
            ranks, names, concepts, routes = (
                np.array([getattr(each, kind) for each in some]) for kind in ("rank", "name", "concept", "route")
            )
            text, read = mention_text(one.text, one.context if context else ""), tuple(text.text for text in texts)
            missing = "" if right.any() else _missing(linker, one)
            groups.append(Group(text, one.language, read, ranks, names, concepts, routes, right, missing))
    return groups


def _missing(linker: Linker, example: Example) -> str:
    concept_id = min(one for one in example.concept_ids if one in linker.kb)
    name = linker.kb.preferred_name(concept_id, example.language or None) or concept_id
    return Shown(concept_id, name, name).text


class Weighing(NamedTuple):
    """Weights of the rank score before and of what is read, and the curves of the score of their sum."""

    first: float
    read: float
    calibration: Curves


def weigh(groups: Sequence[Group], read: Sequence[NDArray[np.float64]]) -> Weighing:
    """Fit both weights, neither below 0, then the curves, on groups that were not trained on.

    ``read`` is what the cross-encoder says of the candidates of each group. Where fewer than 20 of them are names, the
    curve of names is that which ships with medlink.

    Raises:
        ConfigError: no group has a right candidate.
    """
    if not any(group.right.any() for group in groups):
        remedy = "give more mentions, or a larger held_share"
        raise ConfigError("none of the mentions held back has a right candidate", remedy=remedy)
    sizes = [len(group.right) for group in groups]
    example = np.repeat(np.arange(len(groups)), sizes)
    features = np.column_stack([np.concatenate([group.ranks for group in groups]), np.concatenate(read)])
    concept, gold, names, route = (
        np.concatenate([getattr(group, kind) for group in groups]) for kind in ("concepts", "right", "names", "routes")
    )
    language = np.repeat(np.array([base(group.language) for group in groups]), sizes)
    ones = np.ones(len(gold))
    table = Table(example, concept, features.astype(np.float32), gold, ones, language)
    first, weight = (round(float(one), 4) for one in ranking_weights(table, least=0.0))
    rank = first * features[:, 0] + weight * features[:, 1]
    # a name once: a right concept of it where there is one, as curves are of names
    order = np.lexsort((-rank, ~gold, names, example))
    starts = np.flatnonzero((np.diff(example[order], prepend=-1) != 0) | (np.diff(names[order], prepend=-1) != 0))
    best = np.maximum.reduceat(rank[order], starts)
    at = order[starts]
    table = Table(example[at], concept[at], features[at].astype(np.float32), gold[at], ones[at], language[at])
    exact, named = route[at] == EXACT, np.isin(route[at], (EXACT, INFLECTED))
    curves = fit_curves(table, best, exact, named)
    if len(np.unique(table.example[named])) < _NAMED:
        curves = _with_shipped(curves, first)
    return Weighing(first, weight, curves)


def _with_shipped(curves: Curves, first: float) -> Curves:
    """Curves of which that of names is the shipped one, on the scale of other rank scores."""
    shipped = default_join().calibration
    slope, margin, offset = shipped.named.slope, shipped.named.margin, shipped.named.offset
    if first < _SCALE:
        # what ranked before does not count: then a name is as likely as the least likely one
        return replace(curves, named=Curve(0.0, 0.0, offset + slope * shipped.named_least), named_least=0.0)
    named = Curve(round(slope / first, 4), round(margin / first, 4), offset)
    return replace(curves, named=named, named_least=round(shipped.named_least * first, 4))
