"""What a knowledge base is made of, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from medlink.files.problems import BAD_BYTES, UTF8_REMEDY, Problem, counted
from medlink.records import Source


@dataclass(frozen=True, slots=True)
class Input:
    """One release to take in.

    Attributes:
        format: one of :func:`medlink.kb.readers.formats`, such as ``rrf`` (UMLS), ``rf2`` (SNOMED CT) or ``table``.
        path: its file or folder.
        options: keyword arguments of its reader, such as ``{"sources": ["MSH"]}``.
    """

    format: str
    path: str | PathLike[str]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What a knowledge base holds of one source, or what a load brought of it."""

    source: Source
    concepts: int
    names: dict[str, int]
    definitions: int
    semantic_types: int
    relations: int
    mappings: int

    def __str__(self) -> str:
        return (
            f"{self.source.release}: {counted(self.concepts, 'concept')}, names {by_language(self.names)}, "
            f"{counted(self.definitions, 'definition')}, {counted(self.semantic_types, 'semantic type')}, "
            f"{counted(self.relations, 'relation')}, {counted(self.mappings, 'mapping')}"
        )


def by_language(names: Mapping[str, int]) -> str:
    """Counts of names by language, as text."""
    return ", ".join(f"{tag or '-'} {count:,}" for tag, count in names.items()) or "none"


@dataclass(frozen=True, slots=True)
class InputReport:
    """What became of one input: rows read, bad rows by kind, rows left out by reason, first bad rows, remarks.

    ``first`` is the first that was left out for a reason, where it can be told, with its file and line where they can.
    """

    format: str
    path: str
    rows: int
    bad: dict[str, int]
    skipped: dict[str, int]
    first: dict[str, str]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.format} {self.path}: {counted(self.rows, 'row')}"
        for reason, count in self.skipped.items():
            first = f" (the first: {self.first[reason]})" if reason in self.first else ""
            yield f"  left out: {count:,} {reason}{first}"
        for kind, count in self.bad.items():
            yield f"  bad rows: {count:,} {kind}"
        for problem in self.problems:
            yield f"    {problem}"
        if BAD_BYTES in self.bad:
            yield f"  remedy: {UTF8_REMEDY}"
        for note in self.notes:
            yield f"  note: {note}"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What :func:`~medlink.kb.build_kb` did: the counts of each source, and what became of each input."""

    path: str
    content_hash: str
    sources: tuple[SourceCounts, ...]
    inputs: tuple[InputReport, ...]
    seconds: float

    def lines(self) -> Iterator[str]:
        """The report as text."""
        for given in self.inputs:
            yield from given.lines()
        yield from map(str, self.sources)
        yield f"wrote {self.path} in {self.seconds:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ExtendReport:
    """What :func:`~medlink.kb.extend_kb` did.

    ``added`` are the counts of what is new, for each source that brought something; ``marks`` the highest row number
    of each table before: :meth:`~medlink.kb.store.KnowledgeBase.iter_names` gives what lies above.
    """

    path: str
    content_hash: str
    added: tuple[SourceCounts, ...]
    inputs: tuple[InputReport, ...]
    marks: dict[str, int]
    seconds: float

    @property
    def names(self) -> int:
        """Number of new names."""
        return sum(sum(entry.names.values()) for entry in self.added)

    @property
    def concepts(self) -> int:
        """Number of new concepts."""
        return sum(entry.concepts for entry in self.added)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)
