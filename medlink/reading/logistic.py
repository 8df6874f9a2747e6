"""Logistic regressions as plain data: a weight, and the range in training, for each named column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, Self

import numpy as np

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

    def probabilities(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """The probabilities of n rows.

        >>> LogisticModel((2.0,), 0.0, (0.0,), (1.0,)).probabilities([[0.0], [-3.0]])
        [0.5, 0.5]
        """
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.weights))
        np.clip(columns, self.lowest, self.highest, out=columns)
        total = np.full(len(rows), self.offset)
        # column by column: a matrix product may round differently with another number of rows
        for column, weight in zip(columns.T, self.weights, strict=True):
            total += weight * column
        # by the library of the language, as that of arrays rounds differently on other processors
        return [1 / (1 + exp(-min(max(one, -_FARTHEST), _FARTHEST))) for one in total.tolist()]
