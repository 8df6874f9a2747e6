"""What is evaluated: distinct names with their concepts and languages, from a knowledge base or a table."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from medlink.errors import InputError
from medlink.evaluation.task import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.kb import KnowledgeBase
from medlink.kb.readers.table import read_table
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

        >>> Dictionary.of([(("B",), "asthma"), (("A", "X"), "asthma"), (("B",), "wheeze")])
        Dictionary(texts=('asthma', 'wheeze'), owners=((0, 1), (1,)), concepts=(('A', 'X'), ('B',)))
        """
        found: dict[tuple[str, str], tuple[set[Ids], set[str]]] = {}
        for ids, name, *tag in entries:
            language = tag[0] if tag else ""
            owners, languages = found.setdefault((plain(name), language if by_language else ""), (set(), set()))
            owners.add(ids)
            languages.add(language)
        concepts = sorted(set().union(*(owners for owners, _ in found.values())))
        number = {ids: row for row, ids in enumerate(concepts)}
        keys = sorted(found)
        return cls(
            tuple(text for text, _ in keys),
            tuple(tuple(sorted(number[ids] for ids in found[key][0])) for key in keys),
            tuple(concepts),
            tuple(tuple(sorted(found[key][1])) for key in keys),
        )

    def __len__(self) -> int:
        return len(self.texts)

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
            if len(kept) >= count:
                break
            kept.update(members[owner])
        return self.take(sorted(kept))

    def take(self, rows: Iterable[int]) -> Dictionary:
        """The names at ``rows``, in their order; concepts that have none of them stay."""
        columns = list(zip(*((self.texts[i], self.owners[i], self.languages[i]) for i in rows), strict=True))
        texts, owners, languages = columns or ((), (), ())
        return replace(self, texts=texts, owners=owners, languages=languages)


def plain(text: str) -> str:
    """A text in which runs of white space are one blank."""
    return " ".join(text.split())


def split_ids(text: str) -> Ids:
    """Ids joined by ``|`` or ``+``, each once, in their order; what stands for no concept is left out.

    >>> split_ids("D003110|D009369+D003110"), split_ids("CUI-less"), split_ids("-1")
    (('D003110', 'D009369'), (), ())
    """
    ids = (part.strip() for part in SEVERAL.split(text))
    return tuple(dict.fromkeys(one for one in ids if one.lower() not in _NO_CONCEPT))


def as_known(ids: Iterable[str], known: Container[str]) -> Ids:
    """Ids as a dictionary writes them: *MESH:D005334* may be *D005334* there, and *HPO:HP:0001945* HP:0001945.

    >>> as_known(("MESH:D7251", "X"), {"D7251"})
    ('D7251', 'X')
    """
    bare = (one if one in known or (part := one.partition(":")[2]) not in known else part for one in ids)
    return tuple(dict.fromkeys(bare))


def read_dictionary(
    path: StrPath, problems: Problems, *, languages: frozenset[str] | None = None, by_language: bool = False
) -> Dictionary:
    """Names to evaluate with; fully specified names (type ``fsn``) are left out, as the index does.

    Args:
        path: a knowledge base, a bundle, a table as :func:`medlink.kb.readers.table.read_table` reads it, or the
            dictionary of BioSyn and XL-BEL: lines ``id||name``, in which ids that mean the same are joined by ``|``.
        problems: where bad rows are counted.
        languages: names of these languages only; lines ``id||name`` have none.
        by_language: see :meth:`Dictionary.of`.

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the file cannot be read, there is no name in it, languages are asked for that it does not have, or
            too many rows are bad.
    """
    entries: Iterable[tuple[Ids, str] | tuple[Ids, str, str]]
    if not _is_store(path) and MARK in first_line(path):
        if languages is not None:
            remedy = "leave the languages out, or give a table with a column language"
            raise InputError("its names have no language to choose by", path=path, remedy=remedy)
        entries = _biosyn_entries(LineFile(path, problems))
    else:
        entries = (((name.concept_id,), name.text, name.language) for name in _names(path, problems, languages))
    found = Dictionary.of(entries, by_language=by_language)
    if not found:
        remedy = "give a source with ids and names"
        raise InputError(f"there are no names{of_languages(languages)} in it", path=path, remedy=remedy)
    return found


def of_languages(languages: frozenset[str] | None) -> str:
    """The languages that were asked for, as a message names them."""
    return "" if languages is None else f" of {', '.join(sorted(languages))}"


def usable(names: Iterable[Name], languages: frozenset[str] | None = None) -> Iterator[Name]:
    """Names without the fully specified ones, and of some languages only."""
    return (name for name in names if name.type != FSN and wanted(name.language, languages))


def _names(path: StrPath, problems: Problems, languages: frozenset[str] | None) -> Iterator[Name]:
    if _is_store(path):
        with KnowledgeBase(path) as store:
            yield from usable(store.iter_names(), languages)
    else:
        table = read_table(path, problems=problems)
        yield from usable((one for one in table if isinstance(one, Name)), languages)


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
    found: dict[tuple[str, str], str] = {}
    clusters: dict[str, str] = {}
    for line, cells in table.rows:
        text, number, *code = (cells[at] for at in places)
        text, number, given = plain(text), number.strip(), "".join(code).strip()
        tag = language_tag(given) if given else ""
        if not text or not number:
            lines.bad("empty term or cluster", line)
        elif tag is None:
            lines.bad("unknown language", line, repr(given)[:40])
        elif found.setdefault((text, tag), number) != number:
            raise InputError(
                "this term is in a cluster and was in another before",
                path=lines.path,
                line=line,
                remedy="give each term one cluster, or part the two by a column language",
            )
        else:
            clusters[text] = number
    parted = any(clusters[text] != number for (text, _), number in found.items())
    return found if parted else {(text, ""): number for text, number in clusters.items()}
