"""Meanings of names as features, and sums of feature vectors of names, with a cache for each word, meaning and marker.

No n-gram crosses a blank, so the n-grams of a name are those of its words, and the sum of their rows is the sum of the
cached word vectors. Meanings and markers are summed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress, count, filterfalse
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import normalise_all
from medlink.language.lexicon.batch_analysis import BatchAnalyser, WordValues
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import AnalysedWord, shared_analyser
from medlink.language.text import normalise
from medlink.models.ngrams import Bags, hash_codes, marker_codes, meaning_code

_CACHED = 32_768  # vectors of words, and of codes: 32 MB at 256 dimensions
_SENSES = 2  # meanings of an ambiguous word that are features
_K = TypeVar("_K", bound=str | int)
Floats = NDArray[np.float32]


class MeaningHasher:
    """Hash the meanings of names (of words, of parts of compounds, and of phrases), caching words."""

    def __init__(self, forms: LexiconForms) -> None:
        self._forms, self._analyser = forms, BatchAnalyser(shared_analyser(forms))
        self._codes = WordValues(lambda word: [(meaning_code(meaning), 1.0) for meaning in self._meanings(word)])

    def hashes(self, texts: Sequence[str]) -> Bags:
        """Hash the distinct meanings of each of n texts, in order."""
        codes = self.codes([form.split() for form in normalise_all(texts)])
        return codes._replace(values=hash_codes(codes.values))

    def codes(self, tokens: Sequence[Sequence[str]]) -> Bags:
        """Return the codes for :meth:`hashes`, given the words of each name in their exact form."""
        batch = self._analyser.read_tokens(tokens)
        position, code, _ = self._codes.of(batch)
        of_phrases = [
            (name, meaning_code(self._forms.keys[meaning]))
            for name, _, _, meanings in batch.phrases
            for meaning in meanings[:_SENSES]
        ]
        names, codes = np.array(of_phrases, np.int64).reshape(-1, 2).T
        owner, code = np.concatenate([batch.owner[position], names]), np.concatenate([code, codes])
        order = np.argsort(owner, kind="stable")
        owner, code = owner[order], code[order]
        # the first occurrence of each meaning in a text
        distinct, number = np.unique(code, return_inverse=True)
        first = np.sort(np.unique(owner * max(len(distinct), 1) + number, return_index=True)[1])
        return Bags(np.searchsorted(owner[first], np.arange(len(tokens) + 1)), code[first])

    def _meanings(self, word: AnalysedWord) -> list[int | str]:
        meanings = [*word.meanings[:_SENSES], *(m for part in word.parts for m in part[:_SENSES])]
        keys: list[int | str] = [self._forms.keys[meaning] for meaning in meanings]
        # The encoder was trained with its own words. Any other unknown word has an untrained row, which would be noise.
        return [*keys, word.text] if not word.known and self._forms.is_own(word.text) else keys


class Sums(NamedTuple):
    """Sums of n names.

    Attributes:
        mean: ``(n, d)`` mean of the n-gram vectors plus that of the meanings.
        empty: ``(n,)`` whether a name has no n-gram.
        marked: ``(m,)`` the names with markers.
        markers: ``(m, d)`` sums of their marker vectors.
    """

    mean: Floats
    empty: NDArray[np.bool_]
    marked: NDArray[np.int64]
    markers: Floats


class FeatureSums:
    """Sums the feature vectors of names, and caches those of words, meanings and markers; threads may share it.

    ``sum_rows`` returns the sums ``(n, d)`` of the table rows of n bags of hashes. ``hash_words`` returns the bags of
    n-grams of words in their exact form.
    """

    def __init__(
        self,
        sum_rows: Callable[[Bags], Floats],
        hash_words: Callable[[Sequence[str]], Bags],
        dimension: int,
        max_chars: int,
        *,
        with_markers: bool,
        meanings: MeaningHasher | None,
    ) -> None:
        self._max_chars, self._with_markers, self._meanings = max_chars, with_markers, meanings
        self._lock = Lock()
        self._words = _VectorCache[str](hash_words, sum_rows, dimension)
        self._codes = _VectorCache[int](_hash_each, sum_rows, dimension)

    def sums(self, texts: Sequence[str]) -> Sums:
        with self._lock:
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


class _VectorCache(Generic[_K]):
    """Vectors of keys, and their numbers of features; emptied when it is full."""

    def __init__(
        self, hash_keys: Callable[[Sequence[_K]], Bags], sum_rows: Callable[[Bags], Floats], dimension: int
    ) -> None:
        self._hash_keys, self._sum_rows = hash_keys, sum_rows
        self._numbers: dict[_K, int] = {}
        self._matrix, self._counts = np.zeros((0, dimension), np.float32), np.zeros(0, np.int64)

    def sums(self, offsets: NDArray[np.int64], keys: Sequence[_K]) -> tuple[Floats, NDArray[np.int64]]:
        """Sums ``(n, d)`` of the vectors of n lists of keys, ``keys[offsets[i]:offsets[i + 1]]``, and their numbers of
        features ``(n,)``.
        """
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
        if len(self._numbers) + len(new) > len(self._matrix):
            new = list(dict.fromkeys(keys))
            self._numbers.clear()
            # untouched pages take no memory
            rows = max(_CACHED, len(new))
            self._matrix, self._counts = np.empty((rows, self._matrix.shape[1]), np.float32), np.zeros(rows, np.int64)
        bags, start = self._hash_keys(new), len(self._numbers)
        place = slice(start, start + len(new))
        self._matrix[place], self._counts[place] = self._sum_rows(bags), np.diff(bags.offsets)
        self._numbers.update(zip(new, count(start), strict=False))


def _hash_each(codes: Sequence[int]) -> Bags:
    return Bags(np.arange(len(codes) + 1), hash_codes(np.array(codes, np.int64)))


def _offsets(lists: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)])
