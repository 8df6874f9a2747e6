"""The overlap of mentions and names, by examples whose weights are computed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np
import pytest

from medlink.index import word_features as module
from medlink.index.word_features import UNKNOWN, FeatureExtractor, WordFeatures, features_of_word
from medlink.index.word_overlap import NameFeatures, Overlap
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import LexicalAnalyser
from tests.language.test_batch_analysis import NAMES as READ

NAMES = [
    "kidney capsule", "liver capsule", "edema of legs", "heart attack", "qqqxyz capsule", "fracture left",
    "fracture right", "type 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> NameFeatures:
    return NameFeatures.build(tmp_path_factory.mktemp("names"), NAMES, ["en"] * len(NAMES), shipped_forms())


def weight(*df: int) -> float:
    """Weight of a word whose features are in so many names."""
    return 1 + log((1 + len(NAMES)) / (1 + min(df)))


def overlap(names: NameFeatures, mention: str, name: str, language: str = "en") -> Overlap:
    mentions = names.read([mention], [language])
    one = np.zeros(1, np.int64)
    return names.overlap(mentions, one, names.of(np.array([NAMES.index(name)])), one)


def shares(found: Overlap) -> tuple[float, float]:
    return float(found.mention[0]), float(found.name[0])


def test_the_same_words(names: NameFeatures) -> None:
    found = overlap(names, "capsule, kidney", "kidney capsule")
    assert shares(found) == pytest.approx((1, 1), abs=1e-3)
    assert [float(found.more[0]), float(found.fewer[0]), bool(found.opposed[0])] == [0, 0, False]


def test_one_of_two_words(names: NameFeatures) -> None:
    # capsule is in three names, kidney and liver in one each
    found = overlap(names, "kidney capsule", "liver capsule")
    share = weight(3) / (weight(3) + weight(1))
    assert shares(found) == pytest.approx((share, share), abs=2e-3)
    assert float(found.more[0]) == pytest.approx(weight(1), abs=1e-2)
    assert float(found.fewer[0]) == pytest.approx(weight(1), abs=1e-2)


@pytest.mark.parametrize(("compound", "name"), [("Nierenkapseln", "kidney capsule"), ("Leberkapsel", "liver capsule")])
def test_a_compound_covers_two_words(names: NameFeatures, compound: str, name: str) -> None:
    assert shares(overlap(names, compound, name, "de")) == pytest.approx((1, 1), abs=1e-3)


def test_half_a_compound(names: NameFeatures) -> None:
    found = overlap(names, "Nierenkapseln", "liver capsule", "de")
    assert float(found.mention[0]) == pytest.approx(0.5)
    assert float(found.name[0]) == pytest.approx(weight(3) / (weight(3) + weight(1)), abs=2e-3)


def test_a_word_covers_a_phrase(names: NameFeatures) -> None:
    assert shares(overlap(names, "Herzinfarkt", "heart attack", "de")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(names, "infarto agudo de miocardio", "heart attack", "es").name[0] > 0.9


def test_unknown_words_match_exactly(names: NameFeatures) -> None:
    assert shares(overlap(names, "QQQXYZ capsule", "qqqxyz capsule")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(names, "qqqxyw capsule", "qqqxyz capsule").mention[0] < 0.7


def test_numbers(names: NameFeatures) -> None:
    # a Roman numeral is the number
    assert shares(overlap(names, "type II", "type 2")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(names, "type 1", "type 2").name[0] < 1


def test_opposites(names: NameFeatures) -> None:
    assert bool(overlap(names, "left fracture", "fracture right").opposed[0])
    assert bool(overlap(names, "Fraktur rechts", "fracture left", "de").opposed[0])
    assert not bool(overlap(names, "left fracture", "fracture left").opposed[0])
    assert not bool(overlap(names, "fracture", "fracture left").opposed[0])


@pytest.mark.parametrize("mention", ["", " - ", "of the"])
def test_a_mention_without_content_words(names: NameFeatures, mention: str) -> None:
    found = overlap(names, mention, "kidney capsule")
    assert shares(found) == (0, 0)
    assert float(found.more[0]) == pytest.approx(weight(1), abs=1e-2)


def test_no_pairs(names: NameFeatures) -> None:
    none = np.zeros(0, np.int64)
    assert [len(column) for column in names.overlap(names.read([], []), none, names.of(none), none)] == [0] * 7


def test_later_names_have_the_weights_of_the_main_ones(names: NameFeatures, tmp_path: Path) -> None:
    later = NameFeatures.build(tmp_path, ["kidney fracture"], ["en"], names.forms, names)
    mentions = names.read(["kidney capsule"], ["en"])
    one = np.zeros(1, np.int64)
    found = names.overlap(mentions, one, later.of(one), one)
    # fracture is in two of the first names
    assert float(found.name[0]) == pytest.approx(weight(1) / (weight(1) + weight(2)), abs=2e-3)


def test_pairs_are_compared_as_each_alone(names: NameFeatures) -> None:
    texts = ["capsule of the left kidney", "", "right fracture", "heart attack type 2", "qqqxyz qqqxyz", "zzzz"]
    mentions = names.read(texts, ["en"] * len(texts))
    mention, row = (pairs.ravel() for pairs in np.meshgrid(np.arange(len(texts)), np.arange(len(NAMES)), indexing="ij"))
    found = names.overlap(mentions, mention, names.of(row), np.arange(len(row)))
    for pair, (text, name) in enumerate(zip(mention.tolist(), row.tolist(), strict=True)):
        alone = overlap(names, texts[text], NAMES[name])
        assert [column[pair] for column in found] == [column[0] for column in alone]
        has = [set(one.feature.tolist()) for one in (names.read([texts[text]], ["en"]), names.of(np.array([name])))]
        assert bool(found.mention[pair]) == bool(found.name[pair]) == (not has[0].isdisjoint(has[1]))


FORMS = shipped_forms()


def naive(names: list[tuple[str, str | None]]) -> Iterator[list[list[tuple[int, float]]]]:
    """The features of each word of each name, with their shares."""
    reader = LexicalAnalyser(FORMS)
    for text, language in names:
        name = reader.read(text, language)
        kept = [at for at, word in enumerate(name.words) if not word.function][: module._MAX_WORDS]
        found = [features_of_word(name.words[at], len(FORMS.names)) for at in kept]
        for start, stop, meanings in name.phrases:
            for at in range(start, stop):
                if at in kept:
                    found[kept.index(at)] += [(meaning, 1.0) for meaning in meanings]
        yield found


def listed(features: WordFeatures, names: int) -> list[list[list[tuple[int, float]]]]:
    found: list[list[list[tuple[int, float]]]] = [[] for _ in range(names)]
    words: list[list[tuple[int, float]]] = []
    for text in features.text.tolist():
        words.append([])
        found[text].append(words[-1])
    for word, feature, share in zip(features.word, features.feature.tolist(), features.share.tolist(), strict=True):
        words[word].append((feature, share))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("most", [250, 1])
def test_features_are_those_of_each_name(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WORDS", most)
    extractor, analyser = FeatureExtractor(len(FORMS.names)), BatchAnalyser(LexicalAnalyser(FORMS))
    wanted = [[[(feature, np.float32(share)) for feature, share in word] for word in words] for words in naive(READ)]
    for _ in range(2):  # the second time from the cache
        batch = analyser.read([text for text, _ in READ], [language for _, language in READ])
        assert listed(extractor.extract(batch), len(READ)) == wanted
    # an analyser with other words
    batch = BatchAnalyser(LexicalAnalyser(FORMS)).read(["Qwxyz"], ["de"])
    assert listed(extractor.extract(batch), 1) == list(naive([("Qwxyz", "de")]))


def test_a_word_has_the_weight_of_its_rarest_feature() -> None:
    weights = np.ones(len(FORMS.names) + UNKNOWN, np.float32)
    batch = BatchAnalyser(LexicalAnalyser(FORMS)).read(["kidney fever"], ["en"])
    features = FeatureExtractor(len(FORMS.names)).extract(batch)
    weights[features.feature[features.word == 1]] = 3
    assert features.weight.tolist() == [0, 0]
    assert FeatureExtractor(len(FORMS.names)).extract(batch, weights).weight.tolist() == [1, 3]
