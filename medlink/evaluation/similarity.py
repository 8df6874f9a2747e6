"""How well cosines of embeddings agree with what people said of pairs and triplets of texts.

BioLORD 2022: Spearman correlation with ratings of concept pairs (section 4.1, table 1), Pearson correlation with scores
of sentence pairs (section 4.3, table 3), and which of two hypotheses is nearer to their premise (section 4.4, table 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from medlink.errors import ConfigError, InputError
from medlink.evaluation.resampling import CONFIDENCE, RESAMPLES, STATISTICS, Estimate, Scores, Vector, estimate
from medlink.evaluation.task import Cell, Report, Row, Run, Sampled, StrPath
from medlink.training.data.rated import RatedPair, Triplet, has_triplets, read_pairs, read_triplets

MEASURES = ("spearman", "pearson")


def pair_cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(n,)`` cosine of each row with the same row of another array, ``(n, d)`` float32 unit vectors both.

    They are summed in one order: equal pairs have equal cosines.

    Raises:
        ConfigError: the shapes differ.

    >>> x = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    >>> pair_cosines(x, x[::-1]).round(3).tolist()
    [0.6000000238418579, 0.6000000238418579]
    """
    if one.shape != other.shape or one.ndim != 2:
        raise ConfigError(f"embeddings of shape {one.shape} and {other.shape}, the same (n, d) expected")
    cosines: NDArray[np.float32] = np.clip(np.einsum("nd,nd->n", one, other), -1, 1)
    return cosines


