"""What pairs are drawn from, and the draws: for thousands of concepts at once, by number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from medlink.training.data.relations import LANGUAGE, relation_phrase, relation_words
from medlink.training.data.view import Numbers, Runs, TrainingView, by_owner

_LONGEST_WALK = 64  # SNOMED CT is some 20 levels deep; a cycle must end too


def counts_of(runs: Runs, owners: Numbers) -> NDArray[np.int64]:
    """How many values each owner has.

    >>> counts_of((np.array([0, 2, 2]), np.array([7, 8], np.int32)), np.array([0, 1], np.int32)).tolist()
    [2, 0]
    """
    ends = runs[0]
    counts: NDArray[np.int64] = ends[owners + 1] - ends[owners]
    return counts


def draw_places(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """A place among the values of each of n owners, -1 where it has none.

    ``uniform`` ``(n,)``, in [0, 1), is the share of the owner's values that lies before the drawn one.

    >>> runs = np.array([0, 2, 2, 3]), np.array([7, 8, 9], np.int32)
    >>> draw_places(runs, np.array([0, 0, 1, 2], np.int32), np.array([0.0, 0.5, 0.9, 0.9])).tolist()
    [0, 1, -1, 2]
    """
    counts = counts_of(runs, owners)
    places: NDArray[np.int64] = runs[0][owners] + (uniform * counts).astype(np.int64)
    return np.where(counts > 0, places, -1)


def draw_values(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> Numbers:
    """As :func:`draw_places`, the values themselves.

    >>> runs = np.array([0, 2, 2]), np.array([7, 8], np.int32)
    >>> draw_values(runs, np.array([0, 1], np.int32), np.array([0.5, 0.5])).tolist()
    [8, -1]
    """
    places = draw_places(runs, owners, uniform)
    drawn = np.full(len(owners), -1, dtype=np.int32)
    drawn[places >= 0] = runs[1][places[places >= 0]]
    return drawn


def draw_ancestors(parents: Runs, start: Numbers, rng: np.random.Generator) -> Numbers:
    """An ancestor of each concept: one of those on a random way up, each step of the way as likely as the others.

    The last of k steps is kept with probability 1/k (reservoir sampling, Vitter 1985, section 2), so that no way has to
    be remembered. Remy et al. 2022, section 3.1, draw "the known names of the ancestors" and do not say how.

    Returns:
        ``(n,)`` ancestors, -1 where a concept has none; never the concept itself, also where the hierarchy has a cycle.

    >>> chain = np.array([0, 1, 2, 2]), np.array([1, 2], np.int32)  # 0 is a 1, 1 is a 2
    >>> draw_ancestors(chain, np.array([1, 2], np.int32), np.random.default_rng(1)).tolist()
    [2, -1]
    >>> sorted(set(draw_ancestors(chain, np.zeros(50, np.int32), np.random.default_rng(1)).tolist()))
    [1, 2]
    """
    drawn = np.full(len(start), -1, dtype=np.int32)
    walking, here = np.arange(len(start)), start
    for step in range(1, _LONGEST_WALK + 1):
        above = draw_values(parents, here, rng.random(len(here)))
        going = (above >= 0) & (above != start[walking])
        walking, here = walking[going], above[going]
        if not len(walking):
            break
        taken = rng.random(len(walking)) * step < 1
        drawn[walking[taken]] = here[taken]
    return drawn


def upto(share: float, place: int) -> int:
    """How many of the first ``place`` pairs are of a kind that has ``share`` of them, spread evenly.

    >>> [upto(0.15, place) for place in (0, 6, 7, 100, 10_000_000)]
    [0, 0, 1, 15, 1500000]
    """
    # 0.15 * 100 must not come out a hair below 15
    return int(share * place + 1e-6)


class Material:
    """What of a concept graph makes pairs.

    Attributes:
        related_names: names in the language of descriptions, by concept.
        related: concepts at the other end of a relation that can be put into words, by concept; ``related_types`` holds
            for each the place of its type.
        phrases: words of each type, ``None`` where there are none to be said.
        upward: ``(types,)`` whether a type leads from a concept to one above it.
        defined: ``(definitions,)`` owner of each definition that has a name to go with it; ``definition_places`` says
            where it stands among all.
        described: concepts with a name and a relation.
        several: concepts with names of two forms.
        shared: numbers of the forms that a concept has in common with another, by concept.
    """

    def __init__(self, graph: TrainingView) -> None:
        tags = [not tag or tag.partition("-")[0] == LANGUAGE for tag in graph.languages]
        spoken = np.array(tags, dtype=np.bool_)[graph.name_languages]
        self.related_names = _only(graph.names, spoken)
        self.phrases = tuple(relation_phrase(name) for name in graph.types)
        self.upward = np.array([name in relation_words().hierarchy for name in graph.types], dtype=np.bool_)
        said = np.array([phrase is not None for phrase in self.phrases], dtype=np.bool_)
        every = np.arange(graph.concepts, dtype=np.int32)
        named = counts_of(graph.names, every) > 0
        can_be_named = counts_of(self.related_names, every) > 0
        fits = said[graph.relation_types] & can_be_named[graph.relations[1]]
        self.related, self.related_types = _only(graph.relations, fits), graph.relation_types[fits]
        self.described = every[named & (counts_of(self.related, every) > 0)]
        owners = _owners(graph.definitions)
        self.definition_places = np.flatnonzero(named[owners]).astype(np.int32)
        self.defined = owners[self.definition_places]
        owners, forms = _distinct(graph.names, graph.name_forms)
        numbers, counts = np.unique(forms, return_counts=True)
        common = np.isin(forms, numbers[counts > 1])
        self.shared = by_owner(owners[common], forms[common], graph.concepts)
        self.several = np.flatnonzero(np.bincount(owners, minlength=graph.concepts) > 1).astype(np.int32)


def _owners(runs: Runs) -> Numbers:
    """The owner of each value."""
    return np.repeat(np.arange(len(runs[0]) - 1, dtype=np.int32), np.diff(runs[0]))


def _only(runs: Runs, keep: NDArray[np.bool_]) -> Runs:
    """The values that are kept, by owner."""
    before = np.concatenate([[0], np.cumsum(keep)])
    return before[runs[0]].astype(np.int64), runs[1][keep]


def _distinct(runs: Runs, forms: Numbers) -> tuple[Numbers, Numbers]:
    """Owners and the forms of their names, each form of an owner once, by form and owner."""
    count = max(1, len(runs[0]) - 1)
    form, owner = np.divmod(np.unique(forms.astype(np.int64) * count + _owners(runs)), count)
    return owner.astype(np.int32), form.astype(np.int32)
