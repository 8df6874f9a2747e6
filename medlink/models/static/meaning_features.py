"""Meanings of names as features of the static encoder: meanings of words, of parts of compounds, and of phrases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medlink.language.exact import normalise_all
from medlink.language.lexicon.batch_analysis import BatchAnalyser, WordValues
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import AnalysedWord, shared_analyser
from medlink.models.ngrams import Bags, hash_codes, meaning_code

_SENSES = 2  # meanings of an ambiguous word that are features


class MeaningHasher:
    """Hash the meanings of names, caching words."""

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
        """Keys of the meanings of a word; an unknown word stands for itself if the encoder was trained with it.

        Any other unknown word has an untrained row, which would be noise.
        """
        meanings = [*word.meanings[:_SENSES], *(m for part in word.parts for m in part[:_SENSES])]
        keys: list[int | str] = [self._forms.keys[meaning] for meaning in meanings]
        return [*keys, word.text] if not word.known and self._forms.is_own(word.text) else keys
