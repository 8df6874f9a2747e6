"""Training pairs of BioLORD: a name of a concept beside a text about the concept.

Remy et al. 2022 (BioLORD), section 3.1: the text is a definition, or a description "[more generic] which [relation]
[related]" made from a relation, an ancestor or semantic type, and a name of the related concept. Section 3.2: 15 % of
the pairs have a definition. Each definition occurs 50 times, with another name of its concept whenever there is one.

Pairs are made in chunks. A chunk depends on seed, epoch and its number alone. It draws all its pairs as integers and
then reads their texts from the knowledge base.
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
from medlink.training.data.batches import cycle_order, distinct_batches, prefetch
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.relations import LANGUAGE, describe, relation_phrase, relation_words
from medlink.training.data.view import Int32Array, Ragged, TrainingView

KINDS = ("definition", "description", "name")
_MAX_STEPS_UP = 64  # SNOMED CT is some 20 levels deep; a cycle must end too
_CHUNK = 16_384  # pairs whose texts are read at once: a few dozen megabytes
_MIN_BATCHES = 16  # batches of a chunk, so that few pairs are left over at its end
_SPARE_DRAWS = 8  # further draws of a chunk that cannot fill its batches
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


class Pair(NamedTuple):
    """A name of a concept and a text about it; ``kind`` is ``definition``, ``description`` or ``name``."""

    concept_id: str
    name: str
    text: str
    kind: str


class _Draft(NamedTuple):
    """A pair with the number of its concept, and the exact forms of both texts."""

    concept: int
    name: str
    name_form: str
    text: str
    text_form: str
    kind: str


class KnowledgeBasePairs:
    """Pairs from a knowledge base, streamed in batches.

    Definitions are drawn in a new random order each cycle, and so are the concepts for descriptions and for pairs of
    names: each occurs once before any occurs again, across epochs. No two pairs of a batch share a concept, a name or a
    text, in the exact form of :func:`medlink.language.text.normalise`, and no two of their concepts share any name.

    Args:
        workers: processes that make pairs beside the training process; 0 makes them between the steps. The pairs are
            the same.

    Attributes:
        pairs_per_epoch: pairs of an epoch, of which only whole batches are used.
        digest: SHA-256 of data and recipe.

    Raises:
        ConfigError: the knowledge base has no material for a kind of pairs that the recipe asks for.
    """

    def __init__(self, view: TrainingView, recipe: PairRecipe | None = None, *, workers: int = 0) -> None:
        self.recipe = recipe or PairRecipe()
        self.workers = workers
        self._view = view
        self._sources = PairSources(view)
        self._streams: dict[str, Int32Array] = {
            "definition": np.arange(len(self._sources.defined), dtype=np.int32),
            "description": self._sources.related_concepts,
            "name": self._sources.with_synonyms,
        }
        self._shares = {kind: float(getattr(self.recipe, f"{kind}_share")) for kind in KINDS}
        for kind in KINDS:
            if self._shares[kind] and not len(self._streams[kind]):
                no_relations = kind == "description" and not len(view.relations.values)
                message, remedy = _NO_PAIRS["relation" if no_relations else kind]
                raise ConfigError(message.format(self._shares[kind]), path=view.path, remedy=remedy)
        self.pairs_per_epoch = self.recipe.pairs or self._default_pairs()
        # the first name paired with a definition: its position among the names of the concept, as a share
        self._first_names = np.random.default_rng([self.recipe.seed, 3]).random(len(self._sources.defined))
        facts = [self.recipe.to_dict(), self._sources.phrases, relation_words().template, _CHUNK, _MIN_BATCHES]
        self.digest = hashlib.sha256(f"{view.digest}\n{json.dumps(facts)}".encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        """Return the numbers of ``definitions``, ``relations``, and ``concepts`` with a relation and with two names."""
        return {
            "definitions": len(self._sources.defined),
            "concepts_with_relations": len(self._sources.related_concepts),
            "relations": len(self._sources.related.values),
            "concepts_with_synonyms": len(self._sources.with_synonyms),
        }

    def batches_per_epoch(self, size: int) -> int:
        """Return the number of batches that :meth:`batches` gives."""
        return max(1, self.pairs_per_epoch // size)

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        """Yield the batches of an epoch from number ``start`` on, the same in each call.

        A late start costs no more than one chunk. Batches have ``size`` pairs, or fewer if too many concepts share
        names.

        Raises:
            ConfigError: a batch needs more concepts than there are, or no pair can be made.
        """
        owners = {**self._streams, "definition": self._sources.defined}
        concepts = len(np.unique(np.concatenate([owners[kind] for kind in KINDS if self._shares[kind]])))
        actual_size = min(size, self.pairs_per_epoch)
        if size < 1 or actual_size > concepts:
            raise ConfigError(
                f"a batch of {size} pairs is asked for; pairs can be made of {concepts} concepts",
                path=self._view.path,
                remedy=f"set the batch size to {concepts} at most" if size > 1 else "give a batch size of at least 1",
            )
        total, per_chunk = self.batches_per_epoch(size), max(_MIN_BATCHES, _CHUNK // actual_size)
        tasks = [(epoch, actual_size, first, min(per_chunk, total - first)) for first in range(0, total, per_chunk)]
        to_skip = start % per_chunk
        for chunk in prefetch(self._make_chunk, tasks[start // per_chunk :], self.workers):
            for batch in chunk[to_skip:]:
                if not batch:
                    raise ConfigError(
                        "no pair can be made: every name of a concept equals its texts",
                        path=self._view.path,
                        remedy="add definitions, or use a knowledge base whose concepts differ in their names",
                    )
                yield batch
            to_skip = 0

    def _make_chunk(self, epoch: int, size: int, first: int, count: int) -> list[list[Pair]]:
        return list(distinct_batches(self._candidates(epoch, first * size, count * size, size), size, count))

    def _default_pairs(self) -> int:
        definitions = len(self._sources.defined)
        if self._shares["definition"]:
            return round(definitions * self.recipe.definition_repeats / self._shares["definition"])
        if self._shares["description"]:
            return round(len(self._sources.related.values) / self._shares["description"])
        return len(self._view.names.values)

    def _candidates(self, epoch: int, first: int, count: int, size: int) -> Iterator[tuple[frozenset[Hashable], Pair]]:
        """Pairs with the keys that must not occur twice in a batch."""
        rng = np.random.default_rng([self.recipe.seed, 4, epoch, first])
        chosen = {}
        for kind in KINDS:
            share = self._shares[kind]
            start, stop = cumulative_count(share, first), cumulative_count(share, first + count)
            earlier = epoch * cumulative_count(share, self.pairs_per_epoch)
            chosen[kind] = self._draw_from_stream(kind, earlier + np.arange(start, stop))
        yield from self._make_pairs(chosen, rng)
        for _ in range(_SPARE_DRAWS):
            kinds = rng.choice(len(KINDS), max(256, size), p=[self._shares[kind] for kind in KINDS])
            for number, kind in enumerate(KINDS):
                needed = np.count_nonzero(kinds == number)
                positions = rng.integers(0, max(1, len(self._streams[kind])), needed)
                chosen[kind] = self._draw_from_stream(kind, positions)
            yield from self._make_pairs(chosen, rng)

    def _draw_from_stream(self, kind: str, positions: NDArray[np.int64]) -> tuple[Int32Array, NDArray[np.int64]]:
        """Items at positions of a stream, which repeats in cycles without end, and the cycle of each."""
        stream = self._streams[kind]
        if not len(positions):
            return stream[:0], positions
        cycles, within = np.divmod(positions, len(stream))
        chosen = np.empty(len(positions), dtype=np.int32)
        for cycle in np.unique(cycles).tolist():
            here = cycles == cycle
            order = cycle_order(self.recipe.seed, KINDS.index(kind), cycle, len(stream))
            chosen[here] = stream[order[within[here]]]
        return chosen, cycles

    def _make_pairs(
        self, chosen: dict[str, tuple[Int32Array, NDArray[np.int64]]], rng: np.random.Generator
    ) -> Iterator[tuple[frozenset[Hashable], Pair]]:
        """Make pairs with their keys, in random order."""
        drafts = [
            *self._definition_pairs(*chosen["definition"]),
            *_draft_descriptions(self._view, self._sources, self.recipe, chosen["description"][0], rng),
            *self._name_pairs(chosen["name"][0], rng),
        ]
        concepts = np.array([draft.concept for draft in drafts], dtype=np.int32)
        ids = self._view.concept_ids(concepts)
        offsets, forms = self._sources.shared_forms
        starts, stops = offsets[concepts].tolist(), offsets[concepts + 1].tolist()
        for i in rng.permutation(len(drafts)).tolist():
            draft = drafts[i]
            keys: list[Hashable] = [draft.concept, draft.name_form, draft.text_form]
            if starts[i] != stops[i]:
                # numbers below 0, so that no form equals the number of a concept
                keys.extend((-1 - forms[starts[i] : stops[i]]).tolist())
            yield frozenset(keys), Pair(ids[i], draft.name, draft.text, draft.kind)

    def _definition_pairs(self, chosen: Int32Array, cycles: NDArray[np.int64]) -> list[_Draft]:
        concepts = self._sources.defined[chosen]
        sizes = self._view.names.sizes(concepts)
        turn = ((self._first_names[chosen] * sizes).astype(np.int64) + cycles) % np.maximum(sizes, 1)
        names = self._view.names.values[self._view.names.offsets[concepts] + turn]
        numbers = self._view.definitions.values[self._sources.definition_positions[chosen]]
        texts, forms = self._view.definition_texts(numbers), self._view.name_texts(names)
        drafts: list[_Draft] = []
        for concept, name, number in zip(concepts.tolist(), names.tolist(), numbers.tolist(), strict=True):
            text = texts[number]
            form = normalise(text)
            if form not in ("", forms[name][1]):
                drafts.append(_Draft(concept, *forms[name], text, form, "definition"))
        return drafts

    def _name_pairs(self, concepts: Int32Array, rng: np.random.Generator) -> list[_Draft]:
        offsets, rows = self._view.names
        sizes = self._view.names.sizes(concepts)
        first = rng.integers(0, sizes)
        second = (first + 1 + rng.integers(0, sizes - 1)) % sizes  # any other
        name, text = (rows[offsets[concepts] + position] for position in (first, second))
        texts = self._view.name_texts(np.concatenate([name, text]))
        return [
            _Draft(concept, *texts[a], *texts[b], "name")
            for concept, a, b in zip(concepts.tolist(), name.tolist(), text.tolist(), strict=True)
            if texts[a][1] != texts[b][1]
        ]


def _draft_descriptions(
    view: TrainingView, sources: PairSources, recipe: PairRecipe, concepts: Int32Array, rng: np.random.Generator
) -> list[_Draft]:
    """Draft a description of each concept, unless the related name is the drawn name."""
    n = len(concepts)
    positions = sources.related.draw_positions(concepts, rng.random(n))
    tails, types = sources.related.values[positions], sources.related_types[positions]
    names = view.names.draw(concepts, rng.random(n))
    related = sources.english_names.draw(tails, rng.random(n))
    # The generic term must be broader than the related one: before "is a kind of X" stand the ancestors of X.
    ancestors = draw_ancestors(view.parents, np.where(sources.is_hierarchy[types], tails, concepts), rng)
    ancestors[(ancestors >= 0) & (~view.included[ancestors] | (ancestors == concepts))] = -1
    generic = np.full(n, -1, dtype=np.int32)
    known = ancestors >= 0
    generic[known] = sources.english_names.draw(ancestors[known], rng.random(np.count_nonzero(known)))
    semantic_types = view.semantic_types.draw(concepts, rng.random(n))
    opening, first = rng.random(n), recipe.open_share
    second = first + recipe.semantic_type_share
    generic[opening < second] = -1
    semantic_types[(opening < first) | (opening >= second)] = -1
    texts = view.name_texts(np.concatenate([names, related, generic[generic >= 0]]))
    something = relation_words().open
    type_texts = [(text.replace("_", " ").lower(), normalise(text)) for text in view.semantic_type_texts]
    drafts: list[_Draft] = []
    columns = (concepts, names, related, generic, semantic_types, types)
    for concept, name, tail, above, kind, relation in zip(*(column.tolist() for column in columns), strict=True):
        form, tail_form = texts[name][1], texts[tail][1]
        if form == tail_form:
            continue
        generic_text, generic_form = (
            texts[above] if above >= 0 else type_texts[kind] if kind >= 0 else (something, something)
        )
        if generic_form in (form, tail_form):
            generic_text = generic_form = something
        phrase = sources.phrases[relation] or ""
        text, text_form = describe(generic_text, phrase, texts[tail][0]), describe(generic_form, phrase, tail_form)
        drafts.append(_Draft(concept, *texts[name], text, text_form, "description"))
    return drafts


def iter_descriptions(view: TrainingView, count: int, seed: int) -> Iterator[Definition]:
    """Yield descriptions, as in :class:`KnowledgeBasePairs`, of the concepts with relations and no definition.

    Concepts are in ascending order, each with ``count`` draws, which may repeat. Equal calls draw the same.
    """
    sources, recipe = PairSources(view), PairRecipe()
    concepts = np.setdiff1d(sources.related_concepts, sources.defined)
    for start in range(0, len(concepts), _CHUNK):
        chosen = np.repeat(concepts[start : start + _CHUNK], count)
        drafts = _draft_descriptions(view, sources, recipe, chosen, np.random.default_rng([seed, 5, start]))
        ids = view.concept_ids(np.array([draft.concept for draft in drafts], dtype=np.int32))
        yield from (Definition(concept, draft.text, LANGUAGE) for concept, draft in zip(ids, drafts, strict=True))


def draw_ancestors(parents: Ragged, start: Int32Array, rng: np.random.Generator) -> Int32Array:
    """Draw an ancestor of each of n concepts, -1 for none; never the concept itself, even in a cycle.

    The ancestor is a uniform draw from a random walk up. Step k replaces the earlier draw with probability 1/k
    (reservoir sampling, Vitter 1985, section 2), so the walk is not stored. Remy et al. 2022, section 3.1, draw "the
    known names of the ancestors" and do not say how.
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
    """Count the pairs of a kind, which is ``share`` of all pairs, evenly spread, among the first ``position`` pairs."""
    # 0.15 * 100 must not fall just below 15
    return int(share * position + 1e-6)


