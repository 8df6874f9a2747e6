"""Agreement of cosines of embeddings with human ratings of pairs and triplets of texts (BioLORD 2022, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medlink.errors import ConfigError, InputError
from medlink.evaluation.measures import CONFIDENCE, RESAMPLES, STATISTICS, Estimate, Vector, estimate
from medlink.evaluation.task import Report, Row, Run, Sampled, StrPath
from medlink.files.problems import pluralize
from medlink.settings import option
from medlink.training.data.rated_pairs import RatedPair, Triplet, has_triplets, read_pairs, read_triplets


def pair_cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the cosines ``(n,)`` of the rows of two arrays ``(n, d)`` of float32 unit vectors.

    Sums all products in the same order: equal pairs have equal cosines. Raises ConfigError if the shapes differ.
    """
    if one.shape != other.shape or one.ndim != 2:
        raise ConfigError(f"embeddings of shape {one.shape} and {other.shape}, the same (n, d) expected")
    cosines: NDArray[np.float32] = np.clip(np.einsum("nd,nd->n", one, other), -1, 1)
    return cosines


def correlate(
    ratings: ArrayLike, scores: ArrayLike, *,
    measure: str = "spearman", resamples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 1,
) -> Estimate:  # fmt: skip
    """Compute the correlation of ratings ``(n,)``, on any scale, with scores ``(n,)`` (BioLORD 2022, tables 1 and 3).

    Spearman is Pearson on ranks, with mean ranks for ties (SciPy's ``spearmanr``). The interval is the percentile
    interval of the bootstrap (Efron 1979), without resamples in which a side does not vary.

    Raises:
        ConfigError: lengths differ, there are fewer than two pairs, a side does not vary or holds NaN or infinite
            values, or an option is outside its range.
    """
    if measure not in STATISTICS:
        raise ConfigError(f"unknown measure {measure!r}", remedy=f"one of {', '.join(STATISTICS)}")
    columns = _columns(ratings, scores, "ratings", "scores")
    for name, values in zip(("ratings", "scores"), columns, strict=True):
        if not np.isfinite(values).all():
            raise ConfigError(f"the {name} have NaN or infinite values", remedy="give finite numbers")
        if len(values) < 2:
            raise ConfigError(f"{len(values)} rated pairs, two or more expected", remedy="give more pairs")
        if (values == values[0]).all():
            message = f"the {name} are all equal, so no correlation is defined"
            raise ConfigError(message, remedy="give pairs that differ")
    return estimate(STATISTICS[measure], columns, resamples, confidence, seed)


def triplet_accuracy(
    entailed: ArrayLike, contradicted: ArrayLike, *,
    resamples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 1,
) -> Estimate:  # fmt: skip
    """Compute the share of n triplets whose premise has the higher cosine ``(n,)`` with the entailed text.

    BioLORD 2022, section 4.4 and table 4 (MedNLI-S). A tie counts as wrong. For the interval see :func:`correlate`.
    Raises ConfigError if lengths differ or there is no triplet.
    """
    columns = _columns(entailed, contradicted, "entailed cosines", "contradicted cosines")
    if not len(columns[0]):
        raise ConfigError("no triplets to measure", remedy="give one or more")
    return estimate(np.mean, [(columns[0] > columns[1]).astype(np.float64)], resamples, confidence, seed)


def _columns(one: ArrayLike, other: ArrayLike, first: str, second: str) -> tuple[Vector, Vector]:
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

    sample: int | None = option(None, "Number of pairs or triplets of each file; the rest is left out.", ge=2)
    seed: int = option(1, "Seed of sample and interval.", ge=0)
    resamples: int = option(RESAMPLES, "Resamples of the interval.", ge=1, le=1_000_000)

    def measure(self, run: Run) -> Report:
        read = list[Sequence[RatedPair | Triplet]]()  # all before the work
        for path in run.paths:
            if self.triplets and has_triplets(path):
                read.append(self.draw_sample(read_triplets(path, run.problems)))
            else:
                extras = [] if run.regressor is None else [extra.name for extra in run.regressor.extras]
                read.append(self.draw_sample(read_pairs(path, run.problems, extras)))
        table, items = list[Row](), list[Row]()
        for path, of_file in zip(run.paths, read, strict=True):
            name = Path(path).name
            rows, estimates = self._measured(path, of_file, run)
            items += [{"file": name, **row} for row in rows]
            for measure, result in estimates.items():
                interval = {"value": result.value, "low": result.low, "high": result.high}
                table.append({"file": name, "items": result.items, "measure": measure, **interval})
        head = f"{sum(map(len, read))} items of {pluralize(len(read), 'file')}"
        return Report(head, table, items, run.problems)

    def _measured(self, path: StrPath, items: Sequence[Any], run: Run) -> tuple[list[Row], Mapping[str, Estimate]]:
        pairs, options = isinstance(items[0], RatedPair), {"resamples": self.resamples, "seed": self.seed}
        fields = ("text_1", "text_2") if pairs else ("premise", "entailed", "contradicted")
        scores = self._scores([[getattr(item, field) for item in items] for field in fields], items, run)
        if not pairs:
            both = zip(items, *(column.tolist() for column in scores), strict=True)
            triplets: list[Row] = [{"row": item.row, "entailed": near, "contradicted": far} for item, near, far in both]
            return triplets, {"accuracy": triplet_accuracy(*scores, **options)}
        name = "cosine" if run.regressor is None else "score"
        rows: list[Row] = [
            {"row": item.row, "id_1": item.ids[0], "id_2": item.ids[1], "rating": item.rating, name: near}
            for item, near in zip(items, scores[0].tolist(), strict=True)
        ]
        ratings = [item.rating for item in items]
        try:
            return rows, {name: correlate(ratings, scores[0], measure=name, **options) for name in self.measures}
        except ConfigError as error:
            raise InputError(error.message, path=path, remedy=error.remedy) from error

    @staticmethod
    def _scores(of_field: list[list[str]], items: Sequence[Any], run: Run) -> list[NDArray[Any]]:
        """Compute ``(n,)`` similarities of the first and each further text: cosines, or scores of a regressor."""
        if run.regressor is not None:
            extra = [getattr(item, "extra", ()) for item in items]
            return [run.regressor.score(of_field[0], texts, extra) for texts in of_field[1:]]
        at = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(zip(*of_field, strict=True))))}
        vectors = run.embed(list(at))
        first, *others = (vectors[[at[text] for text in texts]] for texts in of_field)
        return [pair_cosines(first, second) for second in others]


class StsTask(SimilarityTask):
    """Pearson and Spearman correlation of cosines with the scores of sentence pairs (BioLORD 2022, table 3).

    FILES are tables with text_1, text_2 and score, STS-B as in GLUE, SICK, or three columns text, text, score without a
    header. The 95 % interval is that of a bootstrap.
    """

    measures: ClassVar[tuple[str, ...]] = ("pearson", "spearman")
    triplets: ClassVar[bool] = False  # scores of sentences have none among them
