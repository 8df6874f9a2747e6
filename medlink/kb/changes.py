"""What differs between two knowledge bases, such as those of two releases of a terminology.

SQLite compares the two files, both attached to one connection, and sorts on disk what it cannot read in order; rows
come one after the other. So memory grows neither with the files nor with what differs.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice
from os import PathLike
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Select,
    Subquery,
    and_,
    create_engine,
    exists,
    literal,
    select,
    true,
    union_all,
)
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import KnowledgeBaseError
from medlink.files.atomic import check_targets, whole_text
from medlink.files.escapes import as_cell, visible
from medlink.files.json import json_line
from medlink.kb import schema
from medlink.kb.build import build_kb
from medlink.kb.connection import REMEDY
from medlink.kb.queries import HIERARCHY
from medlink.kb.report import BuildReport, Input, by_language
from medlink.kb.retired import successors
from medlink.kb.store import KnowledgeBase
from medlink.records import MERGED, RETIREMENTS

ADDED, RETIRED, MERGED_AWAY = "added", "retired", "merged"
NAME_ADDED, NAME_REMOVED, RENAMED = "name added", "name removed", "renamed"
MOVED, RETYPED = "moved", "semantic type"
KINDS = (ADDED, RETIRED, MERGED_AWAY, NAME_ADDED, NAME_REMOVED, RENAMED, MOVED, RETYPED)
BETWEEN = " | "
"""What parts several ids or semantic types in one cell."""
_TOGETHER = 500  # rows whose concepts are named by one query


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        change: one of :data:`KINDS`.
        concept_id: the concept.
        preferred_name: its name to show, of the old knowledge base where the new one has it no more.
        language: of the name that came, went or is preferred now; else empty.
        before, after: what was and what is now: a name, parents or semantic types that went and came, and as ``after``
            of a concept that is gone those that stand for it.
        how: of a concept that is gone what its source says (:data:`~medlink.records.RETIREMENTS`), empty where nothing.
    """

    change: str
    concept_id: str
    preferred_name: str = ""
    language: str = ""
    before: str = ""
    after: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """How much differs: releases of both, changes by kind, those of names by kind and language."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    changes: dict[str, int]
    languages: dict[str, dict[str, int]]

    def lines(self) -> Iterator[str]:
        """The report as text."""
        for which, releases in (("old", self.old), ("new", self.new)):
            yield f"{which}: {', '.join(releases)}"
        for kind, count in self.changes.items():
            of = f"  {by_language(self.languages[kind])}" if self.languages.get(kind) else ""
            yield f"{kind:13} {count:>10,}{of}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def compare_kbs(
    old: str | PathLike[str], new: str | PathLike[str], out: str | PathLike[str] | None = None
) -> ChangeReport:
    """Compare two knowledge bases and count what differs.

    Args:
        old, new: knowledge base files, bundles, or folders with ``kb.sqlite``.
        out: where to write every :class:`Change`: JSON lines where its name ends in ``.jsonl``, else TSV.

    Raises:
        KnowledgeBaseError, BundleError: one of them cannot be opened, or is damaged.
        ConfigError: the output cannot be written.
    """
    with KnowledgeBase(old) as before, KnowledgeBase(new) as after:
        changes, counts = iter_changes(before, after), Counter[str]()
        languages: dict[str, Counter[str]] = {kind: Counter() for kind in (NAME_ADDED, NAME_REMOVED, RENAMED)}

        def counted() -> Iterator[Change]:
            for one in changes:
                counts[one.change] += 1
                if one.change in languages:
                    languages[one.change][one.language] += 1
                yield one

        if out is None:
            for _ in counted():
                pass
        else:
            check_targets({"the output": out}, [*read_of(old, before), *read_of(new, after)])
            with whole_text(out) as file:
                file.writelines(_lines(counted(), is_json=Path(out).suffix == ".jsonl"))
        return ChangeReport(
            tuple(source.release for source in before.sources()),
            tuple(source.release for source in after.sources()),
            {kind: counts[kind] for kind in KINDS},
            {kind: dict(sorted(found.items())) for kind, found in languages.items()},
        )


def read_of(path: str | PathLike[str], kb: KnowledgeBase) -> list[Path]:
    """What is read of an opened knowledge base, and of the bundle where it is given as one: all must stay."""
    return [kb.path, Path(path)] if (Path(path) / MANIFEST).exists() else [kb.path]


def _lines(changes: Iterable[Change], *, is_json: bool) -> Iterator[str]:
    if not is_json:
        yield "\t".join(Change.__slots__) + "\n"
    for one in changes:
        values = asdict(one)
        yield json_line(values) if is_json else "\t".join(as_cell(visible(value)) for value in values.values()) + "\n"


def iter_changes(old: KnowledgeBase, new: KnowledgeBase) -> Iterator[Change]:
    """Every difference, lazily, kind by kind in the order of :data:`KINDS`, and by concept.

    A concept that is gone is ``merged`` where what the new knowledge base says of it, followed to the end, is that it
    is the same as a concept that is there or was replaced by one; else it is ``retired``. Names are compared as they
    are written, whatever their type and source, and parents whatever the relation that leads there; only concepts that
    both have are compared in these.

    Raises:
        KnowledgeBaseError: one of them is damaged.
    """
    try:
        with _attached(old.path, new.path) as connection:
            unnamed = _unnamed(connection, new)
            while part := list(islice(unnamed, _TOGETHER)):
                yield from _named(part, old, new)
    except (DatabaseError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", None) or error)
        raise KnowledgeBaseError(
            f"cannot be compared with {new.path}: {reason}", path=old.path, remedy=REMEDY
        ) from error


def _attached(old: Path, new: Path) -> closing[Connection]:
    def connect() -> sqlite3.Connection:
        """An empty database with the two attached; what is sorted goes to disk."""
        connection = sqlite3.connect("file::memory:", uri=True)
        for path, name in ((old, "old"), (new, "new")):
            connection.execute(f"ATTACH DATABASE ? AS {name}", (f"{path.absolute().as_uri()}?mode=ro&immutable=1",))
        connection.execute("PRAGMA query_only=ON")
        return connection

    return closing(create_engine("sqlite://", creator=connect, poolclass=NullPool).connect())


def _unnamed(connection: Connection, new: KnowledgeBase) -> Iterator[Change]:
    def rows(statement: Select[Any]) -> Iterator[Any]:
        for part in connection.execute(statement).partitions(_TOGETHER):
            yield from part

    for (concept_id,) in rows(_only(_NEW, _OLD)):
        yield Change(ADDED, concept_id)
    for merged in (False, True):
        for (concept_id,) in rows(_only(_OLD, _NEW)):
            gone = what_became_of(concept_id, new)
            if (gone.change == MERGED_AWAY) is merged:
                yield gone
    for kind, here, there in ((NAME_ADDED, _NEW, _OLD), (NAME_REMOVED, _OLD, _NEW)):
        for concept_id, language, text in rows(_names(here, there)):
            shown = {"after": text} if kind == NAME_ADDED else {"before": text}
            yield Change(kind, concept_id, language=language, **shown)
    for concept_id, language, before, after in rows(_PREFERRED):
        yield Change(RENAMED, concept_id, language=language, before=before, after=after)
    for kind, statement in ((MOVED, _PARENTS), (RETYPED, _TYPES)):
        for concept_id, found in groupby(rows(statement), lambda row: row[0]):
            sides: dict[str, list[str]] = {"before": [], "after": []}
            for _, side, value in found:
                sides[side].append(value)
            yield Change(kind, concept_id, **{side: BETWEEN.join(values) for side, values in sides.items()})


def what_became_of(concept_id: str, new: KnowledgeBase) -> Change:
    """A concept that the new knowledge base does not have: ``merged`` or ``retired``, and what stands for it."""
    stands = successors(new, concept_id)
    merged = [one for one in stands if one.type in MERGED]
    chosen = merged or stands
    types = [one.type for one in chosen] or [one.type for one in new.retired(concept_id)]
    after = BETWEEN.join(one.replaced_by for one in chosen)
    how = BETWEEN.join(sorted(dict.fromkeys(types), key=RETIREMENTS.index))
    return Change(MERGED_AWAY if merged else RETIRED, concept_id, after=after, how=how)


def _named(listed: Sequence[Change], old: KnowledgeBase, new: KnowledgeBase) -> Iterator[Change]:
    now = new.preferred_names(one.concept_id for one in listed)
    then = old.preferred_names(one.concept_id for one in listed if one.concept_id not in now)
    for one in listed:
        yield replace(one, preferred_name=now.get(one.concept_id) or then.get(one.concept_id, ""))


class _Side:
    def __init__(self, name: str) -> None:
        found = MetaData()
        self.concept, self.name, self.relation, self.semantic_type = (
            table.to_metadata(found, schema=name)
            for table in (schema.concept, schema.name, schema.relation, schema.semantic_type)
        )

    def has(self, concept_id: Column[Any]) -> Any:
        return exists().where(self.concept.c.concept_id == concept_id)


_OLD, _NEW = _Side("old"), _Side("new")


def _only(here: _Side, there: _Side) -> Select[Any]:
    own = here.concept.c.concept_id
    return select(own).where(~there.has(own)).order_by(own)


def _names(here: _Side, there: _Side) -> Select[Any]:
    own, other = here.name.c, there.name.c
    columns = (own.concept_id, own.language, own.text)
    same = exists().where(*(other[column.name] == column for column in columns))
    return select(*columns).where(there.has(own.concept_id), ~same).distinct().order_by(*columns)


_before, _after = _OLD.name.c, _NEW.name.c
_PREFERRED = (
    select(_after.concept_id, _after.language, _before.text, _after.text)
    .join(_OLD.name, and_(_before.concept_id == _after.concept_id, _before.language == _after.language))
    .where(_after.preferred == 1, _before.preferred == 1, _before.text != _after.text)
    .order_by(_after.concept_id, _after.language)
)


def _pairs(table: Callable[[_Side], tuple[Column[Any], Column[Any], Any]]) -> Select[Any]:
    """Concept, side and value of the pairs of a table that one file has and the other has not.

    ``table`` gives the columns of concept and value, and what holds of its rows.
    """
    parts = []
    for side, here, there in (("after", _NEW, _OLD), ("before", _OLD, _NEW)):
        (concept_id, value, holds), (other_id, other, holds_too) = table(here), table(there)
        # an expression, so that SQLite looks in the index by concept: very many may share a parent or a type
        same = exists().where(other_id == concept_id, other.concat("") == value, holds_too)
        pairs = select(concept_id.label("concept_id"), literal(side).label("side"), value.label("value"))
        parts.append(pairs.where(holds, there.has(concept_id), ~same).distinct())
    found: Subquery = union_all(*parts).subquery()
    return select(found).order_by(found.c.concept_id, found.c.side, found.c.value)


_PARENTS = _pairs(lambda side: (side.relation.c.head, side.relation.c.tail, side.relation.c.type.in_(HIERARCHY)))
_TYPES = _pairs(lambda side: (side.semantic_type.c.concept_id, side.semantic_type.c.semantic_type, true()))


def update_kb(
    path: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    changes: str | PathLike[str] | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    progress: bool | None = False,
) -> tuple[BuildReport, ChangeReport]:
    """Build a knowledge base from new release files, compare it with the one that is there, and put it in its place.

    Killed at any moment, the knowledge base is the old one or the new one. Of a bundle the new one waits in its folder
    to be taken in, as that of a build does.

    Args:
        path: the knowledge base: a file, a bundle, or a folder with ``kb.sqlite``.
        changes: where to write what differs; see :func:`compare_kbs`.
        inputs, languages, under, not_under, max_bad_share, progress: as for :func:`~medlink.kb.build_kb`, whose errors
            are raised.

    Raises:
        KnowledgeBaseError: there is no knowledge base at ``path``.
    """
    target, found = Path(path), list[ChangeReport]()
    with KnowledgeBase(target) as old:
        # refused before the work
        check_targets({"the output": changes}, [*read_of(path, old), *(one.path for one in inputs)])
        report = build_kb(
            target / KB_FILE if target.is_dir() else target,
            inputs,
            languages=languages,
            under=under,
            not_under=not_under,
            max_bad_share=max_bad_share,
            progress=progress,
            before=lambda new: found.append(compare_kbs(old.path, new, changes)),
        )
    return report, found[0]
