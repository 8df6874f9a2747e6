"""Measures of a clustering against the concepts of its terms, and of how well embeddings cluster names.

Two terms belong together if they share one or more of their concepts. Terms and concepts form an incidence matrix,
``(n, concepts)`` SciPy CSR of int64 ones, so that pairs are counted without listing them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator

from medlink.clustering.graph import near_pairs
from medlink.errors import ConfigError, InputError
from medlink.evaluation.names import Dictionary, read_clusters, read_dictionary
from medlink.evaluation.task import Report, Run, Sampled, Task, step
from medlink.index.knn_graph import nearest
from medlink.models import load_encoder
from medlink.records import Result
from medlink.settings import option

Groups = Sequence[str | Collection[str] | Collection[int]]
"""One or more concepts of each name."""
_CHUNK, _ROWS = 1 << 18, 512  # pairs and names compared at a time
_MAX_STEPS = 1000
_CUTS = np.arange(0.05, 0.96, 0.025)  # cosines
_MOST_LINKED = 10_000  # terms of a baseline that compares all pairs: 0.8 GB
NEIGHBOURS = 50
"""Neighbours of each name; CODER++ leaves its m open."""
THRESHOLDS = tuple(round(0.30 + 0.01 * i, 2) for i in range(70))
"""0.30 to 0.99; CODER++ goes from 0.60 to 0.98 (section 5.5), in steps of 0.02 (figure 3)."""


@dataclass(frozen=True, slots=True)
class PartitionMeasures(Result):
    """Agreement of clusters and concepts, each measure between 0 and 1.

    Pair precision is the share of pairs in one cluster that belong together; pair recall is the share of pairs
    belonging together that are in one cluster. Both are 0 without pairs. B-cubed measures are these shares for the
    pairs of a term, averaged over terms. ``mixed`` is the share of clusters of two or more terms in which two terms do
    not belong together. ``cross_lingual_recall`` is the recall of pairs in two languages, ``None`` without such pairs.
    """

    terms: int
    clusters: int
    pair_precision: float
    pair_recall: float
    pair_f1: float
    bcubed_precision: float
    bcubed_recall: float
    bcubed_f1: float
    mixed: float
    cross_lingual_recall: float | None


def measure_partition(
    clusters: Sequence[str], concepts: Groups, languages: Sequence[str | Collection[str]] | None = None
) -> PartitionMeasures:
    """Measure a clustering in which each of n distinct terms is in one cluster.

    B-cubed: Bagga and Baldwin 1998, "Algorithms for Scoring Coreference Chains", with equal weights. Amigó et al. 2009
    extend it to several concepts: their recall counts the concepts that a pair shares; here it counts only whether it
    shares any. A pair has two languages unless both terms have the same single language; terms without a language, or
    with an empty tag, do not count. Time is linear in terms while the size of concepts is bounded.

    Raises:
        ConfigError: there are no terms, lengths differ, or a term has no concept.
    """
    n = len(clusters)
    if not n:
        raise ConfigError("no terms to measure", remedy="give one or more")
    if len(concepts) != n or (languages is not None and len(languages) != n):
        raise ConfigError(f"{n} terms and {len(concepts)} entries of concepts or languages, as many of both expected")
    matrix = incidence(concepts)
    _, cluster, sizes = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    size = sizes[cluster]
    gold, both = count_related(matrix), count_related(split_concepts_by(matrix, cluster))
    joint = both.sum() - n
    precision = np.array([safe_divide(joint, size.sum() - n), (both / size).mean()])
    recall = np.array([safe_divide(joint, gold.sum() - n), (both / gold).mean()])
    shares = np.stack([precision, recall, harmonic_mean(precision, recall)], axis=1).ravel().tolist()
    mixed = float(safe_divide(len(np.unique(cluster[both < size])), (sizes > 1).sum()))
    measures: list[Any] = [*shares, mixed, languages and _cross_lingual(matrix, cluster, languages)]
    return PartitionMeasures(n, len(sizes), *measures)


def _cross_lingual(matrix: Any, cluster: NDArray[np.int64], languages: Sequence[str | Collection[str]]) -> float | None:
    sets = [{tags} - {""} if isinstance(tags, str) else set(tags) - {""} for tags in languages]
    known = np.array([i for i, tags in enumerate(sets) if tags], dtype=np.int64)
    if not len(known):
        return None
    # a term of several languages differs in language from every other term: it gets a label of its own
    labels = [next(iter(sets[i])) if len(sets[i]) == 1 else f"\0{i}" for i in known.tolist()]
    language = np.unique(labels, return_inverse=True)[1]
    of_known = matrix[known]
    kinds = split_concepts_by(of_known, cluster[known]), of_known
    together, total = (int((count_related(m) - count_related(split_concepts_by(m, language))).sum()) for m in kinds)
    return together / total if total else None


def incidence(groups: Groups) -> Any:
    """Build the incidence matrix of n names, with the columns by sorted id; ConfigError for a name without concept."""
    sets: list[set[Any]] = [{group} if isinstance(group, str) else set(group) for group in groups]
    if not all(sets):
        raise ConfigError(f"name {sets.index(set())} belongs to no concept", remedy="leave such names out")
    number = {name: column for column, name in enumerate(sorted(set().union(*sets)))}
    return build_incidence([sorted(number[name] for name in ids) for ids in sets], len(number))


def build_incidence(rows: Sequence[Collection[int]], width: int) -> Any:
    """Build a sparse matrix with ones at the given columns of each row."""
    from scipy.sparse import csr_array

    columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), shape=(len(rows), width))


def split_concepts_by(matrix: Any, label: NDArray[np.int64]) -> Any:
    """Split each concept by a label of its names, an integer from 0, such as a cluster or a language.

    Two rows share a column of the result if they share a concept and have the same label.
    """
    labels = np.repeat(label, np.diff(matrix.indptr))
    key = matrix.indices.astype(np.int64) * (int(label.max(initial=0)) + 1) + labels
    used, columns = np.unique(key, return_inverse=True)
    return type(matrix)((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], len(used)))


def count_related(matrix: Any) -> NDArray[np.int64]:
    """Count, for each name ``(n,)``, the names that share a concept with it, itself included; the sum is n + 2 * pairs.

    Sums the sizes of the concepts, and corrects for names that share several concepts. Time and memory are linear in
    names while the size of concepts is bounded.
    """
    counts: NDArray[np.int64] = np.asarray(matrix @ matrix.sum(axis=0), dtype=np.int64)
    several = np.flatnonzero(np.diff(matrix.indptr) > 1)
    few = matrix[several]
    others = few.T.tocsr()
    for start in range(0, len(several), _ROWS):
        shared = few[start : start + _ROWS] @ others
        shared.data -= 1
        counts[several[start : start + _ROWS]] -= np.asarray(shared.sum(axis=1), dtype=np.int64)
    return counts


def shares_concept(matrix: Any, first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return whether the names in rows ``first (p,)`` and ``second (p,)`` share a concept, ``(p,)``."""
    same = np.zeros(len(first), dtype=bool)
    for start in range(0, len(first), _CHUNK):
        part = slice(start, start + _CHUNK)
        same[part] = np.asarray(matrix[first[part]].multiply(matrix[second[part]]).sum(axis=1)) > 0
    return same


