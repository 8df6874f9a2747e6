"""A knowledge base as integer arrays for training; texts stay in the file and are read by row number.

Memory holds 10 bytes for each name, 8 for each relation, definition and exact form, 4 for each parent and semantic
type, and for each concept its id and 41 bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import LargeBinary, Select, cast, func, select

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.connection import SqliteReader
from medlink.kb.queries import HIERARCHY, json_values
from medlink.kb.store import KnowledgeBase
from medlink.language.exact import normalise_all
from medlink.language.tags import wanted
from medlink.records import FSN, Definition
from medlink.training.data.batches import chunked
from medlink.training.data.ragged import BoolArray, Int32Array, Ragged
from medlink.training.data.selection import UNKNOWN, Selection

_ROWS_PER_READ = 50_000
_NAME, _DEFINITION = schema.name.c, schema.definition.c
_TYPE, _RELATION, _ID = schema.semantic_type.c, schema.relation.c, schema.concept.c.concept_id

_NAMES_AT = select(_NAME.id, _NAME.text).where(_NAME.id.in_(json_values("rows")))
_DEFINITIONS_AT = select(_DEFINITION.id, _DEFINITION.text).where(_DEFINITION.id.in_(json_values("rows")))
_ID_WIDTH = select(func.max(func.length(cast(_ID, LargeBinary))))
_IDS = select(_ID).order_by(_ID)
# a name without a letter or digit has an empty form
_NAMES = select(_NAME.concept_id, _NAME.id, _NAME.language, _NAME.normal).order_by(_NAME.id)
_NAMES = _NAMES.where(_NAME.normal != "", _NAME.type != FSN)
_DEFINITIONS = select(_DEFINITION.concept_id, _DEFINITION.id, _DEFINITION.language, _DEFINITION.text)
_DEFINITIONS = _DEFINITIONS.order_by(_DEFINITION.id)
_TYPES = select(_TYPE.concept_id, _TYPE.semantic_type).order_by(_TYPE.id)
_RELATIONS = select(_RELATION.head, _RELATION.tail, _RELATION.type).order_by(_RELATION.id)


class TrainingView:
    """Names, definitions, relations, parents and semantic types of concepts, all as integers.

    The number of a concept is its rank among all ids of the knowledge base, those of excluded concepts included: the
    walk to an ancestor passes through them. A view may be pickled or used after a fork.

    ``kb`` may be closed afterwards. For ``languages`` and ``without`` see
    :class:`~medlink.training.data.selection.Selection`; its method ``filter_definitions`` selects further
    ``definitions``.

    Attributes:
        concepts: number of concepts, including excluded concepts; ``included (concepts,)`` is false for these.
        names: row numbers of names by concept, each form once in a language. ``name_languages`` and ``name_forms``
            hold, for each name, an index into ``languages`` and the number of its exact form.
        definitions: numbers of definitions by concept, except those without a letter or digit; ``definition_forms``
            holds for each the number of its exact form.
        forms: number of different forms of names and definitions.
        relations: tails by head; ``relation_types`` holds for each an index into ``types``.
        parents: parents by concept.
        semantic_types: indices into ``semantic_type_texts`` by concept.
        unknown: number of ``definitions`` whose concept is not in the knowledge base.
        digest: SHA-256 of all these attributes and of the texts.

    Raises:
        ConfigError: as :class:`Selection` does; or fewer than two concepts remain.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        *,
        languages: Iterable[str] | None = None,
        without: Iterable[str] = (),
        definitions: Iterable[Definition] = (),
    ) -> None:
        self.path = kb.path
        self._reader = SqliteReader(kb.path)
        selection = Selection(kb, languages=languages, without=without)
        self._filter = selection.languages
        width = self._reader.rows(_ID_WIDTH)[0][0] or 1
        ids = (row[0].encode() for row in self._reader.stream(_IDS))
        self._ids: NDArray[np.bytes_] = np.fromiter(ids, dtype=f"S{width}")
        self.concepts = len(self._ids)
        self.included = np.ones(self.concepts, dtype=np.bool_)
        self.included[self._numbers(selection.excluded)] = False
        self._added_texts: list[str] = []
        digest = hashlib.sha256(kb.content_hash.encode())
        of_names, problems = self._read_names(), Problems()
        if np.count_nonzero(np.diff(self.names.offsets)) < 2:
            remedy = "name other languages, leave fewer concepts out, or build a larger knowledge base"
            raise ConfigError("fewer than two concepts have a name to train on", path=self.path, remedy=remedy)
        of_definitions = self._read_definitions(selection.filter_definitions(definitions, problems), digest)
        self._form_hashes = np.unique(np.concatenate([of_names, of_definitions]))
        self.forms = len(self._form_hashes)
        self.name_forms, self.definition_forms = (_find(self._form_hashes, of) for of in (of_names, of_definitions))
        self.unknown = problems.skipped[UNKNOWN]
        self._read_relations()
        types = _Vocabulary()
        owner, kind = self._columns(_TYPES, self._numbers, types.encode)
        usable = self._usable(owner)
        self.semantic_types = Ragged.group(owner[usable], kind[usable], self.concepts)
        self.semantic_type_texts = tuple(types)
        ragged = (self.names, self.definitions, self.relations, self.parents, self.semantic_types)
        arrays = (self._ids, self.included, self.name_languages, self.name_forms, self.relation_types)
        for array in (*chain.from_iterable(ragged), *arrays):
            digest.update(np.ascontiguousarray(array).data)
        digest.update(json.dumps([self.languages, self.types, self.semantic_type_texts]).encode())
        self.digest = digest.hexdigest()

    def concept_ids(self, numbers: Int32Array) -> list[str]:
        return [concept.decode() for concept in self._ids[numbers].tolist()]

    def name_texts(self, rows: Int32Array) -> dict[int, str]:
        return dict(self._reader.rows(_NAMES_AT, rows=json.dumps(np.unique(rows).tolist())))

    def definition_texts(self, numbers: Int32Array) -> dict[int, str]:
        """Return the texts of definitions by number; further definitions have numbers below 0."""
        unique = np.unique(numbers)
        rows = self._reader.rows(_DEFINITIONS_AT, rows=json.dumps(unique[unique > 0].tolist()))
        return {**dict(rows), **{number: self._added_texts[-1 - number] for number in unique[unique < 0].tolist()}}

    def form_numbers(self, texts: Sequence[str]) -> Int32Array:
        """Return the numbers of the exact forms of texts, -1 for a form that no name or definition has."""
        return _find(self._form_hashes, _hash_forms(normalise_all(texts)))

    def _numbers(self, concept_ids: Iterable[str]) -> Int32Array:
        return _find(self._ids, np.array([concept.encode() for concept in concept_ids], dtype=np.bytes_))

    def _columns(self, statement: Select[Any], *convert: Callable[[Sequence[Any]], Any]) -> list[NDArray[Any]]:
        parts = [
            [function(column) for function, column in zip(convert, zip(*rows, strict=True), strict=True)]
            for rows in chunked(self._reader.stream(statement), _ROWS_PER_READ)
        ]
        parts = parts or [[function([]) for function in convert]]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _read_names(self) -> NDArray[np.int64]:
        languages = _Vocabulary()
        owner, row, tag, form = self._columns(_NAMES, self._numbers, _int32, languages.encode, _hash_forms)
        self.languages = tuple(languages)
        tag = tag.astype(np.int16)
        allowed = np.array([wanted(language, self._filter) for language in languages], dtype=np.bool_)
        usable = np.flatnonzero(self._usable(owner) & (allowed[tag] if len(allowed) else False))
        # of each form of a language keep the first row
        order = usable[np.lexsort((row[usable], tag[usable], form[usable], owner[usable]))]
        changes = [array[order[1:]] != array[order[:-1]] for array in (owner, form, tag)]
        first = order[np.concatenate([np.ones(min(1, len(order)), dtype=np.bool_), np.logical_or.reduce(changes)])]
        chosen = first[np.lexsort((row[first], owner[first]))]
        self.names = Ragged.group(owner[chosen], row[chosen], self.concepts)
        self.name_languages = tag[chosen]
        return np.asarray(form[chosen])

    def _read_definitions(self, more: Iterable[Definition], digest: Any) -> NDArray[np.int64]:
        stored = (
            [(concept, row, text) for concept, row, tag, text in part if wanted(tag, self._filter)]
            for part in chunked(self._reader.stream(_DEFINITIONS), _ROWS_PER_READ)
        )
        numbered = ((definition.concept_id, ~number, definition.text) for number, definition in enumerate(more))
        columns: list[tuple[NDArray[Any], ...]] = []
        for part in chain([[]], stored, chunked(numbered, _ROWS_PER_READ)):
            rows, texts = _int32([row for _, row, _ in part]), [text for _, _, text in part]
            digest.update("\n".join(texts).encode())
            columns.append((self._numbers(concept for concept, _, _ in part), rows, _hash_forms(normalise_all(texts))))
            self._added_texts += [text for _, row, text in part if row < 0]
        owner, row, form = (np.concatenate(column) for column in zip(*columns, strict=True))
        usable = np.flatnonzero(self._usable(owner) & (form != _hash_forms([""])[0]))
        usable = usable[np.argsort(owner[usable], kind="stable")]
        self.definitions = Ragged.group(owner[usable], row[usable], self.concepts)
        return np.asarray(form[usable])

    def _read_relations(self) -> None:
        types = _Vocabulary()
        head, tail, kind = self._columns(_RELATIONS, self._numbers, self._numbers, types.encode)
        self.types = tuple(types)
        known = (head >= 0) & (tail >= 0) & (head != tail)
        up = known & np.isin(kind, [number for name, number in types.items() if name in HIERARCHY])
        self.parents = Ragged.group(head[up], tail[up], self.concepts)
        chosen = np.flatnonzero(known & self._usable(head) & self._usable(tail))
        chosen = chosen[np.argsort(head[chosen], kind="stable")]
        self.relations = Ragged.group(head[chosen], tail[chosen], self.concepts)
        self.relation_types = kind[chosen]

    def _usable(self, owners: Int32Array) -> BoolArray:
        known: BoolArray = owners >= 0
        known[known] = self.included[owners[known]]
        return known


class _Vocabulary(dict[str, int]):
    """Texts numbered in order of their first occurrence."""

    def encode(self, texts: Iterable[str]) -> Int32Array:
        return _int32([self.setdefault(text, len(self)) for text in texts])


def _find(known: NDArray[Any], values: NDArray[Any]) -> Int32Array:
    """Positions of values in a sorted array, -1 for a value that it lacks."""
    if not len(known):
        return np.full(len(values), -1, dtype=np.int32)
    positions = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[positions] == values, positions, -1).astype(np.int32)


def _int32(numbers: Any) -> Int32Array:
    return np.array(numbers, dtype=np.int32)


def _hash_forms(forms: Iterable[str]) -> NDArray[np.int64]:
    """Hash each form to 8 bytes, because the names of a release have hundreds of millions of letters.

    If two forms share a hash, their concepts are never negatives of each other. Nothing else changes.
    """
    return np.frombuffer(b"".join(blake2b(form.encode(), digest_size=8).digest() for form in forms), dtype=np.int64)
