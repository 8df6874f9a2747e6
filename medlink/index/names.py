"""The table of names behind the index: rows (distinct normalised names) and entries (a row as name of a concept)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index.arrays import Array, Groups, Ranges, Strings, open_array, save_array, save_groups
from medlink.index.joined import JoinedGroups, Order, open_column, open_strings
from medlink.language.tags import language_tag
from medlink.language.text import may_speak_of_numbers, normalise
from medlink.records import Name, SemanticType

EntryKey = tuple[str, str, str, str, str, bool]
"""A name as an entry sorts: exact form, concept id, language, text, source, preferred."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which names may be candidates; an empty field does not restrict."""

    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of one concept."""

    row: int
    concept: int
    text: str
    language: str
    source: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter worked out: which entries, and which rows have at least one of them."""

    entries: NDArray[np.bool_]
    rows: NDArray[np.bool_]
    count: int

    def part(self, rows: slice) -> Selection:
        """The same selection for a stretch of the rows alone, numbered from 0; entries stay as they are."""
        kept = self.rows[rows]
        return Selection(self.entries, kept, int(kept.sum()))


class NameTable:
    """Names, memory-mapped.

    ``numbered (rows,)`` marks the names whose numbers have to be looked at when a mention is compared with them.

    Args:
        folder: folder that :meth:`build` filled.
        added: folder with names that came later (:mod:`medlink.index.added`). A name that the main part knows goes on
            as one row there, with further entries; other names, their entries and their concepts are numbered on.
    """

    def __init__(self, folder: Path, added: Path | None = None) -> None:
        self.norms = open_strings(folder, "norms", added)
        self.texts = open_strings(folder, "texts", added)
        self.concept_ids = open_strings(folder, "concepts", added)
        self._concept = open_column(folder, "entry_concept", added)
        self._language = open_column(folder, "entry_language", added)
        self._source = open_column(folder, "entry_source", added)
        self._preferred = open_column(folder, "entry_preferred", added)
        self.numbered = open_column(folder, "row_numbered", added)
        self.languages, self.sources, self.semantic_types = (
            [*open_strings(folder, name, added)] for name in ("languages", "sources", "semantic_types")
        )
        rows, types = Ranges(open_array(folder, "row_ends")), Groups(folder, "concept_types")
        self._rows: Ranges | JoinedGroups = rows
        self._types: Groups | JoinedGroups = types
        self._entry_order: Order | None = None
        self._concept_order: Order | None = None
        if added is not None:
            self._rows = JoinedGroups(rows, Groups(added, "row_entries"), open_array(added, "rows_replaced"))
            self._types = JoinedGroups(types, Groups(added, "concept_types"), open_array(added, "types_replaced"))
            self._entry_order = Order(int(rows.ends[-1]), open_array(added, "entry_order"))
            self._concept_order = Order(len(types), open_array(added, "concept_order"))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return len(self._concept)

    def concept_types(self, concept: int) -> tuple[str, ...]:
        """Semantic types of a concept, by its number."""
        return tuple(self.semantic_types[i] for i in self._types[concept])

    def surface(self, row: int) -> str:
        """The name of a row as it is written in its first entry."""
        return self.texts[self._rows[row][0]]

    def numbers(self, row: int) -> Sequence[int]:
        """Numbers of the entries of a row."""
        return self._rows[row]

    def entries(self, row: int, selection: Selection | None = None) -> list[Entry]:
        """Entries of a row, those of the selection alone when one is given."""
        return [self.entry(row, i) for i in self._rows[row] if selection is None or selection.entries[i]]

    def entry(self, row: int, number: int) -> Entry:
        """One entry of a row."""
        return Entry(
            row,
            int(self._concept[number]),
            self.texts[number],
            self.languages[self._language[number]],
            self.sources[self._source[number]],
            bool(self._preferred[number]),
        )

    def concepts_of(self, rows: Array, selection: Selection | None = None) -> tuple[Array, Array]:
        """Concepts of many rows: ``position (m,)`` in ``rows`` and ``concept (m,)``, those of the selection alone."""
        position, entry = self.entries_of(rows, selection)
        return position, self._concept[entry]

    def entries_of(self, rows: Array, selection: Selection | None = None) -> tuple[Array, Array]:
        """Entries of many rows: ``position (m,)`` in ``rows`` and number of the entry ``(m,)``."""
        position, entry = self._rows.many(rows)
        if selection is not None:
            kept = selection.entries[entry]
            position, entry = position[kept], entry[kept]
        return position, entry

    def rows_of(self, concepts: Array) -> tuple[Array, Array]:
        """Names of concepts, given by number: ``concept (m,)`` and ``row (m,)``, each pair once, in order."""
        rows = np.flatnonzero(self._rows.holding(np.isin(self._concept, concepts)))
        position, concept = self.concepts_of(rows)
        kept = np.isin(concept, concepts)
        pairs = np.unique(np.stack([concept[kept], rows[position[kept]]], axis=1), axis=0)
        return pairs[:, 0], pairs[:, 1]

    def columns(self, entry: Array) -> tuple[Array, Array, Array]:
        """Concept, language code and whether it is preferred, of many entries."""
        return self._concept[entry], self._language[entry], self._preferred[entry]

    def entry_order(self, entry: Array) -> Array:
        """Keys that sort entries by exact form, concept id, language and text."""
        return entry if self._entry_order is None else self._entry_order(entry)

    def concept_order(self, concept: Array) -> Array:
        """Keys that sort concepts, given by number, by their ids."""
        return concept if self._concept_order is None else self._concept_order(concept)

    def origins(self, entry: Array) -> tuple[list[str], list[str]]:
        """Languages and sources of many entries."""
        languages, sources = self.languages, self.sources
        return (
            [languages[code] for code in self._language[entry].tolist()],
            [sources[code] for code in self._source[entry].tolist()],
        )

    def select(self, wanted: Filter) -> Selection | None:
        """Work out a filter; ``None`` when it restricts nothing.

        Raises:
            ConfigError: a language, source or semantic type that no name of the index has.
        """
        if wanted == Filter():
            return None
        mask = np.ones(self.entry_count, dtype=bool)
        if wanted.languages:
            mask &= np.isin(self._language, self._language_codes(wanted.languages))
        if wanted.sources:
            mask &= np.isin(self._source, self._codes("source", wanted.sources, self.sources))
        if wanted.semantic_types:
            codes = self._codes("semantic type", wanted.semantic_types, self.semantic_types)
            typed = self._types.holding(np.isin(np.arange(len(self.semantic_types)), codes))
            mask &= typed[np.asarray(self._concept)]
        rows = self._rows.holding(mask)
        return Selection(mask, rows, int(rows.sum()))

    def _language_codes(self, wanted: tuple[str, ...]) -> list[int]:
        """Codes of languages with their regions; a name whose language is not stated belongs to every language."""
        tags = [language_tag(language) or language for language in wanted]
        found = {tag: [i for i, k in enumerate(self.languages) if k == tag or k.startswith(f"{tag}-")] for tag in tags}
        untagged = [i for i, known in enumerate(self.languages) if not known]
        missing = next((tag for tag, codes in found.items() if not codes), None)
        if missing is not None and not untagged:
            self._codes("language", (missing,), self.languages)
        return [*untagged, *(code for codes in found.values() for code in codes)]

    @staticmethod
    def _codes(kind: str, wanted: tuple[str, ...], known: list[str]) -> list[int]:
        unknown = [value for value in wanted if value not in known]
        if unknown:
            shown = ", ".join(sorted(known)[:12]) or "none"
            raise ConfigError(f"no {kind} {unknown[0]!r} in this index", remedy=f"known: {shown}")
        return [known.index(value) for value in wanted]

    @classmethod
    def build(cls, folder: Path, names: Iterable[Name], types: Iterable[SemanticType]) -> NameTable:
        """Fill a folder from names and semantic types; rows are in the order of their normalised names.

        Memory grows with the number of names (about 300 bytes each).
        """
        entries = sorted_entries(names)
        concepts = sorted({entry[1] for entry in entries})
        number = {concept: i for i, concept in enumerate(concepts)}
        by_concept: list[set[str]] = [set() for _ in concepts]
        for semantic_type in types:
            if semantic_type.concept_id in number:
                by_concept[number[semantic_type.concept_id]].add(semantic_type.semantic_type)
        labels = sorted(set().union(*by_concept))
        label_code = {label: i for i, label in enumerate(labels)}
        folder.mkdir(parents=True, exist_ok=True)
        save_entries(folder, entries, number, [], [])
        Strings.save(folder, "concepts", concepts)
        Strings.save(folder, "semantic_types", labels)
        save_groups(folder, "concept_types", [sorted(label_code[t] for t in types_) for types_ in by_concept])
        starts = [i for i, entry in enumerate(entries) if i == 0 or entries[i - 1][0] != entry[0]]
        save_array(folder, "row_ends", np.array([*starts, len(entries)], dtype=np.int64))
        save_norms(folder, [entries[i][0] for i in starts])
        return cls(folder)


