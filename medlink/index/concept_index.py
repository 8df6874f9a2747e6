"""``ConceptIndex``: every name of a terminology by form, by words and by embedding.

It has one part, or two: what was built, and the names that came later. Each is complete and knows nothing of the other;
what they find is merged here. Names and concepts go by keys, integers that mean the same in both parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.arrays import REBUILD, Array
from medlink.index.building import build_part
from medlink.index.family_match import feature_columns
from medlink.index.name_scan import NamedSpan, NameScanner
from medlink.index.names import Entries, Entry, Filter, Keys, Positions, Selection, Selections, tags_of
from medlink.index.segment import Part, number_both
from medlink.index.word_overlap import Overlap, Slots
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.reading import shared_reader
from medlink.language.scan import Place, ScannedText
from medlink.language.tags import wanted as is_wanted
from medlink.language.text import normalise
from medlink.models import Encoder
from medlink.records import Name

# what arrays raise, at whatever is done with them, that do not hold what was written
_DAMAGE = (LookupError, ValueError, ArithmeticError, RuntimeError, MemoryError)
_T = TypeVar("_T")


def _damage_is_named(kind: type[_T]) -> type[_T]:
    """Let the methods of a class with a ``folder`` raise :class:`BundleError` for what damaged arrays raise."""
    for name, method in list(vars(kind).items()):
        if callable(method) and (name == "__init__" or name[0] != "_"):
            setattr(kind, name, _named(method))
    return kind


def _named(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def named(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except _DAMAGE as error:
            # its text may be that of a note
            raise BundleError(
                f"what the index holds does not fit together ({type(error).__name__})",
                path=self.folder,
                remedy="run verify_bundle(), which names the damaged file",
            ) from error

    return named


@_damage_is_named
class ConceptIndex:
    """A saved index, opened by memory-mapping; ``added`` is the folder of the names that came later, if any.

    Raises:
        BundleError: a file is missing, of another size than when it was written, or of another format version.
    """

    def __init__(self, folder: str | Path, added: str | Path | None = None) -> None:
        self.folder, self.added = Path(folder), None if added is None else Path(added)
        self.parts = tuple(Part(path) for path in (self.folder, self.added) if path is not None)
        for key in ("dimension", "encoder"):
            if len({part.manifest[key] for part in self.parts}) > 1:
                raise BundleError(f"the added names are of another {key}", path=self.added, remedy=REBUILD)
        if added is not None:
            main, later = self.parts
            main.rows, later.rows = number_both(main.rows.count, later.places[0])
            main.concepts, later.concepts = number_both(main.concepts.count, later.places[1])
        self.languages, self.sources, self.semantic_types = (
            sorted({value for part in self.parts for value in getattr(part.names, kind)})
            for kind in ("languages", "sources", "semantic_types")
        )
        numbers = {tag: i for i, tag in enumerate(self.languages)}
        self._language_numbers = [np.array([numbers[tag] for tag in p.names.languages], int) for p in self.parts]
        self._first_address = np.cumsum([0, *(len(part.names.concept) for part in self.parts)])
        self._selections: dict[Filter, Selections] = {}
        self._scanners: dict[tuple[int, str], NameScanner] = {}

    def __reduce__(self) -> tuple[type[ConceptIndex], tuple[Path, Path | None]]:
        # another process opens the files for itself and shares their pages
        return ConceptIndex, (self.folder.absolute(), self.added and self.added.absolute())

    @classmethod
    def build(cls, folder: str | Path, names: Iterable[Name], encoder: Encoder, **options: Any) -> ConceptIndex:
        """Build an index into an empty or new folder and open it; see :func:`medlink.index.building.build_part`."""
        build_part(Path(folder), names, encoder, **options)
        return cls(folder)

    def prepare(self) -> None:
        """Read at once what is read at the first search otherwise; processes that are forked later share it."""
        for part in self.parts:
            part.vectors.prepare()

    @property
    def manifest(self) -> dict[str, Any]:
        """What the index is made of; ``added`` is what came later."""
        main = {key: value for key, value in self.parts[0].manifest.items() if key not in ("files", "later")}
        if self.added is None:
            return main
        part = self.parts[1]
        added = {"rows": part.rows.new, "names": len(part.names.concept), "concepts": part.concepts.new}
        return {**main, **{key: main[key] + count for key, count in added.items()}, "added": added}

    @property
    def forms(self) -> Forms:
        """The forms of the lexicon by which names and texts are read."""
        return self.parts[0].words.forms

    def __len__(self) -> int:
        """Number of distinct names."""
        return sum(part.rows.new for part in self.parts)

    def keys(self) -> Keys:
        """Keys of all names, in the order of their exact forms."""
        return np.arange(len(self))

    def _with(self, selection: Selections | None) -> Iterator[tuple[Part, Selection | None]]:
        return zip(self.parts, selection or [None] * len(self.parts), strict=True)

    @staticmethod
    def _collect(
        keys: Keys,
        parts: Sequence[Part],
        kind: Literal["rows", "concepts"],
        read: Callable[[Part, Array], Iterable[Any]],
    ) -> Array:
        """What the first part that has a thing says of it, for many things; lists become arrays of objects."""
        found = []
        left = np.arange(len(keys))
        for part in parts:
            numbers = getattr(part, kind).numbers(keys[left])
            here = numbers >= 0
            listed = read(part, numbers[here])
            values: Array = listed if isinstance(listed, np.ndarray) else np.fromiter(listed, object)
            found.append((left[here], values))
            left = left[~here]
        if len(left):
            raise LookupError("a key that no part has")
        if len(parts) == 1:
            return values
        out = np.empty((len(keys), *values.shape[1:]), dtype=values.dtype)
        for places, values in found:
            out[places] = values
        return out

    def norms(self, names: Keys) -> list[str]:
        """Exact forms of names."""
        return list(self._collect(names, self.parts, "rows", lambda part, rows: part.names.norms.many(rows)))

    def sizes(self, names: Keys) -> NDArray[np.int64]:
        """Characters and blanks ``(n, 2)`` of the exact forms of names."""
        return self._collect(names, self.parts, "rows", lambda part, at: np.stack(part.names.norms.sizes(at), axis=1))

    def numbered(self, names: Keys) -> NDArray[np.bool_]:
        """Which names may speak of numbers."""
        return self._collect(names, self.parts, "rows", lambda part, rows: part.names.numbered[rows])

    def vectors(self, names: Keys) -> NDArray[np.float32]:
        """Embeddings ``(n, dimension)`` of names."""
        return self._collect(names, self.parts, "rows", lambda part, rows: part.vectors.vectors(rows))

    def attributes(self, names: Keys) -> NDArray[np.bool_]:
        """Which names say qualities, times or measures alone (*left*, *mild*), and so no thing ``(n,)``."""
        return self._collect(names, self.parts, "rows", self._attributes)

    def _attributes(self, part: Part, rows: Array) -> Array:
        words = np.array([norm.count(" ") + 1 for norm in part.names.norms.many(rows)], dtype=np.int64)
        return self.parts[0].words.attributes(part.words.of(rows), words)

    def concept_ids(self, concepts: Keys) -> list[str]:
        """Ids of concepts."""
        return list(self._collect(concepts, self.parts, "concepts", lambda part, at: part.names.concept_ids.many(at)))

    # what came later knows all names and semantic types of its concepts
    def means(self, concepts: Keys) -> NDArray[np.float16]:
        """Unit mean of the embeddings of each concept's names ``(n, dimension)``."""
        return self._collect(concepts, self.parts[::-1], "concepts", lambda part, numbers: part.means[numbers])

    def concept_types(self, concepts: Keys) -> list[tuple[str, ...]]:
        """Semantic types of concepts."""
        last = self.parts[::-1]
        return list(self._collect(concepts, last, "concepts", lambda part, at: map(part.names.concept_types, at)))

    def name_counts(self, concepts: Keys) -> NDArray[np.int64]:
        """How many names concepts have ``(n,)``, in all languages."""
        return self._collect(concepts, self.parts[::-1], "concepts", lambda part, numbers: part.names.counts[numbers])

    def shared_names(self) -> dict[str, int]:
        """How many names several concepts have in common (:meth:`NameTable.shared`), part by part."""
        found = Counter[str]()
        for part in self.parts:
            found.update(part.names.shared())
        return dict(found)

    def entries(self, names: Keys, selection: Selections | None = None) -> Entries:
        """Entries of names in all parts, those of the selection alone when one is given; in the order of the names."""
        columns: list[tuple[Array, ...]] = []
        for i, (part, selected) in enumerate(self._with(selection)):
            rows, table = part.rows.numbers(names), part.names
            here = np.flatnonzero(rows >= 0)
            position, entry = table.entries_of(rows[here], selected)
            concepts = part.concepts.keys(table.concept[entry])
            languages = self._language_numbers[i][table.language[entry]]
            address = entry + self._first_address[i]
            columns.append((here[position], address, concepts, languages, table.preferred[entry]))
        if len(columns) == 1:
            return Entries(*columns[0])
        position, *rest = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.argsort(position, kind="stable")
        return Entries(position[order], *(column[order] for column in rest))

    def describe(self, addresses: NDArray[np.int64]) -> tuple[list[str], list[str], list[str]]:
        """Texts, languages and sources of entries, by their addresses."""
        part_of = np.searchsorted(self._first_address, addresses, side="right") - 1
        out = np.empty((3, len(addresses)), dtype=object)
        for i, part in enumerate(self.parts):
            here = np.flatnonzero(part_of == i)
            entry, table = addresses[here] - self._first_address[i], part.names
            out[0, here] = table.texts.many(entry)
            out[1, here] = [table.languages[code] for code in table.language[entry].tolist()]
            out[2, here] = [table.sources[code] for code in table.source[entry].tolist()]
        texts, languages, sources = out.tolist()
        return texts, languages, sources

    def entries_of(self, name: int, selection: Selections | None = None) -> list[Entry]:
        """Entries of one name, those of the selection alone when one is given."""
        found = self.entries(np.array([name]), selection)
        columns = (self.concept_ids(found.concept), *self.describe(found.address), found.preferred.tolist())
        return [Entry(*values) for values in zip(*columns, strict=True)]

    def select(self, wanted: Filter) -> Selections | None:
        """Work out a filter once and keep it; ``None`` when it restricts nothing.

        Raises:
            ConfigError: a language, source or semantic type that no name of the index has.
        """
        if wanted == Filter():
            return None
        if wanted in self._selections:
            return self._selections[wanted]
        of_language = {v for v in wanted.languages if any(is_wanted(tag, tags_of([v])) for tag in self.languages)}
        for kind, values, known, shown in (
            ("source", wanted.sources, self.sources, self.sources),
            ("semantic type", wanted.semantic_types, self.semantic_types, self.semantic_types),
            ("language", wanted.languages, of_language, self.languages),
        ):
            for value in values:
                if value not in known:
                    without = f"the bundle has none at all, leave {kind.replace(' ', '_')}s out"
                    remedy = f"known: {', '.join(shown[:12])}" if shown else without
                    raise ConfigError(f"no {kind} {value!r} in this index", remedy=remedy)
        typed = [part.names.typed(wanted.semantic_types) for part in self.parts]
        for part, mask in zip(self.parts[1:], typed[1:], strict=True):
            # what came later knows all types of its concepts
            numbers = self.parts[0].concepts.numbers(part.concepts.keys(np.arange(part.concepts.count)))
            typed[0][numbers[numbers >= 0]] = mask[numbers >= 0]
        found = tuple(part.names.select(wanted, mask) for part, mask in zip(self.parts, typed, strict=True))
        self._selections[wanted] = found
        return found

    def lookup(
        self, text: str, language: str | None = None, selection: Selections | None = None, *, norm: str | None = None
    ) -> dict[int, str]:
        """Names of the selection that a mention is, with their route: ``exact`` (in any language) or ``inflected`` (in
        its own, a BCP 47 tag; in every one without it). ``norm`` is its exact form, where the caller has it."""
        found: dict[int, str] = {}
        norm, inflector = normalise(text) if norm is None else norm, shared_reader(self.forms).inflector
        for part, selected in self._with(selection):
            for row, route in part.dictionary.lookup(text, language, norm, inflector).items():
                key = part.rows.key(row)
                # to the letter goes before another inflection
                if (selected is None or selected.rows[row]) and found.get(key) != "exact":
                    found[key] = route
        return found

    def selected(self, name: int, selection: Selections) -> bool:
        """Whether a name may come back."""
        for part, selected in zip(self.parts, selection, strict=True):
            row = int(part.rows.numbers(np.array([name]))[0])
            if row >= 0 and selected.rows[row]:
                return True
        return False

    def find(self, text: ScannedText, language: str | None = None) -> list[NamedSpan]:
        """Every name in a running text: at each word the longest of each part and language. They may overlap.

        A name does not cross a punctuation mark, but for a comma before a word such as *type* or *Stadium*. Words may
        be inflected, not derived (:func:`medlink.language.text.is_inflection`). The names of a ``language``, a BCP 47
        tag, are those of its regions as well, and those without a language; without it those of all languages.
        """
        return [
            span
            for number, part in enumerate(self.parts)
            for tag in part.dictionary.tags(language)
            for span in self._scanner(number, tag).find(text)
        ]

    def _scanner(self, part: int, tag: str) -> NameScanner:
        if (part, tag) not in self._scanners:
            self._scanners[part, tag] = NameScanner(self.parts[part], tag, shared_reader(self.forms).inflector(tag))
        return self._scanners[part, tag]

    def match_families(self, texts: Sequence[ScannedText], selection: Selections | None = None) -> list[set[Place]]:
        """The spans of each of n texts that are names of the selection by their word families."""
        columns = feature_columns(texts, len(self.forms.names))
        found: list[set[Place]] = [set() for _ in texts]
        for part, selected in self._with(selection):
            matched = part.families.match(texts, columns, None if selected is None else selected.rows)
            for spans, more in zip(found, matched, strict=True):
                spans.update(more)
        return found

    def read(self, texts: Sequence[str], languages: Sequence[str | None]) -> Slots:
        """Mentions word by word."""
        return self.parts[0].words.read(texts, languages)

    def overlap(self, mentions: Slots, mention: Positions, names: Keys, name: Positions | None = None) -> Overlap:
        """How much mentions and names have of each other, for pairs of mentions and names given by number ``(p,)``;
        pair i has the i-th name when left out."""
        name = np.arange(len(names)) if name is None else name
        columns = [np.zeros(len(name), dtype=kind) for kind in (*[np.float32] * 4, *[bool] * 3)]
        left = np.ones(len(names), dtype=bool)
        for part in self.parts:
            rows = part.rows.numbers(names)
            here = left & (rows >= 0)
            number, pairs = np.cumsum(here) - 1, np.flatnonzero(here[name])
            slots = part.words.of(rows[here])
            found = self.parts[0].words.overlap(mentions, mention[pairs], slots, number[name[pairs]])
            for column, values in zip(columns, found, strict=True):
                column[pairs] = values
            left &= ~here
        return Overlap(*columns)

    def by_words(
        self, mentions: Slots, wanted: Positions, k: int, selection: Selections | None = None
    ) -> tuple[Positions, Keys]:
        """The k names of each part that share most words with mentions: ``position (m,)`` in ``wanted``, and name."""
        positions, names = [], []
        for part, selected in self._with(selection):
            position, rows, _ = part.postings.search(mentions, wanted, k, None if selected is None else selected.rows)
            positions.append(position)
            names.append(part.rows.keys(rows))
        return np.concatenate(positions), np.concatenate(names)

    def search(
        self, vectors: NDArray[np.float32], k: int = 10, wanted: Filter | Selections | None = None
    ) -> tuple[Keys, NDArray[np.float32]]:
        """The k names nearest to each of n unit vectors ``(n, dimension)``, of those that are ``wanted``.

        Returns:
            ``(n, k)`` names (-1 where there are fewer) and ``(n, k)`` inner products, best first. Fewer columns where
            the index has fewer names.
        """
        selection = self.select(wanted) if isinstance(wanted, Filter) else wanted
        names, scores = [], []
        for part, selected in self._with(selection):
            rows, score = part.vectors.search(vectors, k, None if selected is None else selected.rows)
            names.append(np.where(rows < 0, -1, part.rows.keys(rows)) if len(part.names) else rows)
            scores.append(score)
        if len(self.parts) == 1:
            return names[0], scores[0]
        every, score = np.concatenate(names, axis=1), np.concatenate(scores, axis=1)
        # a name that both parts have comes once
        order = np.lexsort((-score, every), axis=1)
        every, score = np.take_along_axis(every, order, axis=1), np.take_along_axis(score, order, axis=1)
        every[:, 1:][every[:, 1:] == every[:, :-1]] = -1
        order = np.lexsort((every, -score, every < 0), axis=1)[:, : min(k, len(self))]
        return np.take_along_axis(every, order, axis=1), np.take_along_axis(score, order, axis=1)

    def near(self, names: Keys, k: int, selection: Selections | None = None) -> tuple[Positions, Keys]:
        """The nearest other names of names, by embedding: ``position (m,)`` in ``names`` and name ``(m,)``.

        Each part gives k for each name: those that it keeps of its names where they are enough, else what a search
        among the selection finds, the name itself included. Kinds for very many names keep none.
        """
        positions, found = [], []
        for part, selected in self._with(selection):
            rows = part.rows.numbers(names)
            kept = (rows >= 0) & (selected is None and k <= part.near.shape[1])
            near = np.full((len(names), k + 1), -1, dtype=np.int64)
            if kept.any():
                near[kept, :k] = part.near[rows[kept], :k]
            if not kept.all():
                asked = self.vectors(names[~kept])
                other = part.vectors.search(asked, k + 1, None if selected is None else selected.rows)[0]
                near[~kept, : other.shape[1]] = other
            position, column = np.nonzero(near >= 0)
            positions.append(position)
            found.append(part.rows.keys(near[position, column]))
        return np.concatenate(positions), np.concatenate(found)
