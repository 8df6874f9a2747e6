"""Slots of many names at once are those of each, word by word."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from medlink.index import slots as module
from medlink.index.slots import UNKNOWN, Slots, WordFeatures, features_of
from medlink.language.lexicon.bulk import BulkReader
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.reading import FamilyReader
from tests.language.test_bulk import NAMES

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
    wanted = [[[(feature, np.float32(share)) for feature, share in slot] for slot in slots] for slots in naive(NAMES)]
    for _ in range(2):  # the second time from memory
        read = reader.read([text for text, _ in NAMES], [language for _, language in NAMES])
        assert listed(table.slots(read, None), len(NAMES)) == wanted
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
