"""Third stage: give each candidate name a rank score; learned concepts come first, and negated names are marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.index import Bundle, ConceptIndex
from medlink.index.names import Keys, Selections
from medlink.language.guard_words import GuardReader
from medlink.language.tags import base
from medlink.linking.arrays import Floats, Ints
from medlink.linking.calibration import MAX_MARGIN, Curve, Curves
from medlink.linking.candidates import EXACT, LEARNED, Contexts, Mention
from medlink.linking.features import FEATURES, CandidateFeatures
from medlink.linking.profiles import ConceptProfiles
from medlink.records import FSN

_NEAR = 1.0  # names at most this much below the best rank score may move before it
_FIRST = 8  # concepts of a ranking that are created together, as few callers need more
_SHORTEST_NEGATED = 4  # letters of a negated word; a shorter one may be a preposition: *ni a alimentos*
_PRIOR_WEIGHT = 0.3  # of the prior log odds of a concept in the rank score of its name


class Ranker(Protocol):
    """Ranks candidate names.

    With ``uses_context`` the ranks depend on the context, and the linker ranks a mention again in each context;
    otherwise it ranks each distinct mention once.
    """

    uses_context: bool

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return rank scores ``(p,)`` of candidate names; higher is better.

        Args:
            mentions: n mentions, linked by their ``text``.
            contexts: n texts around them, ``None`` without contexts or if the ranker does not use them.
            candidates: p pairs of mention and name.
        """


@dataclass(frozen=True, slots=True)
class LinearRanker:
    """A weighted sum of features, one weight for each of :data:`medlink.linking.features.FEATURES`."""

    weights: tuple[float, ...]
    uses_context = False

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        return self.sums(candidates.features)

    def sums(self, features: NDArray[np.float32]) -> Floats:
        """Compute rank scores ``(p,)`` of ``features (p, f)``."""
        # feature by feature: the rounding of a matrix product depends on the number of pairs
        total = np.zeros(len(features))
        for i, weight in enumerate(self.weights):
            total += weight * features[:, i].astype(np.float64)
        return total


