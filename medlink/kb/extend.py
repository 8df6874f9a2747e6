"""Adding to a knowledge base without building it again: a build whose final tables hold something already.

What the inputs bring is staged, sorted and moved as in any build (:mod:`medlink.kb.loader`), behind the rows of a copy
of the file; its indexes and its search index take the new rows in and stay. The time grows with what is added, but for
the copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from medlink.kb.build import count_sources, load, write_meta
from medlink.kb.loader import Loader
from medlink.kb.report import Input, InputReport, SourceCounts
from medlink.kb.store import KnowledgeBase
from medlink.records import Source


@dataclass(frozen=True, slots=True)
class ExtendReport:
    """What :func:`extend_kb` did.

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


def extend_kb(
    path: str | PathLike[str],
    out: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    max_bad_share: float = 0.01,
) -> ExtendReport:
    """Add concepts, and what further names and the like the inputs bring for known concepts, to a knowledge base.

    What is there stays as it is: a preferred name, a source's version, the source of a concept. A name, definition,
    semantic type, relation or mapping that is there already is counted as given more than once; what belongs to a
    concept that is neither there nor in the inputs is left out and counted.

    The content hash becomes one of the old hash and the added names and semantic types, in order, so that the same
    steps give the same hash; it stays as it is where there are none.

    Args:
        path: the knowledge base, which is only read, or a folder with ``kb.sqlite``.
        out: the file to write, complete or not at all; may be ``path``.
        inputs: what to take in, in order of precedence.
        max_bad_share: see :func:`~medlink.kb.build_kb`.

    Returns:
        What was added and what became of each input.

    Raises:
        ConfigError: an option or a format is unknown, or the folder of ``out`` cannot be written to.
        InputError: an input cannot be used.
        KnowledgeBaseError: there is no knowledge base at ``path``, or ``out`` cannot be written.
    """
    began = time.perf_counter()
    with KnowledgeBase(path) as opened:
        base = opened.path
    target = Path(out).absolute()

    def finish(
        connection: Connection, loader: Loader, digest: str
    ) -> tuple[str, tuple[SourceCounts, ...], dict[str, int]]:
        """Count what was added, beside what was there."""
        added = count_sources(connection, loader)
        if not any(entry.names or entry.semantic_types for entry in added):
            digest = loader.meta["content_hash"]
        held = {entry["source"]["name"]: entry for entry in json.loads(loader.meta["counts"])}
        counts = [_sum(held.get(new.source.name, asdict(_NOTHING)), new) for new in added]
        write_meta(connection, digest, counts, extended=str(int(loader.meta.get("extended", 0)) + 1))
        brought = tuple(entry for entry in added if replace(entry, source=_NOTHING.source) != _NOTHING)
        return digest, brought, loader.marks

    (digest, added, marks), reports = load(target, inputs, finish, base=base, max_bad_share=max_bad_share)
    return ExtendReport(str(target), digest, added, reports, marks, round(time.perf_counter() - began, 3))


_NOTHING = SourceCounts(Source(""), 0, {}, 0, 0, 0, 0)


def _sum(old: dict[str, Any], new: SourceCounts) -> SourceCounts:
    """Counts of a source: those of before and what was added."""
    languages: Iterable[str] = sorted(old["names"].keys() | new.names.keys())
    names = {tag: old["names"].get(tag, 0) + new.names.get(tag, 0) for tag in languages}
    kinds = ("concepts", "definitions", "semantic_types", "relations", "mappings")
    return replace(new, names=names, **{kind: old[kind] + getattr(new, kind) for kind in kinds})
