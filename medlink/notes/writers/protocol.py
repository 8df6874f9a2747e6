"""The protocol of writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from medlink.notes.options import OutputOptions
from medlink.notes.readers.protocol import Note
from medlink.records import Attribute, Link, Mapping, Qualifiers, Value


@dataclass(frozen=True, slots=True)
class LinkedMention:
    """A mention by its character offsets in the note, with its link.

    ``qualifiers`` is ``None`` where they were not read, as in a language without cues, and so are ``attributes``, as
    where names are found as they are written. ``value`` is what was measured where that is the finding. ``codes`` are
    those of the concept in the systems that were asked for.
    """

    start: int
    end: int
    link: Link
    qualifiers: Qualifiers | None = None
    attributes: tuple[Attribute, ...] | None = None
    value: Value | None = None
    codes: tuple[Mapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is made of.

    ``key`` stands for inputs, options and bundle: a run is resumed only by one of the same key. ``reads`` are the files
    and folders that must not be written over, ``versions`` what the links depend on. What is ``resumable`` can be read
    again from the start. ``bundle`` is the hash of the bundle.
    """

    key: str
    reads: tuple[str | int | Path, ...]
    versions: dict[str, Any]
    resume: bool = False
    resumable: bool = True
    bundle: str = ""


class Writer(Protocol):
    """An output for the links of notes: ``open``, ``write`` for each note with some ``commit`` between, ``close``."""

    def open(self, job: Job) -> int:
        """Begin, or go on where a run of the same job stopped, and say how many notes are written already.

        Raises:
            ConfigError: the output cannot be written, would be written over an input, or cannot be resumed.
        """
        ...

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the links of one note, in the order of its text.

        Raises:
            InputError: the format cannot hold this note; it is counted as one that could not be read.
        """
        ...

    def commit(self, notes: int) -> None:
        """Say that so many notes, from the first of all, are finished: what a kill must not cost."""
        ...

    def close(self, error: BaseException | None = None) -> None:
        """End: the output is whole, or ``error`` ended the run and what :meth:`commit` made safe is kept."""
        ...


class OutputFormat(NamedTuple):
    """A format: the endings by which it is known where no format is named, and what makes its writer."""

    endings: tuple[str, ...]
    make: Callable[[str | Path | None, OutputOptions], Writer]
