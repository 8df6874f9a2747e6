"""Retrieval: each query must find one of its concepts among the names of a dictionary.

What BioSyn, SapBERT and XL-BEL measure as linking of names without their context, and, with the parents of a concept in
place of the concept, SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from medlink.errors import ConfigError
from medlink.evaluation.pairs import from_columns
from medlink.evaluation.ranking import DEPTH, RankBy, RankMeasures, measure_ranks, rank_gold
from medlink.evaluation.task import Encode, Progress, Report, Row, Run, Sampled, embed, step

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked up.

    Attributes:
        parts: the text; a composite mention that was taken apart has several, and all must be right.
        gold: ids of the concepts that are right.
        language: tag, ``""`` where none is known.
        source: the file it comes from, or the id of the concept whose name it is.
        row: its line, from 1; 0 where it comes from no file.
    """

    parts: Ids
    gold: Ids
    language: str = ""
    source: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Names with the concepts that have them; a concept is known by one id or by several that mean the same.

    Attributes:
        texts: distinct names, sorted.
        owners: for each name the rows of ``concepts`` that have it, ascending.
        concepts: ids of each concept, sorted.
    """

    texts: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...]
    concepts: tuple[Ids, ...]

    @classmethod
    def of(cls, entries: Iterable[tuple[Ids, str]]) -> Dictionary:
        """Entries (ids, name) of a dictionary; runs of white space in a name are one blank.

        >>> Dictionary.of([(("B",), "asthma"), (("A", "X"), "asthma"), (("B",), "wheeze")])
        Dictionary(texts=('asthma', 'wheeze'), owners=((0, 1), (1,)), concepts=(('A', 'X'), ('B',)))
        """
        found: dict[str, set[Ids]] = {}
        for ids, name in entries:
            found.setdefault(" ".join(name.split()), set()).add(ids)
        concepts = sorted(set().union(*found.values()))
        number = {ids: row for row, ids in enumerate(concepts)}
        texts = sorted(found)
        owners = tuple(tuple(sorted(number[ids] for ids in found[text])) for text in texts)
        return cls(tuple(texts), owners, tuple(concepts))

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found.

    Attributes:
        query: the query.
        known: whether one of its concepts is in the dictionary.
        rank: rank of the first of its concepts, from 1; 0 where none is among the names looked at. For a composite
            mention the worst of its parts.
        concept: ids of the concept of rank 1, of each part.
        cosine: cosine of the query with that concept's best name; for a composite mention the lowest of its parts.
    """

    query: Query
    known: bool
    rank: int
    concept: tuple[Ids, ...]
    cosine: float


def retrieve(
    encode: Encode,
    dictionary: Dictionary,
    queries: Sequence[Query],
    *,
    depth: int = DEPTH,
    rank_by: RankBy = "concepts",
    progress: Progress | None = None,
) -> list[Answer]:
    """Look every query up among the names of a dictionary; each distinct text is embedded once.

    Args:
        encode: embeds n texts as ``(n, d)`` float32 unit vectors.
        dictionary: where to look.
        queries: what to look up.
        depth: names looked at for each query.
        rank_by: what is ranked, see :func:`medlink.evaluation.ranking.rank_gold`.
        progress: called with step, done and whole; the parts of a composite query are ranked each.

    Returns:
        An answer for each query, in their order.

    Raises:
        ConfigError: the dictionary has no name, or an option is outside its range.

    >>> letters = lambda texts: np.eye(3, dtype=np.float32)[[ord(text[0]) - ord("a") for text in texts]]
    >>> entries = Dictionary.of([(("A",), "a1"), (("B",), "b1")])
    >>> [answer.rank for answer in retrieve(letters, entries, [Query(("b",), ("B",)), Query(("a",), ("B",))])]
    [1, 2]
    """
    if not dictionary.texts:
        raise ConfigError("there are no names to look among", remedy="give a dictionary with names")
    parts = [part for query in queries for part in query.parts]
    texts = list(dict.fromkeys([*dictionary.texts, *parts]))
    row = {text: at for at, text in enumerate(texts)}
    vectors = embed(encode, texts, progress)
    owners = _table(dictionary.owners)
    right = _right(dictionary, queries)
    gold = _table([right[at] for at, query in enumerate(queries) for _ in query.parts])
    # as wide as the owners, though the last concepts may be nobody's gold
    gold.resize((len(parts), owners.shape[1]))
    ranks = rank_gold(
        vectors[np.array([row[part] for part in parts], dtype=np.int64)],
        vectors[: len(dictionary)],
        owners,
        gold,
        depth=depth,
        rank_by=rank_by,
        progress=step(progress, "queries ranked"),
    )
    answers, start = [], 0
    for query, right_of in zip(queries, right, strict=True):
        mine = slice(start, start := start + len(query.parts))
        own = ranks.rank[mine].tolist()
        concepts = tuple(dictionary.concepts[at] for at in ranks.concept[mine].tolist())
        answers.append(
            Answer(query, bool(right_of), max(own) if all(own) else 0, concepts, float(ranks.cosine[mine].min()))
        )
    return answers


