"""The protocol of writers, and files and folders that a killed run can resume."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, TextIO

from medlink.errors import ConfigError
from medlink.files.atomic import (
    atomic_text_writer,
    check_output_paths,
    is_replaceable,
    replace_atomically,
    standard_output,
)
from medlink.files.folders import atomic_folder, locked, sync, wrap_os_error
from medlink.files.json import json_line, json_text, parse_json, read_json, write_json
from medlink.notes.reading import Note
from medlink.records import LinkedMention

_STATE = ".medlink.json"
_JOB_ATTRIBUTE = "user.medlink.job"  # extended attribute of a complete file: its job
_OTHER_REMEDY = "move it away, or name another output"


@dataclass(frozen=True, slots=True)
class Job:
    """Identity and inputs of a run.

    ``key`` hashes inputs, options and bundle; only a run with the same key can be resumed. ``reads`` are files and
    folders that must not be overwritten, ``versions`` are the versions of all parts that affect links, and ``bundle``
    is the hash of the bundle. The inputs of a ``resumable`` run can be read again.
    """

    key: str
    reads: tuple[str | int | Path, ...]
    versions: dict[str, Any]
    resume: bool = False
    resumable: bool = True
    bundle: str = ""

    def check_key(self, key: str, path: Path | None = None) -> None:
        """Reject a run with another key; ``path`` is its unfinished output."""
        if key != self.key:
            message = "the unfinished run had other inputs, options or another bundle"
            raise ConfigError(message, path=path, remedy="run without resume to start again")

    def hint(self, error: BaseException) -> None:
        """Add a note to the error that ended a run: how to resume it."""
        if self.resumable and isinstance(error, KeyboardInterrupt):
            error.add_note("Remedy: repeat the run with resume=... to continue it.")


class Writer(Protocol):
    """Output for links: call ``open``, then ``write`` for each note, ``commit`` from time to time, and ``close``."""

    def open(self, job: Job) -> int:
        """Begin a run, or resume a run of the same job; return the number of notes that are already written.

        Raises:
            ConfigError: the output cannot be written, would overwrite an input, or cannot be resumed.
        """
        ...

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the links of one note, in the order of its text; raises InputError if the format cannot hold the note."""
        ...

    def commit(self, notes: int) -> None:
        """Save the first ``notes`` notes of the run, so that a kill does not lose them."""
        ...

    def close(self, error: BaseException | None = None) -> None:
        """Complete the output; after an ``error`` keep what :meth:`commit` saved."""
        ...


