"""The nearest other vectors of each vector: both kinds against brute force, ties, copies, zeros and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.index import knn_graph
from medlink.index.knn_graph import nearest


def unit(x: np.ndarray) -> np.ndarray:
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def crowded(n: int, d: int = 32, seed: int = 0) -> np.ndarray:
    """Vectors in crowds, as names of related concepts are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 20), d))
    return unit(centres[rng.integers(0, len(centres), n)] + 0.4 * rng.standard_normal((n, d)))


def brute(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair in double precision; ties by row; zero vectors left out."""
    cosines = x.astype(np.float64) @ x.T.astype(np.float64)
    zero = ~x.any(axis=1)
    np.fill_diagonal(cosines, -np.inf)
    cosines[zero], cosines[:, zero] = -np.inf, -np.inf
    rows, out = np.full((len(x), k), -1), np.full((len(x), k), -1.0)
    for i, line in enumerate(cosines):
        best = [j for j in np.argsort(-line.round(6), kind="stable")[:k] if line[j] > -np.inf]
        rows[i, : len(best)], out[i, : len(best)] = best, line[best]
    return rows, out


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(500, 7), (2000, 10), (60, 59), (60, 200)])
def test_flat_is_exact(n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn_graph, "_CHUNK", 128)
    x = crowded(n)
    rows, cosines = nearest(x, k, kind="flat")
    expected_rows, expected = brute(x, k)
    np.testing.assert_allclose(cosines, expected, atol=2e-6)
    # Rows may change places where two cosines differ by less than single precision tells.
    same = rows == expected_rows
    gaps = np.abs(np.diff(expected, axis=1, prepend=2, append=-2))
    assert same[(gaps[:, :-1] > 1e-5) & (gaps[:, 1:] > 1e-5)].all()
    assert same.mean() > 0.98


@pytest.mark.slow
def test_cells_find_nearly_all() -> None:
    x = crowded(2500)
    rows, cosines = nearest(x, 10, kind="cells")
    expected, _ = brute(x, 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows.tolist(), expected.tolist(), strict=True)])
    assert recall > 0.99
    own = np.einsum("nd,nkd->nk", x, x[rows])
    np.testing.assert_allclose(cosines, own, atol=1e-6)
    assert (np.diff(cosines, axis=1) <= 0).all()
    assert not (rows == np.arange(len(x))[:, None]).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", knn_graph.KINDS)
def test_the_same_every_time(kind: str) -> None:
    x = crowded(3000)
    for one, other in zip(nearest(x, 10, kind=kind), nearest(x.copy(), 10, kind=kind), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", knn_graph.KINDS)
def test_copies_and_ties_go_to_the_lower_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn_graph, "_CHUNK", 64)
    base = crowded(1500)
    copies = np.random.default_rng(1).permutation(np.concatenate([np.arange(1500), np.arange(50), np.full(30, 7)]))
    x = base[copies]
    rows, cosines = nearest(x, 12, kind=kind)
    expected, close = brute(x, 12)
    equal = close > 1 - 1e-6
    assert (rows[equal] == expected[equal]).all()
    assert equal[copies == 7].all(), "the 31 copies of one vector fill each other's lists"
    np.testing.assert_allclose(cosines[equal], 1, atol=1e-6)
    assert cosines.max() <= 1
    ties = np.diff(cosines, axis=1) == 0
    assert (np.diff(rows, axis=1)[ties] > 0).all()


def test_ties_of_different_vectors() -> None:
    # Row 0 is as near to each of the others; only a row's number tells them apart.
    x = np.zeros((21, 20), dtype=np.float32)
    x[0] = 20**-0.5
    x[1:] = np.eye(20, dtype=np.float32)
    assert nearest(x, 5)[0][0].tolist() == [1, 2, 3, 4, 5]


def test_cosines_are_the_same_in_both_directions() -> None:
    x = crowded(2000)
    rows, cosines = nearest(x, 10)
    known = {
        (i, j): c
        for i, (r, cs) in enumerate(zip(rows.tolist(), cosines.tolist(), strict=True))
        for j, c in zip(r, cs, strict=True)
    }
    both = [(c, known[j, i]) for (i, j), c in known.items() if (j, i) in known]
    assert len(both) > 1000
    assert all(one == other for one, other in both)


@pytest.mark.parametrize("kind", [None, *knn_graph.KINDS])
def test_edges(kind: str | None) -> None:
    none = nearest(np.zeros((0, 4), np.float32), 3, kind=kind)
    assert [a.shape for a in none] == [(0, 3), (0, 3)]
    rows, cosines = nearest(np.eye(1, 4, dtype=np.float32), 2, kind=kind)
    assert (rows.tolist(), cosines.tolist()) == ([[-1, -1]], [[-1.0, -1.0]])
    x = np.array([[0, 0], [1, 0], [-0.0, 0.0], [1, -0.0], [0, 1]], dtype=np.float32)
    rows, cosines = nearest(x, 3, kind=kind)
    assert rows.tolist() == [[-1, -1, -1], [3, 4, -1], [-1, -1, -1], [1, 4, -1], [1, 3, -1]]
    assert cosines[1].tolist() == [1.0, 0.0, -1.0]


def test_refusals() -> None:
    x = crowded(10)
    x[4] *= 2
    with pytest.raises(ConfigError, match=r"vector 4 has length 2, 1 expected\. Remedy: divide each vector"):
        nearest(x, 3)
    x[4] = np.nan
    with pytest.raises(ConfigError, match="vector 4 has length nan"):
        nearest(x, 3)
    with pytest.raises(ConfigError, match=r"vectors of shape \(3,\), \(n, d\) expected"):
        nearest(np.ones(3, np.float32), 3)
    with pytest.raises(ConfigError, match="0 neighbours requested"):
        nearest(crowded(10), 0)
    with pytest.raises(ConfigError, match=r"1000000000 neighbours requested\. Remedy: request 1 to 10000"):
        nearest(np.eye(2, dtype=np.float32), 10**9)
    assert nearest(np.eye(2, dtype=np.float32), knn_graph.MAX_NEIGHBOURS)[0].shape == (2, knn_graph.MAX_NEIGHBOURS)
    with pytest.raises(ConfigError, match=r"unknown kind of neighbour search 'tree'\. Remedy: one of flat, cells"):
        nearest(crowded(10), 2, kind="tree")


@pytest.mark.slow
@pytest.mark.parametrize("kind", knn_graph.KINDS)
def test_half_precision_gives_what_its_numbers_give(kind: str, tmp_path: Path) -> None:
    x = crowded(3000)
    x[7], x[9] = x[5], 0
    np.save(tmp_path / "x.npy", x.astype(np.float16))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    rows, cosines = nearest(mapped, 10, kind=kind)
    whole, close = nearest(mapped.astype(np.float32), 10, kind=kind)
    np.testing.assert_array_equal(rows, whole)
    np.testing.assert_array_equal(cosines, close)
    assert (rows[5, 0], rows[7, 0], rows[9, 0]) == (7, 5, -1)
    np.testing.assert_allclose(cosines, nearest(x, 10, kind=kind)[1], atol=2e-3)
