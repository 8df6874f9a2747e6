"""Fit the ranking weights, the calibration, and the weight of a re-ranker to training mentions."""

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
from medlink.linking.arrays import Bools, Floats, Ints
from medlink.linking.calibration import MAX_MARGIN, Curve, Curves
from medlink.linking.candidates import EXACT, INFLECTED, Mention
from medlink.linking.linker import Linker
from medlink.linking.rankers.common import CandidateText, candidate_texts
from medlink.linking.rankers.cross_encoder import mention_text
from medlink.linking.ranking import default_ranker

NIL_SHARE = 1 / 3
"""Mentions of concepts not in the dictionary, per mention of a concept in it: a cautious guess."""
_REFERENCE_LANGUAGE = "en"  # the language without an offset
_BATCH = 1024
_MIN_NAMED = 20  # fewest mentions equal to a name to fit the curve of names
_MIN_WEIGHT = 0.05  # below this weight, a re-ranker ignores the rank score
_LOW_QUANTILE = 0.05  # quantile of the rank scores in training, below which curves are not extrapolated


CurveData = tuple[Floats, Bools, Floats]
"""Inputs of a curve for n examples ``(n, d)``, whether their best name is right, and their weights."""


@dataclass(frozen=True, slots=True)
class Example:
    """A mention, the ids of its right concepts, and the text around it if known."""

    text: str
    language: str
    concept_ids: frozenset[str]
    context: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Pairs of example and name, grouped by example, all ``(p,)`` except ``features (p, f)``."""

    example: Ints  # number of the example
    concept: Keys  # a concept of the name: the right concept if it has the name
    features: NDArray[np.float32]
    gold: Bools  # whether the name has a right concept
    weight: Floats  # of the example
    language: NDArray[np.str_]  # of the example


def ranking_weights(
    table: Table, decay: float = 1e-3, least: float | None = None, center: Floats | None = None
) -> Floats:
    """Fit the weights ``(f,)`` of the features of a table, at least ``least`` and with a penalty towards ``center``.

    For each example with a right name among its candidates, minimise ``-log sum_gold softmax(w . x)`` (the marginal
    likelihood over right names; BioSyn, Sung et al. 2020, equation 8, with linear scores) plus
    ``decay * |w - center|^2``.
    """
    start = np.zeros(table.features.shape[1]) if center is None else center
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    group = table.example - table.example[0]
    has_gold = np.logical_or.reduceat(table.gold, starts)
    used, share_of = has_gold[group], table.weight[starts] * has_gold
    share_of = share_of / max(share_of.sum(), 1e-12)
    x = table.features.astype(np.float64)

    def loss(w: Floats) -> tuple[float, Floats]:
        s = x @ w
        s = s - np.maximum.reduceat(s, starts)[group]
        e = np.exp(s)
        every = np.add.reduceat(e, starts)
        right = np.add.reduceat(np.where(table.gold, e, 0), starts)
        value = -(share_of[has_gold] * np.log(np.maximum(right, 1e-300) / every)[has_gold]).sum()
        value += decay * (w - start) @ (w - start)
        share = e / every[group]
        right_share = np.where(table.gold, e, 0) / np.maximum(right, 1e-300)[group]
        pull = (share_of[group] * (share - right_share))[used, None]
        grad = (pull * x[used]).sum(axis=0) + 2 * decay * (w - start)
        return float(value), grad

    bounds = [(least, None)] * x.shape[1]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def fit_curves(table: Table, rank: Floats, exact: Bools, named: Bools) -> Curves:
    """Fit the calibration on rank scores ``(p,)`` of the names of a table.

    Logistic regression of "the best name is right" on its rank score and its margin (Platt 1999), see :func:`_curve`.
    One curve is for mentions whose best name equals the mention (``named``; ``exact`` without inflection). The other is
    for all other mentions, with an offset for each language except English.
    """
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    used = np.logical_or.reduceat(table.gold, starts)[table.example - table.example[0]]
    top, second = _best(table, rank, exact, np.ones(len(rank), dtype=bool))
    flat = Curve(0.0, 0.0, 0.0)
    rivals = second[~named[top] & np.isfinite(second)]
    bare = Curves(flat, flat, _low_quantile(rank[top][named[top]]), _low_quantile(rivals))
    tags = sorted(set(table.language.tolist()) - {_REFERENCE_LANGUAGE})

    def curve_data(top: Ints, second: Floats, *, kind: bool) -> CurveData:
        at = named[top] == kind
        top, second = top[at], second[at]
        margin = bare.clip(rank[top], np.clip(rank[top] - second, -MAX_MARGIN, MAX_MARGIN), named[top])[1]
        languages = [(table.language[top] == tag) & ~named[top] for tag in tags]
        x = np.column_stack([rank[top], margin, *languages, np.ones(len(top))])
        return x, table.gold[top], table.weight[top]

    # examples without their right names stand for mentions of concepts that the dictionary lacks
    lacking = _best(table, rank, exact, ~table.gold & used)
    curves = [_curve(curve_data(top, second, kind=kind), curve_data(*lacking, kind=kind)) for kind in (False, True)]
    alike, equal = (Curve(slope, margin, offset) for slope, margin, *_, offset in curves)
    languages = dict(zip(tags, curves[0][2:-1], strict=True))
    return replace(bare, alike=alike, named=equal, languages=languages)


def _best(table: Table, rank: Floats, exact: Bools, used: Bools) -> tuple[Ints, Floats]:
    """The best of the ``used`` pairs of each example, and the highest rank of another concept."""
    at = np.flatnonzero(used)
    # exact names first, as in the linker
    order = at[np.lexsort((at, -rank[at], ~exact[at], table.example[at]))]
    top = order[np.diff(table.example[order], prepend=-1) != 0]
    group = np.searchsorted(table.example[top], table.example[at])
    is_rival = table.concept[at] != table.concept[top][group]
    second = np.full(len(top), -np.inf)
    np.maximum.at(second, group[is_rival], rank[at][is_rival])
    return top, second


def _low_quantile(rank: Floats) -> float:
    return round(float(np.quantile(rank, _LOW_QUANTILE)), 4) if len(rank) else 0.0


def _curve(has: CurveData, lacks: CurveData) -> list[float]:
    """Weights of rank and margin (not negative) and of languages, and the offset.

    The first fit uses the examples ``has``, whose concepts are in the dictionary, and, with a third of the weight, the
    examples ``lacks``, whose concepts are not. The second fit changes only languages and offset, and uses only ``has``,
    so that a score is the share of right links. Without data, the curve is nearly flat.
    """
    (x, right, weight), (x_, right_, weight_) = has, lacks
    both = np.concatenate([x, x_]), np.concatenate([right, right_]), np.concatenate([weight, weight_ * NIL_SHARE])
    slopes = _logistic(*both, np.zeros(len(both[0])), [(1e-3, None), (0.0, None), *[(None, None)] * (x.shape[1] - 2)])
    rest = _logistic(x[:, 2:], right, weight, x[:, :2] @ slopes[:2], [(None, None)] * (x.shape[1] - 2))
    return [round(float(v), 4) for v in (*slopes[:2], *rest)]


def _logistic(
    x: Floats, right: Bools, weight: Floats, fixed: Floats, bounds: list[tuple[float | None, float | None]]
) -> Floats:
    share = weight / max(weight.sum(), 1e-12)

    def loss(p: Floats) -> tuple[float, Floats]:
        z = fixed + x @ p
        value = np.logaddexp(0, np.where(right, -z, z)) @ share + 1e-6 * p @ p
        pull = (1 / (1 + np.exp(-z)) - right) * share
        return float(value), pull @ x + 2e-6 * p

    start = np.zeros(x.shape[1])
    start[0] = 1.0
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A mention and its first n candidates, with texts as the re-ranker reads them."""

    text: str
    language: str
    texts: tuple[str, ...]
    ranks: Floats  # rank scores before re-ranking (n,)
    names: Keys  # (n,)
    concepts: Keys  # (n,)
    routes: Ints  # by which the names were found (n,)
    right: Bools  # which candidates are right (n,)
    missing: str = ""  # text of a right concept if no candidate is right