class TextWriter(ABC):
    """Lines of text in a file, on standard output, or in a named pipe or device.

    A file is built beside its target ``out`` as the locked file ``NAME.part``, and replaces the target at the end.
    Meanwhile ``NAME.part.json`` counts the notes and bytes saved. A format implements :meth:`lines` and, if needed,
    ``header``, a first line. A format built from all lines at the end also implements :meth:`finish`, and needs a file
    (``is_file``). ``written`` counts the mentions, including those of the resumed run.
    """

    header, is_file = "", False

    def __init__(self, out: str | Path | None = None) -> None:
        self.out = None if out is None else Path(out)
        self.bundle, self.versions, self.written = "", dict[str, Any](), 0
        self._file: TextIO
        self._job: Job
        self._state: Path
        self._part: Path | None = None
        self._notes = self._size = 0
        self._is_finished = False  # an earlier run left no unfinished lines
        self._stack = ExitStack()

    @abstractmethod
    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        """Return the lines of one note, without line ends."""

    def finish(self, part: Path, out: Path) -> None:
        """Turn the complete lines into the output."""
        replace_atomically(part, out)

    def check(self, job: Job) -> bool:
        """Reject an output that cannot be written; return whether it is built beside its target."""
        replaced = self.out is not None and is_replaceable(self.out)
        if job.resume and not replaced:
            raise ConfigError("only a file can be resumed", path=self.out, remedy="leave resume out, or name a file")
        if self.is_file and not replaced:
            raise ConfigError("this format needs a file", path=self.out, remedy="name a file with out")
        check_output_paths({"the output": self.out}, job.reads)
        return replaced

    def open(self, job: Job) -> int:
        self._job, self.versions, self.bundle = job, job.versions, job.bundle
        replaced = self.check(job)
        with ExitStack() as stack:  # a failure here closes what was opened here
            if self.out is None:
                opened = standard_output("name a file with out=...")
            else:
                opened = self._unfinished(self.out) if replaced else atomic_text_writer(self.out)
            self._file = stack.enter_context(opened)
            if self.header and not self._notes:
                self._file.write(f"{self.header}\n")
            self._stack = stack.pop_all()
        return self._notes

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        self._file.write("".join([f"{line}\n" for line in self.lines(note, language, mentions)]))
        self.written += len(mentions)

    def commit(self, notes: int) -> None:
        """Write to the disk, and save the counts."""
        self._file.flush()
        if self._part is not None:
            os.fsync(self._file.fileno())
            self._notes, self._size = notes, os.fstat(self._file.fileno()).st_size
            self._save()

    def close(self, error: BaseException | None = None) -> None:
        """Replace the target; after an error, keep only committed notes."""
        self._stack.__exit__(None if error is None else type(error), error, None)

    @contextmanager
    def _unfinished(self, out: Path) -> Iterator[TextIO]:
        target = Path(os.path.realpath(out))
        part, self._state = (target.with_name(target.name + end) for end in (".part", ".part.json"))
        check_output_paths({"the unfinished output": part, "the state of the output": self._state}, self._job.reads)
        self._part = part
        # a new output gets the mode of this file
        with wrap_os_error(out, "the output"), locked(part, "the output", output=out, private=True):
            try:
                self._begin(part)
            except BaseException:
                if _is_empty(part):
                    part.unlink()
                raise
            try:
                # before the lines: a file without a state counts as foreign
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
            _sign(part, self._job)
            self.finish(part, out)
            if target.is_file():  # some formats write another file
                _sign(target, self._job)
            self._drop(part)

    def _begin(self, part: Path) -> None:
        # foreign files stay as they are
        begun, self._is_finished = not _is_empty(part), not self._state.exists()
        if self._is_finished:
            if begun:
                raise ConfigError("not an unfinished output of medlink", path=part, remedy=_OTHER_REMEDY)
            return
        state = self._read_state()
        # a kill may also come while a resumed run copies finished lines, before it has saved them
        self._is_finished = state["notes"] == 0 or (state["bytes"] > 0 and not begun)
        if not self._job.resume:
            return
        self._job.check_key(state["job"], part)
        if begun:
            self._notes, self.written, self._size = state["notes"], state["mentions"], state["bytes"]
            if part.stat().st_size < self._size:
                message = "the unfinished output is shorter than its state records"
                raise ConfigError(message, path=part, remedy="run without resume to start again")

    def _read_state(self) -> dict[str, Any]:
        try:
            stored = read_json(self._state)
            state = {name: stored[name] for name in ("job", "notes", "mentions", "bytes")}
            # a wrong number would lose or repeat notes
            if stored != _with_hash(state):
                raise ValueError("the hash differs")
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            message = "not the state of an unfinished output"
            raise ConfigError(message, path=self._state, remedy=_OTHER_REMEDY) from error
        return state

    def _save(self) -> None:
        state = {"job": self._job.key, "notes": self._notes, "mentions": self.written, "bytes": self._size}
        write_json(self._state, _with_hash(state), "the state of the output")

    def _drop(self, part: Path) -> None:
        part.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)


def describe_finished(out: Path | None, job: Job) -> str:
    """Return a sentence if the same job has completed the output to resume, else ``""``.

    Removes the state that a kill after the last note may have left.
    """
    target = Path(os.path.realpath(out or ""))
    if not job.resume or out is None or target.with_name(f"{target.name}.part").exists():
        return ""
    if not _is_completed(target, job):
        return ""
    target.with_name(f"{target.name}.part.json").unlink(missing_ok=True)
    return f"{out} is finished: nothing to resume; run without resume=... to write it again"


