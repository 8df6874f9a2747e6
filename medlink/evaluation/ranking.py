"""The place at which a query finds what it should among the names of a dictionary, and the measures made of places.

Search is exact: every query is compared with every name by Faiss, some queries at a time, so that memory beyond the
embeddings does not grow with either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError

DEPTH = 1000
"""Names looked at for each query: BioLORD 2022, section 5.1, speaks of the 1000 nearest neighbours."""
PLACES = ("concepts", "names")
"""What takes a place of its own in a ranking."""
NONE = -1
_BLOCK = 256  # queries compared at a time: with 1000 names each, some megabytes
_SPARE = 8  # more than asked for, so that rounding in a matrix product cannot cut a tie in the wrong place


@dataclass(frozen=True, slots=True)
class Places:
    """Where each of q queries found its gold, and what it found first.

    Attributes:
        rank: ``(q,)`` place of the first gold concept, from 1; 0 where none is among the names looked at.
        concept: ``(q,)`` the concept in the first place, -1 where the dictionary is empty.
        name: ``(q,)`` row of its name.
        cosine: ``(q,)`` cosine of query and name.
    """

    rank: NDArray[np.int64]
    concept: NDArray[np.int64]
    name: NDArray[np.int64]
    cosine: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankMeasures:
    """Measures of a list of places.

    Attributes:
        queries: how many.
        acc1: share of the queries whose gold is in the first place.
        acc5: share whose gold is among the first five.
        mrr: mean reciprocal rank.
        unfound: share whose gold is not among the names looked at.
    """

    queries: int
    acc1: float
    acc5: float
    mrr: float
    unfound: float

    def to_dict(self) -> dict[str, float | int]:
        """Plain data, ready for JSON."""
        return asdict(self)


def measure_ranks(ranks: NDArray[np.integer[Any]]) -> RankMeasures:
    """Acc@1, Acc@5 and the mean reciprocal rank, whose terms are 0 where nothing is found (Voorhees 1999, TREC-8).

    BioLORD 2022, table 2, gives MRR and Acc@1 of SCT-L2P so, with places up to 1000 (section 5.1).

    Args:
        ranks: ``(q,)`` places from 1, 0 for a query that did not find its gold.

    Returns:
        The measures; all queries count, those that did not find their gold as well.

    Raises:
        ConfigError: there is no query, or a place is negative.

    >>> found = measure_ranks(np.array([1, 4, 0, 10]))
    >>> found.acc1, found.acc5, found.mrr, found.unfound
    (0.25, 0.5, 0.3375, 0.25)
    """
    if not len(ranks):
        raise ConfigError("no queries to measure", remedy="give one or more")
    if ranks.min() < 0:
        raise ConfigError(f"place {int(ranks.min())}, 0 or more expected")
    found = ranks > 0
    reciprocal = np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=found)
    return RankMeasures(
        len(ranks),
        float(np.mean(ranks == 1)),
        float(np.mean(found & (ranks <= 5))),
        float(reciprocal.mean()),
        float(np.mean(~found)),
    )


def place_gold(
    queries: NDArray[np.float32],
    names: NDArray[np.float32],
    owners: Any,
    gold: Any,
    *,
    depth: int = DEPTH,
    place_by: str = "concepts",
    progress: Callable[[int, int], object] | None = None,
) -> Places:
    """Rank the names of a dictionary by cosine with each query, and say where the first gold concept stands.

    BioLORD 2022, section 4.2. By ``concepts`` a concept takes one place, that of its best name; by ``names`` each name
    of each concept takes one, as in the programs of BioSyn (Sung et al. 2020) and SapBERT (Liu et al. 2021). The paper
    does not say which of them it counts. Equal cosines are ordered by concept number, then by row. The first place is
    the same both ways.

    Args:
        queries: ``(q, d)`` float32 unit vectors.
        names: ``(n, d)`` float32 unit vectors of distinct names.
        owners: ``(n, c)`` SciPy CSR array: a name's row holds the concepts that have it, by number. Concepts are
            numbered by id.
        gold: ``(q, c)`` SciPy CSR array: the concepts that are right for each query; a row may be empty.
        depth: names looked at for each query.
        place_by: ``concepts`` or ``names``.
        progress: called with the number of queries done and their total.

    Returns:
        The places.

    Raises:
        ConfigError: shapes do not agree, a name has no concept, the depth is below 1, or ``place_by`` is unknown.

    >>> from scipy.sparse import csr_array
    >>> owners = csr_array(np.array([[1, 0], [1, 0], [0, 1]]))  # two names of concept 0, one of concept 1
    >>> names = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    >>> query, gold = np.array([[1, 0]], dtype=np.float32), csr_array(np.array([[0, 1]]))
    >>> [place_gold(query, names, owners, gold, place_by=by).rank.tolist() for by in ("concepts", "names")]
    [[2], [3]]
    """
    _check(queries, names, owners, gold, depth, place_by)
    found = Places(
        np.zeros(len(queries), dtype=np.int64),
        np.full(len(queries), NONE, dtype=np.int64),
        np.full(len(queries), NONE, dtype=np.int64),
        np.zeros(len(queries), dtype=np.float32),
    )
    if not len(names):
        return found
    # right answers as one sorted number for each, so that a look-up is a binary search
    right = np.repeat(np.arange(len(queries)), np.diff(gold.indptr)) * gold.shape[1] + gold.indices
    right.sort()
    names = np.ascontiguousarray(names, dtype=np.float32)
    for start in range(0, len(queries), _BLOCK):
        part = np.ascontiguousarray(queries[start : start + _BLOCK], dtype=np.float32)
        rows, cosines = _nearest(part, names, depth)
        _place(start, rows, cosines, owners, right, depth, place_by, found)
        if progress is not None:
            progress(min(start + _BLOCK, len(queries)), len(queries))
    return found


def _check(
    queries: NDArray[np.float32], names: NDArray[np.float32], owners: Any, gold: Any, depth: int, place_by: str
) -> None:
    if place_by not in PLACES:
        raise ConfigError(f"unknown kind of place {place_by!r}", remedy=f"one of {', '.join(PLACES)}")
    if depth < 1:
        raise ConfigError(f"depth {depth}, 1 or more expected")
    if queries.ndim != 2 or names.ndim != 2 or queries.shape[1] != names.shape[1]:
        raise ConfigError(f"queries of shape {queries.shape} and names of shape {names.shape}, one width expected")
    if (len(queries), len(names)) != (gold.shape[0], owners.shape[0]) or gold.shape[1] != owners.shape[1]:
        raise ConfigError(f"{owners.shape} owners and {gold.shape} gold for {len(names)} names, {len(queries)} queries")
    if len(names) and not np.diff(owners.indptr).all():
        raise ConfigError(f"name {int(np.argmin(np.diff(owners.indptr)))} belongs to no concept")


def _nearest(
    queries: NDArray[np.float32], names: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """``(b, k)`` rows of the names with the highest cosines, and these, summed in one order whatever the row."""
    faiss = _faiss()
    wanted = min(depth + _SPARE, len(names))
    rows = np.ascontiguousarray(faiss.knn(queries, names, wanted, metric=faiss.METRIC_INNER_PRODUCT)[1])
    cosines = np.empty(rows.shape, dtype=np.float32)
    faiss.fvec_inner_products_by_idx(
        faiss.swig_ptr(cosines),
        faiss.swig_ptr(queries),
        faiss.swig_ptr(names),
        faiss.swig_ptr(rows),
        names.shape[1],
        len(queries),
        rows.shape[1],
    )
    order = np.lexsort((rows, -cosines), axis=1)[:, :depth]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def _faiss() -> Any:
    import faiss

    return faiss


def _place(
    start: int,
    rows: NDArray[np.int64],
    cosines: NDArray[np.float32],
    owners: Any,
    right: NDArray[np.int64],
    depth: int,
    place_by: str,
    found: Places,
) -> None:
    """Write the places of the queries that begin at ``start``, whose nearest names are ``rows`` (b, k)."""
    b, width = len(rows), owners.shape[1]
    # one entry for each concept of each name, query after query
    sizes = np.diff(owners.indptr)[rows.ravel()]
    offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    name = np.repeat(rows.ravel(), sizes)
    concept = owners.indices[owners.indptr[name] + offsets].astype(np.int64)
    cosine = np.repeat(cosines.ravel(), sizes)
    query = np.repeat(np.repeat(np.arange(b), rows.shape[1]), sizes)

    def best(entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of some entries the first of each query, in the order of the ranking."""
        order = entries[np.lexsort((name[entries], concept[entries], -cosine[entries], query[entries]))]
        firsts: NDArray[np.int64] = order[np.unique(query[order], return_index=True)[1]]
        return firsts

    first = best(np.flatnonzero(cosine == cosines[query, 0]))
    part = slice(start, start + b)
    found.concept[part], found.name[part], found.cosine[part] = concept[first], name[first], cosine[first]
    if not len(right):
        return
    key = (query + start) * width + concept
    gold = best(np.flatnonzero(right[np.minimum(np.searchsorted(right, key), len(right) - 1)] == key))
    # the place is one more than the number of entries, or of concepts, ahead of the gold: nothing else needs an order
    of_query = np.full(b, NONE, dtype=np.int64)
    of_query[query[gold]] = gold
    rival = of_query[query]
    level = cosine == cosine[rival]
    before = (concept < concept[rival]) | ((concept == concept[rival]) & (name < name[rival]))
    ahead = (rival != NONE) & ((cosine > cosine[rival]) | (level & before))
    counted = query[ahead] if place_by == "names" else np.unique(query[ahead] * width + concept[ahead]) // width
    rank = np.bincount(counted, minlength=b)[query[gold]] + 1
    found.rank[start + query[gold]] = np.where(rank <= depth, rank, 0)