class PairSources:
    """The parts of a knowledge base that pairs are made of, as integers.

    Attributes:
        english_names: names in the language of descriptions, by concept.
        related: tails of the relations that can be put into words, by concept; ``related_types`` holds the type of
            each.
        phrases: words of each relation type, ``None`` where it has none.
        is_hierarchy: ``(types,)`` whether a type leads from a concept to a parent.
        defined: ``(definitions,)`` concept of each definition whose concept has a name; ``definition_positions`` is the
            position of each among all definitions.
        related_concepts: concepts with a name and a relation.
        with_synonyms: concepts with names of two forms.
        shared_forms: numbers of the forms that a concept shares with another, by concept.
    """

    def __init__(self, view: TrainingView) -> None:
        english = np.array([not tag or tag.partition("-")[0] == LANGUAGE for tag in view.languages], dtype=np.bool_)
        self.english_names = view.names.where(english[view.name_languages])
        self.phrases = tuple(relation_phrase(name) for name in view.types)
        self.is_hierarchy = np.array([name in relation_words().hierarchy for name in view.types], dtype=np.bool_)
        has_phrase = np.array([phrase is not None for phrase in self.phrases], dtype=np.bool_)
        concepts = np.arange(view.concepts, dtype=np.int32)
        named = view.names.sizes(concepts) > 0
        has_english_name = self.english_names.sizes(concepts) > 0
        usable = has_phrase[view.relation_types] & has_english_name[view.relations.values]
        self.related, self.related_types = view.relations.where(usable), view.relation_types[usable]
        self.related_concepts = concepts[named & (self.related.sizes(concepts) > 0)]
        owners = view.definitions.owners()
        self.definition_positions = np.flatnonzero(named[owners]).astype(np.int32)
        self.defined = owners[self.definition_positions]
        # each form of a concept once, ordered by form and concept
        count = max(1, view.concepts)
        form_and_owner = np.unique(view.name_forms.astype(np.int64) * count + view.names.owners())
        forms, owners = (part.astype(np.int32) for part in np.divmod(form_and_owner, count))
        numbers, counts = np.unique(forms, return_counts=True)
        common = np.isin(forms, numbers[counts > 1])
        self.shared_forms = Ragged.group(owners[common], forms[common], view.concepts)
        self.with_synonyms = np.flatnonzero(np.bincount(owners, minlength=view.concepts) > 1).astype(np.int32)
