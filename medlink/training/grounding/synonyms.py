"""Synonym sets, their split, and how well embeddings find a synonym (Fivez et al. 2021, sections 4.1 and 5.1)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError
from medlink.kb.store import KnowledgeBase
from medlink.language.text import normalise
from medlink.records import Name
from medlink.settings import Settings
from medlink.training.data.selection import Selection

_BLOCK = 256  # queries compared at a time

Sets = Mapping[str, tuple[str, ...]]
"""Names of each concept, both sorted."""


class SplitOptions(Settings):
    """How names are split into those to train on, those to test on, and concepts that training never meets."""

    zero_shot: Annotated[float, Field(ge=0, lt=1, description="Share of the concepts kept from training.")] = 0.1
    rounds: Annotated[
        int, Field(ge=1, description="How often one name of each concept that has two or more is kept to test on.")
    ] = 1
    split_seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of the split.")] = 1


@dataclass(frozen=True, slots=True)
class Split:
    """Names to train on, (name, concept) pairs of these concepts to test on, and the concepts kept from training."""

    train: Sets
    test: tuple[tuple[str, str], ...]
    zero_shot: Sets


def synonym_sets(names: Iterable[Name], codes: Mapping[str, Iterable[str]] | None = None) -> Sets:
    """The distinct names of each concept (Fivez et al. 2021, section 4.1.1), or of each code of a map (4.1.2).

    Names of one exact form (:func:`medlink.language.text.normalise`) are one; the first spelling stands for it. As in
    the paper a name of more than one concept is left out; here that is said of codes as well, where the paper is
    silent. Its other filters match names with a corpus, and are not made here.

    Args:
        codes: of each concept, whose names are fused into one set for each code; concepts without a code are left out.

    Raises:
        ConfigError: fewer than two concepts have a name, or none has two.

    >>> names = [Name("A", "cold"), Name("A", "Cold"), Name("A", "coryza"), Name("B", "chill"), Name("C", "chill")]
    >>> synonym_sets([*names, Name("D", "flu")])
    {'A': ('Cold', 'coryza'), 'D': ('flu',)}
    >>> synonym_sets(names, {"A": ["J00"], "B": ["R68"], "C": ["R68"]})
    {'J00': ('Cold', 'coryza'), 'R68': ('chill',)}
    """
    owners: dict[str, set[str]] = defaultdict(set)
    spelt: dict[str, str] = {}
    for name in names:
        form = normalise(name.text)
        if form:
            owners[form].update([name.concept_id] if codes is None else codes.get(name.concept_id, ()))
            spelt[form] = min(spelt.get(form, name.text), name.text)
    found: dict[str, list[str]] = defaultdict(list)
    for form, concepts in owners.items():
        if len(concepts) == 1:
            found[next(iter(concepts))].append(spelt[form])
    if len(found) < 2:
        remedy = "name a terminology of several concepts" + (", or a system that it maps to" if codes else "")
        raise ConfigError("fewer than two concepts have a name of their own", remedy=remedy)
    if max(map(len, found.values())) < 2:
        raise ConfigError("no concept has two names", remedy="name a source that has synonyms or translations")
    return {concept: tuple(sorted(found[concept])) for concept in sorted(found)}


def read_sets(path: str | PathLike[str], languages: Iterable[str] | None = None, fuse: str | None = None) -> Sets:
    """The :func:`synonym_sets` of a knowledge base, of some languages, or of the codes of a system that it maps to.

    Fully specified names are left out: the paper leaves out names with such tags (section 4.1.1, appendix A).
    """
    with KnowledgeBase(path) as store:
        codes = None if fuse is None else codes_of(store, fuse)
        return synonym_sets(Selection(store, languages=languages).names(), codes)


def codes_of(store: KnowledgeBase, system: str) -> dict[str, list[str]]:
    """Codes of a system that each concept of a knowledge base maps to.

    Raises:
        ConfigError: no concept maps to it; the remedy names systems that some do.
    """
    codes: dict[str, list[str]] = defaultdict(list)
    for mapping in store.iter_mappings(systems=[system]):
        codes[mapping.concept_id].append(mapping.code)
    if not codes:
        systems = ", ".join(sorted({mapping.system for mapping in store.iter_mappings()})) or "none"
        raise ConfigError(f"no concept maps to {system!r}", path=store.path, remedy=f"it has maps to: {systems}")
    return dict(codes)


def digest(sets: Sets) -> str:
    """SHA-256 of names with their concepts."""
    return hashlib.sha256("".join(f"{c}\t{t}\n" for c, names in sets.items() for t in names).encode()).hexdigest()


def split(sets: Sets, options: SplitOptions) -> Split:
    """Split synonym sets as section 5.1 does: concepts at random, then names of those that stay, one of each concept.

    The same sets and options give the same split: what ``medlink evaluate synonyms`` asks can be kept from training.

    >>> sets = {"A": ("a", "b", "c"), "B": ("d",), "C": ("e", "f"), "D": ("g",)}
    >>> found = split(sets, SplitOptions(zero_shot=0.25, rounds=2))
    >>> found.train, found.test, found.zero_shot
    ({'B': ('d',), 'C': ('f',), 'D': ('g',)}, (('e', 'C'),), {'A': ('a', 'b', 'c')})
    """
    rng = np.random.default_rng(options.split_seed)
    order = rng.permutation(len(sets))
    concepts = list(sets)
    apart = {concepts[i] for i in order[: round(options.zero_shot * len(concepts))]}
    train: Sets = {concept: names for concept, names in sets.items() if concept not in apart}
    test: list[tuple[str, str]] = []
    for _ in range(options.rounds):
        train, drawn = hold_out(train, rng)
        test += drawn
    return Split(train, tuple(test), {concept: sets[concept] for concept in concepts if concept in apart})


def hold_out(sets: Sets, rng: np.random.Generator, share: float = 1.0) -> tuple[Sets, list[tuple[str, str]]]:
    """Take one random name of each concept that has two or more, or of a share of these; the sets without them."""
    several = [concept for concept, names in sets.items() if len(names) > 1]
    if share < 1:
        several = sorted(rng.choice(several, round(share * len(several)), replace=False).tolist())
    drawn = [(sets[concept][rng.integers(len(sets[concept]))], concept) for concept in several]
    gone = {concept: text for text, concept in drawn}
    return {c: tuple(t for t in names if t != gone.get(c)) for c, names in sets.items()}, drawn


@dataclass(frozen=True, slots=True)
class Found:
    """Of each of q queries the average precision and the rank of its first synonym, from 1; ``(q,)`` each."""

    precision: NDArray[np.float64]
    first: NDArray[np.int64]

    def measures(self) -> dict[str, float | None]:
        """Mean average precision, Acc (share with a synonym first) and MRR (section 5.1); ``None`` without queries."""
        if not len(self.first):
            return {"mAP": None, "Acc": None, "MRR": None}
        means = self.precision.mean(), (self.first == 1).mean(), (1 / self.first).mean()
        return dict(zip(("mAP", "Acc", "MRR"), map(float, means), strict=True))


def retrieve_synonyms(
    queries: NDArray[np.float32],
    names: NDArray[np.float32],
    synonyms: Sequence[NDArray[np.int64]],
    itself: NDArray[np.int64] | None = None,
) -> Found:
    """Rank all names by cosine with each query, and look where its synonyms are (Fivez et al. 2021, section 5.1).

    The average precision of a query with synonyms at the ranks r_1 < r_2 < ... is the mean of i / r_i. Of names with
    one cosine those that are no synonyms come first: an encoder that cannot tell names apart gains nothing by it.

    Args:
        queries, names: ``(q, d)`` and ``(n, d)`` unit vectors.
        synonyms: rows of the names that are right, one or more for each query.
        itself: ``(q,)`` rows that are the queries themselves and are not ranked.

    Raises:
        ValueError: a query has no synonym.

    >>> names = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)
    >>> found = retrieve_synonyms(names[:1], names, [np.array([1, 3])], np.array([0]))  # ranks 1 and 3
    >>> found.precision.round(4).tolist(), found.first.tolist()
    ([0.8333], [1])
    """
    precision, first = np.zeros(len(queries)), np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), _BLOCK):
        cosines = queries[start : start + _BLOCK] @ names.T
        if itself is not None:
            cosines[np.arange(len(cosines)), itself[start : start + _BLOCK]] = -np.inf
        own = [np.sort(row[right]) for row, right in zip(cosines, synonyms[start : start + _BLOCK], strict=True)]
        cosines.sort(axis=1)
        for row, (every, right) in enumerate(zip(cosines, own, strict=True), start):
            if not len(right):
                raise ValueError(f"query {row} has no synonym")
            place = np.arange(len(right), 0, -1)
            # names that are no synonyms and at least as near, and the synonyms up to this one
            before = len(every) - np.searchsorted(every, right) - (len(right) - np.searchsorted(right, right))
            ranks = before + place
            precision[row], first[row] = (place / ranks).mean(), ranks.min()
    return Found(precision, first)