def collect_groups(
    linker: Linker, examples: Sequence[Example], candidates: int, *, context: bool = False, definitions: bool = False
) -> list[Group]:
    """Collect a group for each example that has a candidate and whose right concept is in the bundle.

    Args:
        candidates: maximum number of candidates of each example.
        context, definitions: whether the re-ranker reads the text around a mention, and the definitions of concepts.
    """
    groups: list[Group] = []
    known = [example for example in examples if any(concept_id in linker.kb for concept_id in example.concept_ids)]
    for start in range(0, len(known), _BATCH):
        batch = known[start : start + _BATCH]
        mentions = [Mention(example.text, example.language or None) for example in batch]
        rankings = [ranking[:candidates] for ranking in linker.rank(mentions)]
        languages = [mention.language for mention in mentions]
        described = candidate_texts(linker.bundle, rankings, languages, definitions=definitions)
        for example, ranked, texts in zip(batch, rankings, described, strict=True):
            if not ranked:
                continue
            right = np.array([text.concept_id in example.concept_ids for text in texts])
            fields = ("rank", "name", "concept", "route")
            columns = (np.array([getattr(concept, field) for concept in ranked]) for field in fields)
            ranks, names, concepts, routes = columns
            query = mention_text(example.text, example.context if context else "")
            read, missing = tuple(text.text for text in texts), "" if right.any() else _missing(linker, example)
            groups.append(Group(query, example.language, read, ranks, names, concepts, routes, right, missing))
    return groups


