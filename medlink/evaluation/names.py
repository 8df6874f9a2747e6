"""What is evaluated: distinct names with their concepts and languages, from a knowledge base or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medlink.errors import InputError
from medlink.evaluation.task import StrPath
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.kb import KnowledgeBase
from medlink.kb.readers.table import read_table
from medlink.language.tags import language_tag, wanted
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
    def of(cls, names: Iterable[Name], *, by_language: bool = False) -> NameSet:
        """Names of the same text as one, fully specified ones left out; runs of white space are one blank.

        With ``by_language`` a text is one name in each of its languages.

        >>> NameSet.of([Name("A", "asthma", "en"), Name("A", "Asthma", "de"), Name("B", "asthma", "es")])
        NameSet(texts=('Asthma', 'asthma'), concepts=(('A',), ('A', 'B')), languages=(('de',), ('en', 'es')))
        """
        found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
        for name in usable(names):
            key = (" ".join(name.text.split()), name.language if by_language else "")
            concepts, languages = found.setdefault(key, (set(), set()))
            concepts.add(name.concept_id)
            languages.add(name.language)
        keys = sorted(found)
        return cls(
            tuple(text for text, _ in keys),
            tuple(tuple(sorted(found[key][0])) for key in keys),
            tuple(tuple(sorted(found[key][1])) for key in keys),
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


def read_names(path: StrPath, *, by_language: bool = False) -> NameSet:
    """Names of a knowledge base, of the bundle in a folder, or of a table.

    Args:
        path: as for :func:`iter_names`.
        by_language: see :meth:`NameSet.of`.

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the table cannot be read, or there is no name in it.
    """
    names = NameSet.of(iter_names(path, Problems(adjustable=False)), by_language=by_language)
    if not names:
        raise InputError("there are no names in it", path=path, remedy="give a source with concept_id and name")
    return names


def iter_names(path: StrPath, problems: Problems, *, languages: frozenset[str] | None = None) -> Iterator[Name]:
    """Names to evaluate with; fully specified names (type ``fsn``) are left out, as the index does.

    Args:
        path: a file that ``medlink kb build`` wrote, a bundle, or a table as
            :func:`medlink.kb.readers.table.read_table` reads it (``concept_id``, ``name``, ``language``).
        problems: where bad rows of a table are counted.
        languages: names of these languages only, see :func:`medlink.language.tags.wanted`.

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the table cannot be read.
    """
    if is_store(path):
        with KnowledgeBase(path) as store:
            yield from usable(store.iter_names(), languages)
    else:
        table = read_table(path, problems=problems)
        yield from usable((one for one in table if isinstance(one, Name)), languages)


def usable(names: Iterable[Name], languages: frozenset[str] | None = None) -> Iterator[Name]:
    """Names without the fully specified ones, and of some languages only."""
    return (name for name in names if name.type != "fsn" and wanted(name.language, languages))


def is_store(path: StrPath) -> bool:
    """Whether a path is a folder, as bundles are, or an SQLite file, as knowledge bases are."""
    if not Path(path).is_file():
        return Path(path).is_dir()
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def read_clusters(path: StrPath) -> dict[tuple[str, str], str]:
    """Cluster of each term, from a tab-separated table with the columns ``term`` and ``cluster``.

    Args:
        path: the file, plain or ``.gz``; of other columns ``language`` is read.

    Returns:
        Cluster by term, with runs of white space as one blank, and ``""``; by term and language where the column
        ``language`` parts a term that is in two clusters.

    Raises:
        InputError: the file cannot be read, lacks a column, or a term is in two clusters of one language.
    """
    table = open_table(path, Problems(adjustable=False), separator="\t")
    lines, rows = table.lines, table.rows
    term, cluster = table.places(["term", "cluster"])
    language = table.header.index("language") if table.has(["language"]) else None
    found: dict[tuple[str, str], str] = {}
    clusters: dict[str, str] = {}
    parted = False
    for line, cells in rows:
        text, number = " ".join(cells[term].split()), cells[cluster].strip()
        given = cells[language].strip() if language is not None else ""
        tag = language_tag(given) if given else ""
        if not text or not number:
            lines.bad("empty term or cluster", line)
        elif tag is None:
            lines.bad("unknown language", line)
        elif found.setdefault((text, tag), number) != number:
            raise InputError(
                "this term is in a cluster and was in another before",
                path=lines.path,
                line=line,
                remedy="give each term one cluster, or part the two by a column language",
            )
        else:
            parted |= clusters.setdefault(text, number) != number
    return found if parted else {(text, ""): number for text, number in clusters.items()}
