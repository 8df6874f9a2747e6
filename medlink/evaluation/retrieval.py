"""Retrieval: each query must find one of its concepts among the names of a dictionary.

What BioSyn, SapBERT and XL-BEL measure as linking of names without their context, and, with the parents of a concept in
place of the concept, SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.evaluation.pairs import from_columns
from medlink.evaluation.ranking import DEPTH, NONE, RankMeasures, measure_ranks, place_gold

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""n texts to ``(n, d)`` float32 unit vectors."""
Ids = tuple[str, ...]
_CHUNK = 8192


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
        rank: place of the first of its concepts, from 1; 0 where none is among the names looked at. For a composite
            mention the worst of its parts.
        concept: ids of the concept in the first place, of each part.
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
    place_by: str = "concepts",
    progress: Callable[[int, int], object] | None = None,
    ranked: Callable[[int, int], object] | None = None,
) -> list[Answer]:
    """Look every query up among the names of a dictionary; each distinct text is embedded once.

    Args:
        encode: embeds n texts as ``(n, d)`` float32 unit vectors.
        dictionary: where to look.
        queries: what to look up.
        depth: names looked at for each query.
        place_by: what takes a place, see :func:`medlink.evaluation.ranking.place_gold`.
        progress: called with the number of texts embedded and their total.
        ranked: called with the number of queries (parts of composite ones) ranked and their total.

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
    texts = list(dictionary.texts)
    row = {text: at for at, text in enumerate(texts)}
    for text in dict.fromkeys(part for query in queries for part in query.parts):
        if text not in row:
            row[text] = len(texts)
            texts.append(text)
    vectors = embed(encode, texts, progress)
    sizes = np.array([len(owner) for owner in dictionary.owners], dtype=np.int64)
    owners = from_columns(np.array([at for owner in dictionary.owners for at in owner], dtype=np.int64), sizes)
    right = _right(dictionary, queries)
    counts = np.array([len(query.parts) for query in queries], dtype=np.int64)
    of_part = np.repeat(np.arange(len(queries)), counts)
    gold_columns = [column for at in of_part for column in right[at]]
    gold = from_columns(
        np.array(gold_columns, dtype=np.int64), np.array([len(right[at]) for at in of_part], dtype=np.int64)
    )
    # as wide as the owners, though the last concepts may be nobody's gold
    gold.resize((len(of_part), owners.shape[1]))
    parts = vectors[np.array([row[part] for query in queries for part in query.parts], dtype=np.int64)]
    names = vectors[: len(dictionary)]
    places = place_gold(parts, names, owners, gold, depth=depth, place_by=place_by, progress=ranked)
    stops = np.cumsum(counts)
    answers = []
    for query, right_of, stop in zip(queries, right, stops.tolist(), strict=True):
        mine = slice(stop - len(query.parts), stop)
        ranks = places.rank[mine].tolist()
        answers.append(
            Answer(
                query,
                bool(right_of),
                max(ranks) if all(ranks) else 0,
                tuple(dictionary.concepts[at] for at in places.concept[mine].tolist() if at != NONE),
                float(places.cosine[mine].min()),
            )
        )
    return answers


def _right(dictionary: Dictionary, queries: Sequence[Query]) -> list[list[int]]:
    """For each query the rows of the concepts that have one of its ids."""
    by_id: dict[str, list[int]] = {}
    for row, ids in enumerate(dictionary.concepts):
        for one in ids:
            by_id.setdefault(one, []).append(row)
    return [sorted({row for one in query.gold for row in by_id.get(one, ())}) for query in queries]


def embed(
    encode: Encode, texts: Sequence[str], progress: Callable[[int, int], object] | None = None
) -> NDArray[np.float32]:
    """Embed texts some at a time, so that a progress bar moves.

    Args:
        encode: embeds n texts as ``(n, d)`` unit vectors.
        texts: one or more.
        progress: called with the number of texts embedded and their total.

    Returns:
        ``(n, d)`` float32.
    """
    vectors: NDArray[np.float32] | None = None
    for start in range(0, len(texts), _CHUNK):
        part = encode(texts[start : start + _CHUNK])
        if vectors is None:
            vectors = np.empty((len(texts), part.shape[1]), dtype=np.float32)
        vectors[start : start + len(part)] = part
        if progress is not None:
            progress(start + len(part), len(texts))
    if vectors is None:
        raise ConfigError("no texts to embed", remedy="give one or more")
    return vectors


def sample_queries(queries: Sequence[Query], count: int, seed: int) -> tuple[Query, ...]:
    """At most so many of the queries, drawn at random without replacement, in their order.

    Raises:
        ConfigError: the count is below 1.

    >>> queries = tuple(Query((text,), ("A",)) for text in "abc")
    >>> len(sample_queries(queries, 2, seed=1)), sample_queries(queries, 5, seed=1) == queries
    (2, True)
    """
    if count < 1:
        raise ConfigError(f"a sample of {count}, 1 or more expected")
    if count >= len(queries):
        return tuple(queries)
    rows = np.sort(np.random.default_rng(seed).permutation(len(queries))[:count])
    return tuple(queries[row] for row in rows.tolist())


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
