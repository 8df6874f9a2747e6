"""Dictionaries: distinct names with their concepts and languages, from a knowledge base or a table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from medlink.errors import InputError
from medlink.evaluation.task import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import open_table, read_first_line
from medlink.kb import KnowledgeBase
from medlink.kb.readers.delimited import read_table
from medlink.language.tags import language_tag, wanted
from medlink.records import FSN, Name

Ids = tuple[str, ...]
MARK = "||"
"""Separator of cells in the layouts of BioSyn and XL-BEL."""
SEVERAL = re.compile(r"[|+]")
"""Separators of ids, and of the parts of a composite mention."""
_NO_CONCEPT = ("", "-", "-1", "none", "cui-less")
"""Ids that benchmarks write for no concept, in lower case."""
_SQLITE = b"SQLite format 3\0"
Key = TypeVar("Key", int, str)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Distinct names, sorted, with the ascending rows of their concepts (``owners``) and the tags of their languages.

    ``concepts`` are sorted; each has one id or several synonymous ids.
    """

    texts: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...]
    concepts: tuple[Ids, ...]
    languages: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def from_entries(
        cls, entries: Iterable[tuple[Ids, str] | tuple[Ids, str, str]], *, by_language: bool = False
    ) -> Dictionary:
        """Make a dictionary from (ids, name) or (ids, name, language); white space in names is collapsed.

        With ``by_language``, a text of several languages is a separate name in each.
        """
        by_name: dict[tuple[str, str], tuple[set[Ids], set[str]]] = {}
        for ids, name, *tag in entries:
            language = "".join(tag)
            owners, languages = by_name.setdefault((plain(name), language if by_language else ""), (set(), set()))
            owners.add(ids)
            languages.add(language)
        names = sorted(by_name.items())
        concepts = sorted(set().union(*(owners for _, (owners, _) in names)))
        number = {ids: row for row, ids in enumerate(concepts)}
        return cls(
            tuple(text for (text, _), _ in names),
            tuple(tuple(sorted(number[ids] for ids in owners)) for _, (owners, _) in names),
            tuple(concepts),
            tuple(tuple(sorted(languages)) for _, (_, languages) in names),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def by_id(self) -> dict[str, list[int]]:
        """Return the rows of the concepts of each id."""
        return invert(self.concepts)

    def sample(self, count: int, seed: int) -> Dictionary:
        """Draw whole concepts until they have ``count`` names or more; a name keeps its other concepts.

        Drawing single names would split most pairs of one concept.
        """
        members, drawn = invert(self.owners), set[int]()
        for owner in np.random.default_rng(seed).permutation(len(self.concepts)).tolist():
            if len(drawn) < count:
                drawn.update(members[owner])
        return self.take(sorted(drawn))

    def take(self, rows: Sequence[int]) -> Dictionary:
        """Return the names at ``rows``, in that order, with all concepts."""
        columns = {name: tuple(getattr(self, name)[i] for i in rows) for name in ("texts", "owners", "languages")}
        return replace(self, **columns)


def invert(groups: Iterable[Iterable[Key]]) -> dict[Key, list[int]]:
    """Return the rows of the groups that contain each key."""
    rows = defaultdict[Key, list[int]](list)
    for row, keys in enumerate(groups):
        for key in keys:
            rows[key].append(row)
    return rows


def plain(text: str) -> str:
    return " ".join(text.split())


def split_ids(text: str) -> Ids:
    """Split ids joined by ``|`` or ``+``; drop repeated ids and ids that mean no concept."""
    ids = (part.strip() for part in SEVERAL.split(text))
    return tuple(dict.fromkeys(one for one in ids if one.lower() not in _NO_CONCEPT))


def match_ids(ids: Iterable[str], known: Container[str]) -> Ids:
    """Return ids as in a dictionary, without a prefix that it lacks: ``HP:0001945`` for ``HPO:HP:0001945``."""
    bare = (one if one in known or (part := one.partition(":")[2]) not in known else part for one in ids)
    return tuple(dict.fromkeys(bare))


def read_dictionary(
    path: StrPath, problems: Problems, *, languages: frozenset[str] | None = None, by_language: bool = False
) -> Dictionary:
    """Read names, except fully specified names (type ``fsn``), which the index leaves out too.

    ``path`` is a knowledge base, a bundle, a table (:func:`medlink.kb.readers.delimited.read_table`), or a dictionary
    of BioSyn and XL-BEL, without languages: lines ``id||name``, with synonymous ids joined by ``|``. For
    ``by_language`` see :meth:`Dictionary.from_entries`.

    Raises:
        KnowledgeBaseError: the folder or file is not a knowledge base.
        InputError: the file cannot be read, has no name or no name in ``languages``, or too many rows are bad.
    """
    is_sqlite = False
    if Path(path).is_file():
        with open(path, "rb") as file:
            is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    if is_sqlite or Path(path).is_dir():
        with KnowledgeBase(path) as store:
            dictionary = _named(store.iter_names(), languages, by_language)
    elif MARK not in read_first_line(path):
        table = read_table(path, problems=problems)
        dictionary = _named((record for record in table if isinstance(record, Name)), languages, by_language)
    elif languages is not None:
        remedy = "leave the languages out, or give a table with a column language"
        raise InputError("its names have no language to choose by", path=path, remedy=remedy)
    else:
        dictionary = Dictionary.from_entries(_biosyn_entries(LineFile(path, problems)), by_language=by_language)
    if not dictionary:
        where = "" if languages is None else f" of {', '.join(sorted(languages))}"
        remedy = "give a source with ids and names"
        raise InputError(f"there are no names{where} in it", path=path, remedy=remedy)
    return dictionary


def _named(names: Iterable[Name], languages: frozenset[str] | None, by_language: bool) -> Dictionary:
    entries = (((name.concept_id,), name.text, name.language) for name in without_fsn(names, languages))
    return Dictionary.from_entries(entries, by_language=by_language)


def without_fsn(names: Iterable[Name], languages: frozenset[str] | None = None) -> Iterator[Name]:
    """Yield the names in ``languages`` that are not fully specified."""
    return (name for name in names if name.type != FSN and wanted(name.language, languages))


def _biosyn_entries(lines: LineFile) -> Iterator[tuple[Ids, str]]:
    for line, text in lines:
        if not text.strip():
            continue
        given, _, name = text.partition(MARK)
        ids = split_ids(given)
        if not name.strip():
            lines.bad_row("no id||name", line)
        elif ids:
            yield tuple(sorted(ids)), name
        else:
            lines.problems.skipped["name without a concept"] += 1


def read_clusters(path: StrPath, problems: Problems | None = None) -> dict[tuple[str, str], str]:
    """Read the cluster of each term from a table with the columns ``term`` and ``cluster``.

    Keys are (term, ``""``), or (term, language) if a term is in two clusters of different ``language``.

    Raises:
        InputError: the file cannot be read, lacks a column, or a term is in two clusters of one language.
    """
    table = open_table(path, problems or Problems(adjustable=False), separator="\t")
    lines = table.lines
    places = table.column_indices(["term", "cluster", *(["language"] if table.has_columns(["language"]) else [])])
    by_term, clusters = dict[tuple[str, str], str](), dict[str, str]()
    for line, cells in table.rows:
        text, number, *code = (plain(cells[at]) for at in places)
        tag = language_tag("".join(code)) if any(code) else ""
        if not text or not number:
            lines.bad_row("empty term or cluster", line)
        elif tag is None:
            lines.bad_row("unknown language", line, repr("".join(code))[:40])
        elif by_term.setdefault((text, tag), number) != number:
            message = "this term is in a cluster and was in another before"
            remedy = "give each term one cluster, or separate the two by a column language"
            raise InputError(message, path=lines.path, line=line, remedy=remedy)
        else:
            clusters[text] = number
    is_split = any(clusters[text] != number for (text, _), number in by_term.items())
    return by_term if is_split else {(text, ""): number for text, number in clusters.items()}
