"""What is evaluated: distinct names with their concepts and languages, from a knowledge base or a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from medlink.errors import InputError
from medlink.kb import KnowledgeBase
from medlink.kb.intake import LineFile, Problems, read_header
from medlink.kb.table import read_table
from medlink.records import Name

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class NameSet:
    """Distinct names, sorted; entry i of each belongs to name i.

    Attributes:
        texts: the names.
        concepts: ids of the concepts that have it.
        languages: tags of the languages in which they have it.
    """

    texts: tuple[str, ...]
    concepts: tuple[tuple[str, ...], ...]
    languages: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def concept_count(self) -> int:
        """How many concepts the names belong to."""
        return len({concept for concepts in self.concepts for concept in concepts})

    @classmethod
    def of(cls, names: Iterable[Name]) -> NameSet:
        """Names of the same text as one; a fully specified name (type ``fsn``) is left out, as the index does.

        >>> NameSet.of([Name("A", "asthma", "en"), Name("A", "Asthma", "de"), Name("B", "asthma", "es")])
        NameSet(texts=('Asthma', 'asthma'), concepts=(('A',), ('A', 'B')), languages=(('de',), ('en', 'es')))
        """
        found: dict[str, tuple[set[str], set[str]]] = {}
        for name in names:
            if name.type != "fsn":
                concepts, languages = found.setdefault(name.text, (set(), set()))
                concepts.add(name.concept_id)
                languages.add(name.language)
        texts = tuple(sorted(found))
        return cls(
            texts,
            tuple(tuple(sorted(found[text][0])) for text in texts),
            tuple(tuple(sorted(found[text][1])) for text in texts),
        )

    def sample(self, count: int, seed: int) -> NameSet:
        """Names of whole concepts, drawn until there are ``count`` or more; a name keeps its other concepts.

        Names drawn one by one would part most pairs of one concept.

        Args:
            count: how many names, at least.
            seed: seed of the draw.
        """
        members: dict[str, list[int]] = {}
        for row, concepts in enumerate(self.concepts):
            for concept in concepts:
                members.setdefault(concept, []).append(row)
        ids = sorted(members)
        kept: set[int] = set()
        for i in np.random.default_rng(seed).permutation(len(ids)):
            if len(kept) >= count:
                break
            kept.update(members[ids[i]])
        return self.take(sorted(kept))

    def take(self, rows: Iterable[int]) -> NameSet:
        """The names at ``rows``, in their order."""
        kept = list(rows)
        return NameSet(
            tuple(self.texts[i] for i in kept),
            tuple(self.concepts[i] for i in kept),
            tuple(self.languages[i] for i in kept),
        )


def read_names(path: str | PathLike[str]) -> NameSet:
    """Names of a knowledge base, of the bundle in a folder, or of a table.

    Args:
        path: a file that ``medlink kb build`` wrote, a bundle, or a table as :func:`medlink.kb.table.read_table` reads
            it (``concept_id``, ``name``, ``language``).

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the table cannot be read, or there is no name in it.
    """
    if Path(path).is_dir() or _is_sqlite(Path(path)):
        with KnowledgeBase(path) as store:
            names = NameSet.of(store.iter_names())
    else:
        names = NameSet.of(record for record in read_table(path) if isinstance(record, Name))
    if not names:
        raise InputError("there are no names in it", path=path, remedy="give a source with concept_id and name")
    return names


def _is_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def read_clusters(path: str | PathLike[str]) -> dict[str, str]:
    """Cluster of each term, from a tab-separated table with the columns ``term`` and ``cluster``.

    Args:
        path: the file, plain or ``.gz``; other columns are left alone.

    Raises:
        InputError: the file cannot be read, lacks a column, or a term is in two clusters.
    """
    lines = LineFile(path, Problems())
    header, rows = read_header(lines, ["term", "cluster"])
    term, cluster = header.index("term"), header.index("cluster")
    found: dict[str, str] = {}
    for line, cells in rows:
        if not cells[term].strip() or not cells[cluster].strip():
            lines.bad("empty term or cluster", line)
        elif found.setdefault(cells[term].strip(), cells[cluster].strip()) != cells[cluster].strip():
            raise InputError(
                f"a term is in cluster {cells[cluster].strip()[:40]!r} and was in another before",
                path=lines.path,
                line=line,
                remedy="give each term one cluster",
            )
    return found