def correlate(
    ratings: ArrayLike,
    scores: ArrayLike,
    *,
    measure: str = "spearman",
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Estimate:
    """Correlation of ratings with scores, and its interval by resampling pairs.

    Spearman is Pearson on ranks, equal values sharing the mean of their ranks (SciPy's ``spearmanr``). BioLORD 2022,
    table 1 (Spearman) and table 3 (Pearson), where no interval is given; here it is the percentile interval of the
    bootstrap (Efron 1979): resamples in which one side does not vary define no correlation and are left out.

    Args:
        ratings, scores: ``(n,)`` what people said, on any scale, and what the embeddings say.
        measure: ``spearman`` or ``pearson``.
        resamples: how often n pairs are drawn with replacement.
        confidence: share of the resamples inside the interval.
        seed: seed of the draws.

    Raises:
        ConfigError: lengths differ, there are fewer than two pairs, a side does not vary or holds NaN or infinite
            values, or an option is outside its range.

    >>> correlate([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.9]).value
    1.0
    >>> round(correlate([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.9], measure="pearson").value, 3)
    0.898
    """
    if measure not in MEASURES:
        raise ConfigError(f"unknown measure {measure!r}", remedy=f"one of {', '.join(MEASURES)}")
    columns = _columns(ratings, scores, "ratings", "scores")
    named = {"ratings": columns[0], "scores": columns[1]}
    for name, values in named.items():
        if not np.isfinite(values).all():
            raise ConfigError(f"the {name} hold NaN or infinite values", remedy="give finite numbers")
    if len(columns[0]) < 2:
        raise ConfigError(f"{len(columns[0])} rated pairs, two or more expected", remedy="give more pairs")
    for name, values in named.items():
        if (values == values[0]).all():
            remedy = "give pairs that differ"
            raise ConfigError(f"the {name} are all equal, so no correlation is defined", remedy=remedy)
    return estimate(STATISTICS[measure], columns, resamples, confidence, seed)


def triplet_accuracy(
    entailed: ArrayLike,
    contradicted: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Estimate:
    """Share of triplets in which the entailed text is nearer to its premise than the contradicted one.

    BioLORD 2022, section 4.4 and table 4 (MedNLI-S). A tie is no success. The interval is that of :func:`correlate`.

    Args:
        entailed, contradicted: ``(n,)`` cosines of the premise with each.
        resamples, confidence, seed: see :func:`correlate`.

    Raises:
        ConfigError: lengths differ, there is no triplet, or an option is outside its range.

    >>> triplet_accuracy([0.9, 0.5, 0.1, 0.3], [0.2, 0.5, 0.0, 0.4]).value
    0.5
    """
    columns = _columns(entailed, contradicted, "entailed cosines", "contradicted cosines")
    if not len(columns[0]):
        raise ConfigError("no triplets to measure", remedy="give one or more")
    return estimate(np.mean, [(columns[0] > columns[1]).astype(np.float64)], resamples, confidence, seed)


def _columns(one: ArrayLike, other: ArrayLike, first: str, second: str) -> tuple[Vector, Vector]:
    """Two columns of one length."""
    x, y = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ConfigError(f"{first} of shape {x.shape} and {second} of shape {y.shape}, the same (n,) expected")
    return x, y


class SimilarityTask(Sampled):
    """Spearman correlation of cosines with the ratings of concept pairs (BioLORD 2022, table 1), accuracy of triplets.

    FILES are rated pairs in the layout of EHR-Rel, MayoSRS, UMNSRS or a table with text_1, text_2 and score, or
    triplets: labelled pairs as MedNLI has them (BioLORD 2022, section 4.4) or a table with premise, entailed and
    contradicted. The 95 % interval is that of a bootstrap.
    """

    inputs: ClassVar = ("files...",)
    measures: ClassVar[tuple[str, ...]] = ("spearman",)
    triplets: ClassVar[bool] = True

    sample: Annotated[int | None, Field(ge=2, description="Only so many pairs or triplets of each file.")] = None
    seed: Annotated[int, Field(ge=0, description="Seed of sample and interval.")] = 1
    resamples: Annotated[int, Field(ge=1, le=1_000_000, description="Resamples of the interval.")] = RESAMPLES

    def measure(self, run: Run) -> Report:
        """Each measure of each file with its interval; a row of the items for each pair or triplet."""
        read: list[tuple[StrPath, Sequence[RatedPair | Triplet]]] = []
        for path in run.paths:
            if self.triplets and has_triplets(path):
                read.append((path, self.drawn(read_triplets(path, run.problems))))
            else:
                extras = [] if run.regressor is None else [extra.name for extra in run.regressor.extras]
                read.append((path, self.drawn(read_pairs(path, run.problems, extras))))
        table: list[Row] = []
        items: list[Row] = []
        scores: list[Scores] = []
        for path, of_file in read:
            name: dict[str, Cell] = {"file": Path(path).name}
            estimates, rows, columns = self._measured(path, of_file, run)
            scores += [Scores(measure, Path(path).name, *made) for measure, made in columns.items()]
            for measure, found in estimates.items():
                interval = {"value": found.value, "low": found.low, "high": found.high}
                table.append({**name, "items": found.items, "measure": measure, **interval})
            items += [name | row for row in rows]
        count = sum(len(of_file) for _, of_file in read)
        head = f"{count} items of {len(read)} file{'s' * (len(read) != 1)}"
        return Report(head, table, items, run.problems, scores=scores)

    def _measured(
        self, path: StrPath, items: Sequence[Any], run: Run
    ) -> tuple[dict[str, Estimate], Iterable[dict[str, Cell]], dict[str, tuple[tuple[Vector, ...], str]]]:
        """The measures of one file, a row for each of its items, without their texts, and what each is made of."""
        pairs = isinstance(items[0], RatedPair)
        fields = ("one", "other") if pairs else ("premise", "entailed", "contradicted")
        cosines = self._scores([[getattr(item, field) for item in items] for field in fields], items, run)
        rows = zip(items, *(column.tolist() for column in cosines), strict=True)
        options = {"resamples": self.resamples, "seed": self.seed}
        if not pairs:
            written = ({"row": item.row, "entailed": near, "contradicted": far} for item, near, far in rows)
            nearer = (cosines[0] > cosines[1]).astype(np.float64)
            return {"accuracy": triplet_accuracy(*cosines, **options)}, written, {"accuracy": ((nearer,), "mean")}
        ratings, name = [item.rating for item in items], "cosine" if run.regressor is None else "score"
        try:
            found = {one: correlate(ratings, cosines[0], measure=one, **options) for one in self.measures}
        except ConfigError as error:
            raise InputError(error.message, path=path, remedy=error.remedy) from error
        written = (
            {"row": item.row, "id_1": item.ids[0], "id_2": item.ids[1], "rating": item.rating, name: near}
            for item, near in rows
        )
        columns = np.array(ratings, dtype=np.float64), cosines[0].astype(np.float64)
        return found, written, {measure: (columns, measure) for measure in self.measures}

    @staticmethod
    def _scores(of_field: list[list[str]], items: Sequence[Any], run: Run) -> list[NDArray[Any]]:
        """``(n,)`` how near the first text of each item is to each of its others: cosines, or what a regressor says."""
        if run.regressor is not None:
            extra = [getattr(item, "extra", ()) for item in items]
            return [run.regressor.score(of_field[0], texts, extra) for texts in of_field[1:]]
        at = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(zip(*of_field, strict=True))))}
        vectors = run.embed(list(at))
        first, *others = (vectors[[at[text] for text in texts]] for texts in of_field)
        return [pair_cosines(first, other) for other in others]


class StsTask(SimilarityTask):
    """Pearson and Spearman correlation of cosines with the scores of sentence pairs (BioLORD 2022, table 3).

    FILES are tables with text_1, text_2 and score, STS-B as in GLUE, SICK, or three columns text, text, score without a
    header. The 95 % interval is that of a bootstrap.
    """

    measures: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    # scores of sentences have no triplets among them
    triplets: ClassVar[bool] = False