@dataclass(frozen=True, slots=True)
class FittedRanker:
    """A ranker and the calibration that was fitted with it."""

    ranker: LinearRanker
    calibration: Curves

    def to_dict(self, features: Sequence[str] = FEATURES) -> dict[str, Any]:
        """Return plain data, for the manifest of a bundle or a resource; ``features`` are the names of the columns."""
        weights = dict(zip(features, self.ranker.weights, strict=True))
        return {"weights": weights, "calibration": asdict(self.calibration)}

    @classmethod
    def from_dict(cls, raw: dict[str, Any], features: Sequence[str] = FEATURES) -> FittedRanker:
        """Read the data of :meth:`to_dict`; raises BundleError if the weights belong to another set of features."""
        try:
            if set(raw["weights"]) != set(features):
                raise KeyError("weights")
            weights = tuple(float(raw["weights"][feature]) for feature in features)
            return cls(LinearRanker(weights), parse_curves(raw["calibration"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = "the calibration is of another version of medlink"
            raise BundleError(message, remedy="build the index again") from error


def parse_curves(raw: dict[str, Any]) -> Curves:
    """Make curves from plain data; invalid data raise KeyError, TypeError, ValueError or AttributeError."""
    alike, named = (Curve(**{key: float(value) for key, value in raw[kind].items()}) for kind in ("alike", "named"))
    languages = {str(tag): float(value) for tag, value in raw["languages"].items()}
    return Curves(alike, named, float(raw["named_least"]), float(raw["rival"]), languages)


@cache
def default_ranker() -> FittedRanker:
    """Return the weights that ship with medlink."""
    return FittedRanker.from_dict(read_json(RESOURCES / "linking" / "join.json"))


class PriorRanker:
    """Adds the prior of the concepts to the rank scores of the names close to the best name.

    With several sources, a name of a rare concept may resemble a mention a little more than a name of the usual
    concept. The best name of a mention keeps the best rank score, so the calibration stays valid.
    """

    def __init__(self, first: Ranker, profiles: ConceptProfiles) -> None:
        self._first, self._profiles = first, profiles
        self.uses_context = first.uses_context

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        ranks, mention = np.array(self._first.rank(mentions, contexts, candidates)), candidates.mention
        if not len(ranks):
            return ranks
        _, starts, run = np.unique(mention, return_index=True, return_inverse=True)
        near = ranks >= np.maximum.reduceat(ranks, starts)[run] - _NEAR
        pair, entry = candidates.entry
        chosen = near[pair]
        pair, concept = pair[chosen], candidates.entries.concept[entry[chosen]]
        distinct, inverse = np.unique(concept, return_inverse=True)
        profiles = self._profiles.get(distinct.tolist())
        odds = np.array([profiles[key].log_odds for key in distinct.tolist()])
        moved = np.full(len(ranks), -np.inf)
        np.maximum.at(moved, pair, ranks[pair] + _PRIOR_WEIGHT * odds[inverse])
        best = np.lexsort((-moved, mention))[starts]
        return np.where(near, moved - (moved - ranks)[best][run], ranks)


class RankedConcept(NamedTuple):
    """A concept of a mention by its best name."""

    concept: int  # key of the index
    rank: float  # rank score of the name
    margin: float  # rank score minus the best rank score of a name of another concept
    name: int  # key of the index
    entry: int  # address of the entry that gives the concept the name
    preferred: bool  # whether the name is preferred
    route: int  # number of the route that found the name
    adds: bool  # the name is about a finding and the mention is not, or asserts what the mention negates
    features: tuple[float, ...] | None = None  # FEATURES of the first concept of a mention
    weight: float = 1.0  # factor by which a re-ranker considers the concept likelier than others with the same name
    moved: bool = False  # whether a re-ranker moved another name to the first place


Ranked = Sequence[RankedConcept]
"""The concepts of a mention, best first."""
Rankings = Sequence[Ranked]
_ROW = np.dtype(
    [
        ("concept", "i8"), ("rank", "f8"), ("margin", "f8"), ("name", "i8"),
        ("entry", "i8"), ("preferred", "?"), ("route", "i1"), ("adds", "?"),
    ]
)  # fmt: skip
"""The fields of :class:`RankedConcept` up to ``adds``."""


class Ranking(Sequence[RankedConcept]):
    """The concepts of one mention, best first; objects are created on access, because most are never needed."""

    __slots__ = ("_features", "_rows")

    def __init__(self, rows: NDArray[np.void], features: NDArray[np.float32]) -> None:
        self._rows, self._features = rows, features

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> RankedConcept: ...

    @overload
    def __getitem__(self, at: slice) -> list[RankedConcept]: ...

    def __getitem__(self, at: int | slice) -> RankedConcept | list[RankedConcept]:
        if isinstance(at, slice):
            rows = self._rows[at].tolist()
            first = at.indices(len(self._rows))[0] == 0
        else:
            rows = [self._rows[at].item()]
            first = at in (0, -len(self._rows))
        concepts = [RankedConcept(*row) for row in rows]
        if first and concepts:
            concepts[0] = concepts[0]._replace(features=tuple(self._features.tolist()))
        return concepts if isinstance(at, slice) else concepts[0]

    def __iter__(self) -> Iterator[RankedConcept]:
        yield from self[:_FIRST]
        yield from self[_FIRST:]


def rank_concepts(candidates: CandidateFeatures, rank: Floats) -> list[Ranking]:
    """Rank the concepts of each mention by their best name, best first.

    Among names with equal rank scores, names in the language of the mention come first, then preferred names. A name
    that equals the mention exactly precedes all others. ``rank (p,)`` are the rank scores of the candidate names.
    """
    rank, entries, batch = np.round(rank, 9), candidates.entries, candidates.batch
    pair, entry = candidates.entry
    mention, exact = candidates.mention[pair], candidates.route[pair] == EXACT
    concept = entries.concept[entry]
    languages = {tag: base(tag or "") for tag in {*batch.languages, *batch.index.languages}}
    codes = {tag: code for code, tag in enumerate(dict.fromkeys(languages.values()))}
    of_mentions, of_entries = (
        np.array([codes[languages[tag]] for tag in tags], np.int64) for tags in (batch.languages, batch.index.languages)
    )
    foreign = of_mentions[mention] != of_entries[entries.language[entry]]
    # stable: names are sorted by exact form, entries of a name by language and text
    order = np.lexsort((2 * foreign + ~entries.preferred[entry], -rank[pair], ~exact, concept, mention))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(mention[order]) != 0) | (np.diff(concept[order]) != 0)
    best = order[first]
    # stable: equal ranks stay in the order of concept ids
    best = best[np.lexsort((-rank[pair[best]], 2 * mention[best] + ~exact[best]))]
    at, mention = pair[best], mention[best]
    rows = np.empty(len(best), _ROW)
    rows["concept"], rows["rank"], rows["name"] = concept[best], rank[at], candidates.name[at]
    rows["margin"] = compute_margins(mention, rows["rank"], rows["name"])
    rows["entry"], rows["preferred"] = entries.address[entry[best]], entries.preferred[entry[best]]
    rows["route"], rows["adds"] = candidates.route[at], (candidates.overlap.adds_finding & ~candidates.is_equal)[at]
    ends = np.searchsorted(mention, np.arange(len(batch.texts) + 1))
    features = np.zeros((len(batch.texts), candidates.features.shape[1]), dtype=np.float32)
    some = ends[1:] > ends[:-1]
    features[some] = candidates.features[at[ends[:-1][some]]]
    # copies: a cached ranking keeps no other ranking in memory
    return [Ranking(rows[slice(*span)].copy(), features[i].copy()) for i, span in enumerate(pairwise(ends.tolist()))]


def compute_margins(mention: Ints, rank: Floats, name: Keys) -> Floats:
    """Compute the margin of each candidate: its rank score minus that of the best candidate with another name.

    >>> compute_margins(np.array([0, 0, 0, 1]), np.array([3.0, 3.0, 1.0, 2.0]), np.array([7, 7, 8, 9])).tolist()
    [2.0, 2.0, -2.0, 5.0]
    """
    order = np.lexsort((-rank, mention))
    first = order[np.diff(mention[order], prepend=-1) != 0]
    top = np.zeros(int(mention.max(initial=-1)) + 1, dtype=np.int64)
    top[mention[first]] = first
    best = top[mention]
    is_other = name != name[best]
    second = np.full(len(top), -np.inf)
    np.maximum.at(second, mention[is_other], rank[is_other])
    against = np.where(is_other, rank[best], second[mention])
    return np.asarray(np.clip(rank - against, -MAX_MARGIN, MAX_MARGIN))


class LearnedConcepts:
    """Puts the learned concept of a mention first, with one of its names that the ``selection`` allows."""

    def __init__(self, bundle: Bundle, selection: Selections | None) -> None:
        self._bundle, self._selection = bundle, selection
        self._cache: dict[tuple[str, str | None], RankedConcept | None] = {}

    def move_first(self, ranked: Ranked, concept_id: str, language: str | None) -> list[RankedConcept]:
        """Return the candidates with the concept before all others, or unchanged if the selection excludes it."""
        if (concept_id, language) not in self._cache:
            self._cache[concept_id, language] = self._candidate(concept_id, language)
        learned = self._cache[concept_id, language]
        if learned is None:
            return list(ranked)
        if ranked:
            learned = learned._replace(rank=ranked[0].rank + MAX_MARGIN, features=ranked[0].features)
        return [learned, *(candidate for candidate in ranked if candidate.concept != learned.concept)]

    def _candidate(self, concept_id: str, language: str | None) -> RankedConcept | None:
        index, kb = self._bundle.index, self._bundle.kb
        names = [name for name in kb.names(concept_id) if name.type != FSN]
        own = base(language or "")
        for name in sorted(names, key=lambda name: (base(name.language) != own, not name.preferred)):
            keys = [key for key, route in index.lookup(name.text, None, self._selection).items() if route == "exact"]
            entries = index.entries(np.array(keys), self._selection)
            for at, found_id in enumerate(index.concept_ids(entries.concept)):
                if found_id == concept_id:
                    key = keys[int(entries.position[at])]
                    columns = int(entries.concept[at]), 0.0, MAX_MARGIN, key, int(entries.address[at])
                    preferred = bool(entries.preferred[at])
                    return RankedConcept(*columns, preferred, LEARNED, adds=False, features=(0.0,) * len(FEATURES))
        return None


class NegatedNames:
    """Finds the names that assert what a mention negates: *nicht-hämolytische Anämie* is not haemolytic anaemia.

    A mention that begins with a denial (*no fever*) still names the denied finding, and keeps its concepts. Only the
    names of the few mentions with a negation are read.
    """

    def __init__(self, index: ConceptIndex) -> None:
        self._index, self._reader = index, GuardReader()

    def mark(self, text: str, language: str | None, ranked: Ranked) -> Ranked:
        """Return the concepts of a mention; ``adds`` is set where the best name asserts what the mention negates."""
        if not ranked or not self._reader.negates_a_part(text):
            return ranked
        negated = {word for word in self._reader.negated(text, language or "")[0] if len(word) >= _SHORTEST_NEGATED}
        names, tags, _ = self._index.describe(np.array([concept.entry for concept in ranked], dtype=np.int64))
        return [
            concept._replace(adds=True) if negated & self._reader.negated(name, tag)[1] else concept
            for concept, name, tag in zip(ranked, names, tags, strict=True)
        ]
