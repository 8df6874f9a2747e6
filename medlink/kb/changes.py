"""Differences between two knowledge bases, such as two releases of a terminology.

SQLite compares the two files on one connection and sorts on disk. Rows are streamed: memory grows neither with the
files nor with their differences.
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

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import ConfigError, KnowledgeBaseError
from medlink.files.atomic import check_output_paths, rows_format
from medlink.files.tables import row_writer
from medlink.kb import schema
from medlink.kb.build import build_kb
from medlink.kb.connection import REBUILD_REMEDY
from medlink.kb.queries import HIERARCHY
from medlink.kb.report import BuildReport, Input, format_language_counts
from medlink.kb.retired import successors
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import language_filter
from medlink.records import MERGED, RETIREMENTS, Name

ADDED, RETIRED, MERGED_AWAY = "added", "retired", "merged"
NAME_ADDED, NAME_REMOVED, RENAMED = "name added", "name removed", "renamed"
MOVED, RETYPED = "moved", "semantic type"
KINDS = (ADDED, RETIRED, MERGED_AWAY, NAME_ADDED, NAME_REMOVED, RENAMED, MOVED, RETYPED)
SEPARATOR = " | "
"""Separator of several ids or semantic types in one cell."""
_MAX_LOST = 8  # sources in a message
_SAMPLE = 1_000  # names of a source that are looked for
_BATCH = 500  # changes whose preferred names are looked up in one query


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two knowledge bases.

    Attributes:
        change: one of :data:`KINDS`.
        preferred_name: display name, from the old knowledge base if the new one lacks the concept.
        language: language of an added, removed or newly preferred name; otherwise empty.
        before, after: the old and the new name, or removed and added parents or semantic types; for a retired concept
            ``after`` holds its successors.
        how: kind of retirement (:data:`~medlink.records.RETIREMENTS`), empty if the source states none.
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
    """Releases of both sides, counts of changes by kind, and counts of name changes by kind and language."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    changes: dict[str, int]
    languages: dict[str, dict[str, int]]

    def lines(self) -> Iterator[str]:
        for side, releases in (("old", self.old), ("new", self.new)):
            yield f"{side}: {', '.join(releases)}"
        for kind, count in self.changes.items():
            languages = f"  {format_language_counts(self.languages[kind])}" if self.languages.get(kind) else ""
            yield f"{kind:13} {count:>10,}{languages}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_kbs(
    old: str | PathLike[str], new: str | PathLike[str], out: str | PathLike[str] | None = None
) -> ChangeReport:
    """Compare two knowledge bases and count the changes.

    Args:
        old, new: knowledge base files, bundles, or folders with ``kb.sqlite``.
        out: file for every :class:`Change`, as ``.tsv`` or ``.jsonl``.

    Raises:
        KnowledgeBaseError, BundleError: a knowledge base cannot be opened, or is damaged.
        ConfigError: the output cannot be written.
    """
    with KnowledgeBase(old) as before, KnowledgeBase(new) as after:
        counts = Counter[str]()
        languages: dict[str, Counter[str]] = {kind: Counter() for kind in (NAME_ADDED, NAME_REMOVED, RENAMED)}
        if out is not None:
            check_output_paths({"the output": out}, [*kb_input_paths(old, before), *kb_input_paths(new, after)])
        with row_writer(out, Change) as write:
            for change in iter_changes(before, after):
                counts[change.change] += 1
                if change.change in languages:
                    languages[change.change][change.language] += 1
                write(change)
        return ChangeReport(
            tuple(source.release for source in before.sources()),
            tuple(source.release for source in after.sources()),
            {kind: counts[kind] for kind in KINDS},
            {kind: dict(sorted(counter.items())) for kind, counter in languages.items()},
        )


def check_sources_kept(
    path: str | PathLike[str], old: KnowledgeBase, new: KnowledgeBase, languages: Iterable[str] | None
) -> None:
    """Reject a release that lost a source of names, or a language of a source.

    A forgotten file, such as that of an extension, would retire its names. A renamed source, such as a table with
    another file name, counts as the same if it has half of the first names. ``languages`` are the languages that the
    new release keeps. Raises a :class:`ConfigError` that names ``path``.
    """
    before, kept, wanted = old.counts()["sources"], new.counts()["sources"], language_filter(languages)
    lost = [
        f"{source} ({tag or '-'} {count:,})"
        for source, held in sorted(before.items())
        for tag, count in held["names"].items()
        if (wanted is None or tag in wanted)
        and not kept.get(source, {"names": {}})["names"].get(tag)
        and not _has_half(new, islice(old.iter_names(sources=[source], languages=[tag] if tag else None), _SAMPLE))
    ]
    if lost:
        more = ", ..." if len(lost) > _MAX_LOST else ""
        gone, added = sorted(before.keys() - kept.keys()), sorted(kept.keys() - before.keys())
        if gone and added:
            more += f"; {gone[0]} is missing, and {added[0]} is another source: the name of a table names its source"
        message = f"the new release has no names of: {', '.join(lost[:_MAX_LOST])}{more}"
        remedy = "name the files of all sources and extensions, or give allow_loss=... if these names are to go"
        raise ConfigError(message, path=path, remedy=remedy)


