"""``link_notes``: read notes, link them, and write the links."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from medlink.errors import ConfigError, InputError
from medlink.files.problems import pluralize
from medlink.files.streams import input_size, resolve_encoding
from medlink.index import Bundle
from medlink.kb.systems import system_by_name
from medlink.language.tags import base
from medlink.notes.database import SqlNotes, database_file, is_database_address
from medlink.notes.language import InputChecks, describe_missing
from medlink.notes.note_ids import ids_of_table, number_as_id
from medlink.notes.options import OutputOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline, link_all
from medlink.notes.reading import STANDARD_INPUT, Fields, Note, check_notes, find_inputs, is_english, read_notes
from medlink.notes.writers import Failures, Job, Writer, create_writer
from medlink.notes.writers.base import describe_finished

logger = logging.getLogger("medlink")

_COMMIT = 64  # notes between two commits
_COMPARED = 1_000_000  # first notes whose ids are remembered, to find duplicates in bounded memory
Inputs = str | Path | SqlNotes | Note | Iterable[str | Path] | Iterable[Note]


@dataclass(slots=True)
class Report:
    """Counts of a run: notes, mentions, linked mentions, and the notes with ``problems``, without text.

    ``left_out`` counts other files of folders by suffix. ``already_done`` counts the notes of the interrupted run.
    ``duplicate_ids`` counts the notes that repeat the id of one of the first million notes; ``first_duplicate`` is the
    first of these, without text. ``languages`` counts linked notes by language, and ``codes`` counts notes with a code
    by system. ``finished`` means that there was nothing to resume.
    """

    notes: int = 0
    mentions: int = 0
    linked: int = 0
    problems: list[Note] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    already_done: int = 0
    duplicate_ids: int = 0
    first_duplicate: Note | None = None
    languages: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    finished: bool = False


def link_notes(
    bundle: Bundle | str | Path,
    inputs: Inputs,
    *,
    out: str | Path | Writer | None = None,
    failures: str | Path | Failures | None = None,
    processes: int = 1,
    resume: bool = False,
    fields: Fields | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], object] | None = None,
    on_message: Callable[[str], object] = logger.warning,
    **options: Any,
) -> Report:
    """Link the mentions of notes to the concepts of a bundle, and write them, by default as JSON lines.

    Args:
        bundle: an opened bundle, or its folder.
        inputs: files (text, JSON lines, CSV, TSV, Parquet), folders with them, ``-`` for standard input, a table or
            query of a database (:class:`~medlink.notes.database.SqlNotes`), or notes.
        out: a file or folder, which appears when it is complete, the address of a database, a writer of your own, or
            ``None`` for standard output.
        failures: a file, or its writer, for the notes that could not be linked, a JSON line each: number in the run,
            id, place, problem and remedy, without text.
        processes: worker processes; they change only the speed.
        resume: continue a killed run with the same inputs, options and bundle. Nothing changes if the run is finished:
            its output is complete, and newer than the inputs and the bundle.
        fields: names of the JSONL fields, and of the columns of tables.
        encoding: encoding of all files and of standard input, such as ``latin-1``.
        progress: called with the number of notes done, and their total, estimated from the share of the input read; 0
            if unknown.
        on_message: called with each warning, such as a language without rules or a missing field; by default it is
            logged.
        options: fields of :class:`~medlink.notes.options.NoteOptions`, such as ``language`` and ``threshold``, and of
            :class:`~medlink.notes.options.OutputOptions`, such as ``format``.

    Returns:
        Counts, and the notes that could not be linked.

    Raises:
        InputError: an input does not exist, or no note could be linked.
        ConfigError: an option or the encoding is unknown or out of range, or the output cannot be written or resumed.
        BundleError: the bundle cannot be opened.
    """
    output = OutputOptions(**{name: options.pop(name) for name in OutputOptions.model_fields if name in options})
    source = NoteSource(inputs, fields or Fields(), resolve_encoding(encoding), output, options.get("language"))
    pipeline = NotePipeline(bundle, **options)
    sink = create_writer(out, output) if out is None or isinstance(out, str | Path) else out
    failed = Failures(failures) if isinstance(failures, str | Path) else failures
    job = _job(source, pipeline, output, resume=resume, with_failures=failed is not None)
    report = Report(left_out=source.left_out)
    if finished := describe_finished(getattr(sink, "out", None), job):
        on_message(finished)
        return replace(report, finished=True)

    def commit(notes: int) -> None:
        # failures first: resuming removes those beyond the output
        for output_ in (failed, sink):
            if output_ is not None:
                output_.commit(notes)

    with ExitStack() as stack:  # closes the failures before the output
        done = _open(stack, sink, failed, job)
        if resume and not done:
            on_message("nothing to resume: the run begins with the first note")
        for sentence in option_warnings(pipeline, output):
            on_message(sentence)
        notes = source.after(done)
        done = committed = report.already_done = source.skipped
        for batch in link_all(pipeline, notes, processes):
            for linked in batch:
                done += 1
                problem = _write(linked, sink, report)
                if problem is not None:
                    report.problems.append(problem)
                    if failed is not None:
                        failed.add(done, problem)
            # while every note failed there is nothing to resume
            if done - committed >= _COMMIT and len(report.problems) < done:
                commit(done)
                committed = done
            if progress is not None:
                progress(done, source.expected())
        report.duplicate_ids, report.first_duplicate = source.duplicate_ids, source.first_duplicate
        _check_read(report, failed)
        commit(done)
    warnings = (*_result_warnings(pipeline, report), *source.warnings(), *pipeline.linker.ranker_warnings())
    for sentence in (*warnings, *getattr(sink, "remarks", ())):
        on_message(sentence)
    return report


def _check_read(report: Report, failed: Failures | None) -> None:
    if report.problems and len(report.problems) == report.notes + report.already_done:
        if failed is not None:
            failed.close()  # keep the reasons
        first = report.problems[0]
        message = f"no note could be read; the first: {first.problem}"
        raise InputError(message, path=first.location or first.note_id, remedy=first.remedy)


def _job(
    source: NoteSource, pipeline: NotePipeline, output: OutputOptions, *, resume: bool, with_failures: bool
) -> Job:
    versions = pipeline.versions
    facts = [source.state(resume), pipeline.options.to_dict(), versions, asdict(source.fields), source.encoding]
    facts += [output.to_dict(), with_failures]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    learned = [] if pipeline.learned is None else [pipeline.learned.path]
    reads = (*source.inputs(), *learned, pipeline.bundle.folder)
    return Job(key, reads, versions, resume, source.resumable, pipeline.bundle.manifest["hash"])


def _open(stack: ExitStack, sink: Writer, failed: Failures | None, job: Job) -> int:
    out, failures = getattr(sink, "out", None), None if failed is None else failed.out
    if out is not None and failures is not None and os.path.realpath(out) == os.path.realpath(failures):
        raise ConfigError("the output and the failures are the same file", path=out, remedy="name another file")
    done = sink.open(job)
    stack.push(lambda _, error, __: sink.close(error))
    if failed is not None:
        failed.open(job)
        stack.push(lambda _, error, __: failed.close(error))
        failed.rewind(done)
    return done


def option_warnings(pipeline: NotePipeline, output: OutputOptions | None = None) -> Iterator[str]:
    """Yield warnings on options that the bundle cannot fulfil."""
    yield from () if pipeline.learned is None else pipeline.learned.gaps()
    systems = [*(source.name for source in pipeline.bundle.kb.sources()), *pipeline.options.map]
    if output is not None and output.format == "note_nlp" and "OMOP" not in {system_by_name(s).name for s in systems}:
        yield (
            "the bundle has no ids of OMOP, so note_nlp_concept_id is 0 in every row; "
            'build it from OMOP vocabularies, or give map="OMOP" if its codes have maps to them'
        )
    given = base(pipeline.options.language or "")
    for sentence in describe_missing(given, pipeline.bundle.index.languages) if given else ():
        yield f"language {given!r}: {sentence}"


def _result_warnings(pipeline: NotePipeline, report: Report) -> Iterator[str]:
    for language in sorted(report.languages.keys() - {base(pipeline.options.language or "")}):
        number = pluralize(report.languages[language], "note")
        for sentence in describe_missing(language, pipeline.bundle.index.languages):
            yield f"{number}, language {language!r}: {sentence}"
    for system in pipeline.options.map if report.linked else ():
        if not report.codes[system_by_name(system).name]:
            yield f"no link has a code in the system {system!r}"


def _write(linked: LinkedNote, sink: Writer, report: Report) -> Note | None:
    report.notes += 1
    note = linked.note
    if note.problem is None:
        try:
            sink.write(note, linked.language, linked.mentions)
        except InputError as error:
            note = replace(note, text="", problem=error.message, remedy=error.remedy)
    if note.problem is not None:
        return note
    report.languages[linked.language] += 1
    report.mentions += len(linked.mentions)
    report.linked += sum(not mention.link.nil for mention in linked.mentions)
    report.codes.update({system_by_name(code.system).name for mention in linked.mentions for code in mention.codes})
    return None


class NoteSource:
    """Notes of a run, and the state of its inputs, which a resumed run must share.

    Attributes:
        left_out: number of other files of folders, by suffix.
        skipped: number of notes that the earlier run finished.
        duplicate_ids, first_duplicate: number of notes so far that repeat an id, and the first of these, without text.
    """

    def __init__(
        self, inputs: Inputs, fields: Fields, encoding: str, output: OutputOptions, language: str | None = None
    ) -> None:
        day_first = fields.day_first or bool(language and not is_english(language))
        self.fields, self.encoding = replace(fields, day_first=day_first), encoding
        self._ids = [] if output.ids is None else [output.ids]
        self._rename: Callable[[Note], Note] = number_as_id if output.format == "note_nlp" else lambda note: note
        if output.ids is not None:
            self._rename = ids_of_table(output.ids)
        self.paths, self._named, self.left_out = list[str](), list[str](), Counter[str]()
        self.duplicate_ids = self.skipped = 0
        self.first_duplicate: Note | None = None
        self._notes: Iterable[Note] | None = None
        self._table = inputs if isinstance(inputs, SqlNotes) else None
        self._seen, self._read, self._size = Counter[str](), 0, 0
        self._checks = InputChecks(encoding, language)
        if isinstance(inputs, SqlNotes):
            return
        given = iter([inputs] if isinstance(inputs, str | Path | Note) else inputs)
        first = next(given, None)
        items = () if first is None else chain([first], given)
        if isinstance(first, Note):
            self._notes = cast("Iterable[Note]", items)
            return
        self._named = [str(item) for item in items]
        for name in self._named:
            if is_database_address(name) and not Path(name).exists():
                remedy = "give it with sql=..., and a table or a query; in Python as SqlNotes"
                raise ConfigError("a database address is not a file of notes", remedy=remedy)
        self.paths, self.left_out = find_inputs(self._named)
        self._size = 0 if STANDARD_INPUT in self.paths else sum(map(input_size, self.paths))

    def after(self, done: int) -> Iterator[Note]:
        """Yield the notes after the first ``done`` notes. Reads the earlier notes of files again, for their ids."""
        skip = done if self._table is not None else 0
        self._seen["notes"] = self._read = skip
        notes = self._count(self._all(skip))
        self.skipped = skip + sum(1 for _ in islice(notes, done - skip))
        return notes

    def expected(self) -> int:
        """Estimate the number of notes from the share of the input read; 0 if unknown."""
        return round(self._seen["notes"] * self._size / self._read) if self._read else 0

    def warnings(self) -> Iterator[str]:
        """Yield warnings on empty notes, a wrong encoding or language, and given fields that no note has."""
        seen = self._seen
        yield from self._checks.warnings()
        if seen["empty"]:
            yield f"{pluralize(seen['empty'], 'note')} without text"
        fallbacks = {"language": "languages were detected", "note_id": "notes are named by file and line"}
        fallbacks["date"] = "the dates of the notes are unknown"
        for name, fallback in fallbacks.items():
            field_name = getattr(self.fields, name)
            if seen["text"] and not seen[name] and field_name != getattr(Fields(), name):
                yield f"the field {field_name!r} is missing or empty in all notes read: {fallback}"

    @property
    def resumable(self) -> bool:
        return self._notes is None and STANDARD_INPUT not in self.paths

    def inputs(self) -> list[str | int | Path]:
        if self._table is not None:
            file = database_file(self._table.address)
            return [] if file is None else [file]
        given = *self._named, *self.paths, *self._ids
        read: list[str | int | Path] = [path for path in given if path != STANDARD_INPUT]
        if STANDARD_INPUT in self.paths:
            with suppress(OSError, AttributeError):  # closed, or not a file of the system
                read.append(sys.stdin.fileno())
        return read

    def state(self, resume: bool) -> Any:
        """Return the inputs with size and modification time, which a resumed run must share."""
        if resume and not self.resumable:
            what = "standard input" if self._notes is None else "a run on note objects"
            raise ConfigError(f"{what} cannot be resumed", remedy="put the notes into a file")
        if self._table is not None:
            state = self._table.state(self.fields)
            self._size = state["rows"]
            return state
        statuses = [(path, Path(path).stat()) for path in (*self.paths, *self._ids) if path != STANDARD_INPUT]
        return [(path, status.st_size, status.st_mtime_ns) for path, status in statuses]

    def _all(self, skip: int) -> Iterator[Note]:
        if self._table is not None:
            for note in self._table.notes(self.fields, skip):
                self._read += 1
                yield note
        elif self._notes is not None:
            yield from check_notes(self._notes)
        else:
            yield from map(self._rename, read_notes(self.paths, self.fields, self.encoding, self._add_read))

    def _add_read(self, size: int) -> None:
        self._read += size

    def _count(self, notes: Iterable[Note]) -> Iterator[Note]:
        seen, ids = self._seen, set[int]()
        for note in notes:
            seen["notes"] += 1
            seen["empty"] += note.problem is None and not note.text.strip()
            if note.problem is None:
                self._checks.add(note.text)
            if note.location is not None and note.problem is None:
                seen["text"] += 1
                seen["language"] += note.language is not None
                seen["note_id"] += note.note_id != note.location
                seen["date"] += note.date is not None
            key = hash(note.note_id)
            if key in ids and note.problem is None:
                self.duplicate_ids += 1
                self.first_duplicate = self.first_duplicate or replace(note, text="")
            if len(ids) < _COMPARED:
                ids.add(key)
            yield note
