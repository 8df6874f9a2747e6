"""Readers of queries in the layouts of BioSyn and XL-BEL, of tables and of annotated notes, and the task for them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from medlink.errors import InputError
from medlink.evaluation.names import MARK, SEVERAL, Ids, as_known, plain, read_dictionary, split_ids
from medlink.evaluation.retrieval import Query, RankedTask
from medlink.evaluation.task import Report, Run, Sampled, StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.kb.readers.common import known_language
from medlink.language.tags import language_filter, language_tag
from medlink.notes.gold import find_gold, pubtator, read_gold
from medlink.notes.reading import ending

_BIOSYN_MARKS = 4  # document||start|end||type||mention||ids
_TAGGED = re.compile(r"([a-z]{2})_")
_ID_COLUMNS = ("concept_id", "id")
_TEXT_COLUMNS = ("name", "mention", "text")
_ANNOTATED = (".ann", ".pubtator", ".jsonl", ".ndjson")
_AROUND = 200  # characters of context on either side, as where notes are linked


def read_queries(paths: Iterable[StrPath], problems: Problems, *, language: str = "") -> tuple[Query, ...]:
    """What is looked up: files, or folders of ``*.concept`` files or of annotated notes.

    The first line says which layout a file has. BioSyn: ``document||start|end||type||mention||ids``; a mention that was
    taken apart at ``|`` or ``+`` is composite and right when all parts are. XL-BEL: ``ids||mention`` or
    ``ids||mention||context``, where the context is not used; a file name that begins with a language, such as
    ``de_1k_test_query.txt``, gives its language. Table: columns ``concept_id`` (or ``id``), ``name`` (or ``mention`` or
    ``text``), ``language`` and ``context``. Annotated notes: what :func:`medlink.notes.gold.read_gold` reads, by the
    ending of the file or its first line; the context is 200 characters on either side. Ids are joined by ``|`` or
    ``+``; each of them is right.

    Args:
        paths: the files and folders, read in this order.
        problems: where bad rows are counted, and queries without a concept, which are left out.
        language: language of queries whose file names none.

    Raises:
        InputError: a file cannot be read or has no such layout, a folder has none of these files, no query has a
            concept, or too many rows are bad.
    """
    files = list(_files(paths))
    queries = [query for path in files for query in _read(path, problems, language)]
    kept = tuple(query for query in queries if query.gold)
    if not kept:
        remedy = "give other queries"
        raise InputError("there is no query with a concept in it", path=", ".join(map(str, files)), remedy=remedy)
    if len(kept) < len(queries):
        problems.skipped["query without a concept"] += len(queries) - len(kept)
    return kept


def _files(paths: Iterable[StrPath]) -> Iterator[Path]:
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        inside = sorted(path.glob("*.concept"))
        if not inside and not any(ending(one) in _ANNOTATED for one in path.rglob("*")):
            remedy = "name a file, or another folder"
            raise InputError("there is no *.concept file or annotated note in the folder", path=path, remedy=remedy)
        yield from inside or find_gold([path])[0]


def _read(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    if ending(path) in _ANNOTATED or pubtator.begins(path):
        return _read_annotated(path, problems, language)
    if MARK not in first_line(path):
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
            biosyn = text.count(MARK) == _BIOSYN_MARKS
        # the context of XL-BEL is free text, in which the mark may stand again
        cells = [cell.strip() for cell in text.split(MARK, _BIOSYN_MARKS if biosyn else 2)]
        if biosyn and len(cells) == _BIOSYN_MARKS + 1 and cells[3]:
            gold = split_ids(cells[4])
            yield Query(_parts(cells[3], gold), gold, language, path.name, line)
        elif not biosyn and len(cells) > 1 and cells[1]:
            yield Query((plain(cells[1]),), split_ids(cells[0]), named or language, path.name, line)
        else:
            lines.bad("no mention between ||", line)


def _read_annotated(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    """The mentions of annotated notes, with numbers for lines; those that a reader rejected are left out."""
    notes = read_gold(path, problems)
    kept = ((note, one) for note in notes for one in note.annotations if not one.rejected)
    for row, (note, one) in enumerate(kept, 1):
        tag = language if note.language is None else language_tag(note.language) or ""
        context = ""
        if note.text is not None:
            context = note.text[max(0, one.pieces[0][0] - _AROUND) : one.pieces[-1][1] + _AROUND]
        yield Query((plain(one.text),), split_ids("|".join(one.concepts)), tag, path.name, row, context)


def _parts(mention: str, gold: Ids) -> Ids:
    """Parts of a composite mention: one that has several ids and was taken apart, as BioSyn's preparation does."""
    parts = [plain(part) for part in SEVERAL.split(mention) if part.strip()]
    return tuple(dict.fromkeys(parts)) if len(gold) > 1 and len(parts) > 1 else (plain(mention),)