def _sign(path: Path, job: Job) -> None:
    # without such attributes (macOS, some network disks) a finished run that is resumed begins again
    with suppress(OSError, AttributeError):
        os.setxattr(path, _JOB_ATTRIBUTE, _signature(path, job).encode())


def _signature(path: Path, job: Job) -> str:
    # another program may write into the file
    return f"{job.key} {path.stat().st_mtime_ns}"


def _is_completed(target: Path, job: Job) -> bool:
    try:
        if target.is_dir():
            return bool(read_json(target / _STATE)["job"] == job.key)
        return os.getxattr(target, _JOB_ATTRIBUTE).decode() == _signature(target, job)
    except (OSError, AttributeError, ValueError, TypeError, KeyError):
        return False


def _is_empty(part: Path) -> bool:
    # the lock creates the file
    return part.is_file() and not part.stat().st_size


def _with_hash(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "hash": hashlib.sha256(json_text(state).encode()).hexdigest()}


class FolderWriter(TextWriter):
    """Folder of files, built at the end from the JSON lines of the unfinished file.

    A hidden file marks folders of medlink, which a later run may replace; other folders are rejected. A format
    implements :meth:`lines`, with a line for each note, and :meth:`files`. ``written`` counts notes.
    """

    def __init__(self, out: str | Path | None) -> None:
        if out is None:
            raise ConfigError("this format needs a folder for its output", remedy="name one with out")
        super().__init__(out)

    @abstractmethod
    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of the files, from the values of all lines."""

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        before = self.written
        super().write(note, language, mentions)
        self.written = before + 1

    def check(self, job: Job) -> bool:
        """Reject a target that is not a folder of medlink; a folder is always built beside its target."""
        target = Path(os.path.realpath(self.out or ""))
        if target.exists() and not target.is_dir():
            message = "the output is a file, but this format needs a folder"
            raise ConfigError(message, path=target, remedy="name a folder")
        inside = [path.name for path in target.iterdir()] if target.is_dir() else []
        if inside and _STATE not in inside:
            raise ConfigError("the output is a folder that medlink did not write", path=target, remedy=_OTHER_REMEDY)
        # a path in a missing folder cannot be checked
        check_output_paths({"the output": target / _STATE if target.is_dir() else target}, job.reads)
        return True

    def finish(self, part: Path, out: Path) -> None:
        with (
            part.open(encoding="utf-8", newline="\n") as lines,
            atomic_folder(out, "the output", private=True) as folder,
        ):
            for name, content in self.files(map(json.loads, lines)):
                (folder / name).touch(0o600)
                (folder / name).write_bytes(content)
                sync(folder / name)
            state = {"job": self._job.key, "notes": self._notes, "written": self.written}
            write_json(folder / _STATE, _with_hash(state), "the state of the output")


class Failures(TextWriter):
    """A JSON line for each note that could not be linked: number in the run, id, place, problem, remedy; no text."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        return ()

    def add(self, number: int, note: Note) -> None:
        """Add the ``number``-th note of the run."""
        why = {"place": note.location, "problem": note.problem, "remedy": note.remedy}
        self._file.write(json_line({"number": number, "note": note_name(note), **why}))

    def rewind(self, done: int) -> None:
        """Keep only failures of the first ``done`` notes, which the output of the killed run contains."""
        if self.out is None or self._part is None:
            return
        # a kill may come after the failures are finished and before the output is
        finished = done > 0 and self._is_finished and self.out.exists()
        with (self.out if finished else self._part).open("rb") as lines:
            valid = takewhile(lambda line: parse_json(line.decode())["number"] <= done, lines)
            if finished:
                self._file.writelines(line.decode() for line in valid)
            else:
                self._file.seek(sum(map(len, valid)))
        self._file.truncate()
        self.commit(done)


def note_name(note: Note) -> str:
    """Return the id of a note, with the bytes of a file name that is not UTF-8 escaped."""
    return note.note_id.encode("utf-8", "backslashreplace").decode()
