"""What writers of links have in common: the protocol, and files and folders that a killed run goes on with."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, TextIO

from medlink.errors import ConfigError
from medlink.files.atomic import check_targets, is_replaced, put_in_place, standard_output, whole_text
from medlink.files.folders import locked, one_error, sync, whole_folder
from medlink.files.json import json_line, json_text, parse_json, read_json, write_json
from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note

_STATE = ".medlink.json"
_OTHER = "move it away, or name another output"


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is made of.

    ``key`` stands for inputs, options and bundle: a run is resumed only by one of the same key. ``reads`` are the files
    and folders that must not be written over, ``versions`` what the links depend on, ``bundle`` is the hash of the
    bundle. What is ``resumable`` can be read again from the start.
    """

    key: str
    reads: tuple[str | int | Path, ...]
    versions: dict[str, Any]
    resume: bool = False
    resumable: bool = True
    bundle: str = ""

    def check_key(self, key: str, path: Path | None = None) -> None:
        """Refuse to go on with a run of another key; ``path`` is its output so far."""
        if key != self.key:
            message = "the unfinished run had other inputs, options or another bundle"
            raise ConfigError(message, path=path, remedy="run without resume to start anew")

    def hint(self, error: BaseException) -> None:
        """Say with the error that ended a run how it goes on."""
        if self.resumable and isinstance(error, KeyboardInterrupt):
            error.add_note("Remedy: the same run with resume=... goes on where it stopped.")


class Writer(Protocol):
    """An output for the links of notes: ``open``, ``write`` for each note with some ``commit`` between, ``close``."""

    def open(self, job: Job) -> int:
        """Begin, or go on where a run of the same job stopped, and say how many notes are written already.

        Raises:
            ConfigError: the output cannot be written, would be written over an input, or cannot be resumed.
        """
        ...

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the links of one note, in the order of its text; InputError where the format cannot hold the note."""
        ...

    def commit(self, notes: int) -> None:
        """Say that so many notes, from the first of all, are finished: what a kill must not cost."""
        ...

    def close(self, error: BaseException | None = None) -> None:
        """End: the output is whole, or ``error`` ended the run and what :meth:`commit` made safe is kept."""
        ...


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
        target = Path(os.path.realpath(out))
        part, self._state = (target.with_name(target.name + end) for end in (".part", ".part.json"))
        check_targets({"the unfinished output": part, "the state of the output": self._state}, self._job.reads)
        self._part = part
        # its mode is that of the output, unless there is one
        with one_error(out, "the output"), locked(part, "the output", output=out, private=True):
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
                raise ConfigError("is no unfinished output of medlink", path=part, remedy=_OTHER)
            return
        held = self._held()
        self._is_placed = held["bytes"] > 0 and not begun
        if not self._job.resume:
            return
        self._job.check_key(held["job"], part)
        if begun:
            self._notes, self.written, self._size = held["notes"], held["mentions"], held["bytes"]
            if part.stat().st_size < self._size:
                message = "is shorter than its state says"
                raise ConfigError(message, path=part, remedy="run without resume to start anew")

    def _held(self) -> dict[str, Any]:
        try:
            held = read_json(self._state)
            said = {name: held[name] for name in ("job", "notes", "mentions", "bytes")}
            # a number that is another one would cost notes, or give some twice
            if held != _hashed(said):
                raise ValueError("it is not as it was written")
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError("is no state of an unfinished output", path=self._state, remedy=_OTHER) from error
        return said

    def _save(self) -> None:
        said = {"job": self._job.key, "notes": self._notes, "mentions": self.written, "bytes": self._size}
        write_json(self._state, _hashed(said), "the state of the output")

    def _drop(self, part: Path) -> None:
        part.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)


def _is_empty(part: Path) -> bool:
    # as the lock makes it
    return part.is_file() and not part.stat().st_size


def _hashed(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "hash": hashlib.sha256(json_text(said).encode()).hexdigest()}


class FolderWriter(TextWriter):
    """Files in a folder, made when all is there of what grows as JSON lines in the unfinished file.

    A hidden file in the folder tells it, which a later run replaces, from one that is not of medlink, which is refused.
    A format gives :meth:`lines`, one for each note, and :meth:`files`.

    Attributes:
        written: notes so far, those of the run that is resumed too.
    """

    def __init__(self, out: str | Path | None) -> None:
        if out is None:
            raise ConfigError("this format needs a folder for its output", remedy="name one with out")
        super().__init__(out)

    @abstractmethod
    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """The names and contents of the files, of the values of all lines."""

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        before = self.written
        super().write(note, language, mentions)
        self.written = before + 1

    def check(self, job: Job) -> bool:
        """Refuse what is there and not of medlink; a folder grows beside its place."""
        target = Path(os.path.realpath(self.out or ""))
        if target.exists() and not target.is_dir():
            message = "the output is a file, and this format is a folder"
            raise ConfigError(message, path=target, remedy="name a folder")
        inside = [path.name for path in target.iterdir()] if target.is_dir() else []
        if inside and _STATE not in inside:
            raise ConfigError("the output is a folder that medlink did not write", path=target, remedy=_OTHER)
        # a file in a folder that is not there yet would lie in none
        check_targets({"the output": target / _STATE if target.is_dir() else target}, job.reads)
        return True

    def place(self, part: Path, out: Path) -> None:
        with (
            part.open(encoding="utf-8", newline="\n") as lines,
            whole_folder(out, "the output", private=True) as folder,
        ):
            for name, content in self.files(map(json.loads, lines)):
                (folder / name).touch(0o600)
                (folder / name).write_bytes(content)
                sync(folder / name)
            said = {"job": self._job.key, "notes": self._notes, "written": self.written}
            write_json(folder / _STATE, _hashed(said), "the state of the output")


class Failures(TextWriter):
    """A JSON line for each note that could not be linked: number in the run, id, place, problem, remedy; no text."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        return ()

    def add(self, number: int, note: Note) -> None:
        """Add a note, the ``number``-th of the run."""
        said = {"number": number, "note": note_name(note)}
        self._file.write(json_line({**said, "place": note.place, "problem": note.problem, "remedy": note.remedy}))

    def rewind(self, done: int) -> None:
        """Keep the failures of the first ``done`` notes alone, which the output of the killed run had reached."""
        if self.out is None or self._part is None:
            return
        # a run that was killed between the places of the failures and of the output left its failures in their place
        placed = done > 0 and self._is_placed and self.out.exists()
        with (self.out if placed else self._part).open("rb") as lines:
            kept = takewhile(lambda line: parse_json(line.decode())["number"] <= done, lines)
            if placed:
                self._file.writelines(line.decode() for line in kept)
            else:
                self._file.seek(sum(map(len, kept)))
        self._file.truncate()
        self.commit(done)


def note_name(note: Note) -> str:
    """The id of a note, which may be the name of a file and then no UTF-8."""
    return note.note_id.encode("utf-8", "backslashreplace").decode()
