"""``link_notes``: notes in, links out."""

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
from medlink.files.problems import counted
from medlink.files.streams import input_size, text_encoding
from medlink.index import Bundle
from medlink.kb.systems import named
from medlink.language.tags import base
from medlink.notes.database import SqlNotes, file_of, is_address
from medlink.notes.language import gaps
from medlink.notes.options import OutputOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline, link_all
from medlink.notes.reading import STANDARD_INPUT, Fields, Note, find_inputs, read_notes
from medlink.notes.writers import Failures, Job, Writer, writer

logger = logging.getLogger("medlink")

_COMMIT = 64  # notes after which what is written is made safe
_COMPARED = 1_000_000
"""Notes, from the first, whose ids later ones are compared with: memory does not grow beyond."""
Inputs = str | Path | SqlNotes | Iterable[str | Path] | Iterable[Note]


@dataclass(slots=True)
class Report:
    """What a run did: notes read, mentions in them, those that were linked, and the notes that were not (``problems``).

    The latter come without their text; each says why. ``left_out`` counts the files of folders that were not read, by
    ending; ``before`` the notes that were finished by the run that is resumed. ``same_id`` counts the notes that have
    the id of one of the first million notes before them, ``first_same_id`` is the first of them, without its text.
    ``languages`` counts the notes that were read by their language, ``codes`` those with a code by its system.
    """

    notes: int = 0
    mentions: int = 0
    linked: int = 0
    problems: list[Note] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    before: int = 0
    same_id: int = 0
    first_same_id: Note | None = None
    languages: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)


def link_notes(
    bundle: Bundle | str | Path,
    inputs: Inputs,
    *,
    out: str | Path | Writer | None = None,
    failures: str | Path | None = None,
    processes: int = 1,
    resume: bool = False,
    fields: Fields | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], object] | None = None,
    say: Callable[[str], object] = logger.warning,
    **options: Any,
) -> Report:
    """Link the mentions of notes to the concepts of a bundle, and write each in a format, by default as a JSON line.

    Args:
        bundle: an opened bundle, or its folder.
        inputs: files (text, JSON lines, CSV, TSV, Parquet), folders with them, ``-`` for standard input, a table or
            query of a database (:class:`~medlink.notes.database.SqlNotes`), or notes.
        out: a file or folder, which appears whole, the address of a database, a writer of your own, or
            ``None`` for standard output.
        failures: a file for the notes that could not be linked, a JSON line each: number in the run, id, place, problem
            and remedy, and no text.
        processes: worker processes; they change nothing but the speed.
        resume: go on where a killed run with the same inputs, options and bundle stopped.
        fields: names of the JSONL fields, and of the columns of tables.
        encoding: that of all files and of standard input, such as ``latin-1``.
        progress: called with the number of notes finished so far, and with how many are expected in all, estimated
            from the share of the input that was read; 0 if that is not known.
        say: called with each sentence on what is not as the options have it: nothing to resume, a language without
            rules or names, a field that no note has; else it is logged.
        options: fields of :class:`~medlink.notes.options.NoteOptions`, such as ``language`` and ``threshold``, and of
            :class:`~medlink.notes.options.OutputOptions`, such as ``format``.

    Returns:
        Counts, and the notes that could not be linked.

    Raises:
        InputError: an input does not exist, or no note of all could be linked.
        ConfigError: an option or the encoding is unknown or out of range, or the output cannot be written or resumed.
        BundleError: the bundle cannot be opened.
    """
    source = Source(inputs, fields or Fields(), text_encoding(encoding))
    told = OutputOptions(**{name: options.pop(name) for name in OutputOptions.model_fields if name in options})
    pipeline = NotePipeline(bundle, **options)
    sink = writer(out, told) if out is None or isinstance(out, str | Path) else out
    failed = None if failures is None else Failures(failures)
    job = _job(source, pipeline, told, resume=resume, with_failures=failed is not None)

    def commit(notes: int) -> None:
        # failures first, of which those that are too many are taken away after a kill
        for one in (failed, sink):
            if one is not None:
                one.commit(notes)

    report = Report(left_out=source.left_out)
    with ExitStack() as stack:  # an output that has its place has its failures beside it: they are closed first
        done = _opened(stack, sink, failed, job)
        if resume and not done:
            say("nothing to resume: the run begins with the first note")
        for sentence in gaps_of(pipeline):
            say(sentence)
        notes = source.after(done)
        done = kept = report.before = source.skipped
        for batch in link_all(pipeline, notes, processes):
            for linked in batch:
                done += 1
                problem = _written(linked, sink, report)
                if problem is not None:
                    report.problems.append(problem)
                    if failed is not None:
                        failed.add(done, problem)
            if done - kept >= _COMMIT:
                commit(done)
                kept = done
            if progress is not None:
                progress(done, source.expected())
        commit(done)
        report.same_id, report.first_same_id = source.same_id, source.first_same_id
        if done and len(report.problems) == done:
            if failed is not None:
                failed.close()  # what says why is kept
            first = report.problems[0]
            said = f"no note could be read; the first: {first.problem}"
            raise InputError(said, path=first.place or first.note_id, remedy=first.remedy)
    for sentence in (
        *_gaps_met(pipeline, report),
        *source.missing(),
        *pipeline.ranker_said(),
        *getattr(sink, "remarks", ()),
    ):
        say(sentence)
    return report


