"""Training mentions with the first candidates that the linker has for them, and what is fitted on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index.keys import Keys
from medlink.language.tags import base
from medlink.linking.calibration import Curve, Curves
from medlink.linking.candidates import EXACT, INFLECTED
from medlink.linking.fit import Example, Table, fit_curves, ranking_weights
from medlink.linking.join import default_join
from medlink.linking.linker import Linker
from medlink.linking.mention import Mention
from medlink.linking.rankers.cross_encoder import mention_text
from medlink.linking.rankers.shown import Shown, shown

_BATCH = 1024
_NAMED = 20  # mentions that are names; with fewer their curve is not fitted
_SCALE = 0.05  # weight of the old rank score below which it does not count


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
    starts = np.flatnonzero((np.diff(example[order], prepend=-1) != 0) | (np.diff(names[order], prepend=np.nan) != 0))
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
