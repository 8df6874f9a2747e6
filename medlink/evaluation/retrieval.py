"""Retrieval: each query must find one of its concepts among the names of a dictionary.

What BioSyn, SapBERT and XL-BEL measure as linking of names without their context, and, with the parents of a concept in
place of the concept, SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from medlink.errors import ConfigError, InputError
from medlink.evaluation.clusters import from_rows
from medlink.evaluation.measures import DEPTH, RankBy, RankMeasures, measure_ranks, rank_gold
from medlink.evaluation.names import MARK, SEVERAL, Dictionary, Ids, as_known, plain, read_dictionary, split_ids, usable
from medlink.evaluation.task import Encode, Progress, Report, Row, Run, Sampled, StrPath, by_language, embed, step
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.kb import KnowledgeBase
from medlink.kb.queries import HIERARCHY
from medlink.kb.readers.common import known_language
from medlink.language.tags import language_filter, language_tag
from medlink.notes.gold import begins_as_pubtator, find_gold, read_gold
from medlink.notes.reading import ending

Ranked = Annotated[RankBy, Field(description="What is ranked: a concept by its best name, or each name.")]
_BIOSYN_MARKS = 4  # document||start|end||type||mention||ids
_TAGGED = re.compile(r"([a-z]{2})_")
_ID_COLUMNS = ("concept_id", "id")
_TEXT_COLUMNS = ("name", "mention", "text")
_ANNOTATED = (".ann", ".pubtator", ".jsonl", ".ndjson")
_AROUND = 200  # characters of context on either side, as where notes are linked


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked up.

    ``parts`` is the text; a composite mention that was taken apart has several, and all must be right. ``gold`` are the
    ids of the concepts that are right, ``source`` its file with the line in ``row`` (from 1), or the concept whose name
    it is. Only the linker looks at ``context``, the text around it.
    """

    parts: Ids
    gold: Ids
    language: str = ""
    source: str = ""
    row: int = 0
    context: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found; of a composite mention the worst rank and the lowest cosine of its parts.

    ``known`` says whether one of its concepts is in the dictionary; ``rank`` is that of the first of them, from 1, and
    0 where none is among the names looked at; ``concept`` are the ids of the concept of rank 1, of each part, and
    ``cosine`` that of the query with its best name, NaN where it was not compared.
    """

    query: Query
    known: bool
    rank: int
    concept: tuple[Ids, ...]
    cosine: float


def retrieve(
    encode: Encode, dictionary: Dictionary, queries: Sequence[Query], *,
    depth: int = DEPTH, rank_by: RankBy = "concepts", progress: Progress | None = None,
) -> list[Answer]:  # fmt: skip
    """An answer for each query from the names of a dictionary, in their order; each distinct text is embedded once.

    ``encode`` gives n texts as ``(n, d)`` float32 unit vectors; for ``depth`` and ``rank_by`` see
    :func:`medlink.evaluation.measures.rank_gold`. The parts of a composite query are ranked each.

    Raises:
        ConfigError: the dictionary has no name, or an option is outside its range.
    """
    if not dictionary.texts:
        raise ConfigError("there are no names to look among", remedy="give a dictionary with names")
    parts = [part for query in queries for part in query.parts]
    texts = list(dict.fromkeys([*dictionary.texts, *parts]))
    row = {text: at for at, text in enumerate(texts)}
    vectors = embed(encode, texts, progress)
    by_id = dictionary.by_id()
    right = [sorted({at for one in query.gold for at in by_id.get(one, ())}) for query in queries]
    gold = [found for found, query in zip(right, queries, strict=True) for _ in query.parts]
    width = len(dictionary.concepts)
    ranks = rank_gold(
        vectors[np.array([row[part] for part in parts], dtype=np.int64)],
        vectors[: len(dictionary)],
        from_rows(dictionary.owners, width),
        from_rows(gold, width),
        depth=depth,
        rank_by=rank_by,
        progress=step(progress, "queries ranked"),
    )
    answers, start = [], 0
    for query, right_of in zip(queries, right, strict=True):
        mine = slice(start, start := start + len(query.parts))
        own = ranks.rank[mine].tolist()
        concepts = tuple(dictionary.concepts[at] for at in ranks.concept[mine].tolist())
        cosine = float(ranks.cosine[mine].min())
        answers.append(Answer(query, bool(right_of), max(own) if all(own) else 0, concepts, cosine))
    return answers


def measure_answers(answers: Sequence[Answer]) -> dict[str, RankMeasures]:
    """Measures for each language of the queries, by tag, and for all (``"all"``) where there is more than one."""
    ranks = np.array([answer.rank for answer in answers], dtype=np.int64)
    own = by_language([answer.query.language for answer in answers])
    return {tag: measure_ranks(ranks[rows]) for tag, rows in own.items()}


def query_row(query: Query, known: bool, rank: int) -> Row:
    """A query and the rank of its gold as ids and numbers: its text may come from a note."""
    return {
        "source": query.source,
        "row": query.row or None,
        "language": query.language,
        "gold": "|".join(query.gold),
        "in_dictionary": int(known),
        "rank": rank or None,
    }


def read_queries(paths: Iterable[StrPath], problems: Problems, *, language: str = "") -> tuple[Query, ...]:
    """What is looked up: files, or folders of ``*.concept`` files or of annotated notes.

    The first line says which layout a file has. BioSyn: ``document||start|end||type||mention||ids``; a mention that was
    taken apart at ``|`` or ``+`` is composite and right when all parts are. XL-BEL: ``ids||mention`` or
    ``ids||mention||context``, where the context is not used; a file name that begins with a language, such as
    ``de_1k_test_query.txt``, gives its language. Table: columns ``concept_id`` (or ``id``), ``name`` (or ``mention`` or
    ``text``), ``language`` and ``context``. Annotated notes: what :func:`medlink.notes.gold.read_gold` reads, by the
    ending of the file or its first line; the context is 200 characters on either side. Ids are joined by ``|`` or
    ``+``; each of them is right. Bad rows are counted in ``problems``, and so are queries without a concept, which are
    left out. ``language`` is that of queries whose file names none.

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
        inside = sorted(path.glob("*.concept")) if path.is_dir() else [path]
        if not inside and not any(ending(one) in _ANNOTATED for one in path.rglob("*")):
            remedy = "name a file, or another folder"
            raise InputError("there is no *.concept file or annotated note in the folder", path=path, remedy=remedy)
        yield from inside or find_gold([path])[0]