def _job(source: Source, pipeline: NotePipeline, told: OutputOptions, *, resume: bool, with_failures: bool) -> Job:
    versions = pipeline.versions
    facts = [source.state(resume), pipeline.options.to_dict(), versions, asdict(source.fields), source.encoding]
    facts += [told.to_dict(), with_failures]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    learned = [] if pipeline.learned is None else [pipeline.learned.path]
    reads = (*source.reads(), *learned, pipeline.bundle.folder)
    return Job(key, reads, versions, resume, source.resumable, pipeline.bundle.manifest["hash"])


def _opened(stack: ExitStack, sink: Writer, failed: Failures | None, job: Job) -> int:
    out, place = getattr(sink, "out", None), None if failed is None else failed.out
    if out is not None and place is not None and os.path.realpath(out) == os.path.realpath(place):
        raise ConfigError("the output and the failures are one file", path=out, remedy="name another file")
    done = sink.open(job)
    stack.push(lambda _, error, __: sink.close(error))
    if failed is not None:
        failed.open(job)
        stack.push(lambda _, error, __: failed.close(error))
        failed.rewind(done)
    return done


def gaps_of(pipeline: NotePipeline) -> Iterator[str]:
    """What the options of a pipeline ask for and the bundle does not have."""
    yield from () if pipeline.learned is None else pipeline.learned.gaps()
    given = base(pipeline.options.language or "")
    for sentence in gaps(given, pipeline.bundle.index.languages) if given else ():
        yield f"language {given!r}: {sentence}"


def _gaps_met(pipeline: NotePipeline, report: Report) -> Iterator[str]:
    for language in sorted(report.languages.keys() - {base(pipeline.options.language or "")}):
        number = counted(report.languages[language], "note")
        for sentence in gaps(language, pipeline.bundle.index.languages):
            yield f"{number}, language {language!r}: {sentence}"
    for system in pipeline.options.map if report.linked else ():
        if not report.codes[named(system).name]:
            yield f"no link has a code in the system {system!r}"


def _written(linked: LinkedNote, sink: Writer, report: Report) -> Note | None:
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
    report.codes.update({named(one.system).name for mention in linked.mentions for one in mention.codes})
    return None


