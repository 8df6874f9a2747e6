"""Synonym sets, their split, and synonym retrieval (Fivez et al. 2021, sections 4.1 and 5.1)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.tags import language_filter
from medlink.language.text import normalise
from medlink.records import Name
from medlink.settings import Settings, option

Ids = NDArray[np.int64]
SynonymSets = Mapping[str, tuple[str, ...]]
"""Names of each concept, both sorted."""
_QUERIES = 256  # ranked at a time


class SetOptions(Settings):
    """Options of synonym sets and of their split into training and test names."""

    languages: str | None = option(None, "Names of these languages only, such as en or en,de.")
    fuse: str | None = option(None, "Names under one code of this system are one set, such as ICD-10.")
    zero_shot: float = option(0.1, "Share of the concepts held out from training.", ge=0, lt=1)
    rounds: int = option(1, "Times that one name of each concept with two or more is held out for testing.", ge=1)
    split_seed: int = option(1, "Seed of the split.", ge=0, lt=2**32)


class Split(NamedTuple):
    """Training names, test pairs (name, concept) of the same concepts, and concepts held out from training."""

    train: SynonymSets
    test: list[tuple[str, str]]
    zero_shot: SynonymSets


def read_sets(path: str | PathLike[str], options: SetOptions) -> SynonymSets:
    """Read the :func:`synonym_sets` of a knowledge base, without fully specified names, as in the paper (appendix A).

    Raises ConfigError if a language is missing or no concept maps to the system, and as :func:`synonym_sets`.
    """
    from medlink.kb.store import KnowledgeBase
    from medlink.training.data.selection import Selection

    with KnowledgeBase(path) as store:
        codes: dict[str, list[str]] | None = None
        if options.fuse is not None:
            codes = defaultdict(list)
            for mapping in store.iter_mappings(systems=[options.fuse]):
                codes[mapping.concept_id].append(mapping.code)
            if not codes:
                systems = ", ".join(sorted({mapping.system for mapping in store.iter_mappings()})) or "none"
                raise ConfigError(
                    f"no concept maps to {options.fuse!r}", path=path, remedy=f"it has maps to: {systems}"
                )
        names = Selection(store, languages=language_filter(options.languages)).names()
        return synonym_sets(names, codes)


def synonym_sets(names: Iterable[Name], codes: Mapping[str, Iterable[str]] | None = None) -> SynonymSets:
    """Collect the distinct names of each concept (Fivez et al. 2021, section 4.1.1), or of each of its ``codes``
    (4.1.2).

    Names with the same exact form (:func:`medlink.language.text.normalise`) are one name, in its first spelling. As in
    the paper, names of several concepts are left out; so are names of several codes and, with ``codes``, concepts
    without a code. The paper's other filters match names with a corpus and are not applied. Raises ConfigError if fewer
    than two concepts have an unambiguous name, or none has two.

    >>> names = [Name("A", "cold"), Name("A", "Cold"), Name("A", "coryza"), Name("B", "chill"), Name("C", "chill")]
    >>> synonym_sets([*names, Name("D", "flu")])
    {'A': ('Cold', 'coryza'), 'D': ('flu',)}
    >>> synonym_sets(names, {"A": ["J00"], "B": ["R68"], "C": ["R68"]})
    {'J00': ('Cold', 'coryza'), 'R68': ('chill',)}
    """
    owners: dict[str, set[str]] = defaultdict(set)
    spelt: dict[str, str] = {}
    for name in names:
        if form := normalise(name.text):
            owners[form].update([name.concept_id] if codes is None else codes.get(name.concept_id, ()))
            spelt[form] = min(spelt.get(form, name.text), name.text)
    sets: dict[str, list[str]] = defaultdict(list)
    for form, concepts in owners.items():
        if len(concepts) == 1:
            sets[next(iter(concepts))].append(spelt[form])
    if len(sets) < 2:
        remedy = "name a terminology of several concepts"
        raise ConfigError("fewer than two concepts have a name of their own", remedy=remedy)
    if max(map(len, sets.values())) < 2:
        raise ConfigError("no concept has two names", remedy="name a source that has synonyms or translations")
    return {concept: tuple(sorted(sets[concept])) for concept in sorted(sets)}


def hash_sets(sets: SynonymSets) -> str:
    return hashlib.sha256("".join(f"{c}\t{t}\n" for c, names in sets.items() for t in names).encode()).hexdigest()


def split(sets: SynonymSets, options: SetOptions) -> Split:
    """Split synonym sets as in section 5.1: hold out random concepts, then one name of each other concept per round.

    >>> sets = {"A": ("a", "b", "c"), "B": ("d",), "C": ("e", "f"), "D": ("g",)}
    >>> split(sets, SetOptions(zero_shot=0.25, rounds=2))[1:]
    ([('e', 'C')], {'A': ('a', 'b', 'c')})
    """
    rng = np.random.default_rng(options.split_seed)
    zero_shot = set(rng.permutation(list(sets))[: round(options.zero_shot * len(sets))].tolist())
    train: SynonymSets = {concept: names for concept, names in sets.items() if concept not in zero_shot}
    test: list[tuple[str, str]] = []
    for _ in range(options.rounds):
        train, drawn = hold_out(train, rng)
        test += drawn
    return Split(train, test, {concept: names for concept, names in sets.items() if concept in zero_shot})


def hold_out(
    sets: SynonymSets, rng: np.random.Generator, share: float = 1.0
) -> tuple[SynonymSets, list[tuple[str, str]]]:
    """Remove a random name of each concept with two or more names, or of a share of these concepts; return both."""
    concepts = [concept for concept, names in sets.items() if len(names) > 1]
    if share < 1:
        concepts = sorted(rng.choice(concepts, round(share * len(concepts)), replace=False).tolist())
    drawn = {concept: sets[concept][rng.integers(len(sets[concept]))] for concept in concepts}
    rest = {concept: tuple(t for t in names if t != drawn.get(concept)) for concept, names in sets.items()}
    return rest, [(text, concept) for concept, text in drawn.items()]


def retrieve_synonyms(
    queries: NDArray[np.float32], names: NDArray[np.float32], synonyms: Sequence[Ids], itself: Ids | None = None
) -> tuple[NDArray[np.float64], Ids]:
    """Rank all names by cosine; return the average precision and the rank of the first synonym of each query (5.1).

    The average precision of a query with synonyms at the ranks r_1 < r_2 < ... is the mean of i / r_i. Among equal
    cosines, synonyms rank last, so that an encoder gains nothing from equal vectors. ``queries (q, d)`` and ``names (n,
    d)`` are unit vectors. ``synonyms`` are the rows of the synonyms of each query, one or more; ``itself (q,)`` are the
    rows of the queries themselves, which are not ranked.
    """
    precision, first = np.zeros(len(queries)), np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), _QUERIES):
        cosines = queries[start : start + _QUERIES] @ names.T
        if itself is not None:
            cosines[np.arange(len(cosines)), itself[start : start + _QUERIES]] = -np.inf
        batch = zip(cosines, synonyms[start : start + _QUERIES], strict=True)
        of_synonyms = [np.sort(row[rows]) for row, rows in batch]
        cosines.sort(axis=1)
        for row, (every, own) in enumerate(zip(cosines, of_synonyms, strict=True), start):
            # rank: other names at least as near, and the synonyms up to this one
            count = np.arange(len(own), 0, -1)
            others = len(every) - np.searchsorted(every, own) - (len(own) - np.searchsorted(own, own))
            precision[row], first[row] = (count / (others + count)).mean(), (others + count).min()
    return precision, first
