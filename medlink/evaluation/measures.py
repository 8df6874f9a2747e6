"""Measures of items: intervals by resampling, calibration, and the ranks at which queries find their gold.

Intervals are the percentile bootstrap (Efron 1979). Ranking is exact: Faiss compares every query with every name,
some queries at a time, so that memory beyond the embeddings does not grow with either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Record
from medlink.errors import ConfigError
from medlink.index.knn_graph import Neighbours, best_first, exact_cosines
from medlink.index.vectors.library import faiss

RESAMPLES = 1000
CONFIDENCE = 0.95
_CELLS = 1 << 20  # cells drawn at a time, so that memory does not grow with the number of resamples

Vector = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Columns ``(..., n)`` to values ``(...)``, along ``axis``."""
DEPTH = 1000
"""Names looked at for each query: BioLORD 2022, section 5.1, speaks of the 1000 nearest neighbours."""
RankBy = Literal["concepts", "names"]
"""What is ranked."""
_BLOCK = 256  # queries compared at a time: with 1000 names each, some megabytes
_SPARE = 8  # more than asked for, so that rounding in a matrix product cannot cut a tie in the middle


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A measure of so many items with its interval, NaN where no resample defines the measure."""

    items: int
    value: float
    low: float
    high: float


def pearson(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Pearson correlation along an axis, NaN where a side does not vary."""
    from scipy.stats import pearsonr

    return pearsonr(x, y, axis=axis).statistic


def spearman(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Spearman correlation along an axis: Pearson on ranks, equal values sharing the mean of theirs."""
    from scipy.stats import rankdata

    return pearson(rankdata(x, axis=axis), rankdata(y, axis=axis), axis)


STATISTICS: Mapping[str, Statistic] = {"pearson": pearson, "spearman": spearman}


def estimate(statistic: Statistic, columns: Sequence[Vector], resamples: int, confidence: float, seed: int) -> Estimate:
    """A statistic of columns ``(n,)`` with the percentile interval of its bootstrap.

    Raises:
        ConfigError: there are no items, or an option is outside its range.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence {confidence}, above 0 and below 1 expected")
    drawn = resampled(statistic, columns, resamples, seed)
    n, value = len(columns[0]), float(statistic(*columns))
    if n == 1:
        return Estimate(n, value, value, value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail)).tolist() if len(drawn) else (np.nan, np.nan)
    return Estimate(n, value, low, high)


