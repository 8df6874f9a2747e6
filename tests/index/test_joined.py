"""Two parts seen as one, against lists."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medlink.errors import BundleError
from medlink.index import lexical
from medlink.index.arrays import Groups, Ranges, Strings, save_array, save_groups
from medlink.index.dense import DenseIndex, JoinedDense
from medlink.index.joined import JoinedArray, JoinedGroups, Order, open_column, open_strings
from medlink.index.lexical import SIZES, LexicalIndex
from medlink.index.names import Selection
from medlink.models.ngrams import buckets, hash_ngrams
from tests.index.test_dense import vectors


@settings(deadline=None)
@given(st.lists(st.integers(0, 99), max_size=8), st.lists(st.integers(0, 99), max_size=8), st.data())
def test_arrays_as_one_list(main: list[int], added: list[int], data: st.DataObject) -> None:
    count = min(len(main), len(added))
    replaced = sorted(data.draw(st.sets(st.sampled_from(range(len(main))), max_size=count))) if count else []
    whole = [*main, *added[len(replaced) :]]
    for place, number in enumerate(replaced):
        whole[number] = added[place]
    joined = JoinedArray(np.array(main, dtype=int), np.array(added, dtype=int), np.array(replaced, dtype=int))
    assert len(joined) == len(whole)
    assert np.asarray(joined).tolist() == [joined[i] for i in range(len(whole))] == whole
    assert np.asarray(joined, dtype=np.float32).dtype == np.float32
    order = np.array(
        data.draw(st.lists(st.integers(0, max(0, len(whole) - 1)), max_size=9)) if whole else [], dtype=int
    )
    assert joined[order].tolist() == [whole[i] for i in order.tolist()]
    assert np.isin(joined, main[:1]).tolist() == [value in main[:1] for value in whole]


def test_strings_and_columns_of_two_folders(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, strings, rows in ((one, ["b", "ä"], [[1, 2], [3, 4]]), (other, ["", "c"], [[5, 6], [7, 8]])):
        folder.mkdir()
        Strings.save(folder, "s", strings)
        save_array(folder, "a", np.array(rows))
    strings_ = open_strings(one, "s", other)
    assert (len(strings_), list(strings_)) == (4, ["b", "ä", "", "c"])
    assert strings_.many(np.array([3, 0, 2, 1, 3])) == ["c", "b", "", "ä", "c"]
    assert strings_.many(np.zeros(0, dtype=int)) == []
    assert open_column(one, "a", other, np.array([1]))[np.array([2, 1, 0])].tolist() == [[7, 8], [5, 6], [1, 2]]
    assert isinstance(open_column(one, "a", None), np.ndarray)
    assert isinstance(open_strings(one, "s", None), Strings)


@pytest.mark.parametrize("ranges", [True, False])
def test_lists_of_numbers(ranges: bool, tmp_path: Path) -> None:
    save_groups(tmp_path, "m", [[0, 1], [], [2]])
    save_groups(tmp_path, "a", [[3, 0, 1], [4], []])
    main = Ranges(np.array([0, 2, 2, 3])) if ranges else Groups(tmp_path, "m")
    joined = JoinedGroups(main, Groups(tmp_path, "a"), np.array([0]))
    whole = [[3, 0, 1], [], [2], [4], []]
    assert len(joined) == 5
    assert [list(joined[i]) for i in range(5)] == whole
    indices = [4, 0, 3, 2, 0, 1]
    position, number = joined.many(np.array(indices))
    assert position.tolist() == [p for p, i in enumerate(indices) for _ in whole[i]]
    assert number.tolist() == [n for i in indices for n in whole[i]]
    for wanted in ([0], [2], [3], [4], [], [0, 4]):
        mask = np.isin(np.arange(5), wanted)
        assert joined.holding(mask).tolist() == [any(n in wanted for n in group) for group in whole]


@settings(deadline=None)
@given(st.sets(st.text(max_size=3), max_size=9), st.sets(st.text(max_size=3), max_size=9))
def test_keys_of_later_things_sort_as_the_things_do(main: set[str], later: set[str]) -> None:
    there, new = sorted(main), sorted(later - main)
    order = Order(len(there), Order.between([bisect_left(there, text) for text in new]))
    keys = order(np.arange(len(there) + len(new)))
    assert [[*there, *new][i] for i in np.argsort(keys).tolist()] == sorted(main | later)
    assert len(set(keys.tolist())) == len(keys)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_both_parts_are_searched(kind: str, tmp_path: Path) -> None:
    x, queries = vectors(600), vectors(20, seed=1)
    x[550] = x[3]  # a tie between the parts goes to the lower row
    for name, part, of_kind in (("main", x[:500], kind), ("added", x[500:], "flat"), ("none", x[:0], "flat")):
        (tmp_path / name).mkdir()
        DenseIndex.build(tmp_path / name, part, of_kind)
    joined = JoinedDense(DenseIndex(tmp_path / "main"), DenseIndex(tmp_path / "added"))
    assert (len(joined), joined.dimension, joined.kind) == (600, 16, kind)
    keep = np.random.default_rng(0).random(600) < 0.1
    for selection, allowed in ((None, np.ones(600, bool)), (Selection(np.zeros(0, bool), keep, int(keep.sum())), keep)):
        rows, scores = joined.search(queries, 12, selection)
        exact = np.where(allowed, queries @ x.T, -np.inf)
        best = np.argsort(-exact, axis=1, kind="stable")[:, :12]
        assert np.mean(rows == best) >= (1 if kind == "flat" else 0.95)
        np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=2e-3)
    rows = np.array([550, 0, 499, 500])
    np.testing.assert_allclose(joined.vectors(rows), x[rows], atol=1e-3)
    if kind == "flat":
        assert joined.search(x[[3]], 2)[0].tolist() == [[3, 550]]
    few = np.zeros(600, bool)
    few[[7, 590]] = True
    assert set(joined.search(queries, 5, Selection(np.zeros(0, bool), few, 2))[0][0].tolist()) == {7, 590, -1}
    assert joined.search(queries, 1000)[0].shape == (20, 600)
    alone = JoinedDense(DenseIndex(tmp_path / "main"), DenseIndex(tmp_path / "none"))
    assert alone.search(queries, 3)[0].tolist() == DenseIndex(tmp_path / "main").search(queries, 3)[0].tolist()


def test_parts_of_different_width(tmp_path: Path) -> None:
    for name, width in (("a", 16), ("b", 8)):
        (tmp_path / name).mkdir()
        DenseIndex.build(tmp_path / name, vectors(3, width), "flat")
    with pytest.raises(BundleError, match="vectors of 16 dimensions, the added ones have 8"):
        JoinedDense(DenseIndex(tmp_path / "a"), DenseIndex(tmp_path / "b"))


def test_cosines_of_both_parts_by_the_weights_of_the_main_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, later = ["liver cyst", "renal cyst", "cyst of liver", "heart"], ["liver cysts", "heart cyst", "ß"]
    for name in ("main", "added"):
        (tmp_path / name).mkdir()
    LexicalIndex.build(tmp_path / "main", main).build_added(tmp_path / "added", later)
    joined = LexicalIndex(tmp_path / "main", tmp_path / "added")

    def grams(text: str) -> Counter[int]:
        return Counter(buckets(hash_ngrams([text], SIZES, words=False).hashes, 1 << 14).tolist())

    frequency = Counter(gram for text in main for gram in grams(text))

    def weigh(text: str) -> dict[int, float]:
        idf = {g: 1 + np.log((1 + len(main)) / (1 + frequency[g])) for g in grams(text)}
        raw = {g: (1 + np.log(count)) * idf[g] for g, count in grams(text).items()}
        length = np.sqrt(sum(w * w for w in raw.values()))
        return {g: w / length for g, w in raw.items()}

    query = weigh("liver cysst")
    wanted = [sum(query.get(g, 0) * w for g, w in weigh(text).items()) for text in [*main, *later]]
    order = [i for i in sorted(range(7), key=lambda i: (-wanted[i], i)) if wanted[i] > 0]
    rows, scores = joined.search(["liver cysst"], 9)[0]
    assert rows.tolist() == order
    np.testing.assert_allclose(scores, [wanted[i] for i in order], atol=1e-5)
    keep = np.array([False, True, False, False, False, True, True])
    assert joined.search(["liver cysst"], 9, Selection(np.zeros(0, bool), keep, 3))[0][0].tolist() == [
        i for i in order if keep[i]
    ]
    # n-grams that most names share are left out of both parts alike
    monkeypatch.setattr(lexical, "_BUDGET", 50)
    few = dict(zip(*(column.tolist() for column in joined.search(["liver cysst"], 9)[0]), strict=True))
    lost = {row: wanted[row] - few.get(row, 0) for row in (0, 1, 4, 5)}
    common = [g for g in query if sum(g in grams(text) for text in [*main, *later]) >= 5]
    for row, text in ((0, main[0]), (1, main[1]), (4, later[0]), (5, later[1])):
        assert lost[row] == pytest.approx(sum(query[g] * weigh(text).get(g, 0) for g in common), abs=1e-5)
    assert min(lost.values()) > 0