def _has_half(kb: KnowledgeBase, names: Iterable[Name]) -> bool:
    found = [(name.text, name.language) in {(n.text, n.language) for n in kb.names(name.concept_id)} for name in names]
    return 2 * sum(found) >= len(found)


def kb_input_paths(path: str | PathLike[str], kb: KnowledgeBase) -> list[Path]:
    """Return the paths that outputs must not overwrite: the file, and its bundle if ``path`` is a bundle."""
    return [kb.path, Path(path)] if (Path(path) / MANIFEST).exists() else [kb.path]


def iter_changes(old: KnowledgeBase, new: KnowledgeBase) -> Iterator[Change]:
    """Yield all differences lazily, in the order of :data:`KINDS`, then by concept.

    A missing concept is ``merged`` if the new knowledge base names, directly or through a chain, an existing concept as
    the same or as its replacement; otherwise it is ``retired``. For concepts that both sides have, compares semantic
    types, parents by id, and names by text and language.

    Raises:
        KnowledgeBaseError: a knowledge base is damaged.
    """
    try:
        with _attached(old.path, new.path) as connection:
            changes = _iter_unnamed(connection, new)
            while batch := list(islice(changes, _BATCH)):
                names = new.preferred_names(change.concept_id for change in batch)
                names |= old.preferred_names(change.concept_id for change in batch if change.concept_id not in names)
                yield from (replace(change, preferred_name=names.get(change.concept_id, "")) for change in batch)
    except (DatabaseError, sqlite3.Error) as error:
        message = f"cannot be compared with {new.path}: {getattr(error, 'orig', None) or error}"
        raise KnowledgeBaseError(message, path=old.path, remedy=REBUILD_REMEDY) from error


def _attached(old: Path, new: Path) -> closing[sa.Connection]:
    def connect() -> sqlite3.Connection:
        # an empty temporary database, so that sorting uses the disk
        connection = sqlite3.connect("file::memory:", uri=True)
        for path, name in ((old, "old"), (new, "new")):
            connection.execute(f"ATTACH DATABASE ? AS {name}", (f"{path.absolute().as_uri()}?mode=ro&immutable=1",))
        connection.execute("PRAGMA query_only=ON")
        return connection

    return closing(sa.create_engine("sqlite://", creator=connect, poolclass=NullPool).connect())


def _iter_unnamed(connection: sa.Connection, new: KnowledgeBase) -> Iterator[Change]:
    def rows(statement: sa.Select[Any]) -> Iterator[Any]:
        for part in connection.execute(statement).partitions(_BATCH):
            yield from part

    for (concept_id,) in rows(_concepts_only_in(_NEW, _OLD)):
        yield Change(ADDED, concept_id)
    for merged in (False, True):
        for (concept_id,) in rows(_concepts_only_in(_OLD, _NEW)):
            change = classify_retirement(concept_id, new)
            if (change.change == MERGED_AWAY) is merged:
                yield change
    for kind, here, there in ((NAME_ADDED, _NEW, _OLD), (NAME_REMOVED, _OLD, _NEW)):
        for concept_id, language, text in rows(_names_only_in(here, there)):
            values = {"after": text} if kind == NAME_ADDED else {"before": text}
            yield Change(kind, concept_id, language=language, **values)
    for concept_id, language, before, after in rows(_PREFERRED):
        yield Change(RENAMED, concept_id, language=language, before=before, after=after)
    for kind, statement in ((MOVED, _PARENTS), (RETYPED, _TYPES)):
        for concept_id, group in groupby(rows(statement), lambda row: row.concept_id):
            sides: dict[str, list[str]] = {"before": [], "after": []}
            for _, side, value in group:
                sides[side].append(value)
            yield Change(kind, concept_id, **{side: SEPARATOR.join(values) for side, values in sides.items()})


def classify_retirement(concept_id: str, new: KnowledgeBase) -> Change:
    """Return the ``merged`` or ``retired`` change of a concept that the new knowledge base lacks."""
    records = successors(new, concept_id)
    merged = [record for record in records if record.type in MERGED]
    chosen = merged or records
    types = [record.type for record in chosen or new.retired(concept_id)]
    after = SEPARATOR.join(record.replaced_by for record in chosen)
    how = SEPARATOR.join(sorted(dict.fromkeys(types), key=RETIREMENTS.index))
    return Change(MERGED_AWAY if merged else RETIRED, concept_id, after=after, how=how)


