"""Hashed n-grams against a naive count."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.language.text import normalise
from medlink.models.ngrams import buckets, hash_markers, hash_ngrams


def naive(text: str, sizes: tuple[int, ...], words: bool, max_chars: int = 256) -> list[str]:
    found = []
    for word in normalise(text)[:max_chars].split():
        bounded = f" {word} "
        for size in sizes:
            found += [f"{size}:{bounded[i : i + size]}" for i in range(len(bounded) - size + 1)]
        if words:
            found.append(f"w:{word}")
    return found


@pytest.mark.slow
@given(st.lists(st.text(max_size=30), max_size=6), st.sampled_from([(3, 4, 5), (2, 3), (4,)]), st.booleans())
def test_same_features_as_the_naive_count(texts: list[str], sizes: tuple[int, ...], words: bool) -> None:
    bags = hash_ngrams(texts, sizes, words=words)
    wanted = [naive(text, sizes, words) for text in texts]
    assert np.diff(bags.offsets).tolist() == [len(w) for w in wanted]
    # equal features have equal hashes, different ones different hashes
    counts: Counter[int] = Counter()
    for i, features in enumerate(wanted):
        got = Counter(bags.values[bags.offsets[i] : bags.offsets[i + 1]].tolist())
        assert sorted(got.values()) == sorted(Counter(features).values())
        counts += got
        alone = hash_ngrams([texts[i]], sizes, words=words)
        assert Counter(alone.values.tolist()) == got
    assert len(counts) == len({feature for features in wanted for feature in features})


def test_hashes_of_markers_never_change() -> None:
    """They too are what weights were trained with."""
    ends, hashes = hash_markers(["Grade 2", "", "Grad II", "stage IIb " + "x" * 300], max_chars=9)
    assert ends.tolist() == [0, 1, 1, 2, 4]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    assert hashes[[0, 3]].tolist() == [14822686441309548202, 10377229699473032585]
    assert hash_markers([])[0].tolist() == [0]


def test_hashes_never_change() -> None:
    """Weights on users' disks were trained with these hashes."""
    bags = hash_ngrams(["Ödem 2"])
    assert bags.values[[0, -1]].tolist() == [17922389833498609307, 16350187606665874821]
    assert sha256(" ".join(map(str, bags.values.tolist())).encode()).hexdigest() == (
        "afd740aaf4b70c35e9a927e6e738389911495235b36df4dcae0020f5870f8039"
    )
    assert buckets(bags.values, 65_536).tolist() != buckets(bags.values, 65_536, 1).tolist()


def test_edges() -> None:
    assert hash_ngrams([]).offsets.tolist() == [0]
    assert hash_ngrams(["", "…", "😀"]).offsets.tolist() == [0, 0, 0, 0]
    long = hash_ngrams(["ab " * 1000], max_chars=30)
    assert len(long.values) == len(naive("ab " * 1000, (3, 4, 5), True, 30))


@pytest.mark.parametrize("probe", [0, 1])
def test_buckets_are_spread(probe: int) -> None:
    hashes = hash_ngrams([f"name {i}" for i in range(3000)]).values
    rows = buckets(np.unique(hashes), 1024, probe)
    assert rows.min() >= 0
    assert rows.max() < 1024
    counts = np.bincount(rows, minlength=1024)
    assert counts.var() < 2 * counts.mean()