def _read_table(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    table = open_table(path, problems)
    ids = next((column for column in _ID_COLUMNS if table.has([column])), None)
    text = next((column for column in _TEXT_COLUMNS if table.has([column])), None)
    if ids is None or text is None:
        raise table.unknown("the columns concept_id and name, or lines with ||")
    further = [column for column in ("language", "context") if table.has([column])]
    places = table.places([ids, text, *further])
    for line, cells in table.rows:
        given, name, *rest = (cells[at].strip() for at in places)
        said = dict(zip(further, rest, strict=True))
        code = said.get("language") or language
        known = language_tag(code) if code else ""
        if not name:
            table.lines.bad("empty name", line)
        elif known is None:
            table.lines.bad("unknown language", line, repr(code)[:40])
        else:
            yield Query((plain(name),), split_ids(given), known, path.name, line, said.get("context", ""))


class QueryOptions(Sampled):
    """Which of the queries of files are asked."""

    sample: Annotated[int | None, Field(ge=1, description="Only so many queries, drawn at random.")] = None
    distinct: Annotated[bool, Field(description="Ask queries of the same words, ids and language once.")] = False

    def asked(self, paths: Iterable[StrPath], run: Run, language: str) -> tuple[Query, ...]:
        """The queries of some files, as :func:`read_queries` reads them."""
        found = read_queries(paths, run.problems, language=known_language(language))
        if self.distinct:
            first = dict[tuple[Ids, Ids, str], Query]()
            for query in found:
                first.setdefault((query.parts, tuple(sorted(query.gold)), query.language), query)
            found = tuple(first.values())
        return self.drawn(found)


def known_gold(queries: Iterable[Query], known: Container[str], run: Run) -> tuple[Query, ...]:
    """The queries with their gold as the dictionary of a run writes it.

    Raises:
        InputError: none of the ids is in the dictionary.
    """
    found = tuple(replace(query, gold=as_known(query.gold, known)) for query in queries)
    if not any(one in known for query in found for one in query.gold):
        remedy = "give the queries the ids of the dictionary, or a dictionary of their terminology"
        message = f"none of the concepts of its queries is in {run.paths[0]}"
        raise InputError(message, path=run.paths[1], remedy=remedy)
    return found


class RetrievalTask(QueryOptions, RankedTask):
    """Acc@1, Acc@5 and MRR of names that are looked up in a dictionary, for each language.

    DICTIONARY is a knowledge base, a bundle, a table with concept_id and name, or lines id||name. QUERIES are files in
    the layout of BioSyn (*.concept, or a folder of them) or XL-BEL, tables with concept_id and name, or annotated notes
    (brat, PubTator, links of 'medlink link'). Queries whose concept the dictionary does not have count as not found.
    """

    inputs: ClassVar = ("dictionary", "queries...")

    dictionary_languages: Annotated[
        str | None, Field(description="Look among names of these languages only, such as en or en,de.")
    ] = None
    language: Annotated[str, Field(description="Language of queries that name none.")] = ""

    def measure(self, run: Run) -> Report:
        """Look the queries up among the names of the dictionary."""
        languages = language_filter(self.dictionary_languages)
        asked = self.asked(run.paths[1:], run, self.language)
        names = read_dictionary(run.paths[0], run.problems, languages=languages)
        queries = known_gold(asked, {one for ids in names.concepts for one in ids}, run)
        head = f"{len(queries)} queries, {len(names)} names of {len(names.concepts)} concepts"
        return self.report(head, names, queries, run)
