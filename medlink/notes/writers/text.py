"""``TextWriter``: the base of formats that are lines of text, in a file that appears when it is whole."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from medlink.errors import ConfigError
from medlink.files.folders import locked, one_error
from medlink.files.json import json_text, read_json, write_json
from medlink.files.whole import check_targets, is_replaced, put_in_place, standard_output, whole_text
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention


class TextWriter(ABC):
    """Lines of text, in a file, on standard output, or into a pipe or device.

    A file grows beside its place as ``NAME.part``, with ``NAME.part.json`` that says how many notes and bytes are
    finished, and takes its place at the end. A format gives :meth:`lines` and, where it has one, a header; one that is
    made of its lines when all are there gives :meth:`place` too, and is a file (``is_file``).

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
        self._file: TextIO
        self._stack = ExitStack()
        self._unfinished: _Unfinished | None = None
        self.versions: dict[str, Any] = {}
        self.bundle, self.written = "", 0

    @abstractmethod
    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        """Lines of one note, without line ends."""

    def place(self, part: Path, out: Path) -> None:
        """Let the lines, which are complete, take their place."""
        put_in_place(part, out)

    def open(self, job: Job) -> int:
        """Begin or go on."""
        self.versions, self.bundle = job.versions, job.bundle
        with ExitStack() as stack:  # what fails here ends what was begun here
            replaced = self.out is not None and is_replaced(self.out)
            if job.resume and not replaced:
                raise ConfigError(
                    "only a file can be resumed", path=self.out, remedy="leave resume out, or name a file"
                )
            if self.is_file and not replaced:
                raise ConfigError("this format needs a file", path=self.out, remedy="name a file with out")
            if self.out is None:
                opened = standard_output("name a file with -o")
            else:
                check_targets({"the output": self.out}, job.reads)
                opened = whole_text(self.out)
                if replaced:
                    self._unfinished = _Unfinished(self.out, job, self.place)
                    stack.enter_context(one_error(self.out, "the output"))
                    opened = self._unfinished.open()
            self._file = stack.enter_context(opened)
            done = 0 if self._unfinished is None else self._unfinished.notes
            self.written = 0 if self._unfinished is None else self._unfinished.mentions
            if self.header and not done:
                self._file.write(f"{self.header}\n")
            self._stack = stack.pop_all()
        return done

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the lines of one note."""
        self._file.write("".join([f"{line}\n" for line in self.lines(note, language, mentions)]))
        self.written += len(mentions)

    def commit(self, notes: int) -> None:
        """Put what was written on the disk and say so beside it."""
        self._file.flush()
        if self._unfinished is not None:
            self._unfinished.keep(notes, self.written, self._file)

    def close(self, error: BaseException | None = None) -> None:
        """Let the file take its place; after an error keep what is finished, or nothing."""
        self._stack.__exit__(None if error is None else type(error), error, None)


class _Unfinished:
    """An output that can be gone on with: its lines, and how many notes and bytes are finished.

    The file of the lines is locked as long as they are written. The state is there before they are, so that a file of
    that name with something in it and without a state is somebody else's.

    Attributes:
        is_placed: whether nothing is left of the lines of an earlier run, which have their place then if there was one.
    """

    def __init__(self, out: Path, job: Job, place: Callable[[Path, Path], None]) -> None:
        self.out, target = out, Path(os.path.realpath(out))
        self.part, self.state = (target.with_name(target.name + end) for end in (".part", ".part.json"))
        check_targets({"the unfinished output": self.part, "the state of the output": self.state}, job.reads)
        self._job, self._place, self.notes, self.mentions, self.size = job, place, 0, 0, 0
        self.is_placed = False

    def _begin(self) -> None:
        """Find out how much is finished; what is not of medlink stays as it is."""
        held, notes, mentions, size = self._read()
        self.is_placed = held is None or (size > 0 and self._is_empty())
        if not self._job.resume or held is None:
            return
        if held != self._job.key:
            raise ConfigError(
                "the unfinished run had other inputs, options or another bundle",
                path=self.part,
                remedy="run without resume to start anew",
            )
        if self._is_empty():
            return
        self.notes, self.mentions, self.size = notes, mentions, size
        if self.part.stat().st_size < size:
            raise ConfigError(
                "is shorter than its state says", path=self.part, remedy="run without resume to start anew"
            )

    def _read(self) -> tuple[str | None, int, int, int]:
        """Job, notes, mentions and bytes of the state that is there, ``None`` and zeros where there is none."""
        begun, remedy = not self._is_empty(), "move it away, or name another output"
        if not self.state.exists():
            if begun:
                raise ConfigError("is no unfinished output of medlink", path=self.part, remedy=remedy)
            return None, 0, 0, 0
        try:
            held = read_json(self.state)
            job, notes, mentions, size = held["job"], held["notes"], held["mentions"], held["bytes"]
            # a number that is another one would cost notes, or give some twice
            if held != state_of(job, notes=notes, mentions=mentions, bytes=size):
                raise ValueError("it is not as it was written")
            return job, notes, mentions, size
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError("is no state of an unfinished output", path=self.state, remedy=remedy) from error

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The lines so far, to add to; they take their place at the end, and after an error none are not kept."""
        with locked(self.part, "the output", output=self.out):
            try:
                self._begin()
            except BaseException:
                if self._is_empty():
                    self.part.unlink()
                raise
            try:
                self._save()
                with self.part.open("r+" if self.size else "w", encoding="utf-8", newline="") as file:
                    file.seek(self.size)
                    file.truncate()
                    yield file
            except BaseException as error:
                if not self.size:
                    self._drop()
                elif self._job.resumable and isinstance(error, KeyboardInterrupt):
                    error.add_note("Remedy: the same command with --resume goes on where it stopped.")
                raise
            self._place(self.part, self.out)
            self._drop()

    def keep(self, notes: int, mentions: int, file: TextIO) -> None:
        """Say that the lines of so many notes are in the file."""
        os.fsync(file.fileno())
        self.notes, self.mentions, self.size = notes, mentions, os.fstat(file.fileno()).st_size
        self._save()

    def _save(self) -> None:
        state = state_of(self._job.key, notes=self.notes, mentions=self.mentions, bytes=self.size)
        write_json(self.state, state, "the state of the output")

    def _is_empty(self) -> bool:
        """Whether the file of the lines is one without any, as the lock makes it."""
        return self.part.is_file() and not self.part.stat().st_size

    def _drop(self) -> None:
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)


def state_of(job: str, **numbers: int) -> dict[str, Any]:
    """What the state of an unfinished output says: its job, how much of it is finished, and a hash of both."""
    said = {"job": job, **numbers}
    return {**said, "hash": hashlib.sha256(json_text(said).encode()).hexdigest()}
