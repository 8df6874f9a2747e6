"""Percentile bootstrap intervals (Efron 1979), calibration, and exact ranks of gold concepts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index.knn_graph import best_first, exact_cosines
from medlink.index.vectors.library import faiss
from medlink.records import Result

RESAMPLES = 1000
CONFIDENCE = 0.95
_CELLS = 1 << 20  # cells drawn at a time, so that memory does not grow with the number of resamples

DEPTH = 1000
"""Names searched for each query, as in BioLORD 2022, section 5.1."""
_BLOCK = 256  # queries compared at a time, so that memory does not grow beyond the embeddings
_SPARE = 8  # further names: rounding in the matrix product could cut a tie in the middle
Vector = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Columns ``(..., n)`` to values ``(...)``, along ``axis``."""
RankBy = Literal["concepts", "names"]


@dataclass(frozen=True, slots=True)
class Estimate(Result):
    """A measure over ``items`` items with its interval; NaN if every resample leaves it undefined."""

    items: int
    value: float
    low: float
    high: float


def pearson(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Compute the Pearson correlation along an axis, NaN if a side does not vary."""
    from scipy.stats import pearsonr

    return pearsonr(x, y, axis=axis).statistic


def spearman(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Compute the Spearman correlation along an axis: Pearson on ranks, with mean ranks for ties."""
    from scipy.stats import rankdata

    return pearson(rankdata(x, axis=axis), rankdata(y, axis=axis), axis)


STATISTICS: Mapping[str, Statistic] = {"spearman": spearman, "pearson": pearson}


def estimate(statistic: Statistic, columns: Sequence[Vector], resamples: int, confidence: float, seed: int) -> Estimate:
    """Compute a statistic of columns ``(n,)`` with the percentile interval of its bootstrap.

    Raises:
        ConfigError: there are no items, or an option is outside its range.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence {confidence}, above 0 and below 1 expected")
    drawn, tail = bootstrap_values(statistic, columns, resamples, seed), (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail)).tolist() if len(drawn) else (np.nan, np.nan)
    return Estimate(len(columns[0]), float(statistic(*columns)), low, high)


def bootstrap_values(statistic: Statistic, columns: Sequence[Vector], resamples: int, seed: int) -> Vector:
    """Return the defined values of a statistic in resamples of the items."""
    from scipy.stats import bootstrap

    if resamples < 1:
        raise ConfigError(f"{resamples} resamples, 1 or more expected")
    n = len(columns[0])
    if not n:
        raise ConfigError("there are no items to draw from", remedy="measure one or more")
    if n < 2:
        return np.array([float(statistic(*columns))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # resamples in which a side does not vary give NaN
        drawn: Vector = bootstrap(
            tuple(columns), statistic, n_resamples=resamples, batch=max(1, _CELLS // n), paired=True, vectorized=True,
            method="percentile", rng=np.random.default_rng(seed),
        ).bootstrap_distribution  # fmt: skip
    return drawn[~np.isnan(drawn)]


def calibration_error(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Compute the expected calibration error in ten bins of equal width (Naeini et al. 2015).

    ``scores (n,)`` between 0 and 1 are probabilities that ``right (n,)`` is true; NaN without items.
    """
    if not len(scores):
        return float("nan")
    bins = np.minimum((scores * 10).astype(int), 9)
    return float(sum(abs((scores - right)[bins == b].sum()) for b in range(10)) / len(scores))


class Ranks(NamedTuple):
    """Results of q queries, ``(q,)`` each.

    ``rank`` of the gold concept: from 1, or 0 if it is not among the names searched. ``concept`` at rank 1: -1 for an
    empty dictionary. ``cosine`` of the query and its best name.
    """

    rank: NDArray[np.int64]
    concept: NDArray[np.int64]
    cosine: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankMeasures(Result):
    """Shares of queries with gold at rank 1, in the first five, and not found; ``mrr`` is the mean reciprocal rank."""

    queries: int
    acc1: float
    acc5: float
    mrr: float
    unfound: float


def measure_ranks(ranks: NDArray[np.integer[Any]]) -> RankMeasures:
    """Compute Acc@1, Acc@5 and MRR, with reciprocal rank 0 for gold that was not found (Voorhees 1999, TREC-8).

    BioLORD 2022, table 2, reports MRR and Acc@1 of SCT-L2P this way. ``ranks (q,)`` begin at 1; 0 is not found. Raises
    ConfigError if there is no query.
    """
    if not len(ranks):
        raise ConfigError("no queries to measure", remedy="give one or more")
    is_found = ranks > 0
    reciprocal = np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=is_found)
    shares = (np.mean(ranks == 1), np.mean(is_found & (ranks <= 5)), reciprocal.mean(), np.mean(~is_found))
    return RankMeasures(len(ranks), *map(float, shares))


