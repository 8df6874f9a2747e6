"""Training pairs: a name of a concept beside a text that says what the concept is.

Remy et al. 2022 (BioLORD), section 3.1: the text is a definition, or a description "[more generic] which [relation]
[related]" made from a relation, an ancestor or semantic type, and a name of the related concept. Section 3.2: 15 % of
the pairs have a definition, each of which comes 50 times, with another name of its concept whenever there is one.

Pairs are made in chunks, each a function of seed, epoch and the chunk's number; what a chunk draws is drawn for all its
pairs at once, by number, and its texts are then read from the knowledge base.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.text import normalise
from medlink.records import Definition
from medlink.training.data.batches import distinct_batches, order, run_ahead
from medlink.training.data.relations import LANGUAGE, describe, relation_phrase, relation_words
from medlink.training.data.view import Numbers, Runs, TrainingView, by_owner
from medlink.training.recipes import PairRecipe

_LONGEST_WALK = 64  # SNOMED CT is some 20 levels deep; a cycle must end too
KINDS = ("definition", "description", "name")
_CHUNK = 16_384  # pairs whose texts are read at once: a few dozen megabytes
_BATCHES = 16  # at least, so that few pairs wait for a next batch that is of another chunk
_SPARE = 8  # further lots of pairs that a chunk may draw to fill its batches
# why there is no pair of a kind, and what to do about it
_NOTHING = {
    "definition": (
        "the knowledge base has no definitions, {:g} of the pairs need one",
        "add a table of definitions, or set the share of definitions to 0",
    ),
    "name": (
        "no concept of the knowledge base has two names",
        "build it with a source that has synonyms, or set the share of pairs of names to 0",
    ),
    "relation": (
        "the knowledge base has no relations, {:g} of the pairs need one",
        "build it with a source that has relations, or set the share of definitions to 1",
    ),
    "description": (
        "no relation of the knowledge base can be put into words: descriptions are English and the concepts at its end "
        "have no English names here",
        "add en to the languages or a source with English names, or set the share of definitions to 1",
    ),
}


class Pair(NamedTuple):
    """A name of a concept and a text about it; ``kind`` is ``definition``, ``description`` or ``name``."""

    concept_id: str
    name: str
    text: str
    kind: str


_Candidate = tuple[frozenset[Hashable], Pair]
_Made = tuple[int, str, str, str, str, str]
"""Number of a concept, name with its form, text with its form, kind."""


class KnowledgeBasePairs:
    """Pairs from a knowledge base, streamed.

    Definitions are gone through in a new random order each cycle, and so are the concepts for descriptions and for
    pairs of names: each comes once before any comes again, over the ends of epochs. Of one batch no two pairs share a
    concept, a name or a text, in the exact form of :func:`medlink.language.text.normalise`, and no two of their
    concepts have any name in common.

    Args:
        graph: the concepts.
        recipe: which pairs and how many.
        workers: processes that make pairs beside the one that trains; 0 makes them there, between the steps. The pairs
            are the same.

    Attributes:
        pairs_per_epoch: pairs in an epoch; what is left over after the last whole batch is not given.
        digest: SHA-256 of data and recipe.

    Raises:
        ConfigError: the knowledge base has nothing for a kind of pairs that the recipe asks for.
    """

    def __init__(self, graph: TrainingView, recipe: PairRecipe | None = None, *, workers: int = 0) -> None:
        self.recipe = recipe or PairRecipe()
        self.workers = workers
        self._graph = graph
        self._material = Material(graph)
        self._streams: dict[str, Numbers] = {
            "definition": np.arange(len(self._material.defined), dtype=np.int32),
            "description": self._material.described,
            "name": self._material.several,
        }
        self._shares = {kind: float(getattr(self.recipe, f"{kind}_share")) for kind in KINDS}
        self._check()
        self.pairs_per_epoch = self.recipe.pairs or self._natural_count()
        definitions = len(self._material.defined)
        # where in the names of its concept a definition begins to go through them
        self._first_names = np.random.default_rng([self.recipe.seed, 3]).random(definitions)
        said = json.dumps([self.recipe.to_dict(), self._material.phrases, relation_words().template, _CHUNK, _BATCHES])
        self.digest = hashlib.sha256(f"{graph.digest}\n{said}".encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        """What pairs are drawn from: ``definitions``, and ``concepts`` with a relation and with two names."""
        return {
            "definitions": len(self._material.defined),
            "concepts_with_relations": len(self._material.described),
            "relations": len(self._material.related[1]),
            "concepts_with_synonyms": len(self._material.several),
        }

    def batches_per_epoch(self, size: int) -> int:
        """Batches that :meth:`batches` gives."""
        return max(1, self.pairs_per_epoch // size)

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        """Batches of an epoch from one on, the same ones whenever they are asked for.

        To begin late takes no longer than making one chunk. Batches have ``size`` pairs, fewer where hardly as many
        concepts have no name in common.

        Raises:
            ConfigError: a batch needs more concepts than there are, or no pair can be made.
        """
        concepts = self._concepts()
        size_now = min(size, self.pairs_per_epoch)
        if size < 1 or size_now > concepts:
            raise ConfigError(
                f"a batch of {size} pairs is asked for; pairs can be made of {concepts} concepts",
                path=self._graph.path,
                remedy=f"set the batch size to {concepts} at most" if size > 1 else "give a batch size of at least 1",
            )
        total, each = self.batches_per_epoch(size), max(_BATCHES, _CHUNK // size_now)
        chunks = [(epoch, size_now, first, min(each, total - first)) for first in range(0, total, each)]
        to_skip = start % each
        for chunk in run_ahead(self._chunk, chunks[start // each :], self.workers):
            for batch in chunk[to_skip:]:
                if not batch:
                    raise ConfigError(
                        "no pair can be made: every name and text of a concept say the same",
                        path=self._graph.path,
                        remedy="add definitions, or use a knowledge base whose concepts differ in their names",
                    )
                yield batch
            to_skip = 0

    def _chunk(self, epoch: int, size: int, first: int, count: int) -> list[list[Pair]]:
        return list(distinct_batches(self._candidates(epoch, first * size, count * size, size), size, count))

    def _concepts(self) -> int:
        owners = {**self._streams, "definition": self._material.defined}
        return len(np.unique(np.concatenate([owners[kind] for kind in KINDS if self._shares[kind]])))

    def _natural_count(self) -> int:
        definitions = len(self._material.defined)
        if self._shares["definition"]:
            return round(definitions * self.recipe.definition_repeats / self._shares["definition"])
        if self._shares["description"]:
            return round(len(self._material.related[1]) / self._shares["description"])
        return len(self._graph.names[1])

    def _check(self) -> None:
        for kind in KINDS:
            if self._shares[kind] and not len(self._streams[kind]):
                related = kind != "description" or len(self._graph.relations[1])
                message, remedy = _NOTHING[kind if related else "relation"]
                raise ConfigError(message.format(self._shares[kind]), path=self._graph.path, remedy=remedy)

    def _candidates(self, epoch: int, first: int, count: int, size: int) -> Iterator[_Candidate]:
        rng = np.random.default_rng([self.recipe.seed, 4, epoch, first])
        taken = {}
        for kind in KINDS:
            share = self._shares[kind]
            start, end = upto(share, first), upto(share, first + count)
            taken[kind] = self._turns(kind, epoch * upto(share, self.pairs_per_epoch) + np.arange(start, end))
        yield from self._make(taken, rng)
        for _ in range(_SPARE):
            kinds = rng.choice(len(KINDS), max(256, size), p=[self._shares[kind] for kind in KINDS])
            for number, kind in enumerate(KINDS):
                wanted = np.count_nonzero(kinds == number)
                taken[kind] = self._turns(kind, rng.integers(0, max(1, len(self._streams[kind])), wanted))
            yield from self._make(taken, rng)

    def _turns(self, kind: str, places: NDArray[np.int64]) -> tuple[Numbers, NDArray[np.int64]]:
        stream = self._streams[kind]
        if not len(places):
            return stream[:0], places
        cycles, within = np.divmod(places, len(stream))
        taken = np.empty(len(places), dtype=np.int32)
        for cycle in np.unique(cycles).tolist():
            here = cycles == cycle
            taken[here] = stream[order(self.recipe.seed, KINDS.index(kind), cycle, len(stream))[within[here]]]
        return taken, cycles

    def _make(
        self, taken: dict[str, tuple[Numbers, NDArray[np.int64]]], rng: np.random.Generator
    ) -> Iterator[_Candidate]:
        """Pairs with the keys that must not meet in a batch, in random order."""
        made = [
            *self._definition_pairs(*taken["definition"]),
            *_descriptions(self._graph, self._material, self.recipe, taken["description"][0], rng),
            *self._name_pairs(taken["name"][0], rng),
        ]
        concepts = np.array([one[0] for one in made], dtype=np.int32)
        ids = self._graph.concept_ids(concepts)
        ends, forms = self._material.shared
        begins, stops = ends[concepts].tolist(), ends[concepts + 1].tolist()
        for place in rng.permutation(len(made)).tolist():
            concept, name, name_form, text, text_form, kind = made[place]
            keys: list[Hashable] = [concept, name_form, text_form]
            if begins[place] != stops[place]:
                # forms below 0, so that none is taken for a concept
                keys.extend((-1 - forms[begins[place] : stops[place]]).tolist())
            yield frozenset(keys), Pair(ids[place], name, text, kind)

    def _definition_pairs(self, chosen: Numbers, cycles: NDArray[np.int64]) -> list[_Made]:
        concepts = self._material.defined[chosen]
        counts = counts_of(self._graph.names, concepts)
        turn = ((self._first_names[chosen] * counts).astype(np.int64) + cycles) % np.maximum(counts, 1)
        names = self._graph.names[1][self._graph.names[0][concepts] + turn]
        numbers = self._graph.definitions[1][self._material.definition_places[chosen]]
        texts, forms = self._graph.definition_texts(numbers), self._graph.name_texts(names)
        made: list[_Made] = []
        for concept, name, number in zip(concepts.tolist(), names.tolist(), numbers.tolist(), strict=True):
            text = texts[number]
            form = normalise(text)
            if form not in ("", forms[name][1]):
                made.append((concept, *forms[name], text, form, "definition"))
        return made

    def _name_pairs(self, concepts: Numbers, rng: np.random.Generator) -> list[_Made]:
        counts = counts_of(self._graph.names, concepts)
        # another place than the first one, any of them
        place = rng.integers(0, counts)
        second = (place + 1 + rng.integers(0, counts - 1)) % counts
        begins, rows = self._graph.names[0][concepts], self._graph.names[1]
        one, other = rows[begins + place], rows[begins + second]
        texts = self._graph.name_texts(np.concatenate([one, other]))
        return [
            (concept, *texts[a], *texts[b], "name")
            for concept, a, b in zip(concepts.tolist(), one.tolist(), other.tolist(), strict=True)
            if texts[a][1] != texts[b][1]
        ]


def _descriptions(
    graph: TrainingView, material: Material, recipe: PairRecipe, concepts: Numbers, rng: np.random.Generator
) -> list[_Made]:
    """A description of each concept, but for those of which it says no more than the name that was drawn."""
    n = len(concepts)
    places = draw_places(material.related, concepts, rng.random(n))
    tails, types = material.related[1][places], material.related_types[places]
    names = draw_values(graph.names, concepts, rng.random(n))
    related = draw_values(material.related_names, tails, rng.random(n))
    # What stands first must say less than what stands last: above "is a kind of X" are the ancestors of X.
    ancestors = draw_ancestors(graph.parents, np.where(material.upward[types], tails, concepts), rng)
    ancestors[(ancestors >= 0) & (~graph.kept[ancestors] | (ancestors == concepts))] = -1
    generic = np.full(n, -1, dtype=np.int32)
    known = ancestors >= 0
    generic[known] = draw_values(material.related_names, ancestors[known], rng.random(np.count_nonzero(known)))
    kinds = draw_values(graph.semantic_types, concepts, rng.random(n))
    which, first = rng.random(n), recipe.open_share
    second = first + recipe.semantic_type_share
    generic[which < second] = -1
    kinds[(which < first) | (which >= second)] = -1
    rows = np.concatenate([names, related, generic[generic >= 0]])
    texts = graph.name_texts(rows)
    opening = relation_words().open
    type_texts = [(text.replace("_", " ").lower(), normalise(text)) for text in graph.semantic_type_texts]
    made: list[_Made] = []
    columns = (concepts, names, related, generic, kinds, types)
    for concept, name, tail, above, kind, relation in zip(*(column.tolist() for column in columns), strict=True):
        form, tail_form = texts[name][1], texts[tail][1]
        if form == tail_form:
            continue
        generic_text, generic_form = (
            texts[above] if above >= 0 else type_texts[kind] if kind >= 0 else (opening, opening)
        )
        if generic_form in (form, tail_form):
            generic_text = generic_form = opening
        phrase = material.phrases[relation] or ""
        text = describe(generic_text, phrase, texts[tail][0])
        made.append((concept, texts[name][0], form, text, describe(generic_form, phrase, tail_form), "description"))
    return made


def described(graph: TrainingView, count: int, seed: int) -> Iterator[Definition]:
    """Descriptions of the concepts that have relations and no definition, as those of :class:`KnowledgeBasePairs`.

    Concepts are in ascending order, each with ``count`` draws, of which some may say the same; each time the same.
    """
    material, recipe = Material(graph), PairRecipe()
    concepts = np.setdiff1d(material.described, material.defined)
    for start in range(0, len(concepts), _CHUNK):
        chosen = np.repeat(concepts[start : start + _CHUNK], count)
        made = _descriptions(graph, material, recipe, chosen, np.random.default_rng([seed, 5, start]))
        ids = graph.concept_ids(np.array([one[0] for one in made], dtype=np.int32))
        yield from (Definition(concept, one[3], LANGUAGE) for concept, one in zip(ids, made, strict=True))


def counts_of(runs: Runs, owners: Numbers) -> NDArray[np.int64]:
    """How many values each owner has."""
    counts: NDArray[np.int64] = runs[0][owners + 1] - runs[0][owners]
    return counts


def draw_places(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """A place among the values of each of n owners, -1 where it has none.

    ``uniform`` ``(n,)``, in [0, 1), is the share of the owner's values that lies before the drawn one.
    """
    counts = counts_of(runs, owners)
    places: NDArray[np.int64] = runs[0][owners] + (uniform * counts).astype(np.int64)
    return np.where(counts > 0, places, -1)


def draw_values(runs: Runs, owners: Numbers, uniform: NDArray[np.float64]) -> Numbers:
    """As :func:`draw_places`, the values themselves."""
    places = draw_places(runs, owners, uniform)
    drawn = np.full(len(owners), -1, dtype=np.int32)
    drawn[places >= 0] = runs[1][places[places >= 0]]
    return drawn


def draw_ancestors(parents: Runs, start: Numbers, rng: np.random.Generator) -> Numbers:
    """An ancestor of each of n concepts, -1 where it has none; never the concept itself, also in a cycle.

    It is one of those on a random way up, each step of the way as likely as the others. The last of k steps is kept
    with probability 1/k (reservoir sampling, Vitter 1985, section 2), so that no way has to be remembered. Remy et al.
    2022, section 3.1, draw "the known names of the ancestors" and do not say how.
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
    """How many of the first ``place`` pairs are of a kind that has ``share`` of them, spread evenly."""
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
    return np.repeat(np.arange(len(runs[0]) - 1, dtype=np.int32), np.diff(runs[0]))


def _only(runs: Runs, keep: NDArray[np.bool_]) -> Runs:
    before = np.concatenate([[0], np.cumsum(keep)])
    return before[runs[0]].astype(np.int64), runs[1][keep]


def _distinct(runs: Runs, forms: Numbers) -> tuple[Numbers, Numbers]:
    """Owners and the forms of their names, each form of an owner once, by form and owner."""
    count = max(1, len(runs[0]) - 1)
    form, owner = np.divmod(np.unique(forms.astype(np.int64) * count + _owners(runs)), count)
    return owner.astype(np.int32), form.astype(np.int32)
