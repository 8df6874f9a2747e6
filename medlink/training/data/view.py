"""A knowledge base as training reads it: what belongs to what as arrays of integers, texts fetched when needed.

What is held in memory are numbers: 10 bytes for each name, 8 for each relation, 4 for each definition, step up and
semantic type, and for each concept its id and 41 bytes. Texts stay in the file and are read by row number, so that
memory does not grow with what is trained on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import LargeBinary, Select, Table, bindparam, cast, create_engine, func, insert, select
from sqlalchemy.exc import DatabaseError

from medlink.errors import ConfigError, KnowledgeBaseError
from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.queries import HIERARCHY
from medlink.kb.reading import Reader
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import wanted
from medlink.records import Definition
from medlink.training.data.selection import FULLY_SPECIFIED, UNKNOWN, Selection

Numbers = NDArray[np.int32]
Runs = tuple[NDArray[np.int64], Numbers]
"""Values by owner: those of owner ``i`` are ``values[ends[i]:ends[i + 1]]``, in the order of ``(ends, values)``."""

_PART = 50_000
_NAME, _DEFINITION = schema.name.c, schema.definition.c


def _by_row(table: Table, *columns: Any) -> Select[Any]:
    """Columns of the rows whose numbers come as a JSON list."""
    asked = func.json_each(bindparam("rows")).table_valued("value")
    return select(table.c.id, *columns).select_from(asked.join(table, table.c.id == asked.c.value))


_NAMES_AT = _by_row(schema.name, _NAME.text, _NAME.normal)
_DEFINITIONS_AT = _by_row(schema.definition, _DEFINITION.text)
_ID_WIDTH = select(func.max(func.length(cast(schema.concept.c.concept_id, LargeBinary))))
_IDS = select(schema.concept.c.concept_id).order_by(schema.concept.c.concept_id)
# a name without a letter or digit has an empty form
_NAMES = (
    select(_NAME.concept_id, _NAME.id, _NAME.language, _NAME.normal)
    .where(_NAME.normal != "", _NAME.type != FULLY_SPECIFIED)
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
    """Values by owner, in the order given.

    >>> [array.tolist() for array in by_owner(np.array([2, 0, 2]), np.array([7, 8, 9]), 3)]
    [[0, 1, 1, 3], [8, 7, 9]]
    """
    order = np.argsort(owners, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)
    return ends, values[order]


class TrainingView:
    """Concepts by number, with numbers for their names, definitions, relations, parents and semantic types.

    A concept's number is its place among all ids of the knowledge base in ascending order. The view may be used after
    a fork, and pickled: each process opens the file again.

    Args:
        kb: the knowledge base; it may be closed afterwards.
        languages: names and definitions of these languages only, regions included; ``None`` takes all. Those without
            a language are always in.
        without: ids of concepts to leave out, with their names, definitions and relations: held out for a benchmark.
            They are still walked through on the way to an ancestor.
        definitions: more definitions than the knowledge base has, see :mod:`medlink.training.data.definitions`.

    Attributes:
        concepts: number of concepts, those left out included.
        kept: ``(concepts,)`` false where a concept is left out.
        names: row numbers of names by concept, each form of a language once; ``name_languages`` and ``name_forms``
            hold for each of them a place in ``languages`` and the number of its exact form.
        definitions: numbers of definitions by concept.
        relations: tails by head; ``relation_types`` holds for each a place in ``types``.
        parents: concepts above, by concept.
        semantic_types: places in ``semantic_type_texts`` by concept.
        unknown: how many of ``definitions`` belong to no concept of the knowledge base.
        digest: SHA-256 of all of this and of the texts.

    Raises:
        ConfigError: a language is unknown or missing, no id of ``without`` is a concept, none of ``definitions`` is in
            the languages or belongs to a concept, or fewer than two concepts are left.
        KnowledgeBaseError: the file is damaged, or there is no room for the definitions.
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
            raise ConfigError(
                "fewer than two concepts have a name to train on",
                path=self.path,
                remedy="name other languages, leave fewer concepts out, or build a larger knowledge base",
            )

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
        texts: dict[int, str] = {}
        for reader, rows, sign in ((self._reader, asked[asked > 0], 1), (self._added, -asked[asked < 0], -1)):
            if reader is not None and len(rows):
                found = reader.rows(_DEFINITIONS_AT, rows=json.dumps(rows.tolist()))
                texts.update((sign * row, text) for row, text in found)
        return texts

    def _numbers(self, concept_ids: Iterable[str]) -> Numbers:
        """Numbers of concepts, -1 where there is no such concept."""
        given = np.array([concept.encode() for concept in concept_ids], dtype=np.bytes_)
        places = np.minimum(np.searchsorted(self._ids, given), max(0, self.concepts - 1))
        known = self._ids[places] == given if self.concepts else np.zeros(len(given), dtype=np.bool_)
        return np.where(known, places, -1).astype(np.int32)

    def _read_names(self) -> None:
        owners, rows, tags, forms = [], [], [], []
        languages: dict[str, int] = {}
        for part in _parts(self._reader.stream(_NAMES)):
            ids, numbers, languages_of, normals = zip(*part, strict=True)
            owners.append(self._numbers(ids))
            rows.append(np.array(numbers, dtype=np.int32))
            tags.append(np.array([languages.setdefault(tag, len(languages)) for tag in languages_of], dtype=np.int16))
            # The names of a release have hundreds of millions of letters, their hashes 8 bytes each; should two forms
            # ever share one, their concepts are merely never negatives of each other.
            hashed = b"".join(blake2b(normal.encode(), digest_size=8).digest() for normal in normals)
            forms.append(np.frombuffer(hashed, dtype=np.int64))
        self.languages = tuple(languages)
        owner, row, tag = _joined(owners), _joined(rows), _joined(tags, np.int16)
        form = np.unique(_joined(forms, np.int64), return_inverse=True)[1].astype(np.int32)
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
        for part in _parts(self._reader.stream(_DEFINITIONS)):
            kept = [(concept, row, text) for concept, row, tag, text in part if wanted(tag, self._filter)]
            owners.append(self._numbers(concept for concept, _, _ in kept))
            rows.append(np.array([row for _, row, _ in kept], dtype=np.int32))
            digest.update("\n".join(text for _, _, text in kept).encode())
        self._added: Reader | None = None
        given = 0
        for texts, numbers in self._store(more):
            digest.update("\n".join(texts).encode())
            owners.append(numbers)
            rows.append(-np.arange(given + 1, given + 1 + len(numbers), dtype=np.int32))
            given += len(numbers)
        owner, row = _joined(owners), _joined(rows)
        usable = self._usable(owner)
        self.definitions = by_owner(owner[usable], row[usable], self.concepts)

    def _store(self, more: Iterable[Definition]) -> Iterator[tuple[list[str], Numbers]]:
        """Write added definitions into a file that goes with this view, and give them part by part."""
        engine, given = None, 0
        for part in _parts(more):
            try:
                if engine is None:
                    folder = tempfile.mkdtemp(prefix="medlink-definitions-")
                    weakref.finalize(self, _remove, folder, os.getpid())
                    self._added = Reader(Path(folder, "definitions.sqlite"))
                    engine = create_engine(f"sqlite:///{self._added.path}")
                    schema.definition.create(engine)
                numbered = enumerate(part, start=given + 1)
                values = [
                    {"id": number, "concept_id": one.concept_id, "text": one.text, "language": one.language}
                    for number, one in numbered
                ]
                with engine.begin() as connection:
                    connection.execute(insert(schema.definition), [{**value, "source_id": 0} for value in values])
            except (DatabaseError, OSError) as error:
                reason = getattr(error, "orig", None) or error
                raise KnowledgeBaseError(
                    f"the added definitions cannot be kept on disk: {reason}",
                    path=tempfile.gettempdir(),
                    remedy="make room there, or name another folder in TMPDIR",
                ) from error
            given += len(part)
            yield [one.text for one in part], self._numbers(one.concept_id for one in part)
        if engine is not None:
            engine.dispose()

    def _read_relations(self) -> None:
        heads, tails, kinds = [], [], []
        types: dict[str, int] = {}
        for part in _parts(self._reader.stream(_RELATIONS)):
            head, tail, kind = zip(*part, strict=True)
            heads.append(self._numbers(head))
            tails.append(self._numbers(tail))
            kinds.append(np.array([types.setdefault(name, len(types)) for name in kind], dtype=np.int32))
        self.types = tuple(types)
        head_of, tail_of, kind_of = _joined(heads), _joined(tails), _joined(kinds)
        known = (head_of >= 0) & (tail_of >= 0) & (head_of != tail_of)
        up = known & np.isin(kind_of, [number for name, number in types.items() if name in HIERARCHY])
        self.parents = by_owner(head_of[up], tail_of[up], self.concepts)
        chosen = np.flatnonzero(known & self._usable(head_of) & self._usable(tail_of))
        chosen = chosen[np.argsort(head_of[chosen], kind="stable")]
        self.relations = by_owner(head_of[chosen], tail_of[chosen], self.concepts)
        self.relation_types = kind_of[chosen]

    def _read_semantic_types(self) -> None:
        owners, kinds = [], []
        texts: dict[str, int] = {}
        for part in _parts(self._reader.stream(_TYPES)):
            ids, names = zip(*part, strict=True)
            owners.append(self._numbers(ids))
            kinds.append(np.array([texts.setdefault(name, len(texts)) for name in names], dtype=np.int32))
        self.semantic_type_texts = tuple(texts)
        owner, kind = _joined(owners), _joined(kinds)
        usable = self._usable(owner)
        self.semantic_types = by_owner(owner[usable], kind[usable], self.concepts)

    def _usable(self, owners: Numbers) -> NDArray[np.bool_]:
        """Which owners are concepts that are not left out."""
        known: NDArray[np.bool_] = owners >= 0
        known[known] = self.kept[owners[known]]
        return known


def _remove(folder: str, process: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _joined(parts: list[Any], dtype: Any = np.int32) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _parts(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Rows in lists, so that they become arrays without ever being one list."""
    iterator = iter(rows)
    while part := list(islice(iterator, _PART)):
        yield part
