"""Measures of a clustering against the concepts of its terms.

Terms may belong to several concepts. One definition holds for all measures: two terms belong together when they share
a concept; a pair that shares several is one pair all the same. With one concept for each term these are the usual
measures. Terms and concepts are an incidence matrix, ``(n, concepts)`` SciPy CSR of int64 ones, so that pairs are
counted without listing them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Record
from medlink.errors import ConfigError, InputError
from medlink.evaluation.names import read_clusters, read_dictionary
from medlink.evaluation.task import Report, Run, Task

Groups = Sequence[str | Collection[str] | Collection[int]]
"""For each name its concept, or its concepts."""
_CHUNK = 1 << 18
_ROWS = 512


@dataclass(frozen=True, slots=True)
class PartitionMeasures(Record):
    """How well clusters and concepts agree, each measure between 0 and 1.

    Pairs: of those in one cluster the share that belong together, of those that belong together the share that are in
    one cluster, 0 when there is none. B-cubed: means over terms of the share of their cluster that belongs with them,
    and of the share of what belongs with them that is in their cluster. ``mixed`` is the share of clusters of two or
    more terms in which two do not belong together. ``cross_lingual_recall`` is the recall of pairs in two languages,
    ``None`` when none belongs together.
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
    """Measure a clustering in which each term is in one cluster.

    B-cubed: Bagga and Baldwin 1998, "Algorithms for Scoring Coreference Chains", with equal weights. Amigó et al. 2009
    extend it to several concepts; their recall also asks how many concepts a pair shares, ours only whether it shares
    one. A pair is of two languages unless both terms have only one and the same; a term without a language takes no
    part. Time is linear in terms while concepts are bounded.

    Args:
        clusters: cluster of each of n distinct terms.
        concepts: the id of its concept, or the ids of its concepts, at least one.
        languages: its language, or its languages; an empty one is none.

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
    gold, both = related(matrix), related(split_columns(matrix, cluster))
    pairs = np.array([both.sum() - n, size.sum() - n, gold.sum() - n])
    precision = np.array([share_of(pairs[0], pairs[1]), (both / size).mean()])
    recall = np.array([share_of(pairs[0], pairs[2]), (both / gold).mean()])
    both_kinds = np.stack([precision, recall, harmonic(precision, recall)], axis=1).ravel().tolist()
    across = None if languages is None else _cross_lingual(matrix, cluster, languages)
    several, bad = sizes > 1, np.zeros(len(sizes), dtype=bool)
    bad[cluster[both < size]] = True
    mixed = float(share_of((several & bad).sum(), several.sum()))
    measures: list[Any] = [*both_kinds, mixed, across]
    return PartitionMeasures(n, len(sizes), *measures)


def _cross_lingual(matrix: Any, cluster: NDArray[np.int64], languages: Sequence[str | Collection[str]]) -> float | None:
    """Share of the related pairs in two languages that are in one cluster."""
    sets = [{tags} - {""} if isinstance(tags, str) else set(tags) - {""} for tags in languages]
    known = np.array([i for i, tags in enumerate(sets) if tags], dtype=np.int64)
    if not len(known):
        return None
    # A term of several languages is in another language than any other term: it gets a label of its own.
    labels = [next(iter(sets[i])) if len(sets[i]) == 1 else f"\0{i}" for i in known.tolist()]
    language = np.unique(labels, return_inverse=True)[1]
    of_known = matrix[known]
    joined = split_columns(of_known, cluster[known])
    apart = [int((related(m) - related(split_columns(m, language))).sum()) for m in (joined, of_known)]
    return apart[0] / apart[1] if apart[1] else None


def incidence(groups: Groups) -> Any:
    """Which of n names belongs to which concept; columns follow the sorted ids.

    Raises:
        ConfigError: a name has no concept.
    """
    sets: list[set[Any]] = [{group} if isinstance(group, str) else set(group) for group in groups]
    if not all(sets):
        raise ConfigError(f"name {sets.index(set())} belongs to no concept", remedy="leave such names out")
    number = {name: column for column, name in enumerate(sorted(set().union(*sets)))}
    return from_rows([sorted(number[name] for name in ids) for ids in sets], len(number))


def from_rows(rows: Sequence[Collection[int]], width: int) -> Any:
    """The sparse matrix with ones at the columns of each row."""
    from scipy.sparse import csr_array

    columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), shape=(len(rows), width))


def split_columns(matrix: Any, label: NDArray[np.int64]) -> Any:
    """Part each concept by an integer label of its names, 0 or more, such as a cluster or a language.

    Two rows share a column of the result if they share a concept and have the same label.
    """
    labels = np.repeat(label, np.diff(matrix.indptr))
    key = matrix.indices.astype(np.int64) * (int(label.max(initial=0)) + 1) + labels
    used, columns = np.unique(key, return_inverse=True)
    return type(matrix)((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], len(used)))


def related(matrix: Any) -> NDArray[np.int64]:
    """``(n,)`` how many names share a concept with each name, itself included: n more than twice the pairs in all.

    The sizes of its concepts, less what names that share more than one concept with it were counted too often. Only
    names of several concepts can be such, and only among them are pairs formed: time and memory are linear in names
    as long as concepts are bounded.
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


def share(matrix: Any, one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """``(p,)`` whether the names in rows ``one (p,)`` and ``other (p,)`` share a concept."""
    same = np.zeros(len(one), dtype=bool)
    for start in range(0, len(one), _CHUNK):
        part = slice(start, start + _CHUNK)
        same[part] = np.asarray(matrix[one[part]].multiply(matrix[other[part]]).sum(axis=1)) > 0
    return same


def harmonic(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Harmonic mean, 0 where both are 0: F1 of precision and recall."""
    return share_of(2 * one * other, one + other)


def share_of(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """``part / whole``, 0 where the whole is 0."""
    part = np.asarray(part, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros_like(part), where=np.asarray(whole) > 0)


class PartitionTask(Task):
    """Measure the clusters in PREDICTED against the concepts in GOLD.

    PREDICTED is a table with the columns term and cluster, such as 'medlink cluster' writes; GOLD is a knowledge base,
    a bundle, or a table with the columns concept_id, name and language. Where PREDICTED has a term in two clusters, its
    column language tells them apart. Terms that only one of the two files has are counted and left out.
    """

    inputs: ClassVar = ("predicted", "gold")
    encodes: ClassVar[bool] = False
    systems: ClassVar = ()
    itemised: ClassVar[bool] = False

    def measure(self, run: Run) -> Report:
        """Precision, recall and F1 by pairs and by B-cubed, and the recall of pairs of two languages."""
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
        found = measure_partition([clusters[keys[row]] for row in rows], both.owners, both.languages)
        head = (
            f"{found.terms} terms in {found.clusters} clusters, {found.mixed:.3f} of those of several terms mixed; "
            f"{len(clusters) - len(both)} without a concept and {len(names) - len(both)} without a cluster left out"
        )
        measures = {
            "pairs": (found.pair_precision, found.pair_recall, found.pair_f1),
            "B-cubed": (found.bcubed_precision, found.bcubed_recall, found.bcubed_f1),
            "pairs of two languages": (None, found.cross_lingual_recall, None),
        }
        table = [{"measure": name, "P": p, "R": r, "F1": f1} for name, (p, r, f1) in measures.items()]
        return Report(head, table, problems=run.problems)
