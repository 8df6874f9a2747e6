"""Logistic regressions as plain data: a weight, and the range in training, for each named column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Rows = Iterable[Sequence[float]] | NDArray[np.float64]
_AT_A_TIME = 1 << 13  # rows that are in memory together
_FARTHEST = 40.0  # beyond it a probability is 0 or 1


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """A logistic regression, one weight for each column; columns are cut to ``lowest`` and ``highest``."""

    weights: tuple[float, ...]
    offset: float
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Read plain data: ``offset``, and ``columns`` with weight, lowest and highest by name."""
        weights, lowest, highest = (tuple(raw["columns"][name][at] for name in names) for at in range(3))
        return cls(weights, raw["offset"], lowest, highest)

    def probabilities(self, rows: Rows) -> list[float]:
        """The probabilities of n rows.

        >>> LogisticModel((2.0,), 0.0, (0.0,), (1.0,)).probabilities([[0.0], [-3.0]])
        [0.5, 0.5]
        """
        left, found = iter(rows), list[float]()
        while some := list(islice(left, _AT_A_TIME)):
            found += self._of(np.array(some, dtype=np.float64))
        return found

    def _of(self, columns: NDArray[np.float64]) -> list[float]:
        np.clip(columns, self.lowest, self.highest, out=columns)
        total = np.full(len(columns), self.offset)
        # column by column: a matrix product may round differently with another number of rows
        for column, weight in zip(columns.T, self.weights, strict=True):
            total += weight * column
        # by the library of the language, as that of arrays rounds differently on other processors
        return [1 / (1 + exp(-min(max(one, -_FARTHEST), _FARTHEST))) for one in total.tolist()]