class Source:
    """The notes of a run, and what must not change before it is resumed.

    Attributes:
        left_out: files of folders that are no notes, by ending.
        skipped: notes that the run before had finished.
        same_id, first_same_id: notes so far that have the id of one before them, and the first of these, without text.
    """

    def __init__(self, inputs: Inputs, fields: Fields, encoding: str) -> None:
        self.fields, self.encoding = fields, encoding
        self.paths: list[str] = []
        self.left_out: Counter[str] = Counter()
        self.same_id = self.skipped = 0
        self.first_same_id: Note | None = None
        self._named: list[str] = []
        self._notes: Iterable[Note] | None = None
        self._table: SqlNotes | None = None
        self._seen, self._read, self._whole = Counter[str](), 0, 0
        if isinstance(inputs, SqlNotes):
            self._table = inputs
            return
        given = iter([inputs] if isinstance(inputs, str | Path) else inputs)
        first = next(given, None)
        whole = () if first is None else chain([first], given)
        if isinstance(first, Note):
            self._notes = cast("Iterable[Note]", whole)
            return
        self._named = [str(one) for one in whole]
        for one in self._named:
            if is_address(one) and not Path(one).exists():
                remedy = "give it with sql=..., and a table or a query with it; in Python as SqlNotes"
                raise ConfigError("the address of a database is no file of notes", remedy=remedy)
        self.paths, self.left_out = find_inputs(self._named)
        self._whole = 0 if STANDARD_INPUT in self.paths else sum(map(input_size, self.paths))

    def after(self, done: int) -> Iterator[Note]:
        """The notes behind the first ``done``. Those of files are read once more, so that their ids are known."""
        skip = done if self._table is not None else 0
        self._seen["notes"] = self._read = skip
        notes = self._watched(self._all(skip))
        self.skipped = skip + sum(1 for _ in islice(notes, done - skip))
        return notes

    def expected(self) -> int:
        """How many notes there are by the share of the input that was read; 0 where nobody knows."""
        return round(self._seen["notes"] * self._whole / self._read) if self._read else 0

    def missing(self) -> Iterator[str]:
        """What to say of empty notes, and of fields that the user named and no note has."""
        seen = self._seen
        if seen["empty"]:
            yield f"{counted(seen['empty'], 'note')} without text"
        instead_of = {"language": "languages were found out", "note_id": "notes are named by file and line"}
        for name, instead in instead_of.items():
            asked = getattr(self.fields, name)
            if seen["text"] and not seen[name] and asked != getattr(Fields(), name):
                yield f"no note has the field {asked!r}: {instead}"

    @property
    def resumable(self) -> bool:
        return self._notes is None and STANDARD_INPUT not in self.paths

    def reads(self) -> list[str | int | Path]:
        if self._table is not None:
            file = file_of(self._table.address)
            return [] if file is None else [file]
        read: list[str | int | Path] = [path for path in (*self._named, *self.paths) if path != STANDARD_INPUT]
        if STANDARD_INPUT in self.paths:
            with suppress(OSError, AttributeError):  # closed, or no open file of the system
                read.append(sys.stdin.fileno())
        return read

    def state(self, resume: bool) -> Any:
        """Inputs with size and time of change: only with the same notes is a run resumed."""
        if resume and not self.resumable:
            what = "standard input" if self._notes is None else "a run on notes that are no files"
            raise ConfigError(f"{what} cannot be resumed", remedy="put the notes into a file")
        if self._table is not None:
            held = self._table.state(self.fields)
            self._whole = held["rows"]
            return held
        found = [(path, Path(path).stat()) for path in self.paths if path != STANDARD_INPUT]
        return [(path, status.st_size, status.st_mtime_ns) for path, status in found]

    def _all(self, skip: int) -> Iterator[Note]:
        if self._table is not None:
            for note in self._table.notes(self.fields, skip):
                self._read += 1
                yield note
        elif self._notes is not None:
            yield from self._notes
        else:
            yield from read_notes(self.paths, self.fields, self.encoding, self._took)

    def _took(self, size: int) -> None:
        self._read += size

    def _watched(self, notes: Iterable[Note]) -> Iterator[Note]:
        seen, ids = self._seen, set[int]()
        for note in notes:
            seen["notes"] += 1
            seen["empty"] += note.problem is None and not note.text.strip()
            if note.place is not None and note.problem is None:
                seen["text"] += 1
                seen["language"] += note.language is not None
                seen["note_id"] += note.note_id != note.place
            key = hash(note.note_id)
            if key in ids and note.problem is None:
                self.same_id += 1
                self.first_same_id = self.first_same_id or replace(note, text="")
            if len(ids) < _COMPARED:
                ids.add(key)
            yield note
