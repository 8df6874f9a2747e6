"""How well embeddings keep the names of one concept together and others apart: CODER++, sections 3.1 and 3.2.

Zeng et al. 2022, "Automatic Biomedical Term Clustering by Learning Fine-grained Term Representations". A pair of names
is predicted when one is among the m nearest of the other and their cosine is above a threshold; it is true when both
names belong to one concept. A true pair that is in neither list is therefore missed, whatever its cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field

from medlink.clustering.graph import near_pairs
from medlink.errors import ConfigError
from medlink.evaluation.names import read_dictionary
from medlink.evaluation.partition import Groups, harmonic, incidence, related, share, share_of
from medlink.evaluation.task import Report, Run, Sampled, step
from medlink.index.selfjoin import nearest

NEIGHBOURS = 50
"""Neighbours of each name; the paper leaves its m open."""
_MANY = 1000  # thresholds; more are a slip of the keyboard
THRESHOLDS = tuple(round(0.30 + 0.01 * i, 2) for i in range(70))
"""0.30 to 0.99; the paper goes from 0.60 to 0.98 (section 5.5), in steps of 0.02 (figure 3)."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Counts of pairs at each threshold.

    ``true_pairs`` share a concept; in ``listed_true_pairs`` of them one name is among the ``neighbours`` of the other,
    and no threshold finds more. At each of the ascending ``thresholds (t,)``, cosines, ``tp`` and ``fp (t,)`` are the
    predicted pairs that are true and that are not, ``fn`` and ``tn (t,)`` those that are not predicted.
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
        """``(t,)`` share of the predicted pairs that are true, 0 where none is predicted."""
        return share_of(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> NDArray[np.float64]:
        """``(t,)`` share of the true pairs that are predicted."""
        return share_of(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> NDArray[np.float64]:
        """``(t,)`` harmonic mean of precision and recall."""
        return harmonic(self.precision, self.recall)

    @property
    def best(self) -> int:
        """Index of the threshold with the highest F1, the lowest of several: the paper's theta 0."""
        return int(np.argmax(self.f1))

    def to_dicts(self) -> list[dict[str, float | int]]:
        """One plain row for each threshold."""
        names = ("threshold", "precision", "recall", "f1", "tp", "fp", "fn", "tn")
        columns = [getattr(self, name if name != "threshold" else "thresholds").tolist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def sweep(
    concepts: Groups,
    embeddings: NDArray[np.float32],
    *,
    neighbours: int = NEIGHBOURS,
    thresholds: ArrayLike = THRESHOLDS,
    kind: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Sweep:
    """Evaluate embeddings as a clustering of names, at every threshold at once.

    CODER++, sections 3.1 and 3.2: FN comes from the number of true pairs, TN from that of all pairs. Pairs have no
    direction. Different from the paper: a name may belong to several concepts, and two names are a true pair when they
    share one (the paper's concepts are taken apart by CUI; a pair that shares two still counts once).

    Args:
        concepts: for each of n distinct names the id of its concept, or the ids of its concepts.
        embeddings: ``(n, d)`` float32 unit vectors of the names; a zero vector has no neighbour.
        neighbours: m, how many nearest names are looked at for each.
        thresholds: ``(t,)`` cosines, ascending; a pair is predicted above, not at, the threshold.
        kind, progress: see :func:`medlink.index.selfjoin.nearest`.

    Raises:
        ConfigError: lengths differ, no two names share a concept, thresholds are not ascending cosines, or the vectors
            are not of length 1.
    """
    if len(concepts) != len(embeddings):
        raise ConfigError(f"{len(concepts)} names and {len(embeddings)} embeddings, as many of both expected")
    limits = np.asarray(thresholds, dtype=np.float64)
    # Written so that NaN is refused as well.
    if limits.ndim != 1 or not len(limits) or not ((np.diff(limits) > 0).all() and (np.abs(limits) <= 1).all()):
        message = "thresholds must be cosines between -1 and 1, ascending, each once"
        raise ConfigError(message, remedy="sort them, and take out what is there twice")
    matrix = incidence(concepts)
    rows, cosines = nearest(embeddings, neighbours, kind=kind, progress=progress)
    return count_pairs(matrix, rows, cosines, limits)


def count_pairs(
    matrix: Any, rows: NDArray[np.integer[Any]], cosines: NDArray[np.float32], thresholds: NDArray[np.float64]
) -> Sweep:
    """Count pairs at each of the ``thresholds (t,)`` from ``rows, cosines (n, m)``, the lists of neighbours.

    Time is linear in the number of neighbours; true pairs are counted from the sizes of concepts in the incidence
    ``matrix`` (:func:`medlink.evaluation.partition.related`), not visited.

    Raises:
        ConfigError: no two names share a concept.
    """
    n = len(rows)
    true_pairs = (int(related(matrix).sum()) - n) // 2
    if not true_pairs:
        remedy = "evaluate on a source that has synonyms or translations"
        raise ConfigError("no two names share a concept", remedy=remedy)
    one, other, cosine = near_pairs(rows, cosines)
    true = share(matrix, one, other)
    # How many thresholds lie below the cosine: the pair is predicted at that many, the lowest.
    reached = np.searchsorted(thresholds, cosine.astype(np.float64), side="left")
    width = len(thresholds) + 1
    # from how many reach so many thresholds to how many are predicted at each
    tp, fp = (np.cumsum(np.bincount(reached[i], minlength=width)[::-1])[::-1][1:] for i in (true, ~true))
    fn = true_pairs - tp
    tn = n * (n - 1) // 2 - tp - fp - fn
    return Sweep(n, rows.shape[1], true_pairs, int(true.sum()), thresholds, tp, fp, fn, tn)


class ClusteringTask(Sampled):
    """Find the threshold at which embeddings best keep the names of one concept together (CODER++, section 3).

    NAMES is a knowledge base, a bundle, or a table with the columns concept_id, name and language.
    """

    inputs: ClassVar = ("names",)
    draws: ClassVar[bool] = True

    sample: Annotated[int | None, Field(ge=2, description="Only so many names or a few more, of whole concepts.")] = (
        None
    )
    neighbours: Annotated[int, Field(ge=1, description="Nearest names that are looked at for each name.")] = NEIGHBOURS
    thresholds: Annotated[
        str,
        Field(description="Cosines above which a pair is predicted, as START:STOP:STEP, both ends included."),
        AfterValidator(lambda text: threshold_range(text) and text),
    ] = "0.30:0.99:0.01"

    def measure(self, run: Run) -> Report:
        """Counts and measures at each threshold; the table has the one that is best."""
        names = read_dictionary(run.paths[0], run.problems)
        if self.sample is not None:
            names = names.sample(self.sample, self.seed)
        found = sweep(
            names.owners,
            run.embed(names.texts),
            neighbours=self.neighbours,
            thresholds=threshold_range(self.thresholds),
            progress=step(run.progress, "names compared"),
        )
        items = found.to_dicts()
        best = items[found.best]
        head = (
            f"{found.names} names of {len(set().union(*names.owners))} concepts, {found.true_pairs} true pairs, "
            f"{found.listed_true_pairs / found.true_pairs:.1%} of them among the {self.neighbours} nearest"
        )
        short = {"P": "precision", "R": "recall", "F1": "f1", "TP": "tp", "FP": "fp", "FN": "fn", "TN": "tn"}
        row = {"theta0": best["threshold"]} | {name: best[key] for name, key in short.items()}
        return Report(head, [row], items, run.problems, sweep=found)


def threshold_range(text: str) -> list[float]:
    """The thresholds of ``START:STOP:STEP``, both ends included, up to 1,000; ``ValueError`` for any other text."""
    try:
        start, stop, size = (Decimal(part) for part in text.split(":"))
        if not (-1 <= start <= stop <= 1 and 0 < size < _MANY and (stop - start) / size < _MANY):
            raise ValueError
    # what is not a number is an arithmetic error, as is a quotient too large for a decimal
    except (ValueError, ArithmeticError):
        raise ValueError(
            f"thresholds is {text!r}, START:STOP:STEP expected: -1 <= START <= STOP <= 1, STEP > 0, up to {_MANY} steps"
        ) from None
    return [float(start + i * size) for i in range(int((stop - start) / size) + 1)]
