"""Every kind of index against exact search, filters, ties and vectors of any length included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import BundleError, ConfigError
from medlink.index.vectors import FLAT_LIMIT, GRAPH_LIMIT, base, choose, hnsw, ivfpq, kinds, library, vector_index
from medlink.index.vectors.library import gpu_count
from tests.index.gpus import stand_in


def vectors(n: int, d: int = 16, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def saved(folder: Path, x: np.ndarray, kind: str = "flat") -> Path:
    index = vector_index(kind)(x.shape[1])
    index.add(x[: len(x) // 2])
    index.add(x[len(x) // 2 :])
    index.save(folder)
    return folder


def test_a_graph_that_is_watched_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw, "_INTERVAL", 0.001)
    x, seen = vectors(3000), list[tuple[int, int]]()
    for name, progress in (("alone", None), ("watched", lambda *done: seen.append(done))):
        index = vector_index("hnsw")(16)
        index.add(x, progress)
        (tmp_path / name).mkdir()
        index.save(tmp_path / name)
    alone, watched = ((tmp_path / name / "vectors.faiss").read_bytes() for name in ("alone", "watched"))
    assert alone == watched
    assert seen == sorted(seen)
    assert seen[-1] == (3000, 3000)
    assert 0 < seen[len(seen) // 2][0] < 3000


def test_vectors_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faiss itself would print it and go on."""
    monkeypatch.setattr(base, "FILE", "full")
    for kind in kinds():
        index = vector_index(kind)(16)
        index.add(vectors(10))
        with pytest.raises(OSError, match="No space left on device"):
            index.save(Path("/dev"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("longest", [1.0, 3.0])
def test_against_exact_search(
    tmp_path: Path, kind: str, share: float, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are the inner products of what was added, whatever its length."""
    monkeypatch.setattr(hnsw, "_SMALL", 100)  # so that a filtered graph search runs, too
    lengths = np.random.default_rng(3).uniform(1, longest, (3000, 1)).astype(np.float32)
    x, queries = vectors(3000) * lengths, vectors(50, seed=1) * np.float32(longest)
    index = vector_index(kind).load(saved(tmp_path, x, kind))
    assert (index.dimension, len(index)) == (16, 3000)
    keep = np.random.default_rng(2).random(3000) < share
    rows, scores = index.search(queries, 10, None if share == 1 else keep)
    exact = queries @ x.T
    if share < 1:
        exact[:, ~keep] = -np.inf
        assert keep[rows].all()
    best = np.argsort(-exact, axis=1)[:, :10]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows.tolist(), best.tolist(), strict=True)])
    assert recall >= (1.0 if kind == "flat" or share == 0.01 else 0.95)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=2e-3 * longest**2)
    np.testing.assert_allclose(index.vectors(np.array([7, 3])), x[[7, 3]], atol=1e-3 * longest)


@pytest.mark.parametrize("kind", kinds())
def test_edges(tmp_path: Path, kind: str) -> None:
    index = vector_index(kind).load(saved(tmp_path, vectors(3), kind))
    assert index.search(vectors(2), 10)[0].shape == (2, 3)
    assert (index.search(vectors(2), 2, np.zeros(3, dtype=bool))[0] == -1).all()
    assert index.search(np.zeros((0, 16), np.float32), 5)[0].shape == (0, 3)
    assert index.vectors(np.zeros(0, np.int64)).shape == (0, 16)
    with pytest.raises(ConfigError, match=r"vectors of shape \(2, 8\), \(n, 16\) expected"):
        index.search(vectors(2, 8), 3)
    empty = vector_index(kind)(16)
    assert empty.search(vectors(2), 3)[0].shape == (2, 0)


@pytest.mark.parametrize("kind", kinds())
def test_one_thread_builds_the_same_index(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        saved(tmp_path / name, vectors(2000), kind)
    assert (tmp_path / "a/vectors.faiss").read_bytes() == (tmp_path / "b/vectors.faiss").read_bytes()


def test_kinds() -> None:
    assert kinds() == ("flat", "hnsw", "ivfpq")
    assert [choose(count) for count in (FLAT_LIMIT, FLAT_LIMIT + 1)] == ["flat", "hnsw"]
    with pytest.raises(ConfigError, match=r"unknown kind of index 'tree'\. Remedy: one of flat, hnsw, ivfpq"):
        vector_index("tree")


def test_memory_chooses_a_kind() -> None:
    counts = {"flat": 1000, "hnsw": FLAT_LIMIT + 1, "ivfpq": GRAPH_LIMIT + 1}
    assert [choose(count) for count in counts.values()] == list(counts)
    # by hand: 1,024 bytes, 784 (512, 65 links of 4, and 12), and 72
    for memory, kind in ((1024, "flat"), (1023, "hnsw"), (783, "ivfpq")):
        assert choose(1000, 256, memory * 1000) == kind
    with pytest.raises(ConfigError, match=r"take 72,000 bytes .* and 71,999 are allowed\. Remedy: name 1M with"):
        choose(1000, 256, 71_999)


def test_pages_that_are_given_back_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = vectors(2000)
    index = vector_index("ivfpq").load(saved(tmp_path, x, "ivfpq"))
    before = index.search(x[:100], 5)
    monkeypatch.setattr(ivfpq, "_MAX_PAGES", 10)
    after = index.search(x[:100], 5)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    with pytest.raises(IndexError):
        index.vectors(np.array([2000]))


def test_vectors_of_cells_that_are_damaged(tmp_path: Path) -> None:
    saved(tmp_path, vectors(100), "ivfpq")
    content = (tmp_path / "exact.npy").read_bytes()
    for damaged, message in ((content[:-40], "damaged"), (b"", "damaged"), (None, "missing")):
        (tmp_path / "exact.npy").unlink()
        if damaged is not None:
            (tmp_path / "exact.npy").write_bytes(damaged)
        else:
            (tmp_path / "exact.npy").unlink(missing_ok=True)
        with pytest.raises(BundleError, match=message):
            vector_index("ivfpq").load(tmp_path)
        (tmp_path / "exact.npy").write_bytes(content)
    np.save(tmp_path / "exact.npy", vectors(99).astype(np.float16))
    with pytest.raises(BundleError, match=r"vectors of shape \(99, 16\), \(100, 16\) expected"):
        # codes are read at the first search
        vector_index("ivfpq").load(tmp_path).prepare()


def test_small_codes_are_read_at_the_first_search(tmp_path: Path) -> None:
    x = vectors(500)
    path = saved(tmp_path, x, "ivfpq") / "vectors.faiss"
    index, other = (vector_index("ivfpq").load(tmp_path) for _ in range(2))
    assert (len(index), index.dimension) == x.shape
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    with pytest.raises(BundleError, match="the vectors cannot be read"):
        index.search(x[:1], 5)
    path.write_bytes(whole)
    # a file that is gone, or has another place, is read all the same
    path.rename(tmp_path / "away")
    index.prepare()
    (tmp_path / "away").unlink()
    for one in (index, other):
        np.testing.assert_array_equal(one.search(x[:3], 1)[0][:, 0], [0, 1, 2])
    with pytest.raises(BundleError, match="a file of the index is missing"):
        vector_index("ivfpq").load(tmp_path)


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="missing"):
        vector_index("flat").load(tmp_path)
    (tmp_path / "vectors.faiss").write_bytes(b"garbage")
    with pytest.raises(BundleError, match="cannot be read"):
        vector_index("flat").load(tmp_path)
    saved(tmp_path, vectors(3), "flat")
    with pytest.raises(BundleError, match="cannot be read"):
        vector_index("hnsw").load(tmp_path)


@pytest.mark.skipif(gpu_count() == 0, reason="no GPU that the installed Faiss can use")
@pytest.mark.parametrize("kind", kinds())
def test_gpu_finds_what_the_cpu_finds(tmp_path: Path, kind: str) -> None:
    x, queries = vectors(5000), vectors(20, seed=1)
    on_gpu = vector_index(kind).load(saved(tmp_path, x, kind))
    assert on_gpu._on_gpu is not None  # type: ignore[attr-defined]
    best = np.argsort(-(queries @ x.T), axis=1)[:, :5]
    # vectors of 16 bits let near cosines change places
    assert np.mean([np.isin(*found).mean() for found in zip(best, on_gpu.search(queries, 5)[0], strict=True)]) > 0.97


@pytest.mark.parametrize("gpus", [1, 3])
@pytest.mark.parametrize("kind", kinds())
def test_each_gpu_holds_its_share_in_16_bits(
    gpus: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = stand_in(monkeypatch, gpus)
    monkeypatch.setattr(library, "_COPIED", 64)
    x, queries = vectors(1000), vectors(20, seed=1)
    opened = vector_index(kind).load(saved(tmp_path, x, kind))
    assert [gpu for gpu, _ in shares] == list(range(gpus))
    assert sum(share.ntotal for _, share in shares) == 1000
    assert max(share.ntotal for _, share in shares) <= 1000 / gpus + 1
    rows, scores = opened.search(queries, 5)
    cosines = queries @ x.T
    np.testing.assert_array_equal(rows[:, 0], cosines.argmax(axis=1))
    np.testing.assert_allclose(scores, np.sort(cosines)[:, ::-1][:, :5], atol=2e-3)