def resampled(statistic: Statistic, columns: Sequence[Vector], resamples: int, seed: int) -> Vector:
    """Values of a statistic in resamples of the items, without those in which it is not defined."""
    from scipy.stats import bootstrap

    if resamples < 1:
        raise ConfigError(f"{resamples} resamples, 1 or more expected")
    n = len(columns[0])
    if not n:
        raise ConfigError("there are no items to draw from", remedy="measure one or more")
    if n < 2:
        return np.array([float(statistic(*columns))])
    options: Any = {"n_resamples": resamples, "batch": max(1, _CELLS // n), "rng": np.random.default_rng(seed)}
    options |= {"paired": True, "vectorized": True, "method": "percentile"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of resamples in which a side does not vary: their NaN says so
        drawn: Vector = bootstrap(tuple(columns), statistic, **options).bootstrap_distribution
    return drawn[~np.isnan(drawn)]


def calibration_error(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of one width, each with its share of the items (Naeini et al. 2015).

    ``scores (n,)`` lie between 0 and 1, ``right (n,)`` says what they are of; NaN where there is none.
    """
    if not len(scores):
        return float("nan")
    bins = np.minimum((scores * 10).astype(int), 9)
    return float(sum(abs((scores - right)[bins == b].sum()) for b in range(10)) / len(scores))


class Ranks(NamedTuple):
    """At which rank each of q queries found its gold, and what it found first; ``(q,)`` each.

    ``rank`` is from 1, and 0 where no gold concept is among the names looked at. ``concept`` is that of rank 1, -1
    where the dictionary is empty; ``cosine`` that of the query and its best name.
    """

    rank: NDArray[np.int64]
    concept: NDArray[np.int64]
    cosine: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankMeasures(Record):
    """Measures of a list of ranks.

    ``acc1`` and ``acc5`` are shares of the queries whose gold is the first, or among the first five; ``mrr`` the mean
    reciprocal rank; ``unfound`` the share whose gold is not among the names looked at.
    """

    queries: int
    acc1: float
    acc5: float
    mrr: float
    unfound: float


def measure_ranks(ranks: NDArray[np.integer[Any]]) -> RankMeasures:
    """Acc@1, Acc@5 and MRR, whose terms are 0 where nothing is found (Voorhees 1999, TREC-8).

    BioLORD 2022, table 2, gives MRR and Acc@1 of SCT-L2P so, with ranks up to 1000 (section 5.1). ``ranks (q,)`` begin
    at 1, with 0 for a query that did not find its gold; all queries count.

    Raises:
        ConfigError: there is no query, or a rank is negative.
    """
    if not len(ranks):
        raise ConfigError("no queries to measure", remedy="give one or more")
    if ranks.min() < 0:
        raise ConfigError(f"rank {int(ranks.min())}, 0 or more expected")
    found = ranks > 0
    reciprocal = np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=found)
    shares = (np.mean(ranks == 1), np.mean(found & (ranks <= 5)), reciprocal.mean(), np.mean(~found))
    return RankMeasures(len(ranks), *map(float, shares))


def rank_gold(
    queries: NDArray[np.float32],
    names: NDArray[np.float32],
    owners: Any,
    gold: Any,
    *,
    depth: int = DEPTH,
    rank_by: RankBy = "concepts",
    progress: Callable[[int, int], object] | None = None,
) -> Ranks:
    """Rank the names of a dictionary by cosine with each query, and say at which rank the first gold concept is.

    BioLORD 2022, section 4.2. By ``concepts`` a concept is ranked once, by its best name; by ``names`` each name of
    each concept is, as in the programs of BioSyn (Sung et al. 2020) and SapBERT (Liu et al. 2021). The paper does not
    say which of them it counts. Equal cosines are ordered by concept number, then by row. Rank 1 is the same both ways.

    ``queries (q, d)`` and ``names (n, d)`` are float32 unit vectors, the names distinct; ``owners (n, c)`` and ``gold
    (q, c)`` SciPy CSR arrays: the concepts of each name, and those that are right for each query (there may be none).
    """
    if rank_by not in get_args(RankBy):
        raise ConfigError(f"rank_by is {rank_by!r}", remedy=f"one of {', '.join(get_args(RankBy))}")
    if depth < 1:
        raise ConfigError(f"depth {depth}, 1 or more expected")
    count = len(queries)
    found = Ranks(np.zeros(count, dtype=np.int64), np.full(count, -1), np.zeros(count, dtype=np.float32))
    names = np.ascontiguousarray(names, dtype=np.float32)
    for start in range(0, count if len(names) else 0, _BLOCK):
        part = slice(start, min(start + _BLOCK, count))
        rows, cosines = _nearest(np.ascontiguousarray(queries[part], dtype=np.float32), names, depth)
        rank, found.concept[part], found.cosine[part] = _rank(rows, cosines, owners, gold[part], rank_by)
        found.rank[part] = np.where(rank <= depth, rank, 0)
        if progress is not None:
            progress(part.stop, count)
    return found


def _rank(rows: NDArray[np.int64], cosines: NDArray[np.float32], owners: Any, gold: Any, rank_by: str) -> Ranks:
    """Ranks of b queries, whose nearest names are ``rows (b, k)`` and whose gold is ``gold (b, c)``."""
    b, width = len(rows), owners.shape[1]
    # one entry for each concept of each name, query after query
    entries = owners[rows.ravel()]
    sizes = np.diff(entries.indptr)
    query = np.repeat(np.arange(b), sizes.reshape(rows.shape).sum(axis=1))
    cosine = np.repeat(cosines.ravel(), sizes)
    # only equal cosines are reordered: such a sort is quick, and a stable one keeps the order of rows
    level = np.cumsum((np.diff(query, prepend=0) != 0) | (np.diff(cosine, prepend=cosine[:1]) != 0))
    order = np.argsort(level * width + entries.indices, kind="stable")
    key = query * width + entries.indices[order]
    # a concept counts where it is first met, a name always
    counts = np.full(len(key), int(rank_by == "names"))
    counts[np.unique(key, return_index=True)[1]] = 1
    seen, first = np.cumsum(counts), np.searchsorted(query, np.arange(b))
    right = np.repeat(np.arange(b), np.diff(gold.indptr)) * width + gold.indices
    hits = np.flatnonzero(np.isin(key, right))
    of_query, at = np.unique(query[hits], return_index=True)
    rank = np.zeros(b, dtype=np.int64)
    rank[of_query] = seen[hits[at]] - seen[first[of_query]] + 1
    best = order[first]
    return Ranks(rank, entries.indices[best].astype(np.int64), cosine[best])


def _nearest(queries: NDArray[np.float32], names: NDArray[np.float32], depth: int) -> Neighbours:
    """``(b, k)`` rows of the names with the highest cosines, and these, summed in one order whatever the row."""
    wanted = min(depth + _SPARE, len(names))
    rows = np.ascontiguousarray(faiss().knn(queries, names, wanted, metric=faiss().METRIC_INNER_PRODUCT)[1])
    return best_first(rows, exact_cosines(queries, names, rows), depth)
