"""The protocol of writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medlink.errors import ConfigError
from medlink.notes.readers.protocol import Note
from medlink.records import Attribute, Link, Mapping, Qualifiers, Value

if TYPE_CHECKING:
    from medlink.reading.reader import ReadMention


@dataclass(frozen=True, slots=True)
class LinkedMention:
    """A mention by its character offsets in the note, with its link.

    ``qualifiers`` and ``attributes`` are ``None`` where they were not read, as in a language without cues. ``value`` is
    what was measured where that is the finding, ``codes`` those of the concept in the systems that were asked for.
    """

    start: int
    end: int
    link: Link
    qualifiers: Qualifiers | None = None
    attributes: tuple[Attribute, ...] | None = None
    value: Value | None = None
    codes: tuple[Mapping, ...] = ()

    @classmethod
    def of(cls, one: ReadMention, link: Link, codes: tuple[Mapping, ...] = ()) -> LinkedMention:
        """A mention that was read, with its link."""
        found = one.found
        return cls(found.start, found.end, link, one.qualifiers, found.attributes, found.value, codes)


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
