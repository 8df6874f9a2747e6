"""``ConceptIndex``: every name of a terminology by form, by words and by embedding.

An index has a main segment, and perhaps a second segment with later names. Each is complete, and this module merges
their results. Keys, integers that both segments share, identify names and concepts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.index.arrays import REBUILD, Array
from medlink.index.building import BuildOptions, build_segment
from medlink.index.dictionary import NamedSpan, NameScanner
from medlink.index.family_match import feature_columns
from medlink.index.names import Filter, Keys, NameEntries, NameEntry, Positions, Selection, Selections
from medlink.index.segment import Segment, number_both, reporting_damage
from medlink.index.word_coverage import TextCoverage, WordKinds
from medlink.index.word_features import WordFeatures
from medlink.index.word_overlap import Overlap
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Place, ScannedText
from medlink.language.text import normalise
from medlink.models import Encoder
from medlink.records import Name, SemanticType

_SAMPLE = 500  # names of a segment whose words are sampled


@reporting_damage
class ConceptIndex:
    """A saved index, memory-mapped; ``added`` is the folder of the segment of later names, if any.

    Raises:
        BundleError: a file is missing, has changed in size, or is of another format version.
    """

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
        self._selections: dict[Filter, Selections] = {}
        self._scanners: dict[tuple[int, str], NameScanner] = {}

    def __reduce__(self) -> tuple[type[ConceptIndex], tuple[Path, Path | None]]:
        # another process opens the files for itself and shares their pages
        return ConceptIndex, (self.folder.absolute(), self.added and self.added.absolute())

    @classmethod
    def build(
        cls,
        folder: str | Path,
        names: Iterable[Name],
        encoder: Encoder,
        *,
        semantic_types: Iterable[SemanticType] = (),
        **options: Any,
    ) -> ConceptIndex:
        """Build an index into an empty or new folder and open it; see :func:`medlink.index.building.build_segment`,
        and :class:`medlink.index.building.BuildOptions` for the options."""
        build_segment(Path(folder), names, encoder, semantic_types=semantic_types, options=BuildOptions(**options))
        return cls(folder)

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

    def prepare(self) -> None:
        """Read what the first search needs, so that processes forked later share it."""
        for segment in self.segments:
            segment.vectors.prepare()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the index; ``added`` counts the later names."""
        main = {key: value for key, value in self.segments[0].manifest.items() if key not in ("files", "later")}
        if self.added is None:
            return main
        segment = self.segments[1]
        added = {"rows": segment.rows.new, "names": len(segment.names.concept), "concepts": segment.concepts.new}
        return {**main, **{key: main[key] + count for key, count in added.items()}, "added": added}

    def select(self, wanted: Filter) -> Selections | None:
        """Resolve a filter, and cache the result; ``None`` if it restricts nothing.

        Raises:
            ConfigError: no name of the index has the language, source or semantic type.
        """
        if wanted == Filter():
            return None
        if wanted in self._selections:
            return self._selections[wanted]
        wanted.check(self.languages, self.sources, self.semantic_types)
        typed = [segment.names.typed(wanted.semantic_types) for segment in self.segments]
        for segment, mask in zip(self.segments[1:], typed[1:], strict=True):
            # the segment of later names has all semantic types of its concepts
            numbers = self.segments[0].concepts.numbers(segment.concepts.keys(np.arange(segment.concepts.count)))
            typed[0][numbers[numbers >= 0]] = mask[numbers >= 0]
        pairs = zip(self.segments, typed, strict=True)
        selections = self._selections[wanted] = tuple(segment.names.select(wanted, mask) for segment, mask in pairs)
        return selections

    def lookup(
        self, text: str, language: str | None = None, selection: Selections | None = None, *, norm: str | None = None
    ) -> dict[int, str]:
        """Look up a mention among the names of the selection: a mapping of keys to ``exact`` or ``inflected``.

        Exact matches count in any language; inflected matches count in the mention's language (BCP 47), or in all
        languages if it has none. ``norm`` is the exact form of the text, if the caller has it.
        """
        routes: dict[int, str] = {}
        norm, inflector = normalise(text) if norm is None else norm, shared_analyser(self.forms).inflector
        for segment, allowed in self._with_rows(selection):
            for row, route in segment.dictionary.lookup(text, language, norm, inflector).items():
                key = segment.rows.key(row)
                if (allowed is None or allowed[row]) and routes.get(key) != "exact":
                    routes[key] = route
        return routes

    def share_with_kinds(self, kinds: Collection[str], selection: Selections | None = None) -> float:
        """Estimate, by a sample of each segment, the share of the selected names that have a word of these kinds."""
        is_wanted = np.isin(np.array(self.forms.kinds), list(kinds))
        count = having = 0
        for segment, allowed in self._with_rows(selection):
            rows = np.arange(len(segment.names)) if allowed is None else np.flatnonzero(allowed)
            rows = rows[:: max(1, len(rows) // _SAMPLE)]
            names = segment.words.of(rows)
            known = names.feature < len(is_wanted)
            text, feature = names.text[names.word[known]], names.feature[known]
            having += int((np.bincount(text, is_wanted[feature], len(rows)) > 0).sum())
            count += len(rows)
        return having / max(count, 1)

    def completed_names(
        self, words: Sequence[NDArray[np.int64]], selection: Selections | None = None
    ) -> list[tuple[int, int]]:
        """Return the names of the selection that a span with shortened words may stand for, and their numbers of words.

        ``words`` holds, for each word of the span, all its possible features.
        """
        found: list[tuple[int, int]] = []
        for segment, allowed in self._with_rows(selection):
            rows, counts = segment.families.completed(words, allowed)
            found += zip(segment.rows.keys(rows).tolist(), counts.tolist(), strict=True)
        return found

    def names_beginning(self, letters: str, limit: int) -> list[str]:
        """Return normalised names of all languages that begin with some letters, up to ``limit`` of each segment."""
        return [norm for segment in self.segments for norm in segment.dictionary.beginning(letters, limit)]

    def selected(self, name: int, selection: Selections) -> bool:
        numbers = (int(segment.rows.numbers(np.array([name]))[0]) for segment in self.segments)
        return any(row >= 0 and chosen.rows[row] for row, chosen in zip(numbers, selection, strict=True))

    def find(self, text: ScannedText, language: str | None = None) -> list[NamedSpan]:
        """Find the names in a running text: at each word, the longest name of each segment and language. Spans may
        overlap.

        A name does not cross a punctuation mark, except a comma before a word such as *type* or *Stadium*. Words may
        be inflected, not derived (:func:`medlink.language.text.is_inflection`). A ``language`` (BCP 47) includes its
        regions and names without a language; without it the names of all languages count.
        """
        spans = list[NamedSpan]()
        for number, segment in enumerate(self.segments):
            for tag in segment.dictionary.tags(language):
                if (number, tag) not in self._scanners:
                    inflector = shared_analyser(self.forms).inflector(tag)
                    self._scanners[number, tag] = NameScanner(segment.dictionary, segment.rows.key, tag, inflector)
                spans += self._scanners[number, tag].find(text)
        return spans

    def match_families(self, texts: Sequence[ScannedText], selection: Selections | None = None) -> list[set[Place]]:
        """Find for each of n texts the spans that match names of the selection by their word families."""
        columns = feature_columns(texts, len(self.forms.names))
        spans: list[set[Place]] = [set() for _ in texts]
        for segment, allowed in self._with_rows(selection):
            for own, more in zip(spans, segment.families.match(texts, columns, allowed), strict=True):
                own.update(more)
        return spans

    def read(self, texts: Sequence[str], languages: Sequence[str | None]) -> WordFeatures:
        """Return the features of the words of mentions."""
        return self.segments[0].words.read(texts, languages)

    def overlap(
        self, mentions: WordFeatures, mention: Positions, names: Keys, name: Positions | None = None
    ) -> Overlap:
        """Compare p pairs of mentions and names, by their positions ``(p,)``; without ``name``, pair i has name i."""
        name = np.arange(len(names)) if name is None else name
        columns = [np.zeros(len(name), dtype=kind) for kind in (*[np.float32] * 4, *[bool] * 3)]
        words = self.segments[0].words
        for pairs, features, number in self._name_features(names, name):
            overlap = words.overlap(mentions, mention[pairs], features, number)
            for column, values in zip(columns, overlap, strict=True):
                column[pairs] = values
        return Overlap(*columns)

    def coverage(
        self, mentions: WordFeatures, mention: Positions, names: Keys, name: Positions, kinds: WordKinds
    ) -> tuple[TextCoverage, TextCoverage]:
        """Compute the coverage of mention and name of p pairs, given by their positions ``(p,)``."""
        shapes = [*[(len(name),)] * 5, (len(name), len(kinds.names))]
        sides = [TextCoverage(*(np.zeros(shape, dtype=np.float32) for shape in shapes)) for _ in range(2)]
        words = self.segments[0].words
        for pairs, features, number in self._name_features(names, name):
            computed = kinds.coverages(words, mentions, mention[pairs], features, number)
            for side, values in zip(sides, computed[:2], strict=True):
                for column, of_pairs in zip(side, values, strict=True):
                    column[pairs] = of_pairs
        return sides[0], sides[1]

    def _name_features(self, names: Keys, name: Positions) -> Iterator[tuple[Positions, WordFeatures, Positions]]:
        """Yield for each segment its pairs, the features of its names, and for each pair the position among these."""
        left = np.ones(len(names), dtype=bool)
        for segment in self.segments:
            rows = segment.rows.numbers(names)
            here = left & (rows >= 0)
            number, pairs = np.cumsum(here) - 1, np.flatnonzero(here[name])
            yield pairs, segment.words.of(rows[here]), number[name[pairs]]
            left &= ~here

    def by_words(
        self, mentions: WordFeatures, wanted: Positions, k: int, selection: Selections | None = None
    ) -> tuple[Positions, Keys]:
        """Find the k names of each segment that share the most words with each of the mentions ``wanted``.

        Returns:
            The ``position (m,)`` in ``wanted`` of the mention of each name, and the names ``(m,)``.
        """
        found = []
        for segment, allowed in self._with_rows(selection):
            position, rows, _ = segment.postings.search(mentions, wanted, k, allowed)
            found.append((position, segment.rows.keys(rows)))
        positions, names = map(np.concatenate, zip(*found, strict=True))
        return positions, names

    def search(
        self, vectors: NDArray[np.float32], k: int = 10, wanted: Filter | Selections | None = None
    ) -> tuple[Keys, NDArray[np.float32]]:
        """Find the k names of the selection nearest to each of n unit vectors ``(n, dimension)``.

        Returns:
            Names ``(n, k)``, -1 where there are fewer, and inner products ``(n, k)``, best first; fewer columns where
            the index has fewer names.
        """
        selection = self.select(wanted) if isinstance(wanted, Filter) else wanted
        names, scores = [], []
        for segment, allowed in self._with_rows(selection):
            rows, score = segment.vectors.search(vectors, k, allowed)
            names.append(np.where(rows < 0, -1, segment.rows.keys(rows)) if len(segment.names) else rows)
            scores.append(score)
        if len(self.segments) == 1:
            return names[0], scores[0]
        name, score = np.concatenate(names, axis=1), np.concatenate(scores, axis=1)
        # a name in both segments counts once
        order = np.lexsort((-score, name), axis=1)
        name, score = np.take_along_axis(name, order, axis=1), np.take_along_axis(score, order, axis=1)
        name[:, 1:][name[:, 1:] == name[:, :-1]] = -1
        order = np.lexsort((name, -score, name < 0), axis=1)[:, : min(k, len(self))]
        return np.take_along_axis(name, order, axis=1), np.take_along_axis(score, order, axis=1)

    def near(self, names: Keys, k: int, selection: Selections | None = None) -> tuple[Positions, Keys]:
        """Find the nearest other names of ``names`` by embedding: ``position (m,)`` in ``names``, and name ``(m,)``.

        Each segment contributes the k stored neighbours of its own names. If a segment lacks the name or stores fewer
        than k, or with a selection, it searches for k + 1 names, because it also finds the name itself.
        """
        found = []
        for segment, allowed in self._with_rows(selection):
            rows = segment.rows.numbers(names)
            stored = (rows >= 0) & (allowed is None and k <= segment.near.shape[1])
            near = np.full((len(names), k + 1), -1, dtype=np.int64)
            if stored.any():
                near[stored, :k] = segment.near[rows[stored], :k]
            if not stored.all():
                searched = segment.vectors.search(self.vectors(names[~stored]), k + 1, allowed)[0]
                near[~stored, : searched.shape[1]] = searched
            position, column = np.nonzero(near >= 0)
            found.append((position, segment.rows.keys(near[position, column])))
        positions, neighbours = map(np.concatenate, zip(*found, strict=True))
        return positions, neighbours
