"""The search by words against all cosines, computed one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medlink.index import postings as module
from medlink.index.postings import Postings
from medlink.index.word_overlap import NameFeatures
from medlink.language.lexicon.forms import shipped_forms

NAMES = ["kidney cyst", "liver cyst", "cyst", "renal failure", "Leberzyste", "qqqxyz", "fracture of femur"]
LANGUAGES = ["en"] * 4 + ["de"] + ["en"] * 2
Index = tuple[NameFeatures, Postings]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder: Path = tmp_path_factory.mktemp("postings")
    words = NameFeatures.build(folder, NAMES, LANGUAGES, shipped_forms())
    return words, Postings.build(folder, words, len(NAMES))


def search(index: Index, mention: str, k: int = 9, allowed: list[bool] | None = None) -> dict[str, float]:
    words, found = index
    _, rows, scores = found.search(
        words.read([mention], ["en"]), np.zeros(1, np.int64), k, None if allowed is None else np.array(allowed)
    )
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    return {NAMES[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}


def vector(words: NameFeatures, rows: list[int] | None, mention: str = "") -> Counter[int]:
    features = words.read([mention], ["en"]) if rows is None else words.of(np.array(rows))
    counts: Counter[int] = Counter()
    for feature, weight in zip(features.feature.tolist(), words.weights(features).tolist(), strict=True):
        counts[feature] += weight
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("mention", ["kidney cysts", "cyst of the liver", "hepatic cyst", "qqqxyz fracture"])
def test_cosines_against_naive_ones(index: Index, mention: str) -> None:
    mentions = vector(index[0], None, mention)
    wanted = {}
    for row, name in enumerate(NAMES):
        other = vector(index[0], [row])
        lengths = [sum(value**2 for value in one.values()) ** 0.5 for one in (mentions, other)]
        cosine = sum(mentions[feature] * other[feature] for feature in mentions) / (lengths[0] * lengths[1])
        if cosine:
            wanted[name] = cosine
    assert search(index, mention) == pytest.approx(wanted, abs=2e-3)


def test_allowed_names(index: Index) -> None:
    allowed = [name != "liver cyst" for name in NAMES]
    assert "liver cyst" not in search(index, "liver cyst", 9, allowed)
    assert list(search(index, "liver cyst", 1, allowed)) == ["Leberzyste"]


@pytest.mark.parametrize("mention", ["", "of the", "zzzzw"])
def test_a_mention_without_a_word_of_any_name(index: Index, mention: str) -> None:
    assert search(index, mention) == {}


def test_several_mentions(index: Index) -> None:
    words, found = index
    mentions = words.read(["cyst", "", "femur fracture"], ["en"] * 3)
    places, rows, _ = found.search(mentions, np.array([1, 2, 0]), 1)
    assert [(place, NAMES[row]) for place, row in zip(places, rows, strict=True)] == [
        (1, "fracture of femur"),
        (2, "cyst"),
    ]


@pytest.mark.parametrize("together", [1, 2, 7])
def test_mentions_are_searched_alike_however_many_at_a_time(
    index: Index, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, found = index
    texts = ["kidney cyst", "", "cyst", "hepatic cyst", "qqqxyz fracture", "renal cysts"]
    mentions, numbers = words.read(texts, ["en"] * len(texts)), np.arange(len(texts))
    wanted = [column.tolist() for column in found.search(mentions, numbers, 3)]
    alone = [found.search(mentions, numbers[[number]], 3)[1:] for number in numbers]
    assert wanted[1:] == [np.concatenate(column).tolist() for column in zip(*alone, strict=True)]
    monkeypatch.setattr(module, "_BATCH_POSTINGS", together)
    assert [column.tolist() for column in found.search(mentions, numbers, 3)] == wanted


def test_common_features_are_dropped_from_a_long_search(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUDGET", 3)
    monkeypatch.setattr(module, "_MIN_FEATURES", 1)
    # four names have cyst, two have kidney
    assert set(search(index, "kidney cyst")) == {"kidney cyst", "renal failure"}


@pytest.mark.slow
def test_too_many_names_have_no_postings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", len(NAMES) - 1)
    words = NameFeatures.build(tmp_path, NAMES, LANGUAGES, shipped_forms())
    Postings.build(tmp_path, words, len(NAMES))
    assert search((words, Postings(tmp_path, words)), "kidney cyst") == {}
    assert sum(path.stat().st_size for path in tmp_path.glob("posting_[rw]*")) < 300
