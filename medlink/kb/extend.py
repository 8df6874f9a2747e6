"""Adding to a knowledge base without building it again.

What the inputs bring is staged as in a build (:mod:`medlink.kb.loader`) and inserted behind the rows of a copy of the
file, in one transaction; its indexes and its search index take the new rows in and stay. The time grows with what is
added, but for the copy.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, exists, func, insert, select, union

from medlink.kb import queries, schema
from medlink.kb.build import count_sources, load, write_meta
from medlink.kb.loader import Held, Loader
from medlink.kb.report import Input, InputReport, SourceCounts
from medlink.kb.store import KnowledgeBase
from medlink.records import Source

_NUMBERED = (schema.name, schema.definition, schema.semantic_type, schema.relation, schema.mapping)


@dataclass(frozen=True, slots=True)
class ExtendReport:
    """What :func:`extend_kb` did.

    ``added`` are the counts of what is new, for each source that brought something; ``marks`` the highest row number
    of each table before: :meth:`~medlink.kb.store.KnowledgeBase.iter_names` gives what lies above.
    """

    path: str
    content_hash: str
    added: tuple[SourceCounts, ...]
    inputs: tuple[InputReport, ...]
    marks: dict[str, int]
    seconds: float

    @property
    def names(self) -> int:
        """Number of new names."""
        return sum(sum(entry.names.values()) for entry in self.added)

    @property
    def concepts(self) -> int:
        """Number of new concepts."""
        return sum(entry.concepts for entry in self.added)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def extend_kb(
    path: str | PathLike[str],
    out: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    max_bad_share: float = 0.01,
) -> ExtendReport:
    """Add concepts, and what further names and the like the inputs bring for known concepts, to a knowledge base.

    What is there stays as it is: a preferred name, a source's version, the source of a concept. A name, definition,
    semantic type, relation or mapping that is there already is counted as given more than once; what belongs to a
    concept that is neither there nor in the inputs is left out and counted.

    The content hash becomes one of the old hash and the added names and semantic types, in order, so that the same
    steps give the same hash; it stays as it is where there are none.

    Args:
        path: the knowledge base, which is only read, or a folder with ``kb.sqlite``.
        out: the file to write, complete or not at all; may be ``path``.
        inputs: what to take in, in order of precedence.
        max_bad_share: see :func:`~medlink.kb.build_kb`.

    Returns:
        What was added and what became of each input.

    Raises:
        ConfigError: an option or a format is unknown.
        InputError: an input cannot be used.
        KnowledgeBaseError: there is no knowledge base at ``path``, or ``out`` cannot be written.
    """
    began = time.perf_counter()
    with KnowledgeBase(path) as opened:
        base = opened.path
    target = Path(out).absolute()

    def finish(
        connection: Connection, loader: Loader, digest: str
    ) -> tuple[str, tuple[SourceCounts, ...], dict[str, int]]:
        """Count what was added and refuse an addition of nothing."""
        meta: dict[str, str] = dict(map(tuple, connection.execute(queries.META)))
        added = count_sources(connection, loader)
        if not any(entry.names or entry.semantic_types for entry in added):
            digest = meta["content_hash"]
        counts = _sums(json.loads(meta["counts"]), added)
        write_meta(connection, digest, counts, extended=str(int(meta.get("extended", 0)) + 1))
        brought = tuple(entry for entry in added if replace(entry, source=Source("")) != _NOTHING)
        return digest, brought, loader.marks

    (digest, added, marks), reports = load(target, inputs, _Extender, finish, base=base, max_bad_share=max_bad_share)
    return ExtendReport(str(target), digest, added, reports, marks, round(time.perf_counter() - began, 3))


_NOTHING = SourceCounts(Source(""), 0, {}, 0, 0, 0, 0)


def _sums(before: Sequence[dict[str, Any]], added: Iterable[SourceCounts]) -> list[SourceCounts]:
    """Counts of each source: those of before and what was added."""
    held = {entry["source"]["name"]: entry for entry in before}
    sums = []
    for new in added:
        old = held.get(new.source.name, asdict(_NOTHING))
        languages = sorted(old["names"].keys() | new.names.keys())
        sums.append(
            SourceCounts(
                new.source,
                old["concepts"] + new.concepts,
                {tag: old["names"].get(tag, 0) + new.names.get(tag, 0) for tag in languages},
                old["definitions"] + new.definitions,
                old["semantic_types"] + new.semantic_types,
                old["relations"] + new.relations,
                old["mappings"] + new.mappings,
            )
        )
    return sums


class _Extender(Loader):
    """A loader whose final tables hold something already."""

    def _prepare(self) -> None:
        for number, name, version, title, tags in self.connection.execute(
            select(*schema.source.columns).order_by(schema.source.c.id)
        ):
            self.sources[name] = Source(name, version, title)
            self._source_ids[name] = number
            self._tags[number] = tuple(tags.split(","))
        for table in _NUMBERED:
            self.marks[table.name] = self.connection.execute(select(func.max(table.c.id))).scalar() or 0

    def _begin_hash(self) -> Any:
        meta = dict(map(tuple, self.connection.execute(queries.META)))
        return hashlib.sha256(f"{meta['content_hash']}\n".encode())

    def _present(self) -> MappingType[str, Held]:
        read = union(select(schema.staged_name.c.concept_id), select(schema.staged_concept.c.concept_id))
        name = schema.name.c
        present: dict[str, dict[str, set[tuple[str, int]]]] = {}
        for concept_id, language, text, source_id in self.connection.execute(
            select(name.concept_id, name.language, name.text, name.source_id).where(name.concept_id.in_(read))
        ):
            present.setdefault(concept_id, {}).setdefault(language, set()).add((text, source_id))
        return present

    def _fresh(self, table: Table, waiting: Table) -> list[ColumnElement[bool]]:
        same = and_(*(column == waiting.c[column.name] for column in table.columns if column.name != "id"))
        return [~exists().where(same)]

    def _index(self, step: Callable[[str], object]) -> None:
        step("indexing for search")
        name = schema.name.c
        new = select(name.id, name.normal).where(name.id > self.marks["name"]).order_by(name.id)
        self.connection.execute(insert(schema.name_search).from_select(["rowid", "normal"], new))