def rank_gold(
    queries: NDArray[np.float32], names: NDArray[np.float32], owners: Any, gold: Any, *,
    depth: int = DEPTH, rank_by: RankBy = "concepts", progress: Callable[[int, int], object] | None = None,
) -> Ranks:  # fmt: skip
    """Rank the names of a dictionary by cosine with each query; return the rank of the first gold concept.

    BioLORD 2022, section 4.2. ``rank_by`` ``concepts`` ranks each concept once, by its best name; ``names`` ranks each
    name of each concept, as the programs of BioSyn (Sung et al. 2020) and SapBERT (Liu et al. 2021) do. The paper does
    not say which it uses. Rank 1 is the same in both. Equal cosines are ordered by concept number, then by row.

    ``queries (q, d)`` and ``names (n, d)`` are float32 unit vectors, the names distinct. The SciPy CSR arrays ``owners
    (n, c)`` and ``gold (q, c)`` hold the concepts of each name and the right concepts of each query, possibly none.
    """
    if rank_by not in get_args(RankBy):
        raise ConfigError(f"rank_by is {rank_by!r}", remedy=f"one of {', '.join(get_args(RankBy))}")
    if depth < 1:
        raise ConfigError(f"depth {depth}, 1 or more expected")
    count = len(queries)
    ranks = Ranks(np.zeros(count, dtype=np.int64), np.full(count, -1), np.zeros(count, dtype=np.float32))
    for start in range(0, count if len(names) else 0, _BLOCK):
        part = slice(start, min(start + _BLOCK, count))
        near = min(depth + _SPARE, len(names))
        rows = faiss().knn(queries[part], names, near, metric=faiss().METRIC_INNER_PRODUCT)[1]
        # each cosine is summed in the same order
        rows, cosines = best_first(rows, exact_cosines(queries[part], names, rows), depth)
        rank, ranks.concept[part], ranks.cosine[part] = _rank(rows, cosines, owners, gold[part], rank_by)
        ranks.rank[part] = np.where(rank <= depth, rank, 0)
        if progress is not None:
            progress(part.stop, count)
    return ranks


def _rank(rows: NDArray[np.int64], cosines: NDArray[np.float32], owners: Any, gold: Any, rank_by: str) -> Ranks:
    b, width = len(rows), owners.shape[1]
    # an entry for each concept of each name, query after query
    entries = owners[rows.ravel()]
    sizes = np.diff(entries.indptr)
    query = np.repeat(np.arange(b), sizes.reshape(rows.shape).sum(axis=1))
    cosine = np.repeat(cosines.ravel(), sizes)
    # only equal cosines are reordered; a stable sort keeps the order of rows
    level = np.cumsum((np.diff(query, prepend=0) != 0) | (np.diff(cosine, prepend=cosine[:1]) != 0))
    order = np.argsort(level * width + entries.indices, kind="stable")
    key = query * width + entries.indices[order]
    # a concept counts at its first entry, a name at each
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
