"""The table of names behind the index: rows (distinct normalised names) and entries (a row as name of a concept)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index.arrays import Array, Groups, Strings, open_array, save_array, save_groups
from medlink.kb.languages import language_tag
from medlink.records import Name, SemanticType
from medlink.text import may_speak_of_numbers, normalise


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


class NameTable:
    """Names, memory-mapped.

    ``numbered (rows,)`` marks the names whose numbers have to be looked at when a mention is compared with them.

    Args:
        folder: folder that :meth:`build` filled.
    """

    def __init__(self, folder: Path) -> None:
        self.norms = Strings(folder, "norms")
        self.texts = Strings(folder, "texts")
        self.concept_ids = Strings(folder, "concepts")
        self._concept = open_array(folder, "entry_concept")
        self._language = open_array(folder, "entry_language")
        self._source = open_array(folder, "entry_source")
        self._preferred = open_array(folder, "entry_preferred")
        self._rows = open_array(folder, "row_ends")
        self.numbered = open_array(folder, "row_numbered")
        self._types = Groups(folder, "concept_types")
        self.languages, self.sources, self.semantic_types = (
            [*Strings(folder, name)] for name in ("languages", "sources", "semantic_types")
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._rows) - 1

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return len(self._concept)

    def concept_types(self, concept: int) -> tuple[str, ...]:
        """Semantic types of a concept, by its number."""
        return tuple(self.semantic_types[i] for i in self._types[concept])

    def surface(self, row: int) -> str:
        """The name of a row as it is written in its first entry."""
        return self.texts[self._rows[row]]

    def entries(self, row: int, selection: Selection | None = None) -> list[Entry]:
        """Entries of a row, those of the selection alone when one is given."""
        return [
            self.entry(row, i)
            for i in range(self._rows[row], self._rows[row + 1])
            if selection is None or selection.entries[i]
        ]

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
        starts = self._rows[rows]
        counts = self._rows[np.asarray(rows) + 1] - starts
        position = np.repeat(np.arange(len(rows)), counts)
        entry = np.arange(len(position)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        if selection is not None:
            kept = selection.entries[entry]
            position, entry = position[kept], entry[kept]
        return position, entry

    def columns(self, entry: Array) -> tuple[Array, Array, Array]:
        """Concept, language code and whether it is preferred, of many entries."""
        return self._concept[entry], self._language[entry], self._preferred[entry]

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
            typed = np.zeros(len(self.concept_ids), dtype=bool)
            typed[self._types.owners()[np.isin(self._types.values, codes)]] = True
            mask &= typed[self._concept]
        # an entry's row by prefix sums: a row is in when any of its entries is
        sums = np.concatenate([[0], np.cumsum(mask)])
        rows = sums[self._rows[1:]] > sums[self._rows[:-1]]
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
        seen: set[tuple[str, str, str, str, str, bool]] = set()
        for name in names:
            norm = normalise(name.text)
            if norm:
                seen.add((norm, name.concept_id, name.language, name.text, name.source, name.preferred))
        entries = sorted(seen)
        concepts = sorted({entry[1] for entry in entries})
        number = {concept: i for i, concept in enumerate(concepts)}
        by_concept: list[set[str]] = [set() for _ in concepts]
        for semantic_type in types:
            if semantic_type.concept_id in number:
                by_concept[number[semantic_type.concept_id]].add(semantic_type.semantic_type)
        languages, sources, labels = (
            sorted({entry[2] for entry in entries}),
            sorted({entry[4] for entry in entries}),
            sorted(set().union(*by_concept)) if by_concept else [],
        )
        label_code = {label: i for i, label in enumerate(labels)}
        folder.mkdir(parents=True, exist_ok=True)
        Strings.save(folder, "texts", (entry[3] for entry in entries))
        Strings.save(folder, "concepts", concepts)
        for title, values in (("languages", languages), ("sources", sources), ("semantic_types", labels)):
            Strings.save(folder, title, values)
        save_groups(folder, "concept_types", [sorted(label_code[t] for t in types_) for types_ in by_concept])
        starts = [i for i, entry in enumerate(entries) if i == 0 or entries[i - 1][0] != entry[0]]
        Strings.save(folder, "norms", (entries[i][0] for i in starts))
        save_array(folder, "row_ends", np.array([*starts, len(entries)], dtype=np.int64))
        numbered = np.fromiter((may_speak_of_numbers(entries[i][0]) for i in starts), dtype=bool)
        save_array(folder, "row_numbered", numbered)
        columns: dict[str, Array] = {
            "entry_concept": np.fromiter((number[e[1]] for e in entries), dtype=np.int32),
            "entry_language": np.fromiter((languages.index(e[2]) for e in entries), dtype=np.uint8),
            "entry_source": np.fromiter((sources.index(e[4]) for e in entries), dtype=np.uint16),
            "entry_preferred": np.fromiter((e[5] for e in entries), dtype=bool),
        }
        for title, column in columns.items():
            save_array(folder, title, column)
        return cls(folder)


__all__ = ["Entry", "Filter", "NameTable", "Selection"]
