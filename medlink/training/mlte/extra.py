"""What else a table says of a pair of texts, as numbers: a column of numbers, or of words such as a category."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medlink.errors import ConfigError
from medlink.training.mlte.kernels import Vectors


@dataclass(frozen=True, slots=True)
class Extra:
    """A column: numbers scaled by ``mean`` and ``deviation``, or, with ``words``, one column of 0 and 1 for each word.

    Feng 2023, section IV-C, concatenates "the normalized category information" and says no more.
    """

    name: str
    words: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, name: str, cells: Sequence[str]) -> Extra:
        """The column of the training pairs; numbers where every cell is one."""
        numbers = np.array([_number(cell) for cell in cells])
        if not np.isfinite(numbers).all():
            return cls(name, tuple(sorted(set(cells))))
        return cls(name, (), float(numbers.mean()), float(numbers.std()) or 1.0)

    def columns(self, cells: Sequence[str]) -> Vectors:
        """``(n, columns)`` of n cells; a word that was not among the training pairs is 0 in all.

        Raises:
            ConfigError: a cell of a column of numbers is none.
        """
        if self.words:
            return np.array([[float(cell == word) for word in self.words] for cell in cells]).reshape(
                len(cells), len(self.words)
            )
        numbers = np.array([_number(cell) for cell in cells], dtype=np.float64)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0]) + 1
            raise ConfigError(f"{self.name} of pair {row} is no finite number", remedy="give numbers, as in training")
        return ((numbers - self.mean) / self.deviation)[:, None]


def extra_columns(extras: Sequence[Extra], rows: Sequence[Sequence[str]], count: int) -> Vectors:
    """``(count, c)`` of the cells of each pair, one for each of the ``extras``.

    Raises:
        ConfigError: there are not as many rows as pairs, or not as many cells as extras.

    >>> extra_columns([Extra("kind", ("a", "b")), Extra("age", (), 5.0, 2.0)], [["b", "7"], ["c", "5"]], 2).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if not extras:
        return np.zeros((count, 0))
    if len(rows) != count or any(len(row) != len(extras) for row in rows):
        names = ", ".join(extra.name for extra in extras)
        raise ConfigError(f"{len(rows)} rows of extra features, {count} of {names} expected")
    cells = zip(*rows, strict=True) if rows else ((),) * len(extras)
    return np.concatenate([extra.columns(column) for extra, column in zip(extras, cells, strict=True)], axis=1)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
