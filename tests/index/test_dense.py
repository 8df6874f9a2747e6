"""Every kind of index against exact search, filters and ties included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import BundleError, ConfigError
from medlink.index import dense
from medlink.index.dense import DenseIndex
from medlink.index.names import Selection


def vectors(n: int, d: int = 16, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def selection(rows: np.ndarray) -> Selection:
    return Selection(np.zeros(0, dtype=bool), rows, int(rows.sum()))


@pytest.mark.parametrize("kind", dense.KINDS)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
def test_against_exact_search(tmp_path: Path, kind: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_SMALL", 100)  # so that a filtered graph search runs, too
    x, queries = vectors(3000), vectors(50, seed=1)
    index = DenseIndex.build(tmp_path, x, kind)
    assert (index.kind, index.dimension, len(index)) == (kind, 16, 3000)
    keep = np.random.default_rng(2).random(3000) < share
    rows, scores = index.search(queries, 10, None if share == 1 else selection(keep))
    exact = queries @ x.T
    if share < 1:
        exact[:, ~keep] = -np.inf
        assert keep[rows].all()
    best = np.argsort(-exact, axis=1)[:, :10]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows.tolist(), best.tolist(), strict=True)])
    assert recall >= (1.0 if kind == "flat" or share == 0.01 else 0.95)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=2e-3)
    np.testing.assert_allclose(index.vectors(np.array([7, 3])), x[[7, 3]], atol=1e-3)


def test_unnormalised_queries_rank_the_same(tmp_path: Path) -> None:
    x, queries = vectors(200), vectors(5, seed=1)
    index = DenseIndex.build(tmp_path, x, "flat")
    np.testing.assert_array_equal(index.search(queries * 7, 5)[0], index.search(queries, 5)[0])


def test_one_thread_builds_the_same_graph(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        DenseIndex.build(tmp_path / name, vectors(2000), "hnsw", threads=1)
    assert (tmp_path / "a/vectors.faiss").read_bytes() == (tmp_path / "b/vectors.faiss").read_bytes()


def test_edges(tmp_path: Path) -> None:
    index = DenseIndex.build(tmp_path, vectors(3), "flat")
    rows, _ = index.search(vectors(2), 10)
    assert rows.shape == (2, 3)
    rows, _ = index.search(vectors(2), 2, selection(np.zeros(3, dtype=bool)))
    assert (rows == -1).all()
    assert index.search(np.zeros((0, 16), np.float32), 5)[0].shape == (0, 3)
    assert index.vectors(np.zeros(0, np.int64)).shape == (0, 16)
    with pytest.raises(ConfigError, match=r"vectors of shape \(2, 8\)"):
        index.search(vectors(2, 8), 3)
    with pytest.raises(ConfigError, match="unknown kind of index 'tree'"):
        DenseIndex.create(4, "tree")
    assert DenseIndex.choose(dense.FLAT_LIMIT) == "flat"
    assert DenseIndex.choose(dense.FLAT_LIMIT + 1) == "hnsw"


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="missing"):
        DenseIndex(tmp_path)
    (tmp_path / "vectors.faiss").write_bytes(b"garbage")
    with pytest.raises(BundleError, match="cannot be read"):
        DenseIndex(tmp_path)


@pytest.mark.skipif(dense.gpu_count() == 0, reason="no GPU that the installed Faiss can use")
def test_gpu_finds_what_the_cpu_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, queries = vectors(5000), vectors(20, seed=1)
    on_gpu = DenseIndex.build(tmp_path, x, "flat")
    monkeypatch.setattr(dense, "gpu_count", lambda: 0)
    np.testing.assert_array_equal(on_gpu.search(queries, 5)[0], DenseIndex(tmp_path).search(queries, 5)[0])
