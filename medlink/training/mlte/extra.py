"""What else a table says of a pair of texts, as numbers: a column of numbers, or of words such as a category."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from medlink.errors import ConfigError
from medlink.training.mlte.kernels import Vectors


@dataclass(frozen=True, slots=True)
class Extra:
    """A column: numbers scaled by ``mean`` and ``deviation``, or, with ``words``, a 0 or 1 for each word.

    Feng 2023, section IV-C, concatenates "the normalized category information" and says no more.
    """

    name: str
    words: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, name: str, cells: Sequence[str]) -> Extra:
        """The column of the training pairs; numbers where every cell is one."""
        numbers = _numbers(cells)
        if not np.isfinite(numbers).all():
            return cls(name, tuple(sorted(set(cells))))
        return cls(name, (), float(numbers.mean()), float(numbers.std()) or 1.0)

    def columns(self, cells: Sequence[str]) -> Vectors:
        """``(n, columns)`` of n cells; a word that no training pair has is 0 in all. ConfigError: one is no number."""
        if self.words:
            return np.array([[float(cell == word) for word in self.words] for cell in cells]).reshape(
                -1, len(self.words)
            )
        numbers = _numbers(cells)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0]) + 1
            raise ConfigError(f"{self.name} of pair {row} is no finite number", remedy="give numbers, as in training")
        return ((numbers - self.mean) / self.deviation)[:, None]


def extra_columns(extras: Sequence[Extra], rows: Sequence[Sequence[str]], count: int) -> Vectors:
    """``(count, c)`` of the cells of each pair, one for each of the ``extras``; a ConfigError where some are missing.

    >>> extra_columns([Extra("kind", ("a", "b")), Extra("age", (), 5.0, 2.0)], [["b", "7"], ["c", "5"]], 2).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if extras and (len(rows) != count or any(len(row) != len(extras) for row in rows)):
        names = ", ".join(extra.name for extra in extras)
        raise ConfigError(f"{len(rows)} rows of extra features, {count} of {names} expected")
    found = [extra.columns([row[i] for row in rows]) for i, extra in enumerate(extras)]
    return np.concatenate([np.zeros((count, 0)), *found], axis=1)


def _numbers(cells: Sequence[str]) -> Vectors:
    found = np.full(len(cells), math.nan)
    for i, cell in enumerate(cells):
        with suppress(ValueError):
            found[i] = float(cell)
    return found
