"""``FolderWriter``: the base of formats that are folders of files, which appear when all files are there."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError
from medlink.files.folders import locked, one_error, remove, sync, whole_folder
from medlink.files.json import read_json, write_json
from medlink.files.whole import check_targets
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention
from medlink.notes.writers.text import state_of

_STATE, _LOCK = ".medlink.json", ".lock"
_OTHER = "move it away, or name another output"


class FolderWriter(ABC):
    """Files in a folder.

    It grows beside its place as ``NAME.part``, with a hidden file that says how many notes are finished, and takes its
    place at the end. The hidden file stays: it tells a folder of medlink, which a later run replaces, from another,
    which is refused. A format gives :meth:`write` and, where it does not write each note at once, :meth:`whole`.

    Args:
        out: the folder.

    Attributes:
        written: notes so far, those of the run that is resumed too.
        part: the folder that grows.
        kept: notes of the run that are safe.
    """

    def __init__(self, out: str | Path | None) -> None:
        if out is None:
            raise ConfigError("this format needs a folder for its output", remedy="name one with out")
        self.out, self.part = Path(out), Path(out)
        self.bundle, self.versions, self.written = "", dict[str, Any](), 0
        self._stack, self._new = ExitStack(), list[Path]()

    @abstractmethod
    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the files of one note, by :meth:`add`, or hold it back until :meth:`whole`."""

    def first(self) -> Iterable[tuple[str, bytes]]:
        """Names and contents of files that the folder has before its first note."""
        return ()

    def whole(self, notes: int, *, end: bool) -> bool:
        """Write what was held back, unless it waits for more; returns whether all ``notes`` are in files now."""
        return True

    def add(self, name: str, content: bytes) -> None:
        """Write a file, which may be there already from a run that was killed."""
        path = self.part / name
        path.write_bytes(content)
        self._new.append(path)

    def open(self, job: Job) -> int:
        """Begin or go on."""
        target = Path(os.path.realpath(self.out))
        self.part = target.with_name(f"{target.name}.part")
        self.bundle, self.versions, self._job = job.bundle, job.versions, job
        self._refuse(target, "the output")
        for what, folder in (("the output", target), ("the unfinished output", self.part)):
            # a file in a folder that is not there yet would lie in none
            check_targets({what: folder / _STATE if folder.is_dir() else folder}, job.reads)
        self._refuse(self.part, "the unfinished output")
        with ExitStack() as stack:
            stack.enter_context(one_error(self.out, "the output", "name a folder in one that you can write to"))
            self.part.mkdir(exist_ok=True)
            stack.enter_context(locked(self.part / _LOCK, "the output", output=self.out))
            done = self._done()
            if not done:
                # first of all: without it a folder with something in it would be taken for somebody else's
                self._save(0)
                for path in self.part.iterdir():
                    if path.name not in (_LOCK, _STATE):
                        remove(path)
                for name, content in self.first():
                    self.add(name, content)
            self._stack = stack.pop_all()
        return done

    def commit(self, notes: int) -> None:
        """Put what was written on the disk and say so."""
        if self.whole(notes, end=False):
            self._keep(notes)
        self._notes = notes

    def close(self, error: BaseException | None = None) -> None:
        """Let the folder take its place; after an error keep what is finished, or nothing."""
        with self._stack:
            if error is None:
                self.whole(self._notes, end=True)
                self._keep(self._notes)
                (self.part / _LOCK).unlink()
                with whole_folder(self.out, "the output") as draft:
                    os.replace(self.part, draft)
            elif not self.written or not self.kept:
                remove(self.part)
            elif self._job.resumable and isinstance(error, KeyboardInterrupt):
                error.add_note("Remedy: the same command with --resume goes on where it stopped.")

    def _refuse(self, folder: Path, what: str) -> None:
        """Refuse what is there and not of medlink."""
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{what} is a file, and this format is a folder", path=folder, remedy="name a folder")
        inside = [path.name for path in folder.iterdir() if path.name != _LOCK] if folder.is_dir() else []
        if inside and _STATE not in inside:
            raise ConfigError(f"{what} is a folder that medlink did not write", path=folder, remedy=_OTHER)

    def _done(self) -> int:
        """Notes that are finished."""
        self._notes = self.kept = 0
        state = self.part / _STATE
        if not state.exists() or not self._job.resume:
            return 0
        try:
            held = read_json(state)
            job, notes, written = held["job"], held["notes"], held["written"]
            if held != state_of(job, notes=notes, written=written):
                raise ValueError("it is not as it was written")
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError("is no state of an unfinished output", path=state, remedy=_OTHER) from error
        if job != self._job.key:
            raise ConfigError(
                "the unfinished run had other inputs, options or another bundle",
                path=self.part,
                remedy="run without resume to start anew",
            )
        self._notes = self.kept = notes
        self.written = written
        return int(notes)

    def _keep(self, notes: int) -> None:
        for path in self._new:
            sync(path)
        sync(self.part)
        self._new.clear()
        self._save(notes)
        self.kept = notes

    def _save(self, notes: int) -> None:
        state = state_of(self._job.key, notes=notes, written=self.written)
        write_json(self.part / _STATE, state, "the state of the output")
