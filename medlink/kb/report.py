"""Inputs of a build, and the reports of builds and extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from medlink.files.problems import Problem, pluralize
from medlink.records import Source

KEPT_ONCE = "repeated, kept once"
"""End of the reasons for skipping a record that lose nothing."""


@dataclass(frozen=True, slots=True)
class Input:
    """One release to load: the file or folder ``path`` of a ``format``, see :func:`medlink.kb.readers.formats`.

    ``options`` are keyword arguments of the reader, such as ``{"sources": ["MSH"]}``.
    """

    format: str
    path: str | PathLike[str]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Numbers of records of one source, in a knowledge base or added by a load."""

    source: Source
    concepts: int
    names: dict[str, int]
    definitions: int
    semantic_types: int
    relations: int
    mappings: int

    def __str__(self) -> str:
        kinds = ("definition", "semantic type", "relation", "mapping")
        others = ", ".join(pluralize(getattr(self, kind.replace(" ", "_") + "s"), kind) for kind in kinds)
        concepts, names = pluralize(self.concepts, "concept"), format_language_counts(self.names)
        return f"{self.source.release}: {concepts}, names {names}, {others}"


def format_language_counts(names: Mapping[str, int]) -> str:
    return ", ".join(f"{tag or '-'} {count:,}" for tag, count in names.items()) or "none"


@dataclass(frozen=True, slots=True)
class InputReport:
    """Report on one input: the number of ``rows`` read, ``bad`` rows by kind, and ``skipped`` records by reason.

    ``first`` is the first skipped record by reason, with file and line if known, and ``problems`` are the first bad
    rows. ``remedy`` says how to read the lines that cannot be decoded, if there are any.
    """

    format: str
    path: str
    rows: int
    bad: dict[str, int]
    skipped: dict[str, int]
    first: dict[str, str]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    remedy: str = ""

    def lines(self) -> Iterator[str]:
        yield f"{self.format} {self.path}: {pluralize(self.rows, 'row')}"
        for reason, count in self.skipped.items():
            first = f" (the first: {self.first[reason]})" if reason in self.first else ""
            yield f"  {'' if reason.endswith(KEPT_ONCE) else 'left out: '}{reason}: {count:,}{first}"
        for kind, count in self.bad.items():
            yield f"  bad rows: {kind}: {count:,}"
        for problem in self.problems:
            yield f"    {problem}"
        if self.remedy:
            yield f"  remedy: {self.remedy}"
        for note in self.notes:
            yield f"  note: {note}"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Result of :func:`~medlink.kb.build_kb`: counts of each source, and a report on each input."""

    path: str
    content_hash: str
    sources: tuple[SourceCounts, ...]
    inputs: tuple[InputReport, ...]
    seconds: float

    def lines(self) -> Iterator[str]:
        for given in self.inputs:
            yield from given.lines()
        yield from map(str, self.sources)
        yield f"wrote {self.path} in {self.seconds:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ExtendReport:
    """Result of :func:`~medlink.kb.extend_kb`; ``added`` counts the new records of each contributing source.

    ``marks`` has the highest row number of each table before the extension, see
    :meth:`~medlink.kb.store.KnowledgeBase.iter_names`.
    """

    path: str
    content_hash: str
    added: tuple[SourceCounts, ...]
    inputs: tuple[InputReport, ...]
    marks: dict[str, int]
    seconds: float

    @property
    def names(self) -> int:
        return sum(sum(entry.names.values()) for entry in self.added)

    @property
    def concepts(self) -> int:
        return sum(entry.concepts for entry in self.added)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
