"""``link_notes``: notes in, links out."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from medlink.errors import ConfigError, InputError
from medlink.files.problems import counted
from medlink.files.streams import text_encoding
from medlink.index import Bundle
from medlink.language.tags import base
from medlink.notes.language import gaps
from medlink.notes.pipeline import NotePipeline, link_all
from medlink.notes.reading import STANDARD_INPUT, Fields, Note, find_inputs, read_notes
from medlink.notes.writers import Job, JsonLinesWriter, Writer

logger = logging.getLogger("medlink")

_COMMIT = 64  # notes after which what is written is made safe


@dataclass(slots=True)
class Report:
    """What a run did: notes read, mentions in them, those that were linked, and the notes that were not (``problems``).

    The latter come without their text; each says why. ``left_out`` counts the files of folders that were not read, by
    ending; ``before`` the notes that were finished by the run that is resumed. ``same_id`` counts the notes that have
    the id of a note before them, so that the output does not tell which of them a line is of; ``first_same_id`` is the
    first of them, without its text. ``languages`` counts the notes that were read by their language.
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


def link_notes(
    bundle: Bundle | str | Path,
    inputs: str | Path | Iterable[str | Path] | Iterable[Note],
    *,
    out: str | Path | Writer | None = None,
    processes: int = 1,
    resume: bool = False,
    fields: Fields | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int], object] | None = None,
    say: Callable[[str], object] = logger.warning,
    **options: Any,
) -> Report:
    """Link the mentions of notes to the concepts of a bundle, and write one line for each.

    Args:
        bundle: an opened bundle, or its folder.
        inputs: text files, JSONL files, folders with them, ``-`` for standard input, or notes.
        out: a file for JSON lines, which appears whole, a writer of another format, or ``None`` for standard output.
        processes: worker processes; they change nothing but the speed.
        resume: go on where a killed run with the same inputs, options and bundle stopped.
        fields: names of the JSONL fields.
        encoding: that of all files and of standard input, such as ``latin-1``.
        progress: called with the number of notes that are finished so far.
        say: called with each sentence on what is not as the options have it: nothing to resume, a language without
            rules or names, a field that no note has; else it is logged.
        options: fields of :class:`~medlink.notes.options.NoteOptions`, such as ``language`` and ``threshold``.

    Returns:
        Counts, and the notes that could not be linked.

    Raises:
        InputError: an input does not exist, or no note of all could be linked.
        ConfigError: an option or the encoding is unknown or out of range, or the output cannot be written or resumed.
        BundleError: the bundle cannot be opened.
    """
    source = _Source(inputs, fields or Fields(), text_encoding(encoding))
    pipeline = NotePipeline(bundle, **options)
    writer = JsonLinesWriter(out) if out is None or isinstance(out, str | Path) else out
    versions = pipeline.versions
    facts = [source.state(resume), pipeline.options.to_dict(), versions, asdict(source.fields), source.encoding]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    learned = [] if pipeline.learned is None else [pipeline.learned.path]
    reads = (*source.reads(), *learned, pipeline.bundle.folder)
    done = writer.open(Job(key, reads, versions, resume, source.resumable))
    if resume and not done:
        say("nothing to resume: the run begins with the first note")
    for sentence in () if pipeline.learned is None else pipeline.learned.gaps():
        say(sentence)
    given = base(pipeline.options.language or "")
    held = pipeline.bundle.index.languages
    for sentence in gaps(given, held) if given else ():
        say(f"language {given!r}: {sentence}")
    report, fields_seen = Report(left_out=source.left_out), Counter[str]()
    try:
        notes = _watched(source.notes(), report, fields_seen)
        kept = report.before = sum(1 for _ in islice(notes, done))
        for batch in link_all(pipeline, notes, processes):
            report.notes += len(batch)
            report.problems += [linked.note for linked in batch if linked.note.problem is not None]
            for linked in batch:
                report.mentions += len(linked.mentions)
                report.linked += sum(not mention.link.nil for mention in linked.mentions)
                if linked.note.problem is None:
                    report.languages[linked.language] += 1
                    writer.write(linked.note, linked.language, linked.mentions)
            done = report.before + report.notes
            if done - kept >= _COMMIT:
                writer.commit(done)
                kept = done
            if progress is not None:
                progress(done)
        writer.commit(done)
        if done and len(report.problems) == done:
            first = report.problems[0]
            said = f"no note could be read; the first: {first.problem}"
            raise InputError(said, path=first.place or first.note_id, remedy=first.remedy)
    except BaseException as error:
        writer.close(error)
        raise
    writer.close()
    for language in sorted(report.languages.keys() - {given}):
        number = counted(report.languages[language], "note")
        for sentence in gaps(language, held):
            say(f"{number}, language {language!r}: {sentence}")
    for sentence in (*source.missing(fields_seen), *pipeline.ranker_said()):
        say(sentence)
    return report


