"""What is evaluated: distinct names with their concepts and languages, from a knowledge base or a table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from medlink.errors import InputError
from medlink.evaluation.task import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.kb import KnowledgeBase
from medlink.kb.readers.delimited import read_table
from medlink.language.tags import language_tag, wanted
from medlink.records import FSN, Name

Ids = tuple[str, ...]
MARK = "||"
"""Between the cells of the layouts of BioSyn and XL-BEL."""
SEVERAL = re.compile(r"[|+]")
"""Between several ids, and the parts of a composite mention."""
_NO_CONCEPT = ("", "-", "-1", "none", "cui-less")
"""What benchmarks write, in lower case, where a mention has no concept."""
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Distinct names, sorted, with the concepts that have them.

    ``concepts`` are sorted; each is known by one id or by several that mean the same. For each name ``owners`` holds
    the rows of its concepts, ascending, and ``languages`` the tags of the languages in which it is a name.
    """

    texts: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...]
    concepts: tuple[Ids, ...]
    languages: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, entries: Iterable[tuple[Ids, str] | tuple[Ids, str, str]], *, by_language: bool = False) -> Dictionary:
        """Entries (ids, name) or (ids, name, language); runs of white space in a name are one blank.

        With ``by_language`` a text is one name in each of its languages.
        """
        found: dict[tuple[str, str], tuple[set[Ids], set[str]]] = {}
        for ids, name, *tag in entries:
            language = tag[0] if tag else ""
            owners, languages = found.setdefault((plain(name), language if by_language else ""), (set(), set()))
            owners.add(ids)
            languages.add(language)
        names = sorted(found.items())
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
        """The rows of the concepts that an id stands for."""
        found = defaultdict[str, list[int]](list)
        for row, ids in enumerate(self.concepts):
            for one in ids:
                found[one].append(row)
        return found

    def sample(self, count: int, seed: int) -> Dictionary:
        """Names of whole concepts, drawn until there are ``count`` or more; a name keeps its other concepts.

        Names drawn one by one would part most pairs of one concept.
        """
        members: list[list[int]] = [[] for _ in self.concepts]
        for row, owners in enumerate(self.owners):
            for owner in owners:
                members[owner].append(row)
        kept: set[int] = set()
        for owner in np.random.default_rng(seed).permutation(len(members)):
            if len(kept) < count:
                kept.update(members[owner])
        return self.take(sorted(kept))

    def take(self, rows: Sequence[int]) -> Dictionary:
        """The names at ``rows``, in their order; concepts that have none of them stay."""
        columns = {name: tuple(getattr(self, name)[i] for i in rows) for name in ("texts", "owners", "languages")}
        return replace(self, **columns)


def plain(text: str) -> str:
    """A text in which runs of white space are one blank."""
    return " ".join(text.split())


def split_ids(text: str) -> Ids:
    """Ids joined by ``|`` or ``+``, each once, in their order; what stands for no concept is left out."""
    ids = (part.strip() for part in SEVERAL.split(text))
    return tuple(dict.fromkeys(one for one in ids if one.lower() not in _NO_CONCEPT))


def as_known(ids: Iterable[str], known: Container[str]) -> Ids:
    """Ids as a dictionary writes them: *MESH:D005334* may be *D005334* there, and *HPO:HP:0001945* HP:0001945."""
    bare = (one if one in known or (part := one.partition(":")[2]) not in known else part for one in ids)
    return tuple(dict.fromkeys(bare))


def read_dictionary(
    path: StrPath, problems: Problems, *, languages: frozenset[str] | None = None, by_language: bool = False
) -> Dictionary:
    """Names to evaluate with; fully specified names (type ``fsn``) are left out, as the index does.

    ``path`` is a knowledge base, a bundle, a table as :func:`medlink.kb.readers.delimited.read_table` reads it, or the
    dictionary of BioSyn and XL-BEL: lines ``id||name``, in which ids that mean the same are joined by ``|``; these have
    no ``languages`` to choose by. For ``by_language`` see :meth:`Dictionary.of`.

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the file cannot be read, there is no name in it, languages are asked for that it does not have, or
            too many rows are bad.
    """
    if _is_store(path):
        with KnowledgeBase(path) as store:
            found = _named(store.iter_names(), languages, by_language)
    elif MARK not in first_line(path):
        table = read_table(path, problems=problems)
        found = _named((one for one in table if isinstance(one, Name)), languages, by_language)
    elif languages is not None:
        remedy = "leave the languages out, or give a table with a column language"
        raise InputError("its names have no language to choose by", path=path, remedy=remedy)
    else:
        found = Dictionary.of(_biosyn_entries(LineFile(path, problems)), by_language=by_language)
    if not found:
        asked = "" if languages is None else f" of {', '.join(sorted(languages))}"
        remedy = "give a source with ids and names"
        raise InputError(f"there are no names{asked} in it", path=path, remedy=remedy)
    return found


def _named(names: Iterable[Name], languages: frozenset[str] | None, by_language: bool) -> Dictionary:
    entries = (((one.concept_id,), one.text, one.language) for one in usable(names, languages))
    return Dictionary.of(entries, by_language=by_language)


def usable(names: Iterable[Name], languages: frozenset[str] | None = None) -> Iterator[Name]:
    """Names without the fully specified ones, and of some languages only."""
    return (name for name in names if name.type != FSN and wanted(name.language, languages))


def _is_store(path: StrPath) -> bool:
    """Whether a path is a folder, as bundles are, or an SQLite file, as knowledge bases are."""
    if not Path(path).is_file():
        return Path(path).is_dir()
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _biosyn_entries(lines: LineFile) -> Iterator[tuple[Ids, str]]:
    for line, text in lines:
        if not text.strip():
            continue
        given, _, name = text.partition(MARK)
        ids = split_ids(given)
        if not name.strip():
            lines.bad("no id||name", line)
        elif ids:
            yield tuple(sorted(ids)), name
        else:
            lines.problems.skipped["name without a concept"] += 1


def read_clusters(path: StrPath, problems: Problems | None = None) -> dict[tuple[str, str], str]:
    """Cluster of each term, from a tab-separated table with the columns ``term`` and ``cluster``.

    Keys are term and ``""``, or term and language where the column ``language`` parts a term that is in two clusters.

    Raises:
        InputError: the file cannot be read, lacks a column, or a term is in two clusters of one language.
    """
    table = open_table(path, problems or Problems(adjustable=False), separator="\t")
    lines = table.lines
    places = table.places(["term", "cluster", *(["language"] if table.has(["language"]) else [])])
    found, clusters = dict[tuple[str, str], str](), dict[str, str]()
    for line, cells in table.rows:
        text, number, *code = (plain(cells[at]) for at in places)
        tag = language_tag("".join(code)) if any(code) else ""
        if not text or not number:
            lines.bad("empty term or cluster", line)
        elif tag is None:
            lines.bad("unknown language", line, repr("".join(code))[:40])
        elif found.setdefault((text, tag), number) != number:
            message = "this term is in a cluster and was in another before"
            remedy = "give each term one cluster, or part the two by a column language"
            raise InputError(message, path=lines.path, line=line, remedy=remedy)
        else:
            clusters[text] = number
    parted = any(clusters[text] != number for (text, _), number in found.items())
    return found if parted else {(text, ""): number for text, number in clusters.items()}
