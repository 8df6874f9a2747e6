"""Readers of dictionaries and queries in the layouts of BioSyn and XL-BEL, of tables, and of knowledge bases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from medlink.errors import ConfigError, InputError
from medlink.evaluation.names import is_store, iter_names
from medlink.evaluation.retrieval import Dictionary, Ids, Query, RankedTask
from medlink.evaluation.task import Report, Run, StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.language.tags import language_filter, language_tag

_MARK = "||"
_BIOSYN_MARKS = 4  # document||start|end||type||mention||ids
_SEVERAL = re.compile(r"[|+]")
_NO_CONCEPT = ("", "-", "-1", "none", "cui-less")
"""What benchmarks write, in lower case, where a mention has no concept."""
_TAGGED = re.compile(r"([a-z]{2})_")
_ID_COLUMNS = ("concept_id", "id")
_TEXT_COLUMNS = ("name", "mention", "text")


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries, and how many rows had no concept and were left out."""

    queries: tuple[Query, ...]
    without_concept: int


def split_ids(text: str) -> Ids:
    """Ids joined by ``|`` or ``+``, each once, in their order; what stands for no concept is left out.

    >>> split_ids("D003110|D009369+D003110"), split_ids("CUI-less"), split_ids("-1")
    (('D003110', 'D009369'), (), ())
    """
    ids = (part.strip() for part in _SEVERAL.split(text))
    return tuple(dict.fromkeys(one for one in ids if one.lower() not in _NO_CONCEPT))


def read_dictionary(path: StrPath, problems: Problems, *, languages: frozenset[str] | None = None) -> Dictionary:
    """Names to look among: a knowledge base, a bundle, a table, or the dictionary of BioSyn and XL-BEL.

    Args:
        path: as for :func:`medlink.evaluation.names.iter_names`, or lines ``id||name``, in which several ids that mean
            the same are joined by ``|``.
        problems: where bad rows are counted.
        languages: names of these languages only; lines ``id||name`` have none.

    Raises:
        KnowledgeBaseError: the folder or file is no knowledge base.
        InputError: the file cannot be read, there is no name in it, languages are asked for that it does not have, or
            too many rows are bad.
    """
    if not is_store(path) and _MARK in first_line(path):
        if languages is not None:
            raise InputError(
                "its names have no language to choose by",
                path=path,
                remedy="leave the languages out, or give a table with a column language",
            )
        found = Dictionary.of(_biosyn_entries(LineFile(path, problems)))
    else:
        names = iter_names(path, problems, languages=languages)
        found = Dictionary.of(((name.concept_id,), name.text) for name in names)
    if not found:
        of = "" if languages is None else f" of {', '.join(sorted(languages))}"
        raise InputError(f"there are no names{of} in it", path=path, remedy="give a source with ids and names")
    return found


def _biosyn_entries(lines: LineFile) -> Iterator[tuple[Ids, str]]:
    for line, text in lines:
        if not text.strip():
            continue
        given, _, name = text.partition(_MARK)
        ids = split_ids(given)
        if not name.strip():
            lines.bad("no id||name", line)
        elif ids:
            yield tuple(sorted(ids)), name
        else:
            lines.problems.skipped["name without a concept"] += 1


def read_queries(paths: Iterable[StrPath], problems: Problems, *, language: str = "") -> QuerySet:
    """What is looked up: files, or folders of ``*.concept`` files.

    The first line says which layout a file has. BioSyn: ``document||start|end||type||mention||ids``; a mention that was
    taken apart at ``|`` or ``+`` is composite and right when all parts are. XL-BEL: ``ids||mention`` or
    ``ids||mention||context``, where the context is not used; a file name that begins with a language, such as
    ``de_1k_test_query.txt``, gives its language. Table: columns ``concept_id`` (or ``id``), ``name`` (or ``mention`` or
    ``text``), and ``language``. Ids are joined by ``|`` or ``+``; each of them is right.

    Args:
        paths: the files and folders, read in this order.
        problems: where bad rows are counted.
        language: language of queries whose file names none.

    Raises:
        InputError: a file cannot be read or has no such layout, a folder has no ``*.concept`` file, no query has a
            concept, or too many rows are bad.
    """
    queries: list[Query] = []
    without = 0
    names = []
    for path in _files(paths):
        names.append(str(path))
        for query in _read(path, problems, language):
            if query.gold:
                queries.append(query)
            else:
                without += 1
    if not queries:
        raise InputError("there is no query with a concept in it", path=", ".join(names), remedy="give other queries")
    return QuerySet(tuple(queries), without)