def _watched(notes: Iterable[Note], report: Report, fields: Counter[str]) -> Iterator[Note]:
    """The notes; those with the id of an earlier one are counted, and so are empty ones, and the fields of lines.

    Memory grows by some 60 bytes for each.
    """
    seen = set[int]()
    for note in notes:
        fields["empty"] += note.problem is None and not note.text.strip()
        if note.place is not None and note.problem is None:
            fields["text"] += 1
            fields["language"] += note.language is not None
            fields["note_id"] += note.note_id != note.place
        key = hash(note.note_id)
        if key in seen and note.problem is None:
            report.same_id += 1
            report.first_same_id = report.first_same_id or replace(note, text="")
        seen.add(key)
        yield note


class _Source:
    """Where notes come from: files, standard input, or objects of the caller (``_notes``)."""

    def __init__(
        self, inputs: str | Path | Iterable[str | Path] | Iterable[Note], fields: Fields, encoding: str
    ) -> None:
        self.fields, self.encoding = fields, encoding
        self.paths: list[str] = []
        self.left_out: Counter[str] = Counter()
        self._named: list[str] = []
        self._notes: Iterable[Note] | None = None
        given = iter([inputs] if isinstance(inputs, str | Path) else inputs)
        first = next(given, None)
        whole = () if first is None else chain([first], given)
        if isinstance(first, Note):
            self._notes = cast("Iterable[Note]", whole)
        else:
            self._named = [str(one) for one in whole]
            self.paths, self.left_out = find_inputs(self._named)

    def notes(self) -> Iterator[Note]:
        """The notes, one after the other: read from the inputs, or those of the caller."""
        return read_notes(self.paths, self.fields, self.encoding) if self._notes is None else iter(self._notes)

    def missing(self, seen: Counter[str]) -> Iterator[str]:
        """What to say of empty notes, and of fields that the user named and no note has, from how many have each."""
        if seen["empty"]:
            yield f"{counted(seen['empty'], 'note')} without text"
        for name, instead in (
            ("language", "languages were found out"),
            ("note_id", "notes are named by file and line"),
        ):
            asked = getattr(self.fields, name)
            if seen["text"] and not seen[name] and asked != getattr(Fields(), name):
                yield f"no note has the field {asked!r}: {instead}"

    @property
    def resumable(self) -> bool:
        """Whether the notes can be read again from the start."""
        return self._notes is None and STANDARD_INPUT not in self.paths

    def reads(self) -> list[str | int | Path]:
        """What is read and must not be written over."""
        if self._notes is not None:
            return []
        read: list[str | int | Path] = [path for path in (*self._named, *self.paths) if path != STANDARD_INPUT]
        if STANDARD_INPUT in self.paths:
            with suppress(OSError, AttributeError):  # closed, or no open file of the system
                read.append(sys.stdin.fileno())
        return read

    def state(self, resume: bool) -> list[tuple[str, int, int]]:
        """Inputs with size and time of change: a run is resumed on the notes that it began with."""
        if resume and not self.resumable:
            what = "standard input" if self._notes is None else "a run on notes that are no files"
            raise ConfigError(f"{what} cannot be resumed", remedy="put the notes into a file")
        found = [(path, Path(path).stat()) for path in self.paths if path != STANDARD_INPUT]
        return [(path, status.st_size, status.st_mtime_ns) for path, status in found]
