"""Sums of feature vectors of names, with a cache for each word, meaning and marker.

No n-gram crosses a blank, so the n-grams of a name are those of its words, and the sum of their rows is the sum of the
cached word vectors. Meanings and markers are summed in the same way.
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
from medlink.models.static.meaning_features import MeaningHasher

_CACHED = 32_768  # vectors of words, and of codes: 32 MB at 256 dimensions
_K = TypeVar("_K", bound=str | int)
Offsets = NDArray[np.int64]
"""``(n + 1,)``; the items of list i are at ``offsets[i]:offsets[i + 1]``."""


class Sums(NamedTuple):
    """Sums of n names.

    Attributes:
        mean: ``(n, d)`` mean of the n-gram vectors plus that of the meanings.
        empty: ``(n,)`` whether a name has no n-gram.
        marked: ``(m,)`` the names with markers.
        markers: ``(m, d)`` sums of their marker vectors.
    """

    mean: NDArray[np.float32]
    empty: NDArray[np.bool_]
    marked: NDArray[np.int64]
    markers: NDArray[np.float32]


class FeatureSums:
    """Sums the feature vectors of names, and caches those of words, meanings and markers; threads may share it.

    ``sum_rows`` returns the sums ``(n, d)`` of the table rows of n bags of hashes. ``hash_words`` returns the bags of
    n-grams of words in their exact form.
    """

    def __init__(
        self,
        sum_rows: Callable[[Bags], NDArray[np.float32]],
        hash_words: Callable[[Sequence[str]], Bags],
        dimension: int,
        max_chars: int,
        *,
        with_markers: bool,
        meanings: MeaningHasher | None,
    ) -> None:
        self._sum_rows, self._hash_words = sum_rows, hash_words
        self._max_chars, self._with_markers, self._meanings = max_chars, with_markers, meanings
        self._lock = Lock()
        self._words = _VectorCache[str](self._of_words, dimension)
        self._codes = _VectorCache[int](self._of_codes, dimension)

    def sums(self, texts: Sequence[str]) -> Sums:
        with self._lock:
            return self._sums(texts)

    def _sums(self, texts: Sequence[str]) -> Sums:
        forms, limit = normalise_all(texts), self._max_chars
        cut = [form[:limit] for form in forms]
        tokens = [form.split() for form in cut]
        mean, counts = self._words.sums(_offsets(tokens), list(chain.from_iterable(tokens)))
        mean /= np.maximum(counts, 1)[:, None]
        if self._meanings is not None:
            # names are cut before they are normalised
            whole = [len(text) <= limit >= len(form) for text, form in zip(texts, forms, strict=True)]
            named = [
                words if is_whole else normalise(text[:limit]).split()
                for text, words, is_whole in zip(texts, tokens, whole, strict=True)
            ]
            codes = self._meanings.codes(named)
            added, meanings = self._codes.sums(codes.offsets, codes.values.tolist())
            mean += added / np.maximum(meanings, 1)[:, None]
        all_codes = list(map(marker_codes, cut)) if self._with_markers else []
        marked = np.flatnonzero([bool(codes) for codes in all_codes])
        marker_lists = list(compress(all_codes, all_codes))
        markers, _ = self._codes.sums(_offsets(marker_lists), list(chain.from_iterable(marker_lists)))
        return Sums(mean, counts == 0, marked, markers)

    def _of_words(self, words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        bags = self._hash_words(words)
        return self._sum_rows(bags), np.diff(bags.offsets)

    def _of_codes(self, codes: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        one_each = np.arange(len(codes) + 1)
        return self._sum_rows(Bags(one_each, hash_codes(np.array(codes, np.int64)))), np.diff(one_each)


class _VectorCache(Generic[_K]):
    """Vectors by key, with their numbers of features; computed when a key is first used."""

    def __init__(
        self, compute: Callable[[Sequence[_K]], tuple[NDArray[np.float32], NDArray[np.int64]]], dimension: int
    ) -> None:
        self._compute = compute
        self._dimension = dimension
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[_K, int] = {}
        self._matrix = np.zeros((0, self._dimension), np.float32)
        self._counts = np.zeros(0, np.int64)

    def sums(self, offsets: Offsets, keys: Sequence[_K]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Sums ``(n, d)`` of the vectors of n lists of keys, and their numbers of features ``(n,)``."""
        from scipy.sparse import csr_matrix

        self._add(keys)
        numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
        shape = (len(offsets) - 1, len(self._matrix))
        lists = csr_matrix((np.ones(len(keys), np.float32), numbers, offsets), shape=shape)
        counts = np.concatenate([[0], np.cumsum(self._counts[numbers])])[offsets]
        return np.asarray(lists @ self._matrix), np.diff(counts)

    def _add(self, keys: Sequence[_K]) -> None:
        new = list(dict.fromkeys(filterfalse(self._numbers.__contains__, keys)))
        if not new:
            return
        if self._numbers and len(self._numbers) + len(new) > _CACHED:
            self._clear()
            new = list(dict.fromkeys(keys))
        vectors, counts = self._compute(new)
        start, stop = len(self._numbers), len(self._numbers) + len(new)
        if stop > len(self._matrix):
            # doubled: copies are rare, and untouched pages take no memory
            rows = max(stop, 2 * len(self._matrix), 1024)
            old, old_counts = self._matrix, self._counts
            self._matrix, self._counts = np.empty((rows, self._dimension), np.float32), np.zeros(rows, np.int64)
            self._matrix[:start], self._counts[:start] = old[:start], old_counts[:start]
        self._matrix[start:stop], self._counts[start:stop] = vectors, counts
        self._numbers.update(zip(new, range(start, stop), strict=True))


def _offsets(lists: Sequence[Sequence[object]]) -> Offsets:
    return np.cumsum([0, *map(len, lists)])
