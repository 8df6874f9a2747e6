"""Logistic regressions as plain data: a weight, and the range in training, for each named column.

Those that ship are in ``resources/notes``, fitted by ``benchmarks/fit_choice.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from medlink.files.json import read_json
from medlink.language.languages import SHIPPED
from medlink.reading.features import UNRANKED

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
        """The probabilities of n rows."""
        left, found = iter(rows), list[float]()
        while some := list(islice(left, _AT_A_TIME)):
            columns = np.clip(np.array(some, dtype=np.float64), self.lowest, self.highest)
            total = np.full(len(columns), self.offset)
            # column by column: a matrix product may round differently with another number of rows
            for column, weight in zip(columns.T, self.weights, strict=True):
                total += weight * column
            # by the library of the language, as that of arrays rounds differently on other processors
            found += [1 / (1 + exp(-min(max(one, -_FARTHEST), _FARTHEST))) for one in total.tolist()]
        return found


def shipped(name: str) -> Any:
    """A file of ``resources/notes``."""
    return read_json(SHIPPED.parent / "notes" / f"{name}.json")


@cache
def shipped_filter() -> tuple[LogisticModel, float]:
    """What judges spans by their words alone, before anything is ranked, and the probability that one needs.

    Most candidates are no mentions, and those that are no name need a search each.
    """
    raw = shipped("prefilter")
    return LogisticModel.of(raw, UNRANKED), raw["least"]
