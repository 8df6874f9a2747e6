"""What names and mentions say of each other, by examples whose weights are counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np
import pytest

from medlink.index import word_overlap as module
from medlink.index.word_overlap import UNKNOWN, NameWords, Overlap, Slots, WordFeatures, features_of
from medlink.language.lexicon.batch_analysis import BulkReader
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.reading import FamilyReader
from tests.language.test_bulk import NAMES as READ

NAMES = [
    "kidney capsule", "liver capsule", "edema of legs", "heart attack", "qqqxyz capsule", "fracture left",
    "fracture right", "type 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> NameWords:
    return NameWords.build(tmp_path_factory.mktemp("said"), NAMES, ["en"] * len(NAMES), shipped_forms())


def weight(*df: int) -> float:
    """Weight of a word of which the rarest feature is in so many names."""
    return 1 + log((1 + len(NAMES)) / (1 + min(df)))


def overlap(said: NameWords, mention: str, name: str, language: str = "en") -> Overlap:
    asked = said.read([mention], [language])
    return said.overlap(asked, np.zeros(1, np.int64), said.of(np.array([NAMES.index(name)])))


def shares(found: Overlap) -> tuple[float, float]:
    return float(found.mention[0]), float(found.name[0])


def test_the_same_words(said: NameWords) -> None:
    found = overlap(said, "capsule, kidney", "kidney capsule")
    assert shares(found) == pytest.approx((1, 1), abs=1e-3)
    assert [float(found.more[0]), float(found.fewer[0]), bool(found.opposed[0])] == [0, 0, False]


def test_one_of_two_words(said: NameWords) -> None:
    # capsule is in three names, kidney and liver in one each
    found = overlap(said, "kidney capsule", "liver capsule")
    share = weight(3) / (weight(3) + weight(1))
    assert shares(found) == pytest.approx((share, share), abs=2e-3)
    assert float(found.more[0]) == pytest.approx(weight(1), abs=1e-2)
    assert float(found.fewer[0]) == pytest.approx(weight(1), abs=1e-2)


@pytest.mark.parametrize(("compound", "name"), [("Nierenkapseln", "kidney capsule"), ("Leberkapsel", "liver capsule")])
def test_a_compound_says_what_two_words_say(said: NameWords, compound: str, name: str) -> None:
    assert shares(overlap(said, compound, name, "de")) == pytest.approx((1, 1), abs=1e-3)


def test_half_a_compound(said: NameWords) -> None:
    found = overlap(said, "Nierenkapseln", "liver capsule", "de")
    assert float(found.mention[0]) == pytest.approx(0.5)
    assert float(found.name[0]) == pytest.approx(weight(3) / (weight(3) + weight(1)), abs=2e-3)


def test_a_phrase_is_said_by_another_word(said: NameWords) -> None:
    assert shares(overlap(said, "Herzinfarkt", "heart attack", "de")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(said, "infarto agudo de miocardio", "heart attack", "es").name[0] > 0.9


def test_unknown_words_are_compared_by_their_letters(said: NameWords) -> None:
    assert shares(overlap(said, "QQQXYZ capsule", "qqqxyz capsule")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(said, "qqqxyw capsule", "qqqxyz capsule").mention[0] < 0.7


def test_numbers(said: NameWords) -> None:
    # a Roman numeral is the number
    assert shares(overlap(said, "type II", "type 2")) == pytest.approx((1, 1), abs=1e-3)
    assert overlap(said, "type 1", "type 2").name[0] < 1


def test_opposites(said: NameWords) -> None:
    assert bool(overlap(said, "left fracture", "fracture right").opposed[0])
    assert bool(overlap(said, "Fraktur rechts", "fracture left", "de").opposed[0])
    assert not bool(overlap(said, "left fracture", "fracture left").opposed[0])
    assert not bool(overlap(said, "fracture", "fracture left").opposed[0])


@pytest.mark.parametrize("mention", ["", " - ", "of the"])
def test_a_mention_that_says_nothing(said: NameWords, mention: str) -> None:
    found = overlap(said, mention, "kidney capsule")
    assert shares(found) == (0, 0)
    assert float(found.more[0]) == pytest.approx(weight(1), abs=1e-2)


def test_pairs_of_several_mentions(said: NameWords) -> None:
    asked = said.read(["kidney capsule", "", "liver capsule"], ["en", "en", None])
    found = said.overlap(asked, np.array([2, 0, 1, 2]), said.of(np.array([1, 0, 0, 0])))
    assert found.mention.round(2).tolist()[:3] == [1, 1, 0]
    assert 0 < found.mention[3] < 1
    nothing = said.overlap(asked, np.zeros(0, np.int64), said.of(np.zeros(0, np.int64)))
    assert [len(column) for column in nothing] == [0] * 7


def test_later_names_have_the_weights_of_the_first(said: NameWords, tmp_path: Path) -> None:
    later = NameWords.build(tmp_path, ["kidney fracture"], ["en"], said.forms, said)
    asked = said.read(["kidney capsule"], ["en"])
    found = said.overlap(asked, np.zeros(1, np.int64), later.of(np.array([0])))
    # fracture is in two of the first names
    assert float(found.name[0]) == pytest.approx(weight(1) / (weight(1) + weight(2)), abs=2e-3)


def test_shared_features_are_those_that_sets_share(said: NameWords) -> None:
    texts = ["capsule of the left kidney", "", "right fracture", "heart attack type 2", "qqqxyz qqqxyz", "zzzz"]
    asked = said.read(texts, ["en"] * len(texts))
    mention, row = (pairs.ravel() for pairs in np.meshgrid(np.arange(len(texts)), np.arange(len(NAMES)), indexing="ij"))
    found = said.overlap(asked, mention, said.of(row))
    for pair, (text, name) in enumerate(zip(mention.tolist(), row.tolist(), strict=True)):
        alone = overlap(said, texts[text], NAMES[name])
        assert [column[pair] for column in found] == [column[0] for column in alone]
        has = [set(one.feature.tolist()) for one in (said.read([texts[text]], ["en"]), said.of(np.array([name])))]
        assert bool(found.mention[pair]) == bool(found.name[pair]) == (not has[0].isdisjoint(has[1]))


FORMS = shipped_forms()


def naive(names: list[tuple[str, str | None]]) -> Iterator[list[list[tuple[int, float]]]]:
    """The features of each slot of each name, with their shares."""
    reader = FamilyReader(FORMS)
    for text, language in names:
        said = reader.read(text, language)
        kept = [at for at, word in enumerate(said.words) if not word.function][: module._MOST]
        found = [features_of(said.words[at], len(FORMS.names)) for at in kept]
        for start, stop, meanings in said.phrases:
            for at in range(start, stop):
                if at in kept:
                    found[kept.index(at)] += [(meaning, 1.0) for meaning in meanings]
        yield found


def listed(slots: Slots, names: int) -> list[list[list[tuple[int, float]]]]:
    found: list[list[list[tuple[int, float]]]] = [[] for _ in range(names)]
    of_slot: list[list[tuple[int, float]]] = []
    for owner in slots.owner.tolist():
        of_slot.append([])
        found[owner].append(of_slot[-1])
    for slot, feature, share in zip(slots.slot.tolist(), slots.feature.tolist(), slots.share.tolist(), strict=True):
        of_slot[slot].append((feature, share))
    return found


@pytest.mark.parametrize("most", [250, 1])
def test_slots_are_those_of_each_name(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", most)
    table, reader = WordFeatures(len(FORMS.names)), BulkReader(FamilyReader(FORMS))
    wanted = [[[(feature, np.float32(share)) for feature, share in slot] for slot in slots] for slots in naive(READ)]
    for _ in range(2):  # the second time from memory
        read = reader.read([text for text, _ in READ], [language for _, language in READ])
        assert listed(table.slots(read, None), len(READ)) == wanted
    # a reader with other words
    read = BulkReader(FamilyReader(FORMS)).read(["Qwxyz"], ["de"])
    assert listed(table.slots(read, None), 1) == list(naive([("Qwxyz", "de")]))


def test_a_slot_weighs_what_its_heaviest_feature_does() -> None:
    weights = np.ones(len(FORMS.names) + UNKNOWN, np.float32)
    read = BulkReader(FamilyReader(FORMS)).read(["kidney fever"], ["en"])
    plain = WordFeatures(len(FORMS.names)).slots(read, None)
    weights[plain.feature[plain.slot == 1]] = 3
    assert plain.weight.tolist() == [0, 0]
    assert WordFeatures(len(FORMS.names)).slots(read, weights).weight.tolist() == [1, 3]
