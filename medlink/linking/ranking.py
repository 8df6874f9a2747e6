"""The third stage: which candidate is the likeliest, by one number for each; what was learned comes first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.index import Bundle
from medlink.index.names import Keys, Selections
from medlink.language.tags import base
from medlink.linking.calibration import WIDEST, Curve, Curves
from medlink.linking.candidates import EXACT, LEARNED, Mention
from medlink.linking.features import FEATURES, Evidence
from medlink.linking.profiles import ConceptProfiles
from medlink.records import FSN

_REACH = 1.0  # rank scores by which a name may be lower than the best one and still be moved before it
_FIRST = 8  # concepts of a ranking that are made together, as few readers need more
_SHARE = 0.3  # of the log odds of a concept that count beside the likeness of its name


class Ranker(Protocol):
    """What ranks candidate names.

    ``uses_context`` says whether the context of a mention changes its ranks: the linker then ranks a mention anew in
    each context, and gives ``rank`` the contexts; otherwise each distinct mention is ranked once.
    """

    uses_context: bool

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of candidate names, higher is better.

        The ``text`` of n mentions is what is linked; contexts are ``None`` where there are none, or the ranker uses
        none.
        """


@dataclass(frozen=True, slots=True)
class LinearJoin:
    """A weighted sum of the evidence, one weight for each of :data:`medlink.linking.features.FEATURES`."""

    weights: tuple[float, ...]
    uses_context = False

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` by the evidence alone; mentions and contexts do not count."""
        return self.sums(candidates.features)

    def sums(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of ``features (p, f)``.

        Summed feature by feature: a matrix product may round differently with another number of pairs.
        """
        total = np.zeros(len(features))
        for i, weight in enumerate(self.weights):
            total += weight * features[:, i].astype(np.float64)
        return total


@dataclass(frozen=True, slots=True)
class Join:
    """Weights of the evidence and the curves of the score, fitted together."""

    ranker: LinearJoin
    calibration: Curves

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's manifest."""
        return {
            "weights": dict(zip(FEATURES, self.ranker.weights, strict=True)),
            "calibration": asdict(self.calibration),
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Join:
        """Read what :meth:`to_dict` wrote.

        Raises:
            BundleError: the weights are of another set of features.
        """
        try:
            if set(raw["weights"]) != set(FEATURES):
                raise KeyError("weights")
            return cls(LinearJoin(tuple(float(raw["weights"][f]) for f in FEATURES)), curves_of(raw["calibration"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BundleError(
                "the calibration is of another version of medlink", remedy="build the index again"
            ) from error


def curves_of(told: dict[str, Any]) -> Curves:
    """Curves from plain data; KeyError, TypeError, ValueError or AttributeError where it is none of them."""
    alike, named = (Curve(**{key: float(value) for key, value in told[kind].items()}) for kind in ("alike", "named"))
    languages = {str(tag): float(value) for tag, value in told["languages"].items()}
    return Curves(alike, named, float(told["named_least"]), float(told["rival"]), languages)


@cache
def default_join() -> Join:
    """The weights that ship with medlink."""
    text = resources.files("medlink").joinpath("resources/linking/join.json").read_text("utf-8")
    return Join.from_dict(json.loads(text))


class PriorRanker:
    """Ranks names by another ranker and by how well known their concepts are.

    Where a bundle has several sources, a name of one of them may be a little more like a mention than that of the
    concept which everybody means. Ranks are moved so that the best name of a mention keeps its rank score, and the
    calibration what it means.
    """

    def __init__(self, first: Ranker, profiles: ConceptProfiles) -> None:
        self._first, self._profiles = first, profiles
        self.uses_context = first.uses_context

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)``: those of the first ranker and the share of the prior, for names near the best one."""
        ranks, mention = np.array(self._first.rank(mentions, contexts, candidates)), candidates.mention
        if not len(ranks):
            return ranks
        _, starts, run = np.unique(mention, return_index=True, return_inverse=True)
        near = ranks >= np.maximum.reduceat(ranks, starts)[run] - _REACH
        pair, entry = candidates.entry
        chosen = near[pair]
        pair, concept = pair[chosen], candidates.entries.concept[entry[chosen]]
        distinct, which = np.unique(concept, return_inverse=True)
        profiles = self._profiles.of(distinct.tolist())
        odds = np.array([profiles[key].standing for key in distinct.tolist()])
        moved = np.full(len(ranks), -np.inf)
        np.maximum.at(moved, pair, ranks[pair] + _SHARE * odds[which])
        best = np.lexsort((-moved, mention))[starts]
        return np.where(near, moved - (moved - ranks)[best][run], ranks)


class Ranked(NamedTuple):
    """The best name of one concept for one mention: keys of both, and the address of the entry.

    ``margin`` is by how much the best other name of another concept ranks lower; ``adds`` says that the name is of a
    finding and the mention is not. The first of a mention has its ``measures``
    (:data:`medlink.linking.features.FEATURES`). ``weight`` is how much likelier a re-ranker holds the concept than
    others that share its name; ``moved`` says of the first that a re-ranker put its name before another.
    """

    concept: int
    rank: float
    margin: float
    name: int
    entry: int
    preferred: bool
    route: int
    adds: bool
    measures: tuple[float, ...] | None = None
    weight: float = 1.0
    moved: bool = False


_ROW = np.dtype(
    [
        ("concept", "i8"), ("rank", "f8"), ("margin", "f8"), ("name", "i8"),
        ("entry", "i8"), ("preferred", "?"), ("route", "i1"), ("adds", "?"),
    ]
)  # fmt: skip
"""The fields of :class:`Ranked` up to ``adds``."""


class Ranking(Sequence[Ranked]):
    """The concepts of one mention, best first; few are ever looked at, so that an object is made of one when it is."""

    __slots__ = ("_measures", "_rows")

    def __init__(self, rows: NDArray[np.void], measures: NDArray[np.float32]) -> None:
        self._rows, self._measures = rows, measures

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Ranked: ...

    @overload
    def __getitem__(self, at: slice) -> list[Ranked]: ...

    def __getitem__(self, at: int | slice) -> Ranked | list[Ranked]:
        if isinstance(at, slice):
            rows = self._rows[at].tolist()
            first = at.indices(len(self._rows))[0] == 0
        else:
            rows = [self._rows[at].item()]
            first = at in (0, -len(self._rows))
        found = [Ranked(*row) for row in rows]
        if first and found:
            found[0] = found[0]._replace(measures=tuple(self._measures.tolist()))
        return found if isinstance(at, slice) else found[0]

    def __iter__(self) -> Iterator[Ranked]:
        yield from self[:_FIRST]
        yield from self[_FIRST:]


def best_names(evidence: Evidence, rank: NDArray[np.float64]) -> list[Ranking]:
    """Concepts of each mention by their best name, best first.

    Of a concept's names the best counts; of equals one in the mention's language, then the preferred one. A name to
    the letter stands before any other. ``rank (p,)`` are the rank scores of the candidate names.
    """
    rank, entries, batch = np.round(rank, 9), evidence.entries, evidence.batch
    pair, entry = evidence.entry
    mention, exact = evidence.mention[pair], evidence.route[pair] == EXACT
    concept = entries.concept[entry]
    languages = {tag: base(tag or "") for tag in {*batch.languages, *batch.index.languages}}
    codes = {tag: code for code, tag in enumerate(dict.fromkeys(languages.values()))}
    spoken, written = (
        np.array([codes[languages[tag]] for tag in tags], np.int64) for tags in (batch.languages, batch.index.languages)
    )
    other = spoken[mention] != written[entries.language[entry]]
    # names go by their exact form, entries of one name by language and text: so they come
    order = np.lexsort((2 * other + ~entries.preferred[entry], -rank[pair], ~exact, concept, mention))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(mention[order]) != 0) | (np.diff(concept[order]) != 0)
    best = order[first]
    # equal ranks in the order of concept ids, in which they are
    best = best[np.lexsort((-rank[pair[best]], 2 * mention[best] + ~exact[best]))]
    at, mention = pair[best], mention[best]
    rows = np.empty(len(best), _ROW)
    rows["concept"], rows["rank"], rows["name"] = concept[best], rank[at], evidence.name[at]
    rows["margin"] = margins(mention, rows["rank"], rows["name"])
    rows["entry"], rows["preferred"] = entries.address[entry[best]], entries.preferred[entry[best]]
    rows["route"], rows["adds"] = evidence.route[at], (evidence.overlap.adds & ~evidence.named)[at]
    ends = np.searchsorted(mention, np.arange(len(batch.texts) + 1))
    measures = np.zeros((len(batch.texts), evidence.features.shape[1]), dtype=np.float32)
    some = ends[1:] > ends[:-1]
    measures[some] = evidence.features[at[ends[:-1][some]]]
    # copies: a ranking that is kept holds no others
    return [Ranking(rows[slice(*place)].copy(), measures[i].copy()) for i, place in enumerate(pairwise(ends.tolist()))]


def margins(mention: NDArray[np.int64], rank: NDArray[np.float64], name: Keys) -> NDArray[np.float64]:
    """By how much the best candidate of another name ranks lower, for each candidate of each mention.

    >>> margins(np.array([0, 0, 0, 1]), np.array([3.0, 3.0, 1.0, 2.0]), np.array([7.0, 7.0, 8.0, 9.0])).tolist()
    [2.0, 2.0, -2.0, 5.0]
    """
    order = np.lexsort((-rank, mention))
    first = order[np.diff(mention[order], prepend=-1) != 0]
    top = np.zeros(int(mention.max(initial=-1)) + 1, dtype=np.int64)
    top[mention[first]] = first
    best = top[mention]
    other = name != name[best]
    second = np.full(len(top), -np.inf)
    np.maximum.at(second, mention[other], rank[other])
    against = np.where(other, rank[best], second[mention])
    return np.asarray(np.clip(rank - against, -WIDEST, WIDEST))


class LearnedConcepts:
    """What somebody taught for a mention, as a candidate before all others, by one of the ``selection`` of names."""

    def __init__(self, bundle: Bundle, selection: Selections | None) -> None:
        self._bundle, self._selection = bundle, selection
        self._known: dict[tuple[str, str | None], Ranked | None] = {}

    def first(self, ranked: Sequence[Ranked], concept_id: str, language: str | None) -> list[Ranked]:
        """The candidates of a mention with the concept before all others; as they are where it may be no candidate."""
        if (concept_id, language) not in self._known:
            self._known[concept_id, language] = self._candidate(concept_id, language)
        taught = self._known[concept_id, language]
        if taught is None:
            return list(ranked)
        if ranked:
            taught = taught._replace(rank=ranked[0].rank + WIDEST, measures=ranked[0].measures)
        return [taught, *(one for one in ranked if one.concept != taught.concept)]

    def _candidate(self, concept_id: str, language: str | None) -> Ranked | None:
        index, kb = self._bundle.index, self._bundle.kb
        names = [name for name in kb.names(concept_id) if name.type != FSN]
        own = base(language or "")
        for name in sorted(names, key=lambda name: (base(name.language) != own, not name.preferred)):
            found = [key for key, route in index.lookup(name.text, None, self._selection).items() if route == "exact"]
            entries = index.entries(np.array(found), self._selection)
            for at, one in enumerate(index.concept_ids(entries.concept)):
                if one == concept_id:
                    key = found[int(entries.position[at])]
                    columns = int(entries.concept[at]), 0.0, WIDEST, key, int(entries.address[at])
                    preferred = bool(entries.preferred[at])
                    return Ranked(*columns, preferred, LEARNED, adds=False, measures=(0.0,) * len(FEATURES))
        return None
