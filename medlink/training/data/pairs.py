"""Training pairs of BioLORD: a name of a concept, and a text about the concept.

Remy et al. 2022 (BioLORD), section 3.1: the text is a definition, or a description "[more generic] which [relation]
[related]" made from a relation, an ancestor or semantic type, and a name of the related concept. Section 3.2: 15 % of
the pairs have a definition. Each definition occurs 50 times, if possible with another name of its concept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.records import Definition
from medlink.training.data.batches import Batch, draw_cycles, shared_keys
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pair_sources import LANGUAGE, PairSources
from medlink.training.data.ragged import Int32Array, Ragged
from medlink.training.data.view import TrainingView

KINDS = ("definition", "description", "name")
_MAX_STEPS_UP = 64  # SNOMED CT is some 20 levels deep; a cycle must end too
_CHUNK = 16_384  # pairs drawn at once
_NO_PAIRS = {  # message and remedy by what is missing
    "definition": (
        "the knowledge base has no definitions, {:g} of the pairs need one",
        "add a table of definitions, or give definition_share=0",
    ),
    "name": (
        "no concept of the knowledge base has two names",
        "build it with a source that has synonyms, or give name_share=0",
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


class Pairs(NamedTuple):
    """Numbers of n pairs: the concept, the name, and the parts of the other text ``(n, 3)``, -1 for none.

    A definition or a name has one part; a description has three. ``key`` is a number for the exact form
    (:func:`medlink.language.text.normalise`) of the other text. ``is_usable`` is false if the name has the same form.
    """

    concept: Int32Array
    name: Int32Array
    text: Int32Array
    key: NDArray[np.int64]
    is_usable: NDArray[np.bool_]


class KnowledgeBasePairs:
    """Pairs from a knowledge base.

    Definitions, and concepts for descriptions and for pairs of names, are drawn in a new random order each cycle: each
    occurs once before any occurs again, across epochs. Another pair of its kind replaces a pair of two equal texts. The
    draws depend only on seed, epoch and number of the first pair.

    Attributes:
        pairs_per_epoch: pairs of an epoch; only whole batches are used.
        digest: SHA-256 of data and recipe.

    Raises:
        ConfigError: the knowledge base has no material for a kind of pairs that the recipe asks for.
    """

    def __init__(self, view: TrainingView, recipe: PairRecipe | None = None) -> None:
        self.recipe = recipe or PairRecipe()
        self._view = view
        self.texts = sources = PairSources(view)
        self._streams: dict[str, Int32Array] = {
            "definition": np.arange(len(sources.defined), dtype=np.int32),
            "description": sources.related_concepts,
            "name": sources.with_synonyms,
        }
        self._shares = {kind: float(getattr(self.recipe, f"{kind}_share")) for kind in KINDS}
        for kind in KINDS:
            if self._shares[kind] and not len(self._streams[kind]):
                no_relations = kind == "description" and not len(view.relations.values)
                message, remedy = _NO_PAIRS["relation" if no_relations else kind]
                raise ConfigError(message.format(self._shares[kind]), path=view.path, remedy=remedy)
        defaults = (
            (self._shares["definition"], len(sources.defined) * self.recipe.definition_repeats),
            (self._shares["description"], len(sources.related.values)),
            (1, len(view.names.values)),
        )
        default = next(round(count / share) for share, count in defaults if share)
        self.pairs_per_epoch = self.recipe.pairs or default
        # the first name paired with a definition: its position among the names of the concept, as a share
        self._first_names = np.random.default_rng([self.recipe.seed, 3]).random(len(sources.defined))
        facts = f"{self.texts.digest} {json.dumps(self.recipe.to_dict())} {_CHUNK}"
        self.digest = hashlib.sha256(facts.encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        """Return the numbers of ``definitions``, ``relations``, and ``concepts`` with a relation and with two names."""
        return {
            "definitions": len(self.texts.defined),
            "concepts_with_relations": len(self.texts.related_concepts),
            "relations": len(self.texts.related.values),
            "concepts_with_synonyms": len(self.texts.with_synonyms),
        }

    def batches(self, size: int) -> PairBatches:
        """Return batches of ``size`` pairs, or of all pairs of an epoch if there are fewer.

        Raises ConfigError if a batch needs more concepts than there are.
        """
        owners = {**self._streams, "definition": self.texts.defined}
        concepts = len(np.unique(np.concatenate([owners[kind] for kind in KINDS if self._shares[kind]])))
        if min(size, self.pairs_per_epoch) > concepts:
            problem = f"a batch of {size} pairs is asked for; pairs can be made of {concepts} concepts"
            raise ConfigError(problem, path=self._view.path, remedy=f"set the batch size to {concepts} at most")
        return PairBatches(self, min(size, self.pairs_per_epoch))

    def draw(self, epoch: int, first: int, count: int) -> tuple[Pairs, NDArray[np.int64]]:
        """Draw ``count`` pairs of an epoch from number ``first`` on; also return the index in KINDS of each.

        Raises ConfigError if all pairs have equal texts.
        """
        rng = np.random.default_rng([self.recipe.seed, 4, epoch, first])
        drawn: list[Pairs] = []
        for kind in KINDS:
            share = self._shares[kind]
            start, stop = cumulative_count(share, first), cumulative_count(share, first + count)
            earlier = epoch * cumulative_count(share, self.pairs_per_epoch)
            stream, positions = self._streams[kind], earlier + np.arange(start, stop)
            items, cycles = draw_cycles(self.recipe.seed, len(drawn), positions, max(1, len(stream)))
            chosen = stream[items] if len(stream) else items
            if kind == "definition":
                drawn.append(self._definitions(chosen, cycles))
            elif kind == "description":
                drawn.append(draw_descriptions(self.texts, self.recipe, chosen, rng))
            else:
                drawn.append(self._names(chosen, rng))
        kinds = np.repeat(np.arange(len(KINDS)), [len(pairs.concept) for pairs in drawn])
        all_pairs = Pairs(*map(np.concatenate, zip(*drawn, strict=True)))
        chosen, usable = np.arange(len(kinds)), np.flatnonzero(all_pairs.is_usable)
        if not len(usable):
            remedy = "add definitions, or use a knowledge base whose concepts differ in their names"
            problem = "no pair can be made: every name of a concept equals its texts"
            raise ConfigError(problem, path=self._view.path, remedy=remedy)
        for kind in np.unique(kinds[~all_pairs.is_usable]).tolist():
            useless = np.flatnonzero(~all_pairs.is_usable & (kinds == kind))
            alike = usable[kinds[usable] == kind]
            chosen[useless] = rng.choice(alike if len(alike) else usable, len(useless))
        # the numbers of the kinds are rounded, each for itself
        spare = rng.choice(usable, max(0, count - len(chosen)))
        chosen = rng.permutation(np.append(chosen, spare))[:count]
        return Pairs(*(column[chosen] for column in all_pairs)), kinds[chosen]

    def keys(self, pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows and keys for :func:`shared_keys`: pairs with a common key are not negatives of each other.

        Keys are the concept, the forms of both texts, and the names that the concept shares with others.
        """
        row = np.arange(len(pairs.concept))
        forms, counts = self.texts.shared_forms.gather(pairs.concept)
        name_key = self._view.name_forms[pairs.name] + np.int64(self._view.concepts)
        keys = np.concatenate([pairs.concept, name_key, pairs.key, -1 - forms.astype(np.int64)])
        return np.concatenate([row, row, row, np.repeat(row, counts)]), keys

    def _definitions(self, chosen: Int32Array, cycles: NDArray[np.int64]) -> Pairs:
        concepts = self.texts.defined[chosen]
        sizes = self.texts.names.sizes(concepts)
        turn = ((self._first_names[chosen] * sizes).astype(np.int64) + cycles) % np.maximum(sizes, 1)
        names = (self.texts.names.offsets[concepts] + turn).astype(np.int32)
        forms = self._view.definition_forms[self.texts.definition_positions[chosen]]
        return self._simple_pairs(concepts, names, self.texts.first_definition + chosen, forms)

    def _names(self, concepts: Int32Array, rng: np.random.Generator) -> Pairs:
        sizes = self.texts.names.sizes(concepts)
        first = rng.integers(0, sizes)
        second = (first + 1 + rng.integers(0, sizes - 1)) % sizes  # any other
        name, text = ((self.texts.names.offsets[concepts] + place).astype(np.int32) for place in (first, second))
        return self._simple_pairs(concepts, name, text, self._view.name_forms[text])

    def _simple_pairs(self, concepts: Int32Array, names: Int32Array, texts: Int32Array, forms: Int32Array) -> Pairs:
        parts = np.full((len(texts), 3), -1, np.int32)
        parts[:, 0] = texts
        key = forms + np.int64(self._view.concepts)
        return Pairs(concepts, names, parts, key, forms != self._view.name_forms[names])


