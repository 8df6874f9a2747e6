"""The table of names: a row is a distinct exact form; an entry connects a row with one concept that has this name."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process

from medlink.errors import ConfigError
from medlink.files.atomic import wrap_disk_full
from medlink.index.arrays import Array, ArrayWriter, RaggedArray, StringArray, StringWriter, open_array, save_array
from medlink.language.exact import normalise_all
from medlink.language.tags import language_tag
from medlink.language.tags import wanted as is_wanted
from medlink.language.text import has_number
from medlink.records import Name, SemanticType

_BATCH = 1 << 14  # entries written at a time
_NAMED = 12  # known values that a refusal names
_COLUMNS = (
    ("row_ends", np.int64),
    ("entry_concept", np.int32),
    ("entry_language", np.uint8),
    ("entry_source", np.uint16),
    ("entry_preferred", bool),
    ("row_numbered", bool),
)


@dataclass(frozen=True, slots=True)
class Filter:
    """The names that may be candidates; an empty field does not restrict."""

    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()
    concepts: frozenset[str] | None = None
    """Ids of concepts; ``None`` does not restrict, and an id that the index lacks selects nothing."""

    def check(self, languages: Sequence[str], sources: Sequence[str], semantic_types: Sequence[str]) -> None:
        """Raise :class:`ConfigError` for a language, source or semantic type that no name of the index has."""
        of_language = {v for v in self.languages if any(is_wanted(tag, tags_of([v])) for tag in languages)}
        for kind, values, known, listed in (
            ("source", self.sources, sources, sources),
            ("semantic type", self.semantic_types, semantic_types, semantic_types),
            ("language", self.languages, of_language, languages),
        ):
            for value in values:
                if value not in known:
                    without = f"the bundle has none at all, leave {kind.replace(' ', '_')}s out"
                    # the nearest first: there can be hundreds of semantic types
                    near, more = list(listed), ""
                    if len(near) > _NAMED:
                        found = process.extract(value, near, processor=str.casefold, limit=_NAMED)
                        near, more = [text for text, *_ in found], f" and {len(near) - _NAMED} more"
                    remedy = f"known: {', '.join(near)}{more}" if listed else without
                    raise ConfigError(f"no {kind} {value!r} in this index", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Selection:
    """A resolved filter: its entries, and the rows that have at least one of them."""

    entries: NDArray[np.bool_]
    rows: NDArray[np.bool_]


Keys = NDArray[np.int64]
"""Integer ids of names, or of concepts, shared by both segments of an index
(:class:`medlink.index.segment.Numbering`); they ascend with exact forms, or with concept ids."""
Positions = NDArray[np.int64]
Selections = tuple[Selection, ...]
"""A resolved filter for each segment of an index."""


@dataclass(frozen=True, slots=True)
class NameEntry:
    concept_id: str
    text: str
    language: str
    source: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class NameEntries:
    """Names of concepts, by columns ``(m,)``: ``position`` in the query, ``address``, ``concept``, ``language`` as a
    position in :attr:`ConceptIndex.languages`, and whether it is ``preferred``."""

    position: Positions
    address: NDArray[np.int64]
    concept: Keys
    language: NDArray[np.int64]
    preferred: NDArray[np.bool_]


class NameTable:
    """Names, memory-mapped from a folder that :meth:`build` filled.

    ``numbered (rows,)`` marks the names that may contain a number. ``concept``, ``language``, ``source`` and
    ``preferred`` are columns ``(entries,)``. ``rows`` lists the entries of each row; ``types`` lists the semantic types
    of each concept.
    """

    def __init__(self, folder: Path) -> None:
        self.norms, self.texts, self.concept_ids = (
            StringArray(folder, name) for name in ("norms", "texts", "concepts")
        )
        self.concept, self.language, self.source, self.preferred, self.numbered = (
            open_array(folder, name)
            for name in ("entry_concept", "entry_language", "entry_source", "entry_preferred", "row_numbered")
        )
        self.languages, self.sources, self.semantic_types = (
            [*StringArray(folder, name)] for name in ("languages", "sources", "semantic_types")
        )
        self.rows = RaggedArray(open_array(folder, "row_ends"))
        self.types = RaggedArray.open(folder, "concept_types")

    def __len__(self) -> int:
        return len(self.rows)

    def shared(self) -> dict[str, int]:
        """Count the names that several concepts share, and those preferred by concepts of two sources in one
        language."""
        row = np.repeat(np.arange(len(self)), np.diff(self.rows.offsets))
        concepts = np.unique(row * len(self.concept_ids) + self.concept)
        several = np.bincount(concepts // len(self.concept_ids), minlength=len(self)) > 1
        preferred = self.preferred & several[row]
        name = row[preferred] * len(self.languages) + self.language[preferred]
        columns = (np.stack([name, column[preferred]], axis=1) for column in (self.concept, self.source))
        holders, sources = (np.unique(np.unique(c, axis=0)[:, 0], return_counts=True)[1] for c in columns)
        twice = (holders > 1) & (sources > 1)
        return {"of_several_concepts": int(several.sum()), "preferred_twice": int(twice.sum())}

    def concept_types(self, concept: int) -> tuple[str, ...]:
        """Return the semantic types of a concept, by its row."""
        return tuple(self.semantic_types[i] for i in self.types[concept])

    def spellings(self, row: int, tag: str) -> list[str]:
        """Return the spellings of a row's name among its entries of one language."""
        return [self.texts[i] for i in self.rows[row] if self.languages[self.language[i]] == tag]

    def entries_of(self, rows: Array, selection: Selection | None = None) -> tuple[Array, Array]:
        """Return the entries ``(m,)`` of many rows, each with the ``position (m,)`` of its row in ``rows``."""
        position, entry = self.rows.take(rows)
        kept = slice(None) if selection is None else selection.entries[entry]
        return position[kept], entry[kept]

    def rows_of(self, concepts: Array) -> tuple[Array, Array]:
        """Return the names of concepts: ``concept (m,)`` and ``row (m,)``, each pair once, in order."""
        wanted = np.zeros(len(self.concept_ids), dtype=bool)
        wanted[concepts] = True
        entry = np.flatnonzero(wanted[self.concept])
        row = np.searchsorted(self.rows.offsets, entry, side="right") - 1
        pairs = np.unique(self.concept[entry].astype(np.int64) * max(len(self), 1) + row)
        concept, row = np.divmod(pairs, max(len(self), 1))
        return concept, row

    def typed(self, semantic_types: Collection[str]) -> NDArray[np.bool_]:
        """Mark the concepts ``(concepts,)`` with one of these semantic types; all concepts if no type is given."""
        if not semantic_types:
            return np.ones(len(self.concept_ids), dtype=bool)
        return self.types.holding(np.isin(np.array(self.semantic_types, dtype=str), list(semantic_types)))

    def select(self, wanted: Filter, typed: NDArray[np.bool_]) -> Selection:
        """Resolve a filter, given the concepts ``(concepts,)`` of its semantic types."""
        mask = typed[self.concept]
        if wanted.concepts is not None:
            is_wanted_concept = (concept_id in wanted.concepts for concept_id in self.concept_ids)
            mask &= np.fromiter(is_wanted_concept, bool, len(self.concept_ids))[self.concept]
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
        """Fill a folder from names and semantic types, rows in the order of their exact forms.

        A temporary database sorts the names: memory grows with the number of concepts only. SQLite compares bytes of
        UTF-8, whose order is that of the characters. Semantic types count for concepts with a name and for those in
        ``also``.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "sorting.sqlite"
        path.unlink(missing_ok=True)
        with wrap_disk_full(path), closing(sqlite3.connect(path, isolation_level=None)) as file:
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-65536"):
                file.execute(f"PRAGMA {setting}")
            file.execute("CREATE TABLE entry (norm, concept_id, language, text, source, preferred)")
            rows = ((n, x.concept_id, x.language, x.text, x.source, x.preferred) for n, x in _normalised(names) if n)
            file.execute("BEGIN")
            file.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", rows)
            file.execute("COMMIT")
            numbers = []
            for column, title, more in (
                ("concept_id", "concepts", also),
                ("language", "languages", ()),
                ("source", "sources", ()),
            ):
                distinct = file.execute(f"SELECT DISTINCT {column} FROM entry")  # noqa: S608  # one of three literals
                values = sorted({*(value for (value,) in distinct), *more})
                StringArray.save(folder, title, values)
                numbers.append({value: i for i, value in enumerate(values)})
            _save_types(folder, numbers[0], types)
            _save_entries(folder, file.execute("SELECT DISTINCT * FROM entry ORDER BY 1, 2, 3, 4, 5, 6"), *numbers)
        path.unlink()
        return cls(folder)


def _normalised(names: Iterable[Name]) -> Iterator[tuple[str, Name]]:
    remaining = iter(names)
    while batch := list(islice(remaining, _BATCH)):
        yield from zip(normalise_all([name.text for name in batch]), batch, strict=True)


def _save_types(folder: Path, number: Mapping[str, int], types: Iterable[SemanticType]) -> None:
    codes: dict[str, int] = {}
    pairs = array("q")
    for typed in types:
        concept = number.get(typed.concept_id)
        if concept is not None:
            pairs.extend((concept, codes.setdefault(typed.semantic_type, len(codes))))
    labels = {label: i for i, label in enumerate(sorted(codes))}
    rank = np.fromiter((labels[label] for label in codes), np.int64, len(codes))
    concepts, code = np.array(pairs, np.int64).reshape(-1, 2).T
    width = max(len(labels), 1)
    concepts, code = np.divmod(np.unique(concepts * width + rank[code]), width)
    StringArray.save(folder, "semantic_types", labels)
    save_array(folder, "concept_types.ends", np.searchsorted(concepts, np.arange(len(number) + 1)))
    save_array(folder, "concept_types.values", code.astype(np.int32))


def _save_entries(
    folder: Path, entries: Iterator[tuple[str, str, str, str, str, int]], concepts: Mapping[str, int],
    languages: Mapping[str, int], sources: Mapping[str, int],
) -> None:  # fmt: skip
    before, count = None, 0
    with ExitStack() as files:
        texts, norms = (files.enter_context(StringWriter(folder, name)) for name in ("texts", "norms"))
        ends, *columns = (files.enter_context(ArrayWriter(folder, *column)) for column in _COLUMNS)
        while batch := list(islice(entries, _BATCH)):
            starts, numbered, rows = list[int](), list[bool](), list[tuple[int, int, int, int]]()
            for norm, concept, language, text, source, preferred in batch:
                if norm != before:
                    norms.append(norm)
                    starts.append(count)
                    numbered.append(has_number(norm))
                    before = norm
                texts.append(text)
                rows.append((concepts[concept], languages[language], sources[source], preferred))
                count += 1
            ends.append(np.array(starts, np.int64))
            columns[-1].append(np.array(numbered, bool))
            for column, values in zip(columns, np.array(rows, np.int64).T, strict=False):
                column.append(values)
        ends.append(np.array([count]))


def tags_of(languages: Iterable[str]) -> list[str]:
    """Return the BCP 47 tags of a filter's languages: ``de`` for ``ger``."""
    return [language_tag(language) or language for language in languages]