class _Side:
    def __init__(self, name: str) -> None:
        metadata = sa.MetaData()
        tables = (schema.concept, schema.name, schema.relation, schema.semantic_type)
        copies = [table.to_metadata(metadata, schema=name) for table in tables]
        self.concept, self.name, self.relation, self.semantic_type = copies

    def has(self, concept_id: sa.Column[Any]) -> Any:
        return sa.exists().where(self.concept.c.concept_id == concept_id)


_OLD, _NEW = _Side("old"), _Side("new")


def _concepts_only_in(here: _Side, there: _Side) -> sa.Select[Any]:
    own = here.concept.c.concept_id
    return sa.select(own).where(~there.has(own)).order_by(own)


def _names_only_in(here: _Side, there: _Side) -> sa.Select[Any]:
    own, other = here.name.c, there.name.c
    columns = (own.concept_id, own.language, own.text)
    same = sa.exists().where(*(other[column.name] == column for column in columns))
    return sa.select(*columns).where(there.has(own.concept_id), ~same).distinct().order_by(*columns)


_before, _after = _OLD.name.c, _NEW.name.c
_PREFERRED = (
    sa.select(_after.concept_id, _after.language, _before.text, _after.text)
    .join(_OLD.name, sa.and_(_before.concept_id == _after.concept_id, _before.language == _after.language))
    .where(_after.preferred == 1, _before.preferred == 1, _before.text != _after.text)
    .order_by(_after.concept_id, _after.language)
)


def _pairs(table: Callable[[_Side], tuple[sa.Column[Any], sa.Column[Any], Any]]) -> sa.Select[Any]:
    """Select concept, side and value of the pairs that only one of the files has.

    ``table`` returns the columns of concept and value, and a condition on the rows.
    """
    parts = []
    for side, here, there in (("after", _NEW, _OLD), ("before", _OLD, _NEW)):
        (concept_id, value, holds), (other_id, other_value, holds_too) = table(here), table(there)
        # an expression: SQLite then uses the index on the concept, and not on a parent or type that very many share
        same = sa.exists().where(other_id == concept_id, other_value.concat("") == value, holds_too)
        pairs = sa.select(concept_id.label("concept_id"), sa.literal(side).label("side"), value.label("value"))
        parts.append(pairs.where(holds, there.has(concept_id), ~same).distinct())
    both: sa.Subquery = sa.union_all(*parts).subquery()
    return sa.select(both).order_by(both.c.concept_id, both.c.side, both.c.value)


_PARENTS = _pairs(lambda side: (side.relation.c.head, side.relation.c.tail, side.relation.c.type.in_(HIERARCHY)))
_TYPES = _pairs(lambda side: (side.semantic_type.c.concept_id, side.semantic_type.c.semantic_type, sa.true()))


def update_kb(
    path: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    changes: str | PathLike[str] | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    allow_loss: bool = False,
    progress: bool | None = False,
) -> tuple[BuildReport, ChangeReport]:
    """Build a knowledge base from new release files, compare it with the old file, and replace the old file.

    A kill at any point leaves the old or the new file. In a bundle, the new file must still be indexed, as after
    :func:`~medlink.kb.build_kb`.

    Args:
        path: the knowledge base: a file, a bundle, or a folder with ``kb.sqlite``.
        inputs, languages, under, not_under, max_bad_share, progress: as for :func:`~medlink.kb.build_kb`, with the
            same errors.
        changes: file for the differences; see :func:`compare_kbs`.
        allow_loss: accept a release that lacks a source or language of the old file.

    Raises:
        KnowledgeBaseError: there is no knowledge base at ``path``.
        ConfigError: see :func:`check_sources_kept`.
    """
    target, reports = Path(path), list[ChangeReport]()
    kept_languages = None if languages is None else list(languages)

    def compare(new: Path) -> None:
        if not allow_loss:
            with KnowledgeBase(new) as built:
                check_sources_kept(path, old, built, kept_languages)
        reports.append(compare_kbs(old.path, new, changes))

    with KnowledgeBase(target) as old:
        check_output_paths({"the output": changes}, [*kb_input_paths(path, old), *(given.path for given in inputs)])
        rows_format(changes)  # fails before any work
        report = build_kb(
            target / KB_FILE if target.is_dir() else target,
            inputs,
            languages=kept_languages,
            under=under,
            not_under=not_under,
            max_bad_share=max_bad_share,
            progress=progress,
            before_replace=compare,
        )
    return report, reports[0]