class PairBatches:
    """Batches of ``size`` pairs: a column of names and one of texts.

    The label ``(n, n)`` is true where text j is not a negative of name i, because both pairs share a concept, a name or
    a text in its exact form, or their concepts share any name. (The negatives of Remy et al. 2022, section 3, are all
    other pairs of the batch.)
    """

    def __init__(self, source: KnowledgeBasePairs, size: int) -> None:
        self.source, self.size, self.texts = source, size, source.texts
        self.digest = hashlib.sha256(f"{source.digest} {size}".encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """Return the number of batches; pairs after the last whole batch are not used."""
        return self.source.pairs_per_epoch // self.size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number ``start`` on; a later start costs at most one more chunk."""
        total, per_chunk = self.batches_per_epoch(), max(1, _CHUNK // self.size)
        for first in range(start - start % per_chunk, total, per_chunk):
            count = min(per_chunk, total - first)
            pairs, _ = self.source.draw(epoch, first * self.size, count * self.size)
            labels = shared_keys(*self.source.keys(pairs), self.size, count)
            for number, label in enumerate(labels):
                if first + number >= start:
                    rows = slice(number * self.size, (number + 1) * self.size)
                    yield Batch((pairs.name[rows], pairs.text[rows]), label)


def draw_descriptions(
    sources: PairSources, recipe: PairRecipe, concepts: Int32Array, rng: np.random.Generator
) -> Pairs:
    """Draw a description of each concept; a pair is not usable if the related name is the drawn name."""
    view, n = sources.view, len(concepts)
    positions = sources.related.draw_positions(concepts, rng.random(n))
    tails, types = sources.related.values[positions], sources.related_types[positions]
    names = sources.names.draw(concepts, rng.random(n))
    related = sources.english_names.draw(tails, rng.random(n))
    # The generic term must be broader than the related one: before "is a kind of X" stand the ancestors of X.
    ancestors = draw_ancestors(view.parents, np.where(sources.is_hierarchy[types], tails, concepts), rng)
    ancestors[(ancestors >= 0) & (~view.included[ancestors] | (ancestors == concepts))] = -1
    generic = np.full(n, -1, dtype=np.int32)
    known = ancestors >= 0
    generic[known] = sources.english_names.draw(ancestors[known], rng.random(np.count_nonzero(known)))
    kinds = view.semantic_types.draw(concepts, rng.random(n))
    opening, first = rng.random(n), recipe.open_share
    second = first + recipe.semantic_type_share
    generic[opening < second] = -1
    kinds[(opening < first) | (opening >= second)] = -1
    form, tail_form = view.name_forms[names], view.name_forms[related]
    beginning = np.where(generic >= 0, generic, np.where(kinds >= 0, sources.first_type + kinds, sources.something))
    beginning_form = np.where(generic >= 0, view.name_forms[generic], np.append(sources.type_forms, -1)[kinds])
    is_repeated = (beginning_form == form) | (beginning_form == tail_form)
    beginning[is_repeated], beginning_form[is_repeated] = sources.something, -1
    # equal numbers for equal forms of all three parts
    beginning_key = np.where(beginning_form >= 0, beginning_form, view.forms + beginning).astype(np.int64)
    key = (tail_form * np.int64(len(sources.clauses)) + sources.type_clauses[types]) * (view.forms + len(sources))
    key += beginning_key + view.concepts + view.forms
    clauses, ends = sources.first_clause + sources.type_clauses[types], sources.continuation(related)
    parts = np.stack([beginning, clauses, ends], axis=1).astype(np.int32)
    return Pairs(concepts, names, parts, key, form != tail_form)


def iter_descriptions(view: TrainingView, count: int, seed: int) -> Iterator[Definition]:
    """Yield descriptions, as in :class:`KnowledgeBasePairs`, of the concepts that have relations but no definition.

    Concepts are in ascending order, each with ``count`` draws, which may repeat. Equal calls draw the same.
    """
    sources, recipe = PairSources(view), PairRecipe()
    concepts = np.setdiff1d(sources.related_concepts, sources.defined)
    for start in range(0, len(concepts), _CHUNK):
        chosen = np.repeat(concepts[start : start + _CHUNK], count)
        drawn = draw_descriptions(sources, recipe, chosen, np.random.default_rng([seed, 5, start]))
        usable = drawn.is_usable
        texts = zip(*(sources.take(column[usable]) for column in drawn.text.T), strict=True)
        ids = view.concept_ids(drawn.concept[usable])
        yield from (Definition(concept, "".join(text), LANGUAGE) for concept, text in zip(ids, texts, strict=True))


def draw_ancestors(parents: Ragged, start: Int32Array, rng: np.random.Generator) -> Int32Array:
    """Draw an ancestor of each of n concepts, -1 for none; never the concept itself, even in a cycle.

    The draw is uniform on a random walk up: step k replaces the earlier draw with probability 1/k (reservoir sampling,
    Vitter 1985, section 2). Remy et al. 2022, section 3.1, do not state how they draw.
    """
    drawn = np.full(len(start), -1, dtype=np.int32)
    walking, here = np.arange(len(start)), start
    for step in range(1, _MAX_STEPS_UP + 1):
        above = parents.draw(here, rng.random(len(here)))
        going = (above >= 0) & (above != start[walking])
        walking, here = walking[going], above[going]
        if not len(walking):
            break
        replaced = rng.random(len(walking)) * step < 1
        drawn[walking[replaced]] = here[replaced]
    return drawn


def cumulative_count(share: float, position: int) -> int:
    """Count the pairs of a kind among the first ``position`` pairs, if its ``share`` is spread evenly."""
    # 0.15 * 100 must not fall just below 15
    return int(share * position + 1e-6)