def _missing(linker: Linker, example: Example) -> str:
    concept_id = min(concept_id for concept_id in example.concept_ids if concept_id in linker.kb)
    name = linker.kb.preferred_name(concept_id, example.language or None) or concept_id
    return CandidateText(concept_id, name, name).text


class RerankerFit(NamedTuple):
    """Weights of the first rank score and of the re-ranker's score, and the calibration of their weighted sum."""

    first: float
    read: float
    calibration: Curves


def weigh(groups: Sequence[Group], read: Sequence[Floats]) -> RerankerFit:
    """Fit both weights, at least 0, and then the calibration, on groups that the model was not trained on.

    ``read`` has the scores of the cross-encoder for the candidates of each group. If fewer than 20 mentions equal a
    name, the shipped curve of names is used.

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
    first, weight = (round(float(value), 4) for value in ranking_weights(table, least=0.0))
    rank = first * features[:, 0] + weight * features[:, 1]
    # each name once, with a right concept if it has one
    order = np.lexsort((-rank, ~gold, names, example))
    starts = np.flatnonzero((np.diff(example[order], prepend=-1) != 0) | (np.diff(names[order], prepend=-1) != 0))
    best, at = np.maximum.reduceat(rank[order], starts), order[starts]
    table = Table(example[at], concept[at], features[at].astype(np.float32), gold[at], ones[at], language[at])
    exact, named = route[at] == EXACT, np.isin(route[at], (EXACT, INFLECTED))
    curves = fit_curves(table, best, exact, named)
    if len(np.unique(table.example[named])) < _MIN_NAMED:
        curves = _with_default_names(curves, first)
    return RerankerFit(first, weight, curves)


def _with_default_names(curves: Curves, first: float) -> Curves:
    """Replace the curve of names by the default one, rescaled to rank scores with the weight ``first``."""
    default = default_ranker().calibration
    slope, margin, offset = default.named.slope, default.named.margin, default.named.offset
    if first < _MIN_WEIGHT:
        # without the rank score every name is as likely as the least likely name
        return replace(curves, named=Curve(0.0, 0.0, offset + slope * default.named_least), named_least=0.0)
    named = Curve(round(slope / first, 4), round(margin / first, 4), offset)
    return replace(curves, named=named, named_least=round(default.named_least * first, 4))
