"""The table of names behind the index: rows (distinct normalised names) and entries (a row as name of a concept)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, Groups, Strings, open_array, save_array, save_groups
from medlink.index.keys import Keys
from medlink.language.tags import language_tag
from medlink.language.tags import wanted as is_wanted
from medlink.language.text import may_speak_of_numbers, normalise
from medlink.records import Name, SemanticType


@dataclass(frozen=True, slots=True)
class Filter:
    """Which names may be candidates; an empty field does not restrict."""

    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter worked out: which entries, and which rows have at least one of them."""

    entries: NDArray[np.bool_]
    rows: NDArray[np.bool_]


Positions = NDArray[np.int64]
Selections = tuple[Selection, ...]
"""A filter worked out, for each part of an index."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of one concept."""

    concept_id: str
    text: str
    language: str
    source: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class Entries:
    """Names of concepts ``(m,)``: the place in what was asked, an address, the concept, its language as a number in
    :attr:`ConceptIndex.languages`, and whether the concept prefers it."""

    position: Positions
    address: NDArray[np.int64]
    concept: Keys
    language: NDArray[np.int64]
    preferred: NDArray[np.bool_]


class NameTable:
    """Names, memory-mapped.

    ``numbered (rows,)`` marks the names whose numbers have to be looked at when a mention is compared with them.
    ``concept``, ``language``, ``source`` and ``preferred`` are columns ``(entries,)`` of numbers: of a concept, of a
    language in ``languages``, of a source in ``sources``. ``rows`` and ``types`` list the entries of each row and the
    semantic types of each concept.

    Args:
        folder: folder that :meth:`build` filled.
    """

    def __init__(self, folder: Path) -> None:
        self.norms, self.texts, self.concept_ids = (Strings(folder, name) for name in ("norms", "texts", "concepts"))
        self.concept, self.language, self.source, self.preferred, self.numbered = (
            open_array(folder, name)
            for name in ("entry_concept", "entry_language", "entry_source", "entry_preferred", "row_numbered")
        )
        self.languages, self.sources, self.semantic_types = (
            [*Strings(folder, name)] for name in ("languages", "sources", "semantic_types")
        )
        self.rows = Groups(open_array(folder, "row_ends"))
        self.types = Groups.open(folder, "concept_types")

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many entries each concept has ``(concepts,)``."""
        return np.bincount(self.concept, minlength=len(self.concept_ids))

    def concept_types(self, concept: int) -> tuple[str, ...]:
        """Semantic types of a concept, by its number."""
        return tuple(self.semantic_types[i] for i in self.types[concept])

    def spellings(self, row: int, tag: str) -> list[str]:
        """The name of a row as its entries of one language write it."""
        return [self.texts[i] for i in self.rows[row] if self.languages[self.language[i]] == tag]

    def entries_of(self, rows: Array, selection: Selection | None = None) -> tuple[Array, Array]:
        """Entries of many rows: ``position (m,)`` in ``rows`` and number of the entry ``(m,)``."""
        position, entry = self.rows.many(rows)
        kept = slice(None) if selection is None else selection.entries[entry]
        return position[kept], entry[kept]

    def rows_of(self, concepts: Array) -> tuple[Array, Array]:
        """Names of concepts, given by number: ``concept (m,)`` and ``row (m,)``, each pair once, in order."""
        rows = np.flatnonzero(self.rows.holding(np.isin(self.concept, concepts)))
        position, entry = self.entries_of(rows)
        concept = self.concept[entry]
        kept = np.isin(concept, concepts)
        pairs = np.unique(np.stack([concept[kept], rows[position[kept]]], axis=1), axis=0)
        return pairs[:, 0], pairs[:, 1]

    def typed(self, semantic_types: Collection[str]) -> NDArray[np.bool_]:
        """Which concepts ``(concepts,)`` have one of these semantic types; all of them where none is named."""
        if not semantic_types:
            return np.ones(len(self.concept_ids), dtype=bool)
        return self.types.holding(np.isin(np.array(self.semantic_types, dtype=str), list(semantic_types)))

    def select(self, wanted: Filter, typed: NDArray[np.bool_]) -> Selection:
        """Work out a filter, with the concepts ``(concepts,)`` of its types; what no name has selects nothing."""
        mask = typed[self.concept]
        if wanted.languages:
            tags = tags_of(wanted.languages)
            mask &= np.isin(self.language, [i for i, tag in enumerate(self.languages) if is_wanted(tag, tags)])
        if wanted.sources:
            mask &= np.isin(self.source, [i for i, known in enumerate(self.sources) if known in wanted.sources])
        return Selection(mask, self.rows.holding(mask))

    @classmethod
    def build(
        cls, folder: Path, names: Iterable[Name], types: Iterable[SemanticType], also: Collection[str] = ()
    ) -> NameTable:
        """Fill a folder from names and semantic types; rows are in the order of their normalised names.

        Memory grows with the number of names (about 300 bytes each). Semantic types of concepts without a name are
        left out, but for those of the concepts in ``also``.
        """
        formed = ((normalise(name.text), name) for name in names)
        # each once, in the order of exact form, concept id, language, text, source, preferred
        entries = sorted({(n, x.concept_id, x.language, x.text, x.source, x.preferred) for n, x in formed if n})
        concepts = sorted({entry[1] for entry in entries}.union(also))
        number = {concept: i for i, concept in enumerate(concepts)}
        by_concept: list[set[str]] = [set() for _ in concepts]
        for semantic_type in types:
            if semantic_type.concept_id in number:
                by_concept[number[semantic_type.concept_id]].add(semantic_type.semantic_type)
        labels = sorted(set().union(*by_concept))
        label_code = {label: i for i, label in enumerate(labels)}
        folder.mkdir(parents=True, exist_ok=True)
        Strings.save(folder, "concepts", concepts)
        Strings.save(folder, "semantic_types", labels)
        save_groups(folder, "concept_types", [sorted(label_code[t] for t in types_) for types_ in by_concept])
        Strings.save(folder, "texts", (entry[3] for entry in entries))
        save_array(folder, "entry_concept", np.fromiter((number[entry[1]] for entry in entries), dtype=np.int32))
        save_array(folder, "entry_preferred", np.fromiter((entry[5] for entry in entries), dtype=bool))
        for title, column, place, dtype in (
            ("languages", "entry_language", 2, np.uint8),
            ("sources", "entry_source", 4, np.uint16),
        ):
            values = sorted({str(entry[place]) for entry in entries})
            code = {value: i for i, value in enumerate(values)}
            Strings.save(folder, title, values)
            save_array(folder, column, np.array([code[str(entry[place])] for entry in entries], dtype=dtype))
        starts = [i for i, entry in enumerate(entries) if i == 0 or entries[i - 1][0] != entry[0]]
        norms = [entries[i][0] for i in starts]
        save_array(folder, "row_ends", np.array([*starts, len(entries)], dtype=np.int64))
        Strings.save(folder, "norms", norms)
        save_array(folder, "row_numbered", np.fromiter((may_speak_of_numbers(norm) for norm in norms), dtype=bool))
        return cls(folder)


def tags_of(languages: Iterable[str]) -> list[str]:
    """Languages of a filter as names state them.

    >>> tags_of(["ger", "es_MX"])
    ['de', 'es-mx']
    """
    return [language_tag(language) or language for language in languages]
