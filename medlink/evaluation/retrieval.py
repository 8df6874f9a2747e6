"""Retrieval: find the concepts of queries among the names of a dictionary (BioSyn, SapBERT, XL-BEL, SCT-L2P)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from medlink.errors import ConfigError, InputError
from medlink.evaluation.clusters import build_incidence
from medlink.evaluation.measures import DEPTH, RankBy, RankMeasures, measure_ranks, rank_gold
from medlink.evaluation.names import (
    MARK,
    SEVERAL,
    Dictionary,
    Ids,
    match_ids,
    plain,
    read_dictionary,
    split_ids,
    without_fsn,
)
from medlink.evaluation.task import Encode, Progress, Report, Row, Run, Sampled, StrPath, by_language, embed, step
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import open_table, read_first_line
from medlink.kb import KnowledgeBase
from medlink.kb.queries import HIERARCHY
from medlink.kb.readers.common import resolve_language
from medlink.language.tags import language_filter, language_tag
from medlink.notes.gold import begins_as_pubtator, find_gold, read_gold
from medlink.notes.reading import file_suffix
from medlink.settings import option

Ranked = Annotated[RankBy, Field(description="What is ranked: a concept by its best name, or each name.")]
_BIOSYN_MARKS = 4  # document||start|end||type||mention||ids
_TAGGED = re.compile(r"([a-z]{2})_")
_COLUMNS = ("concept_id", "id"), ("name", "mention", "text")
_ANNOTATED = (".ann", ".pubtator", ".jsonl", ".ndjson")
_AROUND = 200  # characters of context on either side, as where notes are linked


@dataclass(frozen=True, slots=True)
class Query:
    """A name to look up.

    Attributes:
        parts: its text; a composite mention has several, and all of them must be right.
        gold: ids of the right concepts.
        source: its file, with the line in ``row`` (from 1), or the concept that has the name.
        context: the text around it, which only the linker uses.
    """

    parts: Ids
    gold: Ids
    language: str = ""
    source: str = ""
    row: int = 0
    context: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query. A composite mention has the worst rank and the lowest cosine of its parts.

    Attributes:
        known: whether the dictionary has one of the gold concepts.
        rank: rank of the first gold concept, from 1; 0 if none is among the names searched.
        concept: ids of the concept at rank 1, for each part.
        cosine: cosine of the query and its best name, NaN if they were not compared.
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
    """Look up queries, each part of a composite query on its own; embed each distinct text once.

    For ``depth`` and ``rank_by`` see :func:`medlink.evaluation.measures.rank_gold`.

    Raises:
        ConfigError: the dictionary has no name, or an option is outside its range.
    """
    if not dictionary.texts:
        raise ConfigError("the dictionary has no names", remedy="give a dictionary with names")
    parts = [part for query in queries for part in query.parts]
    texts = list(dict.fromkeys([*dictionary.texts, *parts]))
    row = {text: at for at, text in enumerate(texts)}
    vectors = embed(encode, texts, progress)
    by_id = dictionary.by_id()
    right = [sorted({at for concept_id in query.gold for at in by_id.get(concept_id, ())}) for query in queries]
    gold = [concept_rows for concept_rows, query in zip(right, queries, strict=True) for _ in query.parts]
    width = len(dictionary.concepts)
    ranks = rank_gold(
        vectors[np.array([row[part] for part in parts], dtype=np.int64)], vectors[: len(dictionary)],
        build_incidence(dictionary.owners, width), build_incidence(gold, width),
        depth=depth, rank_by=rank_by, progress=step(progress, "queries ranked"),
    )  # fmt: skip
    answers, results = [], zip(*(column.tolist() for column in ranks), strict=True)
    for query, right_of in zip(queries, right, strict=True):
        own, concepts, cosines = zip(*islice(results, len(query.parts)), strict=True)
        first = tuple(dictionary.concepts[at] for at in concepts)
        answers.append(Answer(query, bool(right_of), max(own) if all(own) else 0, first, min(cosines)))
    return answers


def measure_answers(answers: Sequence[Answer]) -> dict[str, RankMeasures]:
    """Measure answers by language of the queries, and for ``"all"`` if there are several languages."""
    ranks = np.array([answer.rank for answer in answers], dtype=np.int64)
    own = by_language([answer.query.language for answer in answers])
    return {tag: measure_ranks(ranks[rows]) for tag, rows in own.items()}


def query_row(query: Query, known: bool, rank: int) -> Row:
    """Return a query and the rank of its gold, without its text, which may come from a note."""
    return {
        "source": query.source, "row": query.row or None, "language": query.language, "gold": "|".join(query.gold),
        "in_dictionary": int(known), "rank": rank or None,
    }  # fmt: skip


def read_queries(paths: Iterable[StrPath], problems: Problems, *, language: str = "") -> tuple[Query, ...]:
    """Read queries from files, or from folders of ``*.concept`` files or of annotated notes.

    The layout of a file is detected by its first line:

    - BioSyn: ``document||start|end||type||mention||ids``; a mention with ``|`` or ``+`` is composite.
    - XL-BEL: ``ids||mention`` or ``ids||mention||context``, whose context is ignored; the name of the file may begin
      with a language, as in ``de_1k_test_query.txt``.
    - Table: columns ``concept_id`` (or ``id``), ``name`` (or ``mention`` or ``text``), ``language`` and ``context``.
    - Annotated notes (:func:`medlink.notes.gold.read_gold`), with 200 characters of context on either side.

    Ids are joined by ``|`` or ``+``; each is right. ``problems`` counts what is left out: bad rows, and queries without
    a concept. ``language`` applies to queries that state none.

    Raises:
        InputError: a file cannot be read or has no such layout, a folder has none of these files, no query has a
            concept, or too many rows are bad.
    """
    files = list(_files(paths))
    queries = list[Query]()
    for path in files:
        is_annotated = file_suffix(path) in _ANNOTATED or begins_as_pubtator(path)
        read = _read_annotated if is_annotated else _read_marked if MARK in read_first_line(path) else _read_table
        queries += read(path, problems, language)
    with_gold = tuple(query for query in queries if query.gold)
    if not with_gold:
        remedy = "give other queries"
        raise InputError("there is no query with a concept in it", path=", ".join(map(str, files)), remedy=remedy)
    if len(with_gold) < len(queries):
        problems.skipped["query without a concept"] += len(queries) - len(with_gold)
    return with_gold


def _files(paths: Iterable[StrPath]) -> Iterator[Path]:
    for path in map(Path, paths):
        inside = sorted(path.glob("*.concept")) if path.is_dir() else [path]
        if not inside and not any(file_suffix(file) in _ANNOTATED for file in path.rglob("*")):
            remedy = "name a file, or another folder"
            raise InputError("there is no *.concept file or annotated note in the folder", path=path, remedy=remedy)
        yield from inside or find_gold([path])[0]


def _read_marked(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    match = _TAGGED.match(path.name)
    named = language_tag(match[1]) if match else None
    lines = LineFile(path, problems)
    biosyn: bool | None = None
    for line, text in lines:
        if not text.strip():
            continue
        if biosyn is None:
            biosyn = text.count(MARK) == _BIOSYN_MARKS
        # the context of XL-BEL is free text, which may contain the separator
        cells = [cell.strip() for cell in text.split(MARK, _BIOSYN_MARKS if biosyn else 2)]
        if biosyn and len(cells) == _BIOSYN_MARKS + 1 and cells[3]:
            gold = split_ids(cells[4])
            # a composite mention has several ids and separators: split as in the preparation of BioSyn
            parts = [plain(part) for part in SEVERAL.split(cells[3]) if part.strip()]
            several = tuple(dict.fromkeys(parts)) if len(gold) > 1 and len(parts) > 1 else (plain(cells[3]),)
            yield Query(several, gold, language, path.name, line)
        elif not biosyn and len(cells) > 1 and cells[1]:
            yield Query((plain(cells[1]),), split_ids(cells[0]), named or language, path.name, line)
        else:
            lines.bad_row("no mention between ||", line)


def _read_annotated(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    accepted = ((note, mark) for note in read_gold(path, problems) for mark in note.annotations if not mark.rejected)
    for row, (note, mark) in enumerate(accepted, 1):
        tag = language if note.language is None else language_tag(note.language) or ""
        context = ""
        if note.text is not None:
            context = note.text[max(0, mark.pieces[0][0] - _AROUND) : mark.pieces[-1][1] + _AROUND]
        yield Query((plain(mark.text),), split_ids("|".join(mark.concepts)), tag, path.name, row, context)


def _read_table(path: Path, problems: Problems, language: str) -> Iterator[Query]:
    table = open_table(path, problems)
    ids, text = (next((name for name in names if table.has_columns([name])), None) for names in _COLUMNS)
    if ids is None or text is None:
        raise table.layout_error("the columns concept_id and name, or lines with ||")
    further = [column for column in ("language", "context") if table.has_columns([column])]
    places = table.column_indices([ids, text, *further])
    for line, cells in table.rows:
        given, name, *rest = (cells[at].strip() for at in places)
        values = dict(zip(further, rest, strict=True))
        code = values.get("language") or language
        known = language_tag(code) if code else ""
        if not name:
            table.lines.bad_row("empty name", line)
        elif known is None:
            table.lines.bad_row("unknown language", line, repr(code)[:40])
        else:
            yield Query((plain(name),), split_ids(given), known, path.name, line, values.get("context", ""))


class RankedTask(Sampled):
    """Base of the tasks that look up queries in a dictionary."""

    depth: int = option(DEPTH, "Nearest names searched for each query.", ge=1, le=10_000)
    rank_by: Ranked = "names"

    def report(self, head: str, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> Report:
        """Report measures by language, and an item for each query."""
        answers = self.answers(dictionary, queries, run)
        known = Counter(answer.query.language for answer in answers if answer.known)
        known["all"] = known.total()
        table: list[Row] = [
            {
                "language": tag or "-", "queries": found.queries, "in dictionary": known[tag], "Acc@1": found.acc1,
                "Acc@5": found.acc5, "MRR": found.mrr, "not found": found.unfound,
            }
            for tag, found in measure_answers(answers).items()
        ]  # fmt: skip
        items = [
            {
                **query_row(one.query, one.known, one.rank), "first": " ".join(map("|".join, one.concept)),
                "cosine": None if isnan(one.cosine) else one.cosine,
            }
            for one in answers
        ]  # fmt: skip
        return Report(head, table, items, run.problems)

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> list[Answer]:
        return retrieve(run.encode, dictionary, queries, depth=self.depth, rank_by=self.rank_by, progress=run.progress)


class QueryOptions(Sampled):
    """Base of the tasks that read queries from files."""

    distinct: bool = option(False, "Use queries with the same words, ids and language once.")

    def select_queries(self, paths: Iterable[StrPath], run: Run, language: str) -> tuple[Query, ...]:
        """Read queries (:func:`read_queries`), deduplicate and sample them by the options."""
        queries = read_queries(paths, run.problems, language=resolve_language(language))
        if self.distinct:
            first = dict[tuple[Ids, Ids, str], Query]()
            for query in queries:
                first.setdefault((query.parts, tuple(sorted(query.gold)), query.language), query)
            queries = tuple(first.values())
        return self.draw_sample(queries)


def with_known_gold(queries: Iterable[Query], known: Container[str], run: Run) -> tuple[Query, ...]:
    """Write the ids of queries as the dictionary does; InputError if it has none of them."""
    matched = tuple(replace(query, gold=match_ids(query.gold, known)) for query in queries)
    if not any(concept_id in known for query in matched for concept_id in query.gold):
        remedy = "give the queries the ids of the dictionary, or a dictionary of their terminology"
        message = f"none of the concepts of its queries is in {run.paths[0]}"
        raise InputError(message, path=run.paths[1], remedy=remedy)
    return matched


class RetrievalTask(QueryOptions, RankedTask):
    """Acc@1, Acc@5 and MRR of looking up names in a dictionary, for each language.

    DICTIONARY is a knowledge base, a bundle, a table with concept_id and name, or lines id||name. QUERIES are files in
    the layout of BioSyn (*.concept, or a folder of them) or XL-BEL, tables with concept_id and name, or annotated notes
    (brat, PubTator, links of 'medlink link'). Queries whose concept the dictionary does not have count as not found.
    """

    inputs: ClassVar = ("dictionary", "queries...")

    dictionary_languages: str | None = option(None, "Search names of these languages only, such as en or en,de.")
    language: str = option("", "Language of queries that name none.")

    def measure(self, run: Run) -> Report:
        selected = self.select_queries(run.paths[1:], run, self.language)
        names = read_dictionary(run.paths[0], run.problems, languages=language_filter(self.dictionary_languages))
        queries = with_known_gold(selected, {concept_id for ids in names.concepts for concept_id in ids}, run)
        head = f"{len(queries)} queries, {len(names)} names of {len(names.concepts)} concepts"
        return self.report(head, names, queries, run)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Names of concepts with children, and a query for each name of a leaf (``source``), whose gold are its parents.

    ``nameless`` counts leaves without a name, which are left out.
    """

    dictionary: Dictionary
    queries: tuple[Query, ...]
    nameless: int


