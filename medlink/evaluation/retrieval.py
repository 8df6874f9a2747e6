"""Retrieval: each query must find one of its concepts among the names of a dictionary.

What BioSyn, SapBERT and XL-BEL measure as linking of names without their context, and, with the parents of a concept in
place of the concept, SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from medlink.errors import ConfigError
from medlink.evaluation.names import Dictionary, Ids
from medlink.evaluation.pairs import from_rows
from medlink.evaluation.ranking import DEPTH, RankBy, RankMeasures, measure_ranks, rank_gold
from medlink.evaluation.resampling import Scores
from medlink.evaluation.task import Encode, Progress, Report, Row, Run, Sampled, embed, step


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked up.

    ``parts`` is the text; a composite mention that was taken apart has several, and all must be right. ``gold`` are the
    ids of the concepts that are right, ``source`` the file it comes from, or the id of the concept whose name it is,
    and ``row`` its line, from 1; 0 where it comes from no file. ``context`` is the text around it, where that is known;
    only the linker looks at it.
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
    ``cosine`` that of the query with its best name, NaN where a peer found it.
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
    """An answer for each query from the names of a dictionary, in their order; each distinct text is embedded once.

    ``encode`` gives n texts as ``(n, d)`` float32 unit vectors; for ``depth`` and ``rank_by`` see
    :func:`medlink.evaluation.ranking.rank_gold`. ``progress`` is called with step, done and whole; the parts of a
    composite query are ranked each.

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
    by_id: dict[str, list[int]] = {}
    for at, ids in enumerate(dictionary.concepts):
        for one in ids:
            by_id.setdefault(one, []).append(at)
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
        answers.append(
            Answer(query, bool(right_of), max(own) if all(own) else 0, concepts, float(ranks.cosine[mine].min()))
        )
    return answers


def measure_answers(answers: Sequence[Answer]) -> dict[str, RankMeasures]:
    """Measures for each language of the queries, by tag, and for all (``"all"``) where there is more than one.

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

    systems: ClassVar = ("encoders", "peers")

    sample: Annotated[int | None, Field(ge=1, description="Only so many queries, drawn at random.")] = None
    depth: Annotated[int, Field(ge=1, le=10_000, description="Names looked at for each query.")] = DEPTH
    rank_by: Annotated[RankBy, Field(description="What is ranked: a concept by its best name, or each name.")] = "names"

    def report(self, head: str, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> Report:
        """Measures for each language, and every query as ids and numbers."""
        answers = self.answers(dictionary, queries, run)
        known = Counter(answer.query.language for answer in answers if answer.known)
        known["all"] = known.total()
        head_row = ("language", "queries", "in dictionary", "Acc@1", "Acc@5", "MRR", "not found")
        table: list[Row] = []
        for tag, found in measure_answers(answers).items():
            measures = found.queries, known[tag], found.acc1, found.acc5, found.mrr, found.unfound
            table.append(dict(zip(head_row, (tag or "-", *measures), strict=True)))
        scores = rank_scores([(answer.query.language, answer.rank) for answer in answers])
        return Report(head, table, [_row(answer) for answer in answers], run.problems, scores=scores)

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], run: Run) -> list[Answer]:
        """What the encoder or the peer of a run finds."""
        if run.peer is not None:
            if self.rank_by == "names":
                raise ConfigError("a peer ranks concepts, not names", remedy='set rank_by = "concepts"')
            return run.peer.answers(dictionary, queries, self.depth)
        return retrieve(run.encode, dictionary, queries, depth=self.depth, rank_by=self.rank_by, progress=run.progress)


def rank_scores(ranks: Sequence[tuple[str, int]]) -> list[Scores]:
    """What Acc@1, Acc@5 and MRR are made of, for each language and for all, from languages and ranks (0: not found).

    >>> [(one.measure, one.group, one.columns[0].tolist()) for one in rank_scores([("de", 2), ("de", 0)])][::2]
    [('Acc@1', 'de', [0.0, 0.0]), ('MRR', 'de', [0.5, 0.0])]
    """
    tags = sorted({tag for tag, _ in ranks})
    found = list[Scores]()
    for group in [*tags, *["all"] * (len(tags) > 1)]:
        own = np.array([rank for tag, rank in ranks if group in (tag, "all")], dtype=np.float64)
        reciprocal = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        for measure, values in (("Acc@1", own == 1), ("Acc@5", (own > 0) & (own <= 5)), ("MRR", reciprocal)):
            found.append(Scores(measure, group or "-", (values.astype(np.float64),)))
    return found


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
        "cosine": None if isnan(answer.cosine) else answer.cosine,
    }
