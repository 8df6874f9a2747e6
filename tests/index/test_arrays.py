"""Memory-mapped arrays and strings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medlink.errors import BundleError
from medlink.index import arrays
from medlink.index.arrays import ArrayWriter, RaggedArray, StringArray, open_array, save_array


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=8))
def test_strings_come_back(tmp_path_factory: pytest.TempPathFactory, strings: list[str]) -> None:
    folder = tmp_path_factory.mktemp("strings")
    strings = [s.encode("utf-8", "ignore").decode("utf-8") for s in strings]
    StringArray.save(folder, "s", strings)
    assert list(StringArray(folder, "s")) == strings


def test_ragged_arrays(tmp_path: Path) -> None:
    save_array(tmp_path, "g.values", np.array([5, 6, 7, 0, 1]))
    save_array(tmp_path, "g.ends", np.array([0, 2, 2, 3, 5]))
    for lists, expected in (
        (RaggedArray.open(tmp_path, "g"), [[5, 6], [], [7], [0, 1]]),
        (RaggedArray(np.array([0, 2, 2, 5])), [[0, 1], [], [2, 3, 4]]),
    ):
        assert len(lists) == len(expected)
        assert [list(lists[i]) for i in range(len(expected))] == expected
        indices = np.array([2, 0, 1, 0])
        position, number = lists.take(indices)
        assert position.tolist() == [p for p, i in enumerate(indices.tolist()) for _ in expected[i]]
        assert number.tolist() == [n for i in indices.tolist() for n in expected[i]]
        wanted = np.isin(np.arange(8), [1, 4, 7])
        assert lists.holding(wanted).tolist() == [any(wanted[n] for n in group) for group in expected]
        assert not lists.holding(np.zeros(8, dtype=bool)).any()


def test_arrays_are_mapped_and_read_only(tmp_path: Path) -> None:
    save_array(tmp_path, "a", np.arange(1000))
    array = open_array(tmp_path, "a")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    save_array(tmp_path, "empty", np.zeros(0))
    assert open_array(tmp_path, "empty").shape == (0,)


def test_missing_damaged_or_pickled_arrays(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="missing"):
        open_array(tmp_path, "a")
    (tmp_path / "a.npy").write_bytes(b"not an array" * 20)
    with pytest.raises(BundleError, match="damaged"):
        open_array(tmp_path, "a")
    np.save(tmp_path / "p.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BundleError, match="damaged"):
        open_array(tmp_path, "p")


@pytest.mark.parametrize("ends", [[0, 2 + 2**40, 3, 5], [0, 4, 3, 5]])
def test_damaged_ends_of_lists_are_refused(ends: list[int]) -> None:
    """A flipped bit made a list as long as memory."""
    with pytest.raises(BundleError, match="lists do not follow one another"):
        RaggedArray(np.array(ends)).take(np.array([0, 1, 2]))


def test_an_array_in_blocks_is_the_file_of_the_whole(tmp_path: Path) -> None:
    for shape in ((0,), (5,), (0, 3), (70_000, 3)):
        whole = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        np.save(tmp_path / "whole.npy", whole)
        with ArrayWriter(tmp_path, "blocks", np.int32, *shape[1:]) as writer:
            for start in range(0, len(whole), 30_000):
                writer.append(whole[start : start + 30_000].astype(np.int64))
        assert (tmp_path / "whole.npy").read_bytes() == (tmp_path / "blocks.npy").read_bytes()


def test_strings_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_BUFFERED", 3)
    strings = ["Ödem", "", "a\0b", "日本", "x", "y", ""]
    StringArray.save(tmp_path, "s", strings)
    assert [*StringArray(tmp_path, "s")] == strings


@pytest.mark.parametrize("count", [10, 100_000])
def test_full_disk(tmp_path: Path, count: int) -> None:
    (tmp_path / "full.npy").symlink_to("/dev/full")
    with (
        pytest.raises(OSError, match=r"No space left on device: .*full\.npy"),
        ArrayWriter(tmp_path, "full", np.int32) as writer,
    ):
        writer.append(np.arange(count))
