"""What names mean, as features of the static encoder: what their words, parts of compounds, and phrases mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import normalise_all
from medlink.language.lexicon.batch_analysis import BulkReader, WordValues
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.reading import Word, shared_reader
from medlink.models.ngrams import hash_codes, meaning_code

_SENSES = 2  # meanings of an ambiguous word that are features


class MeaningReader:
    """Hashes of what names mean; remembers their words for as long as it lives."""

    def __init__(self, forms: Forms) -> None:
        self._forms, self._reader = forms, BulkReader(shared_reader(forms))
        self._codes = WordValues(lambda word: [(meaning_code(meant), 1.0) for meant in self._meant(word)])

    def hashes(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Hash what each of n texts means, each meaning of a text once, in the order in which it comes: ``indptr`` and
        hashes as :func:`medlink.models.ngrams.hash_markers` gives them."""
        indptr, codes = self.codes([form.split() for form in normalise_all(texts)])
        return indptr, hash_codes(codes)

    def codes(self, tokens: Sequence[Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What names mean as :meth:`hashes` gives it, before it is hashed; of each name the words in their exact
        form."""
        read = self._reader.read_tokens(tokens)
        place, code, _ = self._codes.of(read)
        more = [
            (name, meaning_code(self._forms.keys[meaning]))
            for name, _, _, meanings in read.phrases
            for meaning in meanings[:_SENSES]
        ]
        names, codes = np.array(more, np.int64).reshape(-1, 2).T
        owner, code = np.concatenate([read.owner[place], names]), np.concatenate([code, codes])
        order = np.argsort(owner, kind="stable")
        owner, code = owner[order], code[order]
        # each meaning of a text where it comes first
        kinds, kind = np.unique(code, return_inverse=True)
        first = np.sort(np.unique(owner * max(len(kinds), 1) + kind, return_index=True)[1])
        return np.searchsorted(owner[first], np.arange(len(tokens) + 1)), code[first]

    def _meant(self, word: Word) -> list[int | str]:
        """The keys of what a word means; the word itself where it is unknown and one that names were trained with.

        Any other word has no row that was trained: it would be noise.
        """
        meanings = [*word.meanings[:_SENSES], *(m for part in word.parts for m in part[:_SENSES])]
        found: list[int | str] = [self._forms.keys[meaning] for meaning in meanings]
        return [*found, word.text] if not word.known and self._forms.is_own(word.text) else found
