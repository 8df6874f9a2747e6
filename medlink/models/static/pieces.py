"""Vectors of the pieces that names are made of: words, what they mean, and markers, each worked out once.

No n-gram crosses a blank, so the n-grams of a name are those of its words, and the sum of their rows is the sum of what
is kept for each word. What a name means, and its markers, are summed up alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress, filterfalse
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import normalise_all
from medlink.language.text import normalise
from medlink.models.ngrams import Bags, hash_codes, marker_codes
from medlink.models.static.meanings import MeaningReader

_MOST = 32_768  # vectors that are kept of words, and of codes: 32 MB at 256 dimensions
_K = TypeVar("_K", bound=str | int)
Ends = NDArray[np.int64]
"""``(n + 1,)``; what belongs to i is at ``ends[i]:ends[i + 1]``."""


class Summed(NamedTuple):
    """What n names add up to: the ``mean (n, d)`` of n-grams and, added, of meanings; whether a name is ``empty (n,)``
    of n-grams; and the names with markers, ``marked (m,)``, with their sums ``(m, d)``."""

    mean: NDArray[np.float32]
    empty: NDArray[np.bool_]
    marked: NDArray[np.int64]
    markers: NDArray[np.float32]


class Pieces:
    """Sums up the pieces of names; keeps the vectors of pieces that it met, for threads to share.

    ``sums`` gives the sums ``(n, d)`` of the table rows of n bags of hashes, ``hash_words`` the bags of n-grams of
    words in their exact form, ``reader`` what names mean, where that counts; markers count where ``marked``.
    """

    def __init__(
        self,
        sums: Callable[[Bags], NDArray[np.float32]],
        hash_words: Callable[[Sequence[str]], Bags],
        dimension: int,
        max_chars: int,
        *,
        marked: bool,
        reader: MeaningReader | None,
    ) -> None:
        self._sums, self._hash_words = sums, hash_words
        self._max_chars, self._has_markers, self._reader = max_chars, marked, reader
        self._lock = Lock()
        self._words = _Vectors[str](self._of_words, dimension)
        self._codes = _Vectors[int](self._of_codes, dimension)

    def sums(self, texts: Sequence[str]) -> Summed:
        """Sum up n names."""
        with self._lock:
            return self._summed(texts)

    def _summed(self, texts: Sequence[str]) -> Summed:
        forms, most = normalise_all(texts), self._max_chars
        cut = [form[:most] for form in forms]
        tokens = [form.split() for form in cut]
        mean, counts = self._words.sums(_ends(tokens), list(chain.from_iterable(tokens)))
        mean /= np.maximum(counts, 1)[:, None]
        if self._reader is not None:
            whole = [len(text) <= most >= len(form) for text, form in zip(texts, forms, strict=True)]
            read = [
                words if as_is else normalise(text[:most]).split()
                for text, words, as_is in zip(texts, tokens, whole, strict=True)
            ]
            ends, codes = self._reader.codes(read)
            added, meanings = self._codes.sums(ends, codes.tolist())
            mean += added / np.maximum(meanings, 1)[:, None]
        found = list(map(marker_codes, cut)) if self._has_markers else []
        marked = np.flatnonzero([bool(some) for some in found])
        some = list(compress(found, found))
        markers, _ = self._codes.sums(_ends(some), list(chain.from_iterable(some)))
        return Summed(mean, counts == 0, marked, markers)

    def _of_words(self, words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        bags = self._hash_words(words)
        return self._sums(bags), np.diff(bags.indptr)

    def _of_codes(self, codes: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        one_each = np.arange(len(codes) + 1)
        return self._sums(Bags(one_each, hash_codes(np.array(codes, np.int64)))), np.diff(one_each)


class _Vectors(Generic[_K]):
    """Vectors of pieces by key, and how many features each has, worked out when a key is first met."""

    def __init__(
        self, find: Callable[[Sequence[_K]], tuple[NDArray[np.float32], NDArray[np.int64]]], dimension: int
    ) -> None:
        self._find = find
        self._dimension = dimension
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[_K, int] = {}
        self._matrix = np.zeros((0, self._dimension), np.float32)
        self._counts = np.zeros(0, np.int64)

    def sums(self, ends: Ends, keys: Sequence[_K]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Sums ``(n, d)`` of the vectors of n lists of pieces, and how many features ``(n,)`` each has."""
        from scipy.sparse import csr_matrix

        self._add(keys)
        numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
        shape = (len(ends) - 1, len(self._matrix))
        lists = csr_matrix((np.ones(len(keys), np.float32), numbers, ends), shape=shape)
        counts = np.concatenate([[0], np.cumsum(self._counts[numbers])])[ends]
        return np.asarray(lists @ self._matrix), np.diff(counts)

    def _add(self, keys: Sequence[_K]) -> None:
        new = list(dict.fromkeys(filterfalse(self._numbers.__contains__, keys)))
        if not new:
            return
        if self._numbers and len(self._numbers) + len(new) > _MOST:
            self._clear()
            new = list(dict.fromkeys(keys))
        found, counts = self._find(new)
        start, stop = len(self._numbers), len(self._numbers) + len(new)
        if stop > len(self._matrix):
            # twice as many, so that seldom all are copied; pages that nothing is written to take no memory
            rows = max(stop, 2 * len(self._matrix), 1024)
            old, old_counts = self._matrix, self._counts
            self._matrix, self._counts = np.empty((rows, self._dimension), np.float32), np.zeros(rows, np.int64)
            self._matrix[:start], self._counts[:start] = old[:start], old_counts[:start]
        self._matrix[start:stop], self._counts[start:stop] = found, counts
        self._numbers.update(zip(new, range(start, stop), strict=True))


def _ends(lists: Sequence[Sequence[object]]) -> Ends:
    return np.cumsum([0, *map(len, lists)])
