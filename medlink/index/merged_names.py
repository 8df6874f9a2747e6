"""The names and concepts of an index by their keys, merged from its segments.

An index has a main segment, and perhaps a second segment with later names. Each is complete. Keys, integers that both
segments share, identify names and concepts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.index.arrays import REBUILD, Array
from medlink.index.names import Keys, NameEntries, NameEntry, Selection, Selections
from medlink.index.segment import Segment, number_both, reporting_damage
from medlink.language.lexicon.forms import LexiconForms


@reporting_damage
class MergedNames:
    """The names of an index: those of its main segment in ``folder``, and names added later in ``added``."""

    def __init__(self, folder: str | Path, added: str | Path | None = None) -> None:
        self.folder, self.added = Path(folder), None if added is None else Path(added)
        self.segments = tuple(Segment(path) for path in (self.folder, self.added) if path is not None)
        for key in ("dimension", "encoder"):
            if len({segment.manifest[key] for segment in self.segments}) > 1:
                raise BundleError(f"the added names are of another {key}", path=self.added, remedy=REBUILD)
        if added is not None:
            main, later = self.segments
            main.rows, later.rows = number_both(main.rows.count, later.places[0])
            main.concepts, later.concepts = number_both(main.concepts.count, later.places[1])
        self.languages, self.sources, self.semantic_types = (
            sorted({value for segment in self.segments for value in getattr(segment.names, kind)})
            for kind in ("languages", "sources", "semantic_types")
        )
        numbers = {tag: i for i, tag in enumerate(self.languages)}
        self._language_numbers = [np.array([numbers[tag] for tag in s.names.languages], int) for s in self.segments]
        self._first_address = np.cumsum([0, *(len(segment.names.concept) for segment in self.segments)])

    @property
    def forms(self) -> LexiconForms:
        """The lexicon forms that analyse names and texts."""
        return self.segments[0].words.forms

    def __len__(self) -> int:
        return sum(segment.rows.new for segment in self.segments)

    def keys(self) -> Keys:
        """Return the keys of all names, in the order of their exact forms."""
        return np.arange(len(self))

    def _with(self, selection: Selections | None) -> Iterator[tuple[Segment, Selection | None]]:
        return zip(self.segments, selection or [None] * len(self.segments), strict=True)

    def _with_rows(self, selection: Selections | None) -> Iterator[tuple[Segment, NDArray[np.bool_] | None]]:
        """The segments, each with a mask of its selected rows; ``None`` selects all."""
        for segment, selected in self._with(selection):
            yield segment, None if selected is None else selected.rows

    def _collect(
        self, keys: Keys, kind: Literal["rows", "concepts"], read: Callable[[Segment, Array], Iterable[Any]]
    ) -> Array:
        """A value for each key, from the first segment that has it; lists become arrays of objects."""
        out, left = None, np.arange(len(keys))
        # the segment of later names has all names and semantic types of its concepts
        for segment in self.segments if kind == "rows" else self.segments[::-1]:
            numbers = getattr(segment, kind).numbers(keys[left])
            here = numbers >= 0
            listed = read(segment, numbers[here])
            values: Array = listed if isinstance(listed, np.ndarray) else np.fromiter(listed, object)
            if out is None and here.all():
                return values
            out = np.empty((len(keys), *values.shape[1:]), dtype=values.dtype) if out is None else out
            out[left[here]] = values
            left = left[~here]
        if out is None or len(left):
            raise LookupError("a key that no segment has")
        return out

    def norms(self, names: Keys) -> list[str]:
        """Return the exact forms of names."""
        return list(self._collect(names, "rows", lambda segment, rows: segment.names.norms.take(rows)))

    def sizes(self, names: Keys) -> NDArray[np.int64]:
        """Return the numbers of characters and of blanks ``(n, 2)`` in the exact forms of names."""
        return self._collect(names, "rows", lambda segment, rows: np.stack(segment.names.norms.sizes(rows), axis=1))

    def numbered(self, names: Keys) -> NDArray[np.bool_]:
        """Mark the names ``(n,)`` that may contain a number."""
        return self._collect(names, "rows", lambda segment, rows: segment.names.numbered[rows])

    def vectors(self, names: Keys) -> NDArray[np.float32]:
        """Return the embeddings ``(n, dimension)`` of names."""
        return self._collect(names, "rows", lambda segment, rows: segment.vectors.vectors(rows))

    def attributes(self, names: Keys) -> NDArray[np.bool_]:
        """Mark the names ``(n,)`` that consist of qualities, times or measures (*left*, *mild*)."""
        words = self.segments[0].words

        def read(segment: Segment, rows: Array) -> Array:
            return words.attributes(segment.words.of(rows), segment.names.norms.sizes(rows)[1] + 1)

        return self._collect(names, "rows", read)

    def concept_ids(self, concepts: Keys) -> list[str]:
        return list(self._collect(concepts, "concepts", lambda segment, rows: segment.names.concept_ids.take(rows)))

    def means(self, concepts: Keys) -> NDArray[np.float16]:
        """Return the unit means ``(n, dimension)`` of the embeddings of each concept's names."""
        return self._collect(concepts, "concepts", lambda segment, rows: segment.means[rows])

    def concept_types(self, concepts: Keys) -> list[tuple[str, ...]]:
        return list(self._collect(concepts, "concepts", lambda segment, rows: map(segment.names.concept_types, rows)))

    def shared_names(self) -> dict[str, int]:
        """Count the names that several concepts share (:meth:`NameTable.shared`), over all segments."""
        counts = Counter[str]()
        for segment in self.segments:
            counts.update(segment.names.shared())
        return dict(counts)

    def entries(self, names: Keys, selection: Selections | None = None) -> NameEntries:
        """Return the entries of names within the selection, in the order of the names."""
        columns: list[tuple[Array, ...]] = []
        for i, (segment, selected) in enumerate(self._with(selection)):
            rows, table = segment.rows.numbers(names), segment.names
            here = np.flatnonzero(rows >= 0)
            position, entry = table.entries_of(rows[here], selected)
            concepts, languages = segment.concepts.keys(table.concept[entry]), table.language[entry]
            address, languages = entry + self._first_address[i], self._language_numbers[i][languages]
            columns.append((here[position], address, concepts, languages, table.preferred[entry]))
        if len(columns) == 1:
            return NameEntries(*columns[0])
        position, *rest = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.argsort(position, kind="stable")
        return NameEntries(position[order], *(column[order] for column in rest))

    def describe(self, addresses: NDArray[np.int64]) -> tuple[list[str], list[str], list[str]]:
        """Return the texts, languages and sources of entries, by their addresses."""
        segment_of = np.searchsorted(self._first_address, addresses, side="right") - 1
        out = np.empty((3, len(addresses)), dtype=object)
        for i, segment in enumerate(self.segments):
            here = np.flatnonzero(segment_of == i)
            entry, table = addresses[here] - self._first_address[i], segment.names
            out[0, here] = table.texts.take(entry)
            out[1, here] = [table.languages[code] for code in table.language[entry].tolist()]
            out[2, here] = [table.sources[code] for code in table.source[entry].tolist()]
        texts, languages, sources = out.tolist()
        return texts, languages, sources

    def entries_of(self, name: int, selection: Selections | None = None) -> list[NameEntry]:
        entries = self.entries(np.array([name]), selection)
        columns = (self.concept_ids(entries.concept), *self.describe(entries.address), entries.preferred.tolist())
        return [NameEntry(*values) for values in zip(*columns, strict=True)]
