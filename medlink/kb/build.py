"""Building a knowledge base from release files, and extending one.

Both load the rows of all inputs (:mod:`medlink.kb.loader`). Extending appends them to a copy of the file and keeps its
indexes, so apart from the copy, its time grows only with the added rows.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from operator import itemgetter
from os import PathLike
from pathlib import Path

from sqlalchemy import Connection, create_engine, delete, insert, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from medlink.bundles.paths import check_not_in_bundle
from medlink.errors import ConfigError, InputError, KnowledgeBaseError
from medlink.files.atomic import replace_atomically
from medlink.files.folders import scratch_folder
from medlink.files.problems import MAX_ODD_ROWS, Problems
from medlink.files.streams import existing_file, input_size
from medlink.kb import schema
from medlink.kb.decision_table import DECISIONS
from medlink.kb.hierarchy import HierarchyFilter, iter_cycle_notes
from medlink.kb.loader import CONCEPT_WITHOUT_NAME, MAX_INPUTS, NAME_WITHOUT_CONCEPT, Loader
from medlink.kb.readers import formats, get_format
from medlink.kb.readers.common import Batch
from medlink.kb.report import BuildReport, ExtendReport, Input, InputReport, SourceCounts
from medlink.kb.staging import iter_driver_rows
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import language_filter
from medlink.processes import gc_disabled
from medlink.records import Record, Source

_NO_COUNTS = SourceCounts(Source(""), 0, {}, 0, 0, 0, 0)
_FACT_KINDS = ("definitions", "semantic_types", "relations", "mappings")
_KINDS = ("concepts", *_FACT_KINDS)


def build_kb(
    out: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    progress: bool | None = False,
    before_replace: Callable[[Path], object] | None = None,
) -> BuildReport:
    """Build a knowledge base from release files.

    Replaces ``out`` once the new file is complete. Memory does not grow with the input, unless a reader states it. If
    two inputs disagree on the preferred name or source of a concept, the earlier input wins. Skips and counts facts
    about concepts that no input defines, such as translations and relations.

    Args:
        out: file to write; an existing file is only replaced if it is a knowledge base.
        inputs: releases, in order of precedence.
        languages: keep only names and definitions of these languages (``de`` keeps ``de-at`` too); a concept without a
            remaining name is dropped.
        under: keep only these concepts and their descendants; the inputs are then read twice.
        not_under: leave out these concepts and their descendants.
        max_bad_share: share of bad rows in one file above which the load stops (see ``Problems``).
        progress: show a progress bar on standard error: always, never, or on a terminal (``None``).
        before_replace: called with the complete new file; an error that it raises leaves ``out`` as it was.

    Raises:
        ConfigError: an option, format, language or concept is unknown, or the folder of ``out`` cannot be written.
        InputError: an input cannot be used.
        KnowledgeBaseError: ``out`` is not a knowledge base, or the disk is full.
        BundleError: ``out`` is inside a part of a bundle.
    """
    began, target, filters = time.perf_counter(), Path(out).absolute(), ([*under], [*not_under])
    hierarchy, tags = HierarchyFilter(*filters) if any(filters) else None, language_filter(languages)
    digest, sources, reports, _ = _load(target, inputs, None, tags, max_bad_share, progress, before_replace, hierarchy)
    return BuildReport(str(Path(out)), digest, sources, reports, round(time.perf_counter() - began, 3))


def extend_kb(
    path: str | PathLike[str], out: str | PathLike[str], inputs: Sequence[Input], *, max_bad_share: float = 0.01
) -> ExtendReport:
    """Add concepts, and further names, definitions, relations and mappings of known concepts, to a knowledge base.

    Existing preferred names, source versions and sources of concepts stay. Counts existing facts as duplicates; skips
    and counts facts about unknown concepts. The new content hash covers the old hash, then the added names and semantic
    types in order: the same steps give the same hash.

    Args:
        path: the knowledge base, or a folder with ``kb.sqlite``; not changed.
        out: file to write atomically; may be ``path``.
        inputs, max_bad_share: as for :func:`build_kb`, with the same errors.

    Raises:
        KnowledgeBaseError: there is no knowledge base at ``path``.
    """
    began = time.perf_counter()
    with KnowledgeBase(path) as opened:
        base = opened.path
    digest, added, reports, marks = _load(Path(out).absolute(), inputs, base, None, max_bad_share)
    contributing = tuple(counts for counts in added if replace(counts, source=_NO_COUNTS.source) != _NO_COUNTS)
    return ExtendReport(str(Path(out)), digest, contributing, reports, marks, round(time.perf_counter() - began, 3))


def _load(
    target: Path,
    inputs: Sequence[Input],
    base: Path | None,
    languages: frozenset[str] | None,
    max_bad_share: float,
    progress: bool | None = False,
    before_replace: Callable[[Path], object] | None = None,
    hierarchy: HierarchyFilter | None = None,
) -> tuple[str, tuple[SourceCounts, ...], tuple[InputReport, ...], dict[str, int]]:
    """Load into a new file or a copy of ``base``, then rename it to ``target``.

    Returns the content hash, the counts of each source, a report of each input, and the highest old row numbers.
    """
    readers = [_bind_reader(given, languages) for given in inputs]
    if not inputs or len(inputs) > MAX_INPUTS:
        raise ConfigError(f"{len(inputs)} inputs", remedy=f"give between 1 and {MAX_INPUTS} release files")
    _check_target(target)
    with scratch_folder(target, "the knowledge base") as folder, _progress(inputs, progress) as (advance, step):
        # in a table of one's own every row counts; a release has small files with odd rows
        own = [given.format == "table" or given.format not in formats() for given in inputs]
        problems = [Problems(max_bad_share, advance, max_odd_rows=0 if is_own else MAX_ODD_ROWS) for is_own in own]
        new = folder / "kb.sqlite"
        try:
            if base is not None:
                shutil.copyfile(base, new)
            with gc_disabled(), _connect(new, folder / "staging.sqlite") as connection:
                loader = Loader(connection, languages)
                if hierarchy is not None:
                    for read, given in zip(readers, inputs, strict=True):
                        step(f"reading the hierarchy of {given.path}")
                        hierarchy.add(read(problems=Problems(1.0)))
                    hierarchy.resolve()
                for number, (read, account) in enumerate(zip(readers, problems, strict=True)):
                    step(f"reading {inputs[number].path}")
                    records = read(problems=account)
                    if hierarchy is not None:
                        records = hierarchy.apply(records, account.skipped)
                    loader.add(records, number, account)
                digest = loader.finish([account.skipped for account in problems], step)
                step("looking for cycles of parents")
                for number, note in iter_cycle_notes(connection, loader.marks.get("relation", 0), loader.with_location):
                    problems[number].notes.append(note)
                _add_notes(inputs, problems, loader)
                added = _count_sources(connection, loader)
                digest = _write_meta(connection, loader, digest, added, inputs, problems)
            with open(new, "rb") as handle:
                os.fsync(handle.fileno())
            if before_replace is not None:
                before_replace(new)
            replace_atomically(new, target, "the knowledge base")
        except (OSError, sqlite3.Error, DatabaseError) as error:
            reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
            remedy = "check the rights and the space on the disk"
            raise KnowledgeBaseError(f"cannot be written: {reason}", path=target, remedy=remedy) from error
    reports = tuple(
        InputReport(
            given.format,
            str(given.path),
            account.rows,
            dict(sorted(account.bad.items())),
            dict(sorted(account.skipped.items())),
            {reason: first for (index, reason), first in loader.first_skipped.items() if index == number},
            tuple(account.examples),
            tuple(account.notes),
            account.encoding_remedy,
        )
        for number, (given, account) in enumerate(zip(inputs, problems, strict=True))
    )
    return digest, added, reports, loader.marks


def _add_notes(inputs: Sequence[Input], problems: Sequence[Problems], loader: Loader) -> None:
    for number, (count, first) in sorted(loader.renamed.items()):
        concepts = "1 concept has" if count == 1 else f"{count:,} concepts have"
        note = f"{concepts} another preferred name already, which stays (the first: {first}); this one is a synonym"
        problems[number].notes.append(note)
    for number, (count, first) in sorted(loader.unicode_variants.items()):
        ids = "1 id differs" if count == 1 else f"{count:,} ids differ"
        problems[number].notes.append(
            f"{ids} from another one in the Unicode normal form only, which makes them different concepts "
            f"(the first: {first}). Remedy: write both in one form, such as NFC"
        )
    for given, account in zip(inputs, problems, strict=True):
        if not account.rows:
            account.notes.append(f"{given.path}: has no rows")
    seen: dict[str, tuple[int, object]] = dict.fromkeys(loader.announced.pop(-1, ()), (-1, "the knowledge base"))
    for number, names in loader.announced.items():
        given = inputs[number]
        for name in dict.fromkeys(names):
            earliest, path = seen.setdefault(name, (number, given.path))
            if earliest != number and name != DECISIONS and "source" not in given.options:
                shared = f"its source is {name}, like that of {path}, so both count as one source"
                if given.format == "table":
                    shared += "; a table is named by its file. Remedy: rename the file if it is another source"
                problems[number].notes.append(f"{given.path}: {'is given twice' if path == given.path else shared}")


def _bind_reader(given: Input, languages: frozenset[str] | None) -> Callable[..., Iterator[Record | Batch]]:
    if not isinstance(given, Input):
        raise ConfigError(f"an Input is expected, not {type(given).__name__}", remedy='write Input("table", path)')
    form = get_format(str(given.format))
    reader = form.read_batches or form.read
    parameters = list(inspect.signature(reader).parameters)[1:]
    known = [name for name in parameters if name not in ("problems", "languages")]
    for option in given.options:
        if option not in known:
            remedy = f"use one of {', '.join(known)}"
            raise ConfigError(f"format {given.format} has no option {option!r}", remedy=remedy)
    if not form.folder:
        existing_file(given.path)  # raises before any work
    filters = {"languages": languages} if "languages" in parameters else {}
    return partial(reader, given.path, **given.options, **filters)


def _check_target(target: Path) -> None:
    """Raise unless ``target`` is free or a knowledge base, and outside any bundle part."""
    check_not_in_bundle(target)
    if not target.exists():
        return
    if not target.is_file():
        message = f"is a {'folder' if target.is_dir() else 'pipe or a device'}, a knowledge base is a file"
        raise KnowledgeBaseError(message, path=target, remedy="name a file, such as kb.sqlite")
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{target.as_uri()}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'application'").fetchone()
        if row and row[0] == schema.APPLICATION:
            return
    message = "exists and is not a medlink knowledge base, so it is not replaced"
    raise KnowledgeBaseError(message, path=target, remedy="name another file, or delete this one yourself")


@contextmanager
def _connect(new: Path, staging: Path) -> Iterator[Connection]:
    def connect() -> sqlite3.Connection:
        # no journal: a file that a crash damages is never renamed
        connection = sqlite3.connect(new)
        connection.execute("ATTACH DATABASE ? AS staging", (str(staging),))
        for name in ("main", "staging"):
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-65536"):
                connection.execute(f"PRAGMA {name}.{setting}")
        return connection

    with create_engine("sqlite://", creator=connect, poolclass=NullPool).begin() as connection:
        yield connection


def _count_sources(connection: Connection, loader: Loader) -> tuple[SourceCounts, ...]:
    names: dict[int, dict[str, int]] = {}
    for (number, language), count in sorted(loader.names.items()):
        names.setdefault(number, {})[language] = count
    facts = []
    for table in (schema.definition, schema.semantic_type, schema.relation, schema.mapping):
        new = select(table.c.source_id).where(table.c.id > loader.marks.get(table.name, 0))
        # counted here, since SQLite would sort the rows
        facts.append(Counter(map(itemgetter(0), iter_driver_rows(connection, new))))
    counts, stored = [], schema.source.c
    rows = connection.execute(select(stored.id, stored.name, stored.languages).order_by(stored.id))
    for number, name, tags in rows:
        source = replace(loader.sources[name], languages=tuple(tag for tag in tags.split(",") if tag))
        numbers = (counter[number] for counter in facts)
        counts.append(SourceCounts(source, loader.concepts[number], names.get(number, {}), *numbers))
    return tuple(counts)


def _write_meta(
    connection: Connection,
    loader: Loader,
    digest: str,
    added: Sequence[SourceCounts],
    inputs: Sequence[Input],
    problems: Sequence[Problems],
) -> str:
    """Replace the metadata; returns the content hash."""
    old = {entry["source"]["name"]: entry for entry in json.loads(loader.meta.get("counts", "[]"))}
    counts = []
    for new in added:
        before = old.get(new.source.name, asdict(_NO_COUNTS))
        tags = sorted({*before["names"], *new.names})
        names = {tag: before["names"].get(tag, 0) + new.names.get(tag, 0) for tag in tags}
        counts.append(replace(new, names=names, **{kind: before[kind] + getattr(new, kind) for kind in _KINDS}))
    more: dict[str, str] = {key: loader.meta[key] for key in ("extended", "built", "beside") if key in loader.meta}
    if loader.meta:
        if not any(entry.names or entry.semantic_types for entry in added):
            digest = loader.meta["content_hash"]
        facts = sum(getattr(entry, kind) for entry in added for kind in _FACT_KINDS)
        if facts or any(entry.names for entry in added):
            # "built" is the last name of the build, "beside" the number of other added rows; older versions lack both
            if "extended" not in more:
                more.update(extended="0", built=str(loader.marks["name"]), beside="0")
            more["extended"] = str(int(more["extended"]) + 1)
            if "beside" in more:
                more["beside"] = str(int(more["beside"]) + facts)
    elif not any(entry.concepts for entry in counts):
        reasons = sum((account.skipped for account in problems), Counter())
        remedy = "check the filters" if reasons else "give files with rows below their header"
        if NAME_WITHOUT_CONCEPT in reasons and CONCEPT_WITHOUT_NAME not in reasons:
            remedy = (
                "add the terminology to which the names belong, such as obo=... for a translation, or the "
                "international edition for an extension of SNOMED CT"
            )
        why = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items()))
        details = f"; left out: {why}" if why else ""
        empty = [str(given.path) for given, account in zip(inputs, problems, strict=True) if not account.rows]
        details += f"; without a row: {', '.join(empty)}" if empty else ""
        raise InputError(f"no concept with a name was found in the inputs{details}", remedy=remedy)
    values = {
        "application": schema.APPLICATION,
        "schema_version": str(schema.SCHEMA_VERSION),
        "content_hash": digest,
        # stored, since counting millions of rows takes seconds
        "counts": json.dumps([asdict(entry) for entry in counts], ensure_ascii=False, sort_keys=True),
        **more,
    }
    connection.execute(delete(schema.meta))
    connection.execute(insert(schema.meta), [{"key": key, "value": value} for key, value in values.items()])
    return digest


@contextmanager
def _progress(
    inputs: Sequence[Input], show: bool | None
) -> Iterator[tuple[Callable[[int], object] | None, Callable[[str], object]]]:
    if not (sys.stderr.isatty() if show is None else show):
        yield None, lambda text: None
        return
    from tqdm import tqdm

    total = sum(input_size(given.path) for given in inputs)
    with tqdm(total=total, unit="B", unit_scale=True) as bar:
        yield bar.update, bar.set_description
