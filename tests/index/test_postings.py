"""The search by words against every cosine counted one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medlink.index import postings as module
from medlink.index.postings import Postings
from medlink.index.word_overlap import NameWords
from medlink.language.lexicon.forms import shipped_forms

NAMES = ["kidney cyst", "liver cyst", "cyst", "renal failure", "Leberzyste", "qqqxyz", "fracture of femur"]
LANGUAGES = ["en"] * 4 + ["de"] + ["en"] * 2
Index = tuple[NameWords, Postings]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder: Path = tmp_path_factory.mktemp("postings")
    said = NameWords.build(folder, NAMES, LANGUAGES, shipped_forms())
    return said, Postings.build(folder, said, len(NAMES))


def search(index: Index, mention: str, k: int = 9, allowed: list[bool] | None = None) -> dict[str, float]:
    said, found = index
    _, rows, scores = found.search(
        said.read([mention], ["en"]), np.zeros(1, np.int64), k, None if allowed is None else np.array(allowed)
    )
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    return {NAMES[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}


def vector(said: NameWords, rows: list[int] | None, mention: str = "") -> Counter[int]:
    slots = said.read([mention], ["en"]) if rows is None else said.of(np.array(rows))
    counts: Counter[int] = Counter()
    for feature, weight in zip(slots.feature.tolist(), said.weights(slots).tolist(), strict=True):
        counts[feature] += weight
    return counts


@pytest.mark.parametrize("mention", ["kidney cysts", "cyst of the liver", "hepatic cyst", "qqqxyz fracture"])
def test_cosines_against_naive_ones(index: Index, mention: str) -> None:
    asked = vector(index[0], None, mention)
    wanted = {}
    for row, name in enumerate(NAMES):
        other = vector(index[0], [row])
        lengths = [sum(value**2 for value in one.values()) ** 0.5 for one in (asked, other)]
        cosine = sum(asked[feature] * other[feature] for feature in asked) / (lengths[0] * lengths[1])
        if cosine:
            wanted[name] = cosine
    assert search(index, mention) == pytest.approx(wanted, abs=2e-3)


def test_only_what_is_allowed(index: Index) -> None:
    allowed = [name != "liver cyst" for name in NAMES]
    assert "liver cyst" not in search(index, "liver cyst", 9, allowed)
    assert list(search(index, "liver cyst", 1, allowed)) == ["Leberzyste"]


@pytest.mark.parametrize("mention", ["", "of the", "zzzzw"])
def test_a_mention_without_a_word_of_any_name(index: Index, mention: str) -> None:
    assert search(index, mention) == {}


def test_many_mentions_have_each_their_own(index: Index) -> None:
    said, found = index
    asked = said.read(["cyst", "", "femur fracture"], ["en"] * 3)
    places, rows, _ = found.search(asked, np.array([1, 2, 0]), 1)
    assert [(place, NAMES[row]) for place, row in zip(places, rows, strict=True)] == [
        (1, "fracture of femur"),
        (2, "cyst"),
    ]


@pytest.mark.parametrize("together", [1, 2, 7])
def test_mentions_are_searched_alike_however_many_at_a_time(
    index: Index, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, found = index
    texts = ["kidney cyst", "", "cyst", "hepatic cyst", "qqqxyz fracture", "renal cysts"]
    asked, numbers = said.read(texts, ["en"] * len(texts)), np.arange(len(texts))
    wanted = [column.tolist() for column in found.search(asked, numbers, 3)]
    alone = [found.search(asked, numbers[[number]], 3)[1:] for number in numbers]
    assert wanted[1:] == [np.concatenate(column).tolist() for column in zip(*alone, strict=True)]
    monkeypatch.setattr(module, "_TOGETHER", together)
    assert [column.tolist() for column in found.search(asked, numbers, 3)] == wanted


def test_what_most_names_have_is_left_out_of_a_long_search(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUDGET", 3)
    monkeypatch.setattr(module, "_LEAST", 1)
    # four names have cyst, two have kidney
    assert set(search(index, "kidney cyst")) == {"kidney cyst", "renal failure"}


def test_of_too_many_names_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", len(NAMES) - 1)
    said = NameWords.build(tmp_path, NAMES, LANGUAGES, shipped_forms())
    Postings.build(tmp_path, said, len(NAMES))
    assert search((said, Postings(tmp_path, said)), "kidney cyst") == {}
    assert sum(path.stat().st_size for path in tmp_path.glob("posting_[rw]*")) < 300
