"""The meanings of many names at once are those of each."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.language.lexicon.forms import LexiconForms, shipped_forms
from medlink.language.lexicon.name_analysis import LexicalAnalyser, with_own_words
from medlink.models.ngrams import hash_codes, meaning_code
from medlink.models.static.feature_sums import MeaningHasher
from tests.language.test_batch_analysis import NAMES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def forms() -> LexiconForms:
    return with_own_words(shipped_forms(), ["Qwxyz"])


def naive(text: str, forms: LexiconForms) -> list[int]:
    """Distinct codes of the meanings of a name: of its words, then of its phrases, at most two of each."""
    name, found = LexicalAnalyser(forms).read(text), list[int]()
    for word in name.words:
        meanings = [*word.meanings[:2], *(meaning for part in word.parts for meaning in part[:2])]
        found += [meaning_code(forms.keys[meaning]) for meaning in meanings]
        if not word.known and forms.is_own(word.text):
            found.append(meaning_code(word.text))
    for _, _, meanings in name.phrases:
        found += [meaning_code(forms.keys[meaning]) for meaning in meanings[:2]]
    return list(dict.fromkeys(found))


def test_meanings_are_those_of_each_name(forms: LexiconForms) -> None:
    texts = [text for text, _ in NAMES]
    wanted = [hash_codes(np.array(naive(text, forms), np.int64)).tolist() for text in texts]
    reader = MeaningHasher(forms)
    for _ in range(2):  # the second time from memory
        ends, hashes = reader.hashes(texts)
        assert [hashes[ends[i] : ends[i + 1]].tolist() for i in range(len(texts))] == wanted
    assert len(wanted[texts.index("Qwxyz II")]) == 1  # an own word, and a number without a meaning


def test_nothing(forms: LexiconForms) -> None:
    ends, hashes = MeaningHasher(forms).hashes([])
    assert (ends.tolist(), len(hashes)) == ([0], 0)
    assert MeaningHasher(forms).hashes(["", "und"])[0].tolist() == [0, 0, 0]