def read_leaves(store: KnowledgeBase, *, languages: frozenset[str] | None = None) -> Leaves:
    """Read leaves and their parents from a knowledge base: SCT-L2P of BioLORD 2022 (section 4.2, A.3).

    A leaf has a parent and no child. Every name of a leaf is a query for its direct parents. The dictionary has the
    names of all concepts with a child. Fully specified names (type ``fsn``) are left out, as in the index. With
    ``languages``, both sides have only names in these languages, and names without a language.

    Raises:
        InputError: no relation leads from a leaf to a parent, or there is no name on one of the two sides.
    """
    parents = defaultdict[str, set[str]](set)
    for relation in store.iter_relations(types=HIERARCHY):
        parents[relation.head].add(relation.tail)
    inner = set[str]().union(*parents.values())
    leaves = parents.keys() - inner
    if not leaves:
        remedy = "build it from a source with is-a relations"
        raise InputError("there is no concept with a parent and without a child", path=store.path, remedy=remedy)
    entries, queries = list[tuple[Ids, str]](), dict[Query, None]()  # each once, in their order
    for name in without_fsn(store.iter_names(), languages):
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
    return Leaves(Dictionary.from_entries(entries), tuple(queries), len(leaves - {query.source for query in queries}))


class LeafToParentTask(RankedTask):
    """Rank of the parents among all concepts that are not leaves, for the names of leaves (SCT-L2P, BioLORD 2022).

    KB is a knowledge base or a bundle of any source with a hierarchy.
    """

    inputs: ClassVar = ("kb",)

    rank_by: Ranked = "concepts"
    languages: str | None = option(None, "Names of these languages only, such as en or en,de.")

    def measure(self, run: Run) -> Report:
        with KnowledgeBase(run.paths[0]) as store:
            leaves = read_leaves(store, languages=language_filter(self.languages))
        run.problems.skipped += Counter({"leaf without a name": leaves.nameless})
        queries, dictionary = self.draw_sample(leaves.queries), leaves.dictionary
        head = (
            f"{len(queries)} names of {len({query.source for query in queries})} leaves, "
            f"{len(dictionary)} names of {len(dictionary.concepts)} concepts with children"
        )
        return self.report(head, dictionary, queries, run)
