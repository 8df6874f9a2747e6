"""Building a knowledge base file from release files, and adding to one without building it again.

Added rows are staged, sorted and moved as in any build (:mod:`medlink.kb.loader`), behind the rows of a copy of the
file; its indexes and its search index take the new rows in and stay. The time grows with what is added, but for the
copy.
"""

from __future__ import annotations

import gc
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
from typing import Any

from sqlalchemy import Connection, Table, create_engine, delete, insert, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from medlink.bundles.paths import refuse_part
from medlink.errors import ConfigError, InputError, KnowledgeBaseError
from medlink.files.atomic import put_in_place
from medlink.files.folders import scratch_folder
from medlink.files.problems import Problems
from medlink.files.streams import existing_file, input_size
from medlink.kb import schema
from medlink.kb.decision_table import DECISIONS
from medlink.kb.hierarchy import Subset, circle_notes
from medlink.kb.loader import CONCEPT_ALONE, MAX_INPUTS, NAME_ALONE, Loader
from medlink.kb.readers import format_of
from medlink.kb.readers.common import Batch
from medlink.kb.report import BuildReport, ExtendReport, Input, InputReport, SourceCounts
from medlink.kb.staging import driver_rows
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import language_filter
from medlink.records import Record, Source

_NOTHING = SourceCounts(Source(""), 0, {}, 0, 0, 0, 0)
_BESIDE = ("definitions", "semantic_types", "relations", "mappings")
_KINDS = ("concepts", *_BESIDE)


def build_kb(
    out: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    progress: bool | None = False,
    before: Callable[[Path], object] | None = None,
) -> BuildReport:
    """Build a knowledge base from release files.

    ``out`` stays as it was until the new file is complete. Memory does not grow with the input, except for what a
    reader says of itself.

    Where two inputs disagree on a concept's preferred name or source, the earlier one wins. Translations,
    relations and the like of concepts that no input brings are left out and counted.

    Args:
        out: the file to write; an existing one is replaced only when it is a knowledge base.
        inputs: what to take in, in order of precedence.
        languages: keep names and definitions of these languages only (``de`` keeps ``de-at`` too); a concept
            that is left without a name is dropped.
        under: keep these concepts and those below them only; the inputs are then read twice.
        not_under: leave out these concepts and those below them.
        max_bad_share: share of bad rows in one file above which the load stops (see ``Problems``).
        progress: a progress bar on standard error: ``True`` always, ``False`` never, ``None`` on a terminal.
        before: called with the new file, complete, before it takes its place; its error leaves ``out`` as it was.

    Raises:
        ConfigError: an option, a format, a language or a concept of ``under`` is unknown, or the folder of ``out``
            cannot be written to.
        InputError: an input cannot be used.
        KnowledgeBaseError: ``out`` is something else than a knowledge base, or the disk is full.
        BundleError: ``out`` lies in a part of a bundle.
    """
    began = time.perf_counter()
    target = Path(out).absolute()
    subset = Subset([*under], [*not_under])
    chosen = subset if subset.under or subset.not_under else None
    asked = language_filter(languages)
    digest, sources, reports, _ = _load(target, inputs, None, asked, max_bad_share, progress, before, chosen)
    return BuildReport(str(Path(out)), digest, sources, reports, round(time.perf_counter() - began, 3))


