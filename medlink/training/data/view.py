"""A knowledge base as training reads it: what belongs to what as arrays of integers, texts fetched when needed.

What is held in memory are numbers: 10 bytes for each name, 8 for each relation, 4 for each definition, step up and
semantic type, and for each concept its id and 41 bytes. The texts of the knowledge base stay in it and are read by row
number, so that memory does not grow with what is trained on them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import LargeBinary, Select, cast, func, select

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.connection import Reader
from medlink.kb.queries import HIERARCHY, given
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import wanted
from medlink.records import FSN, Definition
from medlink.training.data.batches import in_parts
from medlink.training.data.selection import UNKNOWN, Selection

Numbers = NDArray[np.int32]
Runs = tuple[NDArray[np.int64], Numbers]
"""Values by owner: those of owner ``i`` are ``values[ends[i]:ends[i + 1]]``, in the order of ``(ends, values)``."""

_PART = 50_000
_NAME, _DEFINITION = schema.name.c, schema.definition.c


_NAMES_AT = select(_NAME.id, _NAME.text, _NAME.normal).where(_NAME.id.in_(given("rows")))
_DEFINITIONS_AT = select(_DEFINITION.id, _DEFINITION.text).where(_DEFINITION.id.in_(given("rows")))
_ID_WIDTH = select(func.max(func.length(cast(schema.concept.c.concept_id, LargeBinary))))
_IDS = select(schema.concept.c.concept_id).order_by(schema.concept.c.concept_id)
# a name without a letter or digit has an empty form
_NAMES = (
    select(_NAME.concept_id, _NAME.id, _NAME.language, _NAME.normal)
    .where(_NAME.normal != "", _NAME.type != FSN)
    .order_by(_NAME.id)
)
_DEFINITIONS = select(_DEFINITION.concept_id, _DEFINITION.id, _DEFINITION.language, _DEFINITION.text).order_by(
    _DEFINITION.id
)
_TYPES = select(schema.semantic_type.c.concept_id, schema.semantic_type.c.semantic_type).order_by(
    schema.semantic_type.c.id
)
_RELATIONS = select(schema.relation.c.head, schema.relation.c.tail, schema.relation.c.type).order_by(
    schema.relation.c.id
)


def by_owner(owners: Numbers, values: Numbers, count: int) -> Runs:
    """Values by owner, in the order given."""
    order = np.argsort(owners, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)
    return ends, values[order]


class TrainingView:
    """Concepts by number, with numbers for their names, definitions, relations, parents and semantic types.

    A concept's number is its place among all ids of the knowledge base in ascending order. Those left out are still
    walked through on the way to an ancestor. The view may be used after a fork, and pickled: each process opens the
    file again.

    Args:
        kb: the knowledge base; it may be closed afterwards.
        languages, without: see :class:`~medlink.training.data.selection.Selection`.
        definitions: more definitions than the knowledge base has, see :mod:`medlink.training.data.selection`.

    Attributes:
        concepts: number of concepts, those left out included; ``kept (concepts,)`` is false where one is.
        names: row numbers of names by concept, each form of a language once; ``name_languages`` and ``name_forms`` hold
            for each of them a place in ``languages`` and the number of its exact form.
        definitions: numbers of definitions by concept.
        relations: tails by head; ``relation_types`` holds for each a place in ``types``.
        parents: concepts above, by concept.
        semantic_types: places in ``semantic_type_texts`` by concept.
        unknown: how many of ``definitions`` belong to no concept of the knowledge base.
        digest: SHA-256 of all of this and of the texts.

    Raises:
        ConfigError: as a selection and its :meth:`~Selection.added` say, or fewer than two concepts are left.
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
        self._reader = Reader(kb.path)
        selection = Selection(kb, languages=languages, without=without)
        self._filter = selection.languages
        width = self._reader.rows(_ID_WIDTH)[0][0] or 1
        ids = (row[0].encode() for row in self._reader.stream(_IDS))
        self._ids: NDArray[np.bytes_] = np.fromiter(ids, dtype=f"S{width}")
        self.concepts = len(self._ids)
        self.kept = np.ones(self.concepts, dtype=np.bool_)
        self.kept[self._numbers(selection.left_out)] = False
        self._added: list[str] = []
        digest = hashlib.sha256(kb.content_hash.encode())
        self._read_names()
        problems = Problems()
        self._read_definitions(selection.added(definitions, problems), digest)
        self.unknown = problems.skipped[UNKNOWN]
        self._read_relations()
        self._read_semantic_types()
        runs = (self.names, self.definitions, self.relations, self.parents, self.semantic_types)
        arrays = (self._ids, self.kept, self.name_languages, self.name_forms, self.relation_types)
        for array in (*(array for pair in runs for array in pair), *arrays):
            digest.update(np.ascontiguousarray(array).data)
        digest.update(json.dumps([self.languages, self.types, self.semantic_type_texts]).encode())
        self.digest = digest.hexdigest()
        if np.count_nonzero(np.diff(self.names[0])) < 2:
            remedy = "name other languages, leave fewer concepts out, or build a larger knowledge base"
            raise ConfigError("fewer than two concepts have a name to train on", path=self.path, remedy=remedy)

    def concept_ids(self, numbers: Numbers) -> list[str]:
        """Ids of concepts by number."""
        return [concept.decode() for concept in self._ids[numbers].tolist()]

    def name_texts(self, rows: Numbers) -> dict[int, tuple[str, str]]:
        """Text and exact form (:func:`medlink.language.text.normalise`) of names, by row number."""
        asked = json.dumps(np.unique(rows).tolist())
        return {row: (text, normal) for row, text, normal in self._reader.rows(_NAMES_AT, rows=asked)}

    def definition_texts(self, numbers: Numbers) -> dict[int, str]:
        """Texts of definitions, by number; those of a table of definitions have numbers below 0."""
        asked = np.unique(numbers)
        rows = self._reader.rows(_DEFINITIONS_AT, rows=json.dumps(asked[asked > 0].tolist()))
        texts: dict[int, str] = dict(rows)
        for number in asked[asked < 0].tolist():
            texts[number] = self._added[-1 - number]
        return texts

    def _numbers(self, concept_ids: Iterable[str]) -> Numbers:
        """Numbers of concepts, -1 where there is no such concept."""
        asked = np.array([concept.encode() for concept in concept_ids], dtype=np.bytes_)
        places = np.minimum(np.searchsorted(self._ids, asked), max(0, self.concepts - 1))
        known = self._ids[places] == asked if self.concepts else np.zeros(len(asked), dtype=np.bool_)
        return np.where(known, places, -1).astype(np.int32)

    def _columns(self, statement: Select[Any], *columns: Callable[[Sequence[Any]], Any]) -> list[NDArray[Any]]:
        parts = in_parts(self._reader.stream(statement), _PART)
        made = [[make(values) for make, values in zip(columns, zip(*part, strict=True), strict=True)] for part in parts]
        return [np.concatenate(column) for column in zip(*(made or [[make([]) for make in columns]]), strict=True)]

    def _read_names(self) -> None:
        languages = _Numbering()
        owner, row, tag, hashed = self._columns(_NAMES, self._numbers, _rows, languages.of, _hashes)
        self.languages = tuple(languages)
        tag = tag.astype(np.int16)
        form = np.unique(hashed, return_inverse=True)[1].astype(np.int32)
        allowed = np.array([wanted(language, self._filter) for language in languages], dtype=np.bool_)
        keep = np.flatnonzero(self._usable(owner) & (allowed[tag] if len(allowed) else False))
        # each form of a language once, and that the first of its rows
        order = keep[np.lexsort((row[keep], tag[keep], form[keep], owner[keep]))]
        changes = [array[order[1:]] != array[order[:-1]] for array in (owner, form, tag)]
        first = order[np.concatenate([np.ones(min(1, len(order)), dtype=np.bool_), np.logical_or.reduce(changes)])]
        chosen = first[np.lexsort((row[first], owner[first]))]
        self.names = by_owner(owner[chosen], row[chosen], self.concepts)
        self.name_languages, self.name_forms = tag[chosen], form[chosen]

    def _read_definitions(self, more: Iterable[Definition], digest: Any) -> None:
        owners, rows = [], []
        for part in in_parts(self._reader.stream(_DEFINITIONS), _PART):
            kept = [(concept, row, text) for concept, row, tag, text in part if wanted(tag, self._filter)]
            owners.append(self._numbers(concept for concept, _, _ in kept))
            rows.append(_rows([row for _, row, _ in kept]))
            digest.update("\n".join(text for _, _, text in kept).encode())
        for part in in_parts(more, _PART):
            digest.update("\n".join(one.text for one in part).encode())
            owners.append(self._numbers(one.concept_id for one in part))
            rows.append(-1 - np.arange(len(self._added), len(self._added) + len(part), dtype=np.int32))
            self._added += [one.text for one in part]
        owner, row = (np.concatenate([np.zeros(0, np.int32), *parts]) for parts in (owners, rows))
        usable = self._usable(owner)
        self.definitions = by_owner(owner[usable], row[usable], self.concepts)

    def _read_relations(self) -> None:
        types = _Numbering()
        head, tail, kind = self._columns(_RELATIONS, self._numbers, self._numbers, types.of)
        self.types = tuple(types)
        known = (head >= 0) & (tail >= 0) & (head != tail)
        up = known & np.isin(kind, [number for name, number in types.items() if name in HIERARCHY])
        self.parents = by_owner(head[up], tail[up], self.concepts)
        chosen = np.flatnonzero(known & self._usable(head) & self._usable(tail))
        chosen = chosen[np.argsort(head[chosen], kind="stable")]
        self.relations = by_owner(head[chosen], tail[chosen], self.concepts)
        self.relation_types = kind[chosen]

    def _read_semantic_types(self) -> None:
        texts = _Numbering()
        owner, kind = self._columns(_TYPES, self._numbers, texts.of)
        self.semantic_type_texts = tuple(texts)
        usable = self._usable(owner)
        self.semantic_types = by_owner(owner[usable], kind[usable], self.concepts)

    def _usable(self, owners: Numbers) -> NDArray[np.bool_]:
        """Which owners are concepts that are not left out."""
        known: NDArray[np.bool_] = owners >= 0
        known[known] = self.kept[owners[known]]
        return known


class _Numbering(dict[str, int]):
    """Texts with their numbers, in the order in which they come first."""

    def of(self, texts: Iterable[str]) -> Numbers:
        return _rows([self.setdefault(text, len(self)) for text in texts])


def _rows(numbers: Sequence[int]) -> Numbers:
    return np.array(numbers, dtype=np.int32)


def _hashes(forms: Iterable[str]) -> NDArray[np.int64]:
    """Hashes of names, 8 bytes each: those of a release have hundreds of millions of letters.

    Should two forms ever share a hash, their concepts are merely never negatives of each other.
    """
    hashed = b"".join(blake2b(form.encode(), digest_size=8).digest() for form in forms)
    return np.frombuffer(hashed, dtype=np.int64)