def _read(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    if ending(path) in _ANNOTATED or begins_as_pubtator(path):
        return _read_annotated(path, problems, language)
    read = _read_marked if MARK in first_line(path) else _read_table
    return read(path, problems, language)


def _read_marked(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    """Lines of BioSyn or of XL-BEL; a file has one of both layouts, that of its first line."""
    found = _TAGGED.match(path.name)
    named = language_tag(found[1]) if found else None
    lines = LineFile(path, problems)
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
    kept = ((note, one) for note in read_gold(path, problems) for one in note.annotations if not one.rejected)
    for row, (note, one) in enumerate(kept, 1):
        tag = language if note.language is None else language_tag(note.language) or ""
        text = note.text
        context = text[max(0, one.pieces[0][0] - _AROUND) : one.pieces[-1][1] + _AROUND] if text is not None else ""
        yield Query((plain(one.text),), split_ids("|".join(one.concepts)), tag, path.name, row, context)


def _parts(mention: str, gold: Ids) -> Ids:
    """Parts of a composite mention: one that has several ids and was taken apart, as BioSyn's preparation does."""
    parts = [plain(part) for part in SEVERAL.split(mention) if part.strip()]
    return tuple(dict.fromkeys(parts)) if len(gold) > 1 and len(parts) > 1 else (plain(mention),)


def _read_table(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    table = open_table(path, problems)
    ids, text = (next((one for one in names if table.has([one])), None) for names in (_ID_COLUMNS, _TEXT_COLUMNS))
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


class RankedTask(Sampled):
    """Base of the tasks in which queries are looked up among the names of a dictionary."""

    depth: Annotated[int, Field(ge=1, le=10_000, description="Names looked at for each query.")] = DEPTH
    rank_by: Ranked = "names"

    def report(self, head: str, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> Report:
        """Measures for each language, and every query as ids and numbers."""
        answers = self.answers(dictionary, queries, run)
        known = Counter(answer.query.language for answer in answers if answer.known)
        known["all"] = known.total()
        table: list[Row] = [
            {
                **{"language": tag or "-", "queries": found.queries, "in dictionary": known[tag]},
                **{"Acc@1": found.acc1, "Acc@5": found.acc5, "MRR": found.mrr, "not found": found.unfound},
            }
            for tag, found in measure_answers(answers).items()
        ]
        items = [
            {
                **query_row(one.query, one.known, one.rank),
                "first": " ".join("|".join(ids) for ids in one.concept),
                "cosine": None if isnan(one.cosine) else one.cosine,
            }
            for one in answers
        ]
        return Report(head, table, items, run.problems)

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> list[Answer]:
        """What is found for the queries."""
        options: Any = {"depth": self.depth, "rank_by": self.rank_by, "progress": run.progress}
        return retrieve(run.encode, dictionary, queries, **options)


class QueryOptions(Sampled):
    """Which of the queries of files are asked."""

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
    """The queries with their gold as the dictionary of a run writes it; InputError where it has none of their ids."""
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
        languages = language_filter(self.dictionary_languages)
        asked = self.asked(run.paths[1:], run, self.language)
        names = read_dictionary(run.paths[0], run.problems, languages=languages)
        queries = known_gold(asked, {one for ids in names.concepts for one in ids}, run)
        head = f"{len(queries)} queries, {len(names)} names of {len(names.concepts)} concepts"
        return self.report(head, names, queries, run)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Names of the concepts that have children, and a query for each name of a leaf, whose gold are its parents.

    The ``source`` of a query is the leaf; ``nameless`` counts leaves left out because they have no name.
    """

    dictionary: Dictionary
    queries: tuple[Query, ...]
    nameless: int


def read_leaves(store: KnowledgeBase, *, languages: frozenset[str] | None = None) -> Leaves:
    """Leaves and their parents from the hierarchy of a knowledge base: SCT-L2P of BioLORD 2022 (section 4.2, A.3).

    A leaf has a parent and no child; every name of it is a query, and the gold are its direct parents, by whatever
    name. The dictionary is all names of all concepts with a child. Fully specified names (type ``fsn``) are left out,
    as the index does. With ``languages`` both sides have only names of these, and those without a language.

    Raises:
        InputError: no relation leads from a leaf to a parent, or there is no name on one of the two sides.
    """
    parents: dict[str, set[str]] = {}
    for relation in store.iter_relations(types=HIERARCHY):
        parents.setdefault(relation.head, set()).add(relation.tail)
    inner = set().union(*parents.values()) if parents else set()
    leaves = parents.keys() - inner
    if not leaves:
        remedy = "build it from a source with is-a relations"
        raise InputError("there is no concept with a parent and without a child", path=store.path, remedy=remedy)
    entries, queries = list[tuple[Ids, str]](), dict[Query, None]()  # each once, in their order
    for name in usable(store.iter_names(), languages):
        if name.concept_id in inner:
            entries.append(((name.concept_id,), name.text))
        elif name.concept_id in leaves:
            query = Query((plain(name.text),), tuple(sorted(parents[name.concept_id])), name.language, name.concept_id)
            queries[query] = None
    if not entries or not queries:
        side = "concepts with a child" if queries else "leaves"
        remedy = "name other languages, or leave them out"
        wanted = "" if languages is None else f" of {', '.join(sorted(languages))}"
        raise InputError(f"{side} have no name{wanted}", path=store.path, remedy=remedy)
    return Leaves(Dictionary.of(entries), tuple(queries), len(leaves - {query.source for query in queries}))


class LeafToParentTask(RankedTask):
    """Rank of the parents among all concepts that are no leaves, for the names of leaves (SCT-L2P, BioLORD 2022).

    KB is a knowledge base or a bundle, of whatever source that has a hierarchy.
    """

    inputs: ClassVar = ("kb",)

    rank_by: Ranked = "concepts"
    languages: Annotated[str | None, Field(description="Names of these languages only, such as en or en,de.")] = None

    def measure(self, run: Run) -> Report:
        languages = language_filter(self.languages)
        with KnowledgeBase(run.paths[0]) as store:
            found = read_leaves(store, languages=languages)
        run.problems.skipped += Counter({"leaf without a name": found.nameless})
        queries, dictionary = self.drawn(found.queries), found.dictionary
        head = (
            f"{len(queries)} names of {len({query.source for query in queries})} leaves, "
            f"{len(dictionary)} names of {len(dictionary.concepts)} concepts with children"
        )
        return self.report(head, dictionary, queries, run)