def _table(rows: Sequence[Sequence[int]]) -> Any:
    """Rows of column numbers as a sparse matrix."""
    columns = np.array([column for row in rows for column in row], dtype=np.int64)
    return from_columns(columns, np.array([len(row) for row in rows], dtype=np.int64))


def _right(dictionary: Dictionary, queries: Sequence[Query]) -> list[list[int]]:
    """For each query the rows of the concepts that have one of its ids."""
    by_id: dict[str, list[int]] = {}
    for row, ids in enumerate(dictionary.concepts):
        for one in ids:
            by_id.setdefault(one, []).append(row)
    return [sorted({row for one in query.gold for row in by_id.get(one, ())}) for query in queries]


def measure_answers(answers: Sequence[Answer]) -> dict[str, RankMeasures]:
    """Measures for each language of the queries, by tag, and for all (``"all"``) where there is more than one.

    Args:
        answers: one or more.

    Raises:
        ConfigError: there is no answer.

    >>> queries = [Query(("asma",), ("A",), "es"), Query(("Asthma",), ("A",), "de")]
    >>> answers = [Answer(query, True, rank, (("A",),), 1.0) for query, rank in zip(queries, (1, 2))]
    >>> {tag: found.mrr for tag, found in measure_answers(answers).items()}
    {'de': 0.5, 'es': 1.0, 'all': 0.75}
    """
    ranks = np.array([answer.rank for answer in answers], dtype=np.int64)
    tags = np.array([answer.query.language for answer in answers], dtype=np.str_)
    parts = {str(tag): measure_ranks(ranks[tags == tag]) for tag in np.unique(tags)}
    return parts if len(parts) == 1 else {**parts, "all": measure_ranks(ranks)}


class RankedTask(Sampled):
    """Base of the tasks in which queries are looked up among the names of a dictionary."""

    sample: Annotated[int | None, Field(ge=1, description="Only so many queries, drawn at random.")] = None
    depth: Annotated[int, Field(ge=1, le=10_000, description="Names looked at for each query.")] = DEPTH
    rank_by: Annotated[RankBy, Field(description="What is ranked: a concept by its best name, or each name.")] = "names"

    def report(self, head: str, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> Report:
        """Measures for each language, and every query as ids and numbers."""
        answers = retrieve(
            run.encode, dictionary, queries, depth=self.depth, rank_by=self.rank_by, progress=run.progress
        )
        known = Counter(answer.query.language for answer in answers if answer.known)
        known["all"] = known.total()
        table: list[Row] = [
            {
                "language": tag or "-",
                "queries": found.queries,
                "in dictionary": known[tag],
                "Acc@1": found.acc1,
                "Acc@5": found.acc5,
                "MRR": found.mrr,
                "not found": found.unfound,
            }
            for tag, found in measure_answers(answers).items()
        ]
        return Report(head, table, [_row(answer) for answer in answers], run.problems)


def _row(answer: Answer) -> Row:
    """One query as ids and numbers: its text may come from a note."""
    return {
        "source": answer.query.source,
        "row": answer.query.row or None,
        "language": answer.query.language,
        "gold": "|".join(answer.query.gold),
        "in_dictionary": int(answer.known),
        "rank": answer.rank or None,
        "first": " ".join("|".join(ids) for ids in answer.concept),
        "cosine": answer.cosine,
    }