def sorted_entries(names: Iterable[Name]) -> list[EntryKey]:
    """Names with their exact forms, each once, in the order of the entries of a table."""
    seen: set[EntryKey] = set()
    for name in names:
        norm = normalise(name.text)
        if norm:
            seen.add((norm, name.concept_id, name.language, name.text, name.source, name.preferred))
    return sorted(seen)


def save_norms(folder: Path, norms: Sequence[str]) -> None:
    """Write the exact forms of rows, and which of them may speak of numbers."""
    Strings.save(folder, "norms", norms)
    save_array(folder, "row_numbered", np.fromiter((may_speak_of_numbers(norm) for norm in norms), dtype=bool))


def save_entries(
    folder: Path,
    entries: Sequence[EntryKey],
    number: Mapping[str, int],
    languages: Sequence[str],
    sources: Sequence[str],
) -> None:
    """Write the columns of entries.

    Args:
        folder: where they go.
        entries: what :func:`sorted_entries` made.
        number: numbers of their concepts.
        languages, sources: those that have a code already; others are numbered on and written.
    """
    Strings.save(folder, "texts", (entry[3] for entry in entries))
    save_array(folder, "entry_concept", np.fromiter((number[entry[1]] for entry in entries), dtype=np.int32))
    save_array(folder, "entry_preferred", np.fromiter((entry[5] for entry in entries), dtype=bool))
    for title, column, place, known, dtype in (
        ("languages", "entry_language", 2, languages, np.uint8),
        ("sources", "entry_source", 4, sources, np.uint16),
    ):
        new = sorted({str(entry[place]) for entry in entries} - set(known))
        code = {value: i for i, value in enumerate([*known, *new])}
        Strings.save(folder, title, new)
        save_array(folder, column, np.array([code[str(entry[place])] for entry in entries], dtype=dtype))


__all__ = ["Entry", "Filter", "NameTable", "Selection", "save_entries", "save_norms", "sorted_entries"]