def _files(paths: Iterable[StrPath]) -> Iterator[Path]:
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        inside = sorted(path.glob("*.concept"))
        if not inside:
            raise InputError(
                "there is no *.concept file in the folder", path=path, remedy="name a file, or another folder"
            )
        yield from inside


def _read(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    if _MARK not in first_line(path):
        return _read_table(path, problems, language)
    return _read_marked(LineFile(path, problems), path, language)


def _read_marked(lines: LineFile, path: Path, language: str) -> Iterator[Query]:
    """Lines of BioSyn or of XL-BEL; a file has one of both layouts, that of its first line."""
    found = _TAGGED.match(path.name)
    named = language_tag(found[1]) if found else None
    biosyn: bool | None = None
    for line, text in lines:
        if not text.strip():
            continue
        if biosyn is None:
            biosyn = text.count(_MARK) == _BIOSYN_MARKS
        # the context of XL-BEL is free text, in which the mark may stand again
        cells = [cell.strip() for cell in text.split(_MARK, _BIOSYN_MARKS if biosyn else 2)]
        if biosyn and len(cells) == _BIOSYN_MARKS + 1 and cells[3]:
            gold = split_ids(cells[4])
            yield Query(_parts(cells[3], gold), gold, language, path.name, line)
        elif not biosyn and len(cells) > 1 and cells[1]:
            yield Query((_plain(cells[1]),), split_ids(cells[0]), named or language, path.name, line)
        else:
            lines.bad("no mention between ||", line)


def _parts(mention: str, gold: Ids) -> Ids:
    """Parts of a composite mention: one that has several ids and was taken apart, as BioSyn's preparation does."""
    parts = [_plain(part) for part in _SEVERAL.split(mention) if part.strip()]
    return tuple(dict.fromkeys(parts)) if len(gold) > 1 and len(parts) > 1 else (_plain(mention),)


def _read_table(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    table = open_table(path, problems)
    ids = next((column for column in _ID_COLUMNS if table.has([column])), None)
    text = next((column for column in _TEXT_COLUMNS if table.has([column])), None)
    if ids is None or text is None:
        raise table.unknown("the columns concept_id and name, or lines with ||")
    columns = [ids, text, *(["language"] if table.has(["language"]) else [])]
    places = table.places(columns)
    for line, cells in table.rows:
        given, name, *tag = (cells[at].strip() for at in places)
        code = tag[0] if tag and tag[0] else language
        known = language_tag(code) if code else ""
        if not name:
            table.lines.bad("empty name", line)
        elif known is None:
            table.lines.bad("unknown language", line)
        else:
            yield Query((_plain(name),), split_ids(given), known, path.name, line)


def _plain(text: str) -> str:
    """A text in which runs of white space are one blank."""
    return " ".join(text.split())


class RetrievalTask(RankedTask):
    """Acc@1, Acc@5 and MRR of names that are looked up in a dictionary, for each language.

    DICTIONARY is a knowledge base, a bundle, a table with concept_id and name, or lines id||name. QUERIES are files in
    the layout of BioSyn (*.concept, or a folder of them) or XL-BEL, or tables with concept_id and name. Queries whose
    concept the dictionary does not have count as not found.
    """

    inputs: ClassVar = ("dictionary", "queries...")

    dictionary_languages: Annotated[
        str | None, Field(description="Look among names of these languages only, such as en or en,de.")
    ] = None
    language: Annotated[str, Field(description="Language of queries that name none.")] = ""

    def measure(self, run: Run) -> Report:
        """See :meth:`medlink.evaluation.task.Task.measure`."""
        languages = language_filter(self.dictionary_languages)
        tag = language_tag(self.language) if self.language else ""
        if tag is None:
            raise ConfigError(f"unknown language {self.language!r}", remedy="give a BCP 47 tag, such as de")
        read = read_queries(run.paths[1:], run.problems, language=tag)
        names = read_dictionary(run.paths[0], run.problems, languages=languages)
        run.problems.skipped += Counter({"query without a concept": read.without_concept})
        queries = self.drawn(read.queries)
        head = f"{len(queries)} queries, {len(names)} names of {len(names.concepts)} concepts"
        return self.report(head, names, queries, run)
