"""Synonym sets, their split, and how well embeddings find a synonym (Fivez et al. 2021, sections 4.1 and 5.1)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError
from medlink.language.tags import language_filter
from medlink.language.text import normalise
from medlink.records import Name
from medlink.settings import Settings

Ids = NDArray[np.int64]
Sets = Mapping[str, tuple[str, ...]]
"""Names of each concept, both sorted."""
_BLOCK = 256  # queries compared at a time


class SetOptions(Settings):
    """Which names are read, and how they are split into those to train on and those to measure with."""

    languages: Annotated[str | None, Field(description="Names of these languages only, such as en or en,de.")] = None
    fuse: Annotated[
        str | None, Field(description="Names under one code of this system are one set, such as ICD-10.")
    ] = None
    zero_shot: Annotated[float, Field(ge=0, lt=1, description="Share of the concepts kept from training.")] = 0.1
    rounds: Annotated[
        int, Field(ge=1, description="How often one name of each concept that has two or more is kept to test on.")
    ] = 1
    split_seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of the split.")] = 1


class Split(NamedTuple):
    """Names to train on, (name, concept) pairs of these concepts to test on, and the concepts kept from training."""

    train: Sets
    test: list[tuple[str, str]]
    zero_shot: Sets


def read_sets(path: str | PathLike[str], options: SetOptions) -> Sets:
    """The :func:`synonym_sets` of a knowledge base, without fully specified names, as the paper has none (appendix A).

    Raises:
        ConfigError: a language is missing, no concept maps to the system, or see :func:`synonym_sets`.
    """
    from medlink.kb.store import KnowledgeBase
    from medlink.training.data.selection import Selection

    with KnowledgeBase(path) as store:
        codes: dict[str, list[str]] | None = None if options.fuse is None else defaultdict(list)
        if codes is not None:
            for mapping in store.iter_mappings(systems=[str(options.fuse)]):
                codes[mapping.concept_id].append(mapping.code)
            if not codes:
                systems = ", ".join(sorted({mapping.system for mapping in store.iter_mappings()})) or "none"
                raise ConfigError(
                    f"no concept maps to {options.fuse!r}", path=path, remedy=f"it has maps to: {systems}"
                )
        names = Selection(store, languages=language_filter(options.languages)).names()
        return synonym_sets(names, codes)


def synonym_sets(names: Iterable[Name], codes: Mapping[str, Iterable[str]] | None = None) -> Sets:
    """The distinct names of each concept (Fivez et al. 2021, section 4.1.1), or of each of its ``codes`` (4.1.2).

    Names of one exact form (:func:`medlink.language.text.normalise`) are one; the first spelling stands for it. As in
    the paper a name of more than one concept is left out, here one of more than one code as well; with codes, concepts
    that have none are left out. The paper's other filters match names with a corpus and are not made here.

    Raises:
        ConfigError: fewer than two concepts have a name of their own, or none has two.

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
    found: dict[str, list[str]] = defaultdict(list)
    for form, concepts in owners.items():
        if len(concepts) == 1:
            found[next(iter(concepts))].append(spelt[form])
    if len(found) < 2:
        remedy = "name a terminology of several concepts"
        raise ConfigError("fewer than two concepts have a name of their own", remedy=remedy)
    if max(map(len, found.values())) < 2:
        raise ConfigError("no concept has two names", remedy="name a source that has synonyms or translations")
    return {concept: tuple(sorted(found[concept])) for concept in sorted(found)}


def digest(sets: Sets) -> str:
    """SHA-256 of names with their concepts."""
    return hashlib.sha256("".join(f"{c}\t{t}\n" for c, names in sets.items() for t in names).encode()).hexdigest()


def split(sets: Sets, options: SetOptions) -> Split:
    """Split synonym sets as section 5.1 does: concepts at random, then names of those that stay, one of each concept.

    >>> sets = {"A": ("a", "b", "c"), "B": ("d",), "C": ("e", "f"), "D": ("g",)}
    >>> split(sets, SetOptions(zero_shot=0.25, rounds=2))[1:]
    ([('e', 'C')], {'A': ('a', 'b', 'c')})
    """
    rng = np.random.default_rng(options.split_seed)
    apart = set(rng.permutation(list(sets))[: round(options.zero_shot * len(sets))].tolist())
    train: Sets = {concept: names for concept, names in sets.items() if concept not in apart}
    test: list[tuple[str, str]] = []
    for _ in range(options.rounds):
        train, drawn = hold_out(train, rng)
        test += drawn
    return Split(train, test, {concept: names for concept, names in sets.items() if concept in apart})


def hold_out(sets: Sets, rng: np.random.Generator, share: float = 1.0) -> tuple[Sets, list[tuple[str, str]]]:
    """Take one random name of each concept that has two or more, or of a share of these; the sets without them."""
    several = [concept for concept, names in sets.items() if len(names) > 1]
    if share < 1:
        several = sorted(rng.choice(several, round(share * len(several)), replace=False).tolist())
    drawn = {concept: sets[concept][rng.integers(len(sets[concept]))] for concept in several}
    rest = {concept: tuple(t for t in names if t != drawn.get(concept)) for concept, names in sets.items()}
    return rest, [(text, concept) for concept, text in drawn.items()]


def retrieve_synonyms(
    queries: NDArray[np.float32], names: NDArray[np.float32], synonyms: Sequence[Ids], itself: Ids | None = None
) -> tuple[NDArray[np.float64], Ids]:
    """Average precision and rank of the first synonym of each query, all names ranked by cosine (section 5.1).

    The average precision of a query with synonyms at the ranks r_1 < r_2 < ... is the mean of i / r_i. Of names with
    one
    cosine those that are no synonyms come first: an encoder that cannot tell names apart gains nothing by it.

    Args:
        queries, names: ``(q, d)`` and ``(n, d)`` unit vectors.
        synonyms: rows of the names that are right, one or more for each query.
        itself: ``(q,)`` rows that are the queries themselves and are not ranked.
    """
    precision, first = np.zeros(len(queries)), np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), _BLOCK):
        cosines = queries[start : start + _BLOCK] @ names.T
        if itself is not None:
            cosines[np.arange(len(cosines)), itself[start : start + _BLOCK]] = -np.inf
        own = [np.sort(row[right]) for row, right in zip(cosines, synonyms[start : start + _BLOCK], strict=True)]
        cosines.sort(axis=1)
        for row, (every, right) in enumerate(zip(cosines, own, strict=True), start):
            # names at least as near that are no synonyms, and the synonyms up to each
            place = np.arange(len(right), 0, -1)
            before = len(every) - np.searchsorted(every, right) - (len(right) - np.searchsorted(right, right))
            precision[row], first[row] = (place / (before + place)).mean(), (before + place).min()
    return precision, first
