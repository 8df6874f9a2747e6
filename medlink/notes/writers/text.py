"""``TextWriter``: the base of formats that are lines of text, in a file that appears when it is whole."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from medlink.errors import ConfigError
from medlink.files.folders import locked, one_error
from medlink.files.json import json_text, read_json, write_json
from medlink.files.whole import check_targets, is_replaced, put_in_place, standard_output, whole_text
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention

OTHER = "move it away, or name another output"


class TextWriter(ABC):
    """Lines of text, in a file, on standard output, or into a pipe or device.

    A file grows beside its place as ``NAME.part``, which is locked, with ``NAME.part.json`` that says how many notes
    and bytes are finished, and takes its place at the end. A format gives :meth:`lines` and, where it has one, a
    header; one that is made of its lines when all are there gives :meth:`place` too, and is a file (``is_file``).

    Attributes:
        written: mentions so far, those of the run that is resumed too.

    Args:
        out: where the lines go; ``None`` is standard output.
    """

    header = ""
    """First line of the output, without its line end."""
    is_file = False
    """Whether the output can only be a file."""

    def __init__(self, out: str | Path | None = None) -> None:
        self.out = None if out is None else Path(out)
        self.bundle, self.versions, self.written = "", dict[str, Any](), 0
        self._file: TextIO
        self._job: Job
        self._state: Path
        self._part: Path | None = None
        self._notes = self._size = 0
        self._is_placed = False  # nothing is left of the lines of an earlier run: they have their place, if any were
        self._stack = ExitStack()

    @abstractmethod
    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        """Lines of one note, without line ends."""

    def place(self, part: Path, out: Path) -> None:
        """Let the lines, which are complete, take their place."""
        put_in_place(part, out)

    def check(self, job: Job) -> bool:
        """Refuse an output that cannot be written; returns whether it is one that grows beside its place."""
        replaced = self.out is not None and is_replaced(self.out)
        if job.resume and not replaced:
            raise ConfigError("only a file can be resumed", path=self.out, remedy="leave resume out, or name a file")
        if self.is_file and not replaced:
            raise ConfigError("this format needs a file", path=self.out, remedy="name a file with out")
        check_targets({"the output": self.out}, job.reads)
        return replaced

    def open(self, job: Job) -> int:
        """Begin or go on."""
        self._job, self.versions, self.bundle = job, job.versions, job.bundle
        replaced = self.check(job)
        with ExitStack() as stack:  # what fails here ends what was begun here
            if self.out is None:
                opened = standard_output("name a file with out=...")
            else:
                opened = self._unfinished(self.out) if replaced else whole_text(self.out)
            self._file = stack.enter_context(opened)
            if self.header and not self._notes:
                self._file.write(f"{self.header}\n")
            self._stack = stack.pop_all()
        return self._notes

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the lines of one note."""
        self._file.write("".join([f"{line}\n" for line in self.lines(note, language, mentions)]))
        self.written += len(mentions)

    def commit(self, notes: int) -> None:
        """Put what was written on the disk and say so beside it."""
        self._file.flush()
        if self._part is not None:
            os.fsync(self._file.fileno())
            self._notes, self._size = notes, os.fstat(self._file.fileno()).st_size
            self._save()

    def close(self, error: BaseException | None = None) -> None:
        """Let the file take its place; after an error keep what is finished, or nothing."""
        self._stack.__exit__(None if error is None else type(error), error, None)

    @contextmanager
    def _unfinished(self, out: Path) -> Iterator[TextIO]:
        """The lines so far, to add to; they take their place at the end, and after an error none are not kept."""
        target = Path(os.path.realpath(out))
        part, self._state = (target.with_name(target.name + end) for end in (".part", ".part.json"))
        check_targets({"the unfinished output": part, "the state of the output": self._state}, self._job.reads)
        self._part = part
        with one_error(out, "the output"), locked(part, "the output", output=out):
            try:
                self._begin(part)
            except BaseException:
                if _is_empty(part):
                    part.unlink()
                raise
            try:
                # before the lines: a file of that name with something in it and without a state is somebody else's
                self._save()
                with part.open("r+" if self._size else "w", encoding="utf-8", newline="") as file:
                    file.seek(self._size)
                    file.truncate()
                    yield file
            except BaseException as error:
                if self._size:
                    self._job.hint(error)
                else:
                    self._drop(part)
                raise
            self.place(part, out)
            self._drop(part)

    def _begin(self, part: Path) -> None:
        """Find out how much is finished; what is not of medlink stays as it is."""
        begun, self._is_placed = not _is_empty(part), not self._state.exists()
        if self._is_placed:
            if begun:
                raise ConfigError("is no unfinished output of medlink", path=part, remedy=OTHER)
            return
        held = read_state(self._state, "notes", "mentions", "bytes")
        self._is_placed = held["bytes"] > 0 and not begun
        if not self._job.resume:
            return
        self._job.check_key(held["job"], part)
        if begun:
            self._notes, self.written, self._size = held["notes"], held["mentions"], held["bytes"]
            if part.stat().st_size < self._size:
                message = "is shorter than its state says"
                raise ConfigError(message, path=part, remedy="run without resume to start anew")

    def _save(self) -> None:
        write_state(self._state, job=self._job.key, notes=self._notes, mentions=self.written, bytes=self._size)

    def _drop(self, part: Path) -> None:
        part.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)


def _is_empty(part: Path) -> bool:
    """Whether a file is one without any line, as the lock makes it."""
    return part.is_file() and not part.stat().st_size


def read_state(path: Path, *numbers: str) -> dict[str, Any]:
    """What :func:`write_state` wrote of an unfinished output: its job and some numbers."""
    try:
        held = read_json(path)
        said = {name: held[name] for name in ("job", *numbers)}
        # a number that is another one would cost notes, or give some twice
        if held != _hashed(said):
            raise ValueError("it is not as it was written")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError("is no state of an unfinished output", path=path, remedy=OTHER) from error
    return said


def write_state(path: Path, **said: str | int) -> None:
    """Say how much of an unfinished output is finished."""
    write_json(path, _hashed(said), "the state of the output")


def _hashed(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "hash": hashlib.sha256(json_text(said).encode()).hexdigest()}
