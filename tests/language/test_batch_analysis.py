"""Many names read at once are read as each by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from medlink.language.lexicon import batch_analysis
from medlink.language.lexicon.batch_analysis import BulkReader
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.reading import FamilyReader, Word

FORMS = shipped_forms()
# phrases, senses that others tell, compounds, typing errors, languages that are guessed, and nothing
NAMES = [
    ("enlarged livers", "en"),
    ("dolor de cabeza", "es"),
    ("dolor de cabeza", None),
    ("Nierenbeckenentzündung und Unterschenkelödeme", "de"),
    ("Nierenbeckenentzündung", None),
    ("cervical carcinoma", "en"),
    ("cervical spine fracture", "en"),
    ("cervical", None),
    ("chronische Niereninsuffizienz", "de-AT"),
    ("", "de"),
    ("  ", None),
    ("Qwxyz II", "xx"),
    ("shortnes of breath at night", "en"),
    ("kein Fieber, sin fiebre", None),
    ("α-Thalassämie, Typ 2", "de"),
    ("KHK", "de"),
    ("short of breath short of breath", "en"),
]


def alone(text: str, language: str | None) -> tuple[tuple[Word, ...], object]:
    said = FamilyReader(FORMS).read(text, language)
    return said.words, said.phrases


def together(reader: BulkReader, names: list[tuple[str, str | None]]) -> list[tuple[tuple[Word, ...], object]]:
    read = reader.read([text for text, _ in names], [language for _, language in names])
    words = [read.words[number] for number in read.word.tolist()]
    phrases = [tuple(found[1:] for found in read.phrases if found[0] == name) for name in range(len(names))]
    assert read.owner.tolist() == np.repeat(np.arange(len(names)), np.diff(read.ends)).tolist()
    ends = read.ends.tolist()
    return [(tuple(words[start:end]), phrases[name]) for name, (start, end) in enumerate(pairwise(ends))]


def test_names_are_read_as_each_by_itself() -> None:
    reader, wanted = BulkReader(FamilyReader(FORMS)), [alone(*name) for name in NAMES]
    assert together(reader, NAMES) == wanted
    assert together(reader, NAMES) == wanted  # from memory


def test_a_word_has_the_sense_that_the_words_beside_it_tell() -> None:
    read = BulkReader(FamilyReader(FORMS)).read(["cervical carcinoma", "cervical spine"], ["en", "en"])
    meant = [[FORMS.names[meaning] for meaning in read.words[number].meanings] for number in read.word[[0, 2]]]
    assert meant == [["cervix (uterus)"], ["neck"]]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_analysis, "_MOST", 3)
    reader = BulkReader(FamilyReader(FORMS))
    first = reader.read(["kidney"]).words
    for name in NAMES:
        assert together(reader, [name]) == [alone(*name)]
    assert reader.read(["kidney"]).words is not first