def extend_kb(
    path: str | PathLike[str], out: str | PathLike[str], inputs: Sequence[Input], *, max_bad_share: float = 0.01
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
        inputs, max_bad_share: as for :func:`build_kb`, whose errors are raised.

    Raises:
        KnowledgeBaseError: there is no knowledge base at ``path``.
    """
    began = time.perf_counter()
    with KnowledgeBase(path) as opened:
        base = opened.path
    target = Path(out).absolute()
    digest, added, reports, marks = _load(target, inputs, base, None, max_bad_share, False)
    brought = tuple(entry for entry in added if replace(entry, source=_NOTHING.source) != _NOTHING)
    return ExtendReport(str(Path(out)), digest, brought, reports, marks, round(time.perf_counter() - began, 3))


def _load(
    target: Path,
    inputs: Sequence[Input],
    base: Path | None,
    languages: frozenset[str] | None,
    max_bad_share: float,
    progress: bool | None,
    before: Callable[[Path], object] | None = None,
    subset: Subset | None = None,
) -> tuple[str, tuple[SourceCounts, ...], tuple[InputReport, ...], dict[str, int]]:
    """Load into a file beside ``target``, a new one or a copy of ``base``, and rename it when it is complete.

    Gives the content hash, what was brought of each source, what became of each input, and the highest row numbers of
    before.
    """
    records = [_reader(given, languages) for given in inputs]
    if not inputs or len(inputs) > MAX_INPUTS:
        raise ConfigError(f"{len(inputs)} inputs", remedy=f"give between 1 and {MAX_INPUTS} release files")
    _check_target(target)
    with scratch_folder(target, "the knowledge base") as folder, _progress(inputs, progress) as (advance, step):
        problems = [Problems(max_bad_share, advance) for _ in inputs]
        new = folder / "kb.sqlite"
        try:
            if base is not None:
                shutil.copyfile(base, new)
            with _uncollected(), _connect(new, folder / "staging.sqlite") as connection:
                loader = Loader(connection, languages)
                if subset is not None:
                    for read, given in zip(records, inputs, strict=True):
                        step(f"reading the hierarchy of {given.path}")
                        subset.look(read(problems=Problems(1.0)))
                    subset.choose()
                for number, (read, found) in enumerate(zip(records, problems, strict=True)):
                    step(f"reading {inputs[number].path}")
                    taken = read(problems=found)
                    loader.take(taken if subset is None else subset.of(taken, found.skipped), number, found)
                digest = loader.finish([found.skipped for found in problems], step)
                step("looking for circles of parents")
                for number, note in circle_notes(connection, loader.marks.get("relation", 0), loader.shown):
                    problems[number].notes.append(note)
                _remark(inputs, problems, loader)
                brought = _count_sources(connection, loader)
                digest = _write_meta(connection, loader, digest, brought, inputs, problems)
            with open(new, "rb") as handle:
                os.fsync(handle.fileno())
            if before is not None:
                before(new)
            put_in_place(new, target, "the knowledge base")
        except (OSError, sqlite3.Error, DatabaseError) as error:
            reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
            raise KnowledgeBaseError(
                f"cannot be written: {reason}", path=target, remedy="check the rights and the space on the disk"
            ) from error
    reports = tuple(
        InputReport(
            given.format,
            str(given.path),
            found.rows,
            dict(sorted(found.bad.items())),
            dict(sorted(found.skipped.items())),
            {reason: first for (of, reason), first in loader.first.items() if of == number},
            tuple(found.examples),
            tuple(found.notes),
        )
        for number, (given, found) in enumerate(zip(inputs, problems, strict=True))
    )
    return digest, brought, reports, loader.marks


def _remark(inputs: Sequence[Input], problems: Sequence[Problems], loader: Loader) -> None:
    for number, (count, first) in sorted(loader.renamed.items()):
        concepts = "1 concept has" if count == 1 else f"{count:,} concepts have"
        note = f"{concepts} another preferred name already, which stays (the first: {first}); this one is a synonym"
        problems[number].notes.append(note)
    for number, (count, first) in sorted(loader.alike.items()):
        ids = "1 id is" if count == 1 else f"{count:,} ids are"
        problems[number].notes.append(
            f"{ids} another one but for the Unicode normal form, and a concept of its own (the first: {first})"
            ". Remedy: write both in one form, such as NFC"
        )
    for given, found in zip(inputs, problems, strict=True):
        if not found.rows:
            found.notes.append(f"{given.path}: has no rows")
    before: dict[str, tuple[int, object]] = dict.fromkeys(loader.announced.pop(-1, ()), (-1, "the knowledge base"))
    for number, names in loader.announced.items():
        given = inputs[number]
        for name in dict.fromkeys(names):
            earliest, other = before.setdefault(name, (number, given.path))
            if earliest != number and name != DECISIONS and "source" not in given.options:
                said = f"its source is {name}, as that of {other}: what both bring is of one source"
                if given.format == "table":
                    said += ", for a table is named by its file. Remedy: rename the file if it is another source"
                problems[number].notes.append(f"{given.path}: {'is given twice' if other == given.path else said}")


def _reader(given: Input, languages: frozenset[str] | None) -> Callable[..., Iterator[Record | Batch]]:
    if not isinstance(given, Input):
        raise ConfigError(f"an Input is expected, not {type(given).__name__}", remedy='write Input("table", path)')
    form = format_of(str(given.format))
    reader = form.in_bulk or form.read
    taken = list(inspect.signature(reader).parameters)[1:]
    known = [name for name in taken if name not in ("problems", "languages")]
    for option in given.options:
        if option not in known:
            remedy = f"use one of {', '.join(known)}"
            raise ConfigError(f"format {given.format} has no option {option!r}", remedy=remedy)
    if not form.folder:
        existing_file(given.path)  # refused before anything is made
    filters = {"languages": languages} if "languages" in taken else {}
    return partial(reader, given.path, **given.options, **filters)


def _check_target(target: Path) -> None:
    """Refuse to write over anything else than a knowledge base, and into a part of a bundle."""
    refuse_part(target)
    if not target.exists():
        return
    if not target.is_file():
        found = "folder" if target.is_dir() else "pipe or a device"
        raise KnowledgeBaseError(
            f"is a {found}, a knowledge base is a file", path=target, remedy="name a file, such as kb.sqlite"
        )
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{target.as_uri()}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'application'").fetchone()
        if row and row[0] == schema.APPLICATION:
            return
    raise KnowledgeBaseError(
        "exists and is no medlink knowledge base, so it is not replaced",
        path=target,
        remedy="name another file, or delete this one yourself",
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for reference cycles, which takes time, and of which millions of rows make none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _connect(new: Path, staging: Path) -> Iterator[Connection]:
    def connect() -> sqlite3.Connection:
        # nothing here needs to survive a crash: the file counts only once it is renamed
        connection = sqlite3.connect(new)
        connection.execute("ATTACH DATABASE ? AS staging", (str(staging),))
        for name in ("main", "staging"):
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-65536"):
                connection.execute(f"PRAGMA {name}.{setting}")
        return connection

    with create_engine("sqlite://", creator=connect, poolclass=NullPool).begin() as connection:
        yield connection


def _count_sources(connection: Connection, loader: Loader) -> tuple[SourceCounts, ...]:
    def counted(table: Table) -> Counter[int]:
        new = select(table.c.source_id).where(table.c.id > loader.marks.get(table.name, 0))
        # SQLite would sort them
        return Counter(map(itemgetter(0), driver_rows(connection, new)))

    names: dict[int, dict[str, int]] = {}
    for (number, language), count in sorted(loader.names.items()):
        names.setdefault(number, {})[language] = count
    others = [counted(table) for table in (schema.definition, schema.semantic_type, schema.relation, schema.mapping)]
    counts = []
    for number, name, tags in connection.execute(
        select(schema.source.c.id, schema.source.c.name, schema.source.c.languages).order_by(schema.source.c.id)
    ):
        source = replace(loader.sources[name], languages=tuple(tag for tag in tags.split(",") if tag))
        numbers = (found[number] for found in others)
        counts.append(SourceCounts(source, loader.concepts[number], names.get(number, {}), *numbers))
    return tuple(counts)


def _write_meta(
    connection: Connection,
    loader: Loader,
    digest: str,
    brought: Sequence[SourceCounts],
    inputs: Sequence[Input],
    problems: Sequence[Problems],
) -> str:
    """Write what a knowledge base says of itself, in place of what it said; gives its content hash."""
    held = {entry["source"]["name"]: entry for entry in json.loads(loader.meta.get("counts", "[]"))}
    counts = [_sum(held.get(new.source.name, asdict(_NOTHING)), new) for new in brought]
    more: dict[str, str] = {key: loader.meta[key] for key in ("extended", "built", "beside") if key in loader.meta}
    if loader.meta:
        if not any(entry.names or entry.semantic_types for entry in brought):
            digest = loader.meta["content_hash"]
        beside = sum(getattr(entry, kind) for entry in brought for kind in _BESIDE)
        if beside or any(entry.names for entry in brought):
            # an older medlink did not write down where the names of the build end, nor whether there was more
            if "extended" not in more:
                more.update(extended="0", built=str(loader.marks["name"]), beside="0")
            more["extended"] = str(int(more["extended"]) + 1)
            if "beside" in more:
                more["beside"] = str(int(more["beside"]) + beside)
    elif not any(entry.concepts for entry in counts):
        reasons = sum((found.skipped for found in problems), Counter())
        remedy = "check the filters" if reasons else "give files with rows below their header"
        if NAME_ALONE in reasons and CONCEPT_ALONE not in reasons:
            remedy = "add the terminology to which the names belong, such as obo=... or obograph=... for a translation"
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
        left = f"; left out: {why}" if why else ""
        empty = [str(given.path) for given, found in zip(inputs, problems, strict=True) if not found.rows]
        left += f"; without a row: {', '.join(empty)}" if empty else ""
        raise InputError(f"no concept with a name was found in the inputs{left}", remedy=remedy)
    values = {
        "application": schema.APPLICATION,
        "schema_version": str(schema.SCHEMA_VERSION),
        "content_hash": digest,
        # Counting millions of rows takes seconds, opening a knowledge base must not.
        "counts": json.dumps([asdict(entry) for entry in counts], ensure_ascii=False, sort_keys=True),
        **more,
    }
    connection.execute(delete(schema.meta))
    connection.execute(insert(schema.meta), [{"key": key, "value": value} for key, value in values.items()])
    return digest


def _sum(old: dict[str, Any], new: SourceCounts) -> SourceCounts:
    names = {tag: old["names"].get(tag, 0) + new.names.get(tag, 0) for tag in sorted({*old["names"], *new.names})}
    return replace(new, names=names, **{kind: old[kind] + getattr(new, kind) for kind in _KINDS})


@contextmanager
def _progress(
    inputs: Sequence[Input], shown: bool | None
) -> Iterator[tuple[Callable[[int], object] | None, Callable[[str], object]]]:
    if not (sys.stderr.isatty() if shown is None else shown):
        yield None, lambda text: None
        return
    from tqdm import tqdm

    total = sum(input_size(given.path) for given in inputs)
    with tqdm(total=total, unit="B", unit_scale=True) as bar:
        yield bar.update, bar.set_description
