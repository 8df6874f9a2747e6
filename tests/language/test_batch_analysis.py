"""Names analysed together are analysed as each alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from medlink.language.lexicon import batch_analysis
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import AnalysedWord, LexicalAnalyser

FORMS = shipped_forms()
# phrases, senses, compounds, typing errors, guessed languages, and empty names
NAMES = [
    ("enlarged livers", "en"), ("dolor de cabeza", "es"), ("dolor de cabeza", None), ("KHK", "de"), ("", "de"),
    ("Nierenbeckenentzündung und Unterschenkelödeme", "de"), ("Nierenbeckenentzündung", None), ("  ", None),
    ("cervical carcinoma", "en"), ("cervical spine fracture", "en"), ("cervical", None), ("Qwxyz II", "xx"),
    ("chronische Niereninsuffizienz", "de-AT"), ("shortnes of breath at night", "en"), ("α-Thalassämie, Typ 2", "de"),
    ("kein Fieber, sin fiebre", None), ("short of breath short of breath", "en"),
]  # fmt: skip


def alone(text: str, language: str | None) -> tuple[tuple[AnalysedWord, ...], object]:
    name = LexicalAnalyser(FORMS).read(text, language)
    return name.words, name.phrases


def together(
    reader: BatchAnalyser, names: list[tuple[str, str | None]]
) -> list[tuple[tuple[AnalysedWord, ...], object]]:
    read = reader.read([text for text, _ in names], [language for _, language in names])
    words = [read.words[number] for number in read.word.tolist()]
    phrases = [tuple(found[1:] for found in read.phrases if found[0] == name) for name in range(len(names))]
    assert read.owner.tolist() == np.repeat(np.arange(len(names)), np.diff(read.ends)).tolist()
    ends = read.ends.tolist()
    return [(tuple(words[start:end]), phrases[name]) for name, (start, end) in enumerate(pairwise(ends))]


@pytest.mark.slow
def test_names_are_analysed_as_each_alone() -> None:
    reader, wanted = BatchAnalyser(LexicalAnalyser(FORMS)), [alone(*name) for name in NAMES]
    assert together(reader, NAMES) == wanted
    assert together(reader, NAMES) == wanted  # from the cache


def test_other_words_decide_the_sense() -> None:
    read = BatchAnalyser(LexicalAnalyser(FORMS)).read(["cervical carcinoma", "cervical spine"], ["en", "en"])
    meant = [[FORMS.names[meaning] for meaning in read.words[number].meanings] for number in read.word[[0, 2]]]
    assert meant == [["cervix (uterus)"], ["neck"]]


def test_bounded_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_analysis, "_CACHED", 3)
    reader = BatchAnalyser(LexicalAnalyser(FORMS))
    first = reader.read(["kidney"]).words
    for name in NAMES:
        assert together(reader, [name]) == [alone(*name)]
    assert reader.read(["kidney"]).words is not first