def harmonic_mean(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the harmonic mean, 0 where both are 0: F1 of precision and recall."""
    return safe_divide(2 * one * other, one + other)


def safe_divide(part: ArrayLike, whole: ArrayLike) -> NDArray[np.float64]:
    """Compute ``part / whole``, 0 where the whole is 0."""
    part = np.asarray(part, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros_like(part), where=np.asarray(whole) > 0)


class PartitionTask(Task):
    """Measure the clusters in PREDICTED against the concepts in GOLD.

    PREDICTED is a table with the columns term and cluster, such as 'medlink cluster' writes; GOLD is a knowledge base,
    a bundle, or a table with the columns concept_id, name and language. The column language of PREDICTED may separate
    equal terms in two clusters. Terms that only one of the files has are counted and left out.
    """

    inputs: ClassVar = ("predicted", "gold")
    needs_encoder: ClassVar[bool] = False
    has_items: ClassVar[bool] = False
    baselines: bool = option(False, "Add equal letters, and average linkage of the built-in encoder at its best cut.")

    def measure(self, run: Run) -> Report:
        predicted, gold = run.paths
        clusters = read_clusters(predicted, run.problems)
        by_language = any(language for _, language in clusters)
        names = read_dictionary(gold, run.problems, by_language=by_language)
        keys = [(text, tags[0] if by_language else "") for text, tags in zip(names.texts, names.languages, strict=True)]
        if by_language and not any(language for _, language in keys):
            raise InputError(
                f"it has terms with a cluster for each language, and {gold} names no language",
                path=predicted,
                remedy="give the names their language, or each term one cluster",
            )
        rows = [row for row, key in enumerate(keys) if key in clusters]
        if not rows:
            remedy = "give the names as they were"
            raise InputError(f"none of its terms is a name in {gold}", path=predicted, remedy=remedy)
        both = names.take(rows)
        scores = measure_partition([clusters[keys[row]] for row in rows], both.owners, both.languages)
        head = (
            f"{scores.terms} terms in {scores.clusters} clusters, {scores.mixed:.3f} of those of several terms mixed; "
            f"{len(clusters) - len(both)} without a concept and {len(names) - len(both)} without a cluster left out"
        )
        measures = {
            "pairs": (scores.pair_precision, scores.pair_recall, scores.pair_f1),
            "B-cubed": (scores.bcubed_precision, scores.bcubed_recall, scores.bcubed_f1),
            "pairs of two languages": (None, scores.cross_lingual_recall, None),
        }
        for name, of in self._baselines(both).items():
            measures[f"pairs, {name}"] = (of.pair_precision, of.pair_recall, of.pair_f1)
            measures[f"B-cubed, {name}"] = (of.bcubed_precision, of.bcubed_recall, of.bcubed_f1)
        table = [{"measure": name, **dict(zip(("P", "R", "F1"), row, strict=True))} for name, row in measures.items()]
        return Report(head, table, problems=run.problems)

    def _baselines(self, names: Dictionary) -> dict[str, PartitionMeasures]:
        if not self.baselines:
            return {}
        if len(names) > _MOST_LINKED:
            problem = f"the baseline compares all pairs, which are too many for {len(names):,} terms"
            raise ConfigError(problem, remedy=f"leave baselines out, or give at most {_MOST_LINKED:,} terms")
        return {
            "equal letters": measure_partition(equal_letters(names.texts), names.owners, names.languages),
            "average linkage": best_average_linkage(load_encoder().encode(names.texts), names.owners, names.languages),
        }


def best_average_linkage(
    vectors: NDArray[np.float32], concepts: Groups, languages: Sequence[str | Collection[str]] | None = None
) -> PartitionMeasures:
    """Measure average linkage over the cosine of all pairs, cut where the pair F1 is best, which no user knows.

    ``vectors (n, d)`` have unit length. Time and memory are quadratic in n.
    """
    from scipy.cluster.hierarchy import average, fcluster

    if len(vectors) < 2:
        return measure_partition(["1"] * len(vectors), concepts, languages)
    cosines = np.clip(vectors @ vectors.T, -1, 1)
    tree = average(1 - cosines[np.triu_indices(len(vectors), 1)])
    cuts = (fcluster(tree, 1 - at, "distance").astype(str).tolist() for at in _CUTS)
    return max((measure_partition(cut, concepts, languages) for cut in cuts), key=lambda one: one.pair_f1)


def equal_letters(texts: Sequence[str]) -> list[str]:
    """Cluster terms that are equal but for case and what is no letter or digit."""
    return ["".join(filter(str.isalnum, text.casefold())) or text for text in texts]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Counts of pairs ``(t,)`` at each of the ascending cosines ``thresholds (t,)``.

    ``true_pairs`` share a concept. In ``listed_true_pairs``, one name is among the ``neighbours`` of the other; no
    threshold finds more.
    """

    names: int
    neighbours: int
    true_pairs: int
    listed_true_pairs: int
    thresholds: NDArray[np.float64]
    tp: NDArray[np.int64]
    fp: NDArray[np.int64]
    fn: NDArray[np.int64]
    tn: NDArray[np.int64]

    @property
    def precision(self) -> NDArray[np.float64]:
        return safe_divide(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> NDArray[np.float64]:
        return safe_divide(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> NDArray[np.float64]:
        return harmonic_mean(self.precision, self.recall)

    @property
    def best(self) -> int:
        """Index of the lowest threshold with the highest F1: the paper's theta 0."""
        return int(np.argmax(self.f1))

    def to_dicts(self) -> list[dict[str, float | int]]:
        names = ("precision", "recall", "f1", "tp", "fp", "fn", "tn")
        columns = {"threshold": self.thresholds, **{name: getattr(self, name) for name in names}}
        return [
            dict(zip(columns, row, strict=True)) for row in zip(*map(np.ndarray.tolist, columns.values()), strict=True)
        ]


def sweep(
    concepts: Groups, embeddings: NDArray[np.float32], *, neighbours: int = NEIGHBOURS,
    thresholds: ArrayLike = THRESHOLDS, progress: Callable[[int, int], object] | None = None,
) -> Sweep:  # fmt: skip
    """Evaluate embeddings as a clustering of names, at every threshold at once (CODER++, Zeng et al. 2022, section 3).

    A pair of names is predicted if either is among the m nearest names of the other and their cosine is above the
    threshold. A pair is true if the names share a concept. A true pair in neither list is missed, whatever its cosine.
    FN follows from the number of true pairs, and TN from the number of all pairs (sections 3.1 and 3.2). Pairs have no
    direction. Unlike in the paper, a name may belong to several concepts.

    Args:
        concepts: one or more concept ids of each of n distinct names.
        embeddings: ``(n, d)`` float32 unit vectors of the names; a zero vector has no neighbour.
        neighbours: m, the number of nearest names of each name.
        thresholds: ``(t,)`` cosines, ascending.
        progress: called with the number of distinct names done and their total.

    Raises:
        ConfigError: lengths differ, no two names share a concept, thresholds are not ascending cosines, or the vectors
            are not of length 1.
    """
    n, limits = len(concepts), np.asarray(thresholds, dtype=np.float64)
    if n != len(embeddings):
        raise ConfigError(f"{n} names and {len(embeddings)} embeddings, as many of both expected")
    # phrased so that NaN fails
    if limits.ndim != 1 or not len(limits) or not ((np.diff(limits) > 0).all() and (np.abs(limits) <= 1).all()):
        message = "thresholds must be cosines between -1 and 1, ascending, each once"
        raise ConfigError(message, remedy="sort them, and remove duplicates")
    matrix = incidence(concepts)
    rows, cosines = nearest(embeddings, neighbours, progress=progress)
    true_pairs = (int(count_related(matrix).sum()) - n) // 2
    if not true_pairs:
        raise ConfigError(
            "no two names share a concept", remedy="evaluate on a source that has synonyms or translations"
        )
    first, second, cosine = near_pairs(rows, cosines)
    true = shares_concept(matrix, first, second)
    # the number of thresholds below the cosine, at which the pair is predicted
    reached = np.searchsorted(limits, cosine.astype(np.float64), side="left")
    width = len(limits) + 1
    # from pairs by their number of thresholds to pairs predicted at each threshold
    tp, fp = (np.cumsum(np.bincount(reached[i], minlength=width)[::-1])[::-1][1:] for i in (true, ~true))
    fn = true_pairs - tp
    tn = n * (n - 1) // 2 - tp - fp - fn
    return Sweep(n, rows.shape[1], true_pairs, int(true.sum()), limits, tp, fp, fn, tn)


class ClusteringTask(Sampled):
    """Find the threshold at which embeddings best keep the names of one concept together (CODER++, section 3).

    NAMES is a knowledge base, a bundle, or a table with the columns concept_id, name and language.
    """

    inputs: ClassVar = ("names",)

    sample: int | None = option(None, "So many names or a few more, of whole concepts.", ge=2)
    neighbours: int = option(NEIGHBOURS, "Nearest names compared with each name.", ge=1)
    thresholds: Annotated[str, AfterValidator(lambda text: threshold_range(text) and text)] = option(
        "0.30:0.99:0.01", "Cosines above which a pair is predicted, as START:STOP:STEP, both ends included."
    )

    def measure(self, run: Run) -> Report:
        names = read_dictionary(run.paths[0], run.problems)
        if self.sample is not None:
            names = names.sample(self.sample, self.seed)
        counts = sweep(
            names.owners, run.embed(names.texts), neighbours=self.neighbours,
            thresholds=threshold_range(self.thresholds), progress=step(run.progress, "names compared"),
        )  # fmt: skip
        items = counts.to_dicts()
        best = items[counts.best]
        head = (
            f"{counts.names} names of {len(set().union(*names.owners))} concepts, {counts.true_pairs} true pairs, "
            f"{counts.listed_true_pairs / counts.true_pairs:.1%} of them among the {self.neighbours} nearest"
        )
        short = {"P": "precision", "R": "recall", "F1": "f1", "TP": "tp", "FP": "fp", "FN": "fn", "TN": "tn"}
        row = {"theta0": best["threshold"]} | {name: best[key] for name, key in short.items()}
        return Report(head, [row], items, run.problems)


def threshold_range(text: str) -> list[float]:
    """Parse thresholds ``START:STOP:STEP``, both ends included, up to 1,000; ``ValueError`` for any other text."""
    try:
        start, stop, size = (Decimal(part) for part in text.split(":"))
        if not (-1 <= start <= stop <= 1 and 0 < size < _MAX_STEPS and (stop - start) / size < _MAX_STEPS):
            raise ValueError
    # ArithmeticError: not a number, or a quotient too large for a decimal
    except (ValueError, ArithmeticError):
        raise ValueError(
            f"thresholds is {text!r}, START:STOP:STEP expected: -1 <= START <= STOP <= 1, STEP > 0, "
            f"up to {_MAX_STEPS} steps"
        ) from None
    return [float(start + i * size) for i in range(int((stop - start) / size) + 1)]
