"""Measures of clusterings and the sweep of CODER++, section 3, against double loops over names."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.evaluation import clusters as module
from medlink.evaluation import measure_partition, sweep
from medlink.evaluation.clusters import best_average_linkage, equal_letters
from tests.evaluation.commands import random_groups


@pytest.fixture(autouse=True)
def _blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of names and of pairs."""
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(module, "_CHUNK", 11)


def naive_measures(
    clusters: list[str], concepts: list[tuple[str, ...]], languages: list[tuple[str, ...]]
) -> tuple[float, float, float, float, float, float]:
    n = len(clusters)
    joined = np.array([[a == b for b in clusters] for a in clusters])
    belong = np.array([[bool(set(a) & set(b)) for b in concepts] for a in concepts])
    across = np.array([[any(x != y for x in a for y in b) for b in languages] for a in languages])
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    hits = (joined & belong & upper).sum()
    cross = belong & across & upper
    several = {tuple(np.flatnonzero(row)) for row in joined if row.sum() > 1}
    return (
        hits / (joined & upper).sum(),
        hits / (belong & upper).sum(),
        float(np.mean([(joined[i] & belong[i]).sum() / joined[i].sum() for i in range(n)])),
        float(np.mean([(joined[i] & belong[i]).sum() / belong[i].sum() for i in range(n)])),
        float(np.mean([not belong[np.ix_(one, one)].all() for one in several])),
        (cross & joined).sum() / cross.sum(),
    )


def test_partition_by_hand() -> None:
    # clusters {a b c} {d e}; concepts A = {a b d}, B = {c}, C = {e}
    found = measure_partition(["1", "1", "1", "2", "2"], ["A", "A", "B", "A", "C"], ["en", "de", "en", "en", "es"])
    assert (found.terms, found.clusters) == (5, 2)
    assert found.pair_precision == pytest.approx(1 / 4)
    assert found.pair_recall == pytest.approx(1 / 3)
    assert found.pair_f1 == pytest.approx(2 / 7)
    assert found.bcubed_precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 / 2 + 1 / 2) / 5)
    assert found.bcubed_recall == pytest.approx((2 / 3 + 2 / 3 + 1 + 1 / 3 + 1) / 5)
    p, r = found.bcubed_precision, found.bcubed_recall
    assert found.bcubed_f1 == pytest.approx(2 * p * r / (p + r))
    assert found.mixed == 1  # c is not of A, and e not of d's concept
    assert found.cross_lingual_recall == pytest.approx(1 / 2)  # a-b of a-b and b-d
    assert found.to_dict()["pair_f1"] == found.pair_f1


@pytest.mark.parametrize("seed", range(4))
def test_against_double_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    concepts = random_groups(70, 12, seed)
    clusters = [str(c) for c in rng.integers(0, 15, 70)]
    tags = [(), ("en",), ("de",), ("es",), ("de", "en")]
    languages = [tags[i] for i in rng.integers(0, len(tags), 70)]
    found = measure_partition(clusters, concepts, languages)
    got = (found.pair_precision, found.pair_recall, found.bcubed_precision, found.bcubed_recall, found.mixed)
    assert (*got, found.cross_lingual_recall) == pytest.approx(naive_measures(clusters, concepts, languages))


def test_a_perfect_clustering_and_one_of_single_terms() -> None:
    concepts = ["A", "A", "B"]
    perfect = measure_partition(["x", "x", "y"], concepts, ["en", "de", "en"]).to_dict()
    assert {v for k, v in perfect.items() if k not in ("terms", "clusters", "mixed")} == {1.0}
    assert measure_partition(["x", "x", "y"], concepts).mixed == 0
    single = measure_partition(["1", "2", "3"], concepts)
    assert single.mixed == 0
    assert (single.pair_precision, single.pair_recall, single.pair_f1) == (0, 0, 0)
    assert (single.bcubed_precision, single.bcubed_recall) == (1, pytest.approx(2 / 3))
    assert measure_partition(["1"], ["A"]).pair_recall == 0
    # mixed is a share of the clusters of several terms; in a chain of three the two ends share nothing
    assert measure_partition(["1", "1", "2", "2", "3"], ["A", "A", "B", "C", "D"]).mixed == 0.5
    assert measure_partition(["1", "1", "1"], [("A",), ("A", "B"), ("B",)]).mixed == 1


def test_languages_decide_only_the_cross_lingual_share() -> None:
    cases = (
        (None, None), (["", "", ""], None), (["en", "en", "en"], None), (["en", "de", ""], 1), (["en", "en", "de"], 0),
        ([("de", "en"), "en", "en"], 0.5),
    )  # fmt: skip
    for languages, recall in cases:
        found = measure_partition(["1", "1", "2"], ["A", "A", "A"], languages)  # type: ignore[arg-type]  # mixed kinds
        assert found.cross_lingual_recall == recall


def test_baselines_by_hand() -> None:
    vectors = np.array([[1, 0], [0.96, 0.28], [0, 1]], dtype=np.float32)
    best = best_average_linkage(vectors, ["A", "A", "B"])
    assert (best.clusters, best.pair_f1, best.bcubed_f1) == (2, 1, 1)
    assert best_average_linkage(vectors[:1], ["A"]).clusters == 1
    assert equal_letters(["Vitamin-D", "vitamin d", "--", "Straße"]) == ["vitamind", "vitamind", "--", "strasse"]


def test_partition_refusals() -> None:
    for clusters, concepts, languages, message in (
        ([], [], None, "no terms to measure"),
        (["1", "1"], ["A"], None, "2 terms and 1 entries of concepts"),
        (["1"], ["A"], [], "as many of both expected"),
        (["1"], [()], None, "name 0 belongs to no concept"),
    ):
        with pytest.raises(ConfigError, match=message):
            measure_partition(clusters, concepts, languages)  # type: ignore[arg-type]  # wrong on purpose


def vectors(n: int, d: int = 6, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def naive_counts(
    groups: list[tuple[str, ...]], x: np.ndarray, m: int, thresholds: list[float]
) -> list[tuple[int, ...]]:
    """Every pair at every threshold."""
    cosines = x.astype(np.float64) @ x.T.astype(np.float64)
    near = [set(sorted(set(range(len(x))) - {i}, key=lambda j: (-row[j], j))[:m]) for i, row in enumerate(cosines)]
    out = []
    for theta in thresholds:
        counts = {(True, True): 0, (False, True): 0, (True, False): 0, (False, False): 0}
        for i, j in combinations(range(len(x)), 2):
            true = bool(set(groups[i]) & set(groups[j]))
            counts[true, (j in near[i] or i in near[j]) and bool(cosines[i, j] > theta)] += 1
        out.append((counts[True, True], counts[False, True], counts[True, False], counts[False, False]))
    return out


def test_sweep_by_hand() -> None:
    # cosines: a-b 0.8, b-c 0.6, a-c 0; nearest: a-b, b-a, c-b
    x = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    found = sweep(["A", "A", "A"], x, neighbours=1, thresholds=[-1, 0.5, 0.7, 0.9])
    assert found.tp.tolist() == [2, 2, 1, 0]
    assert found.fn.tolist() == [1, 1, 2, 3], "a and c are in no list of each other"
    assert found.fp.tolist() == found.tn.tolist() == [0, 0, 0, 0]
    assert found.precision.tolist() == [1, 1, 1, 0], "nothing predicted has precision 0"
    np.testing.assert_allclose(found.recall, [2 / 3, 2 / 3, 1 / 3, 0])
    np.testing.assert_allclose(found.f1, [0.8, 0.8, 0.5, 0])
    assert found.best == 0, "the lowest of several best thresholds"
    assert (found.names, found.neighbours, found.true_pairs, found.listed_true_pairs) == (3, 1, 3, 2)
    assert found.tp.dtype == found.fp.dtype == found.fn.dtype == found.tn.dtype == np.int64
    assert found.to_dicts()[2] == pytest.approx(
        {"threshold": 0.7, "precision": 1, "recall": 1 / 3, "f1": 0.5, "tp": 1, "fp": 0, "fn": 2, "tn": 0}
    )


@pytest.mark.parametrize(("n", "concepts", "m"), [(60, 8, 5), (60, 40, 59), (90, 30, 200), (2, 1, 1)])
def test_counts_are_those_of_all_pairs(n: int, concepts: int, m: int) -> None:
    groups = random_groups(n, concepts, seed=n) if concepts > 4 else [("A",)] * n
    x = vectors(n, seed=m)
    thresholds = [-1, -0.5, 0, 0.3, 0.6, 0.9, 1]
    found = sweep(groups, x, neighbours=m, thresholds=thresholds)
    assert list(zip(*(a.tolist() for a in (found.tp, found.fp, found.fn, found.tn)), strict=True)) == naive_counts(
        groups, x, m, thresholds
    )


def test_a_pair_at_the_threshold_is_not_predicted() -> None:
    x = np.array([[1, 0], [0.5, 0.75**0.5]], dtype=np.float32)
    assert sweep(["A", "A"], x, thresholds=[0.5]).tp.tolist() == [0]
    assert sweep(["A", "A"], x, thresholds=[0.5 - 1e-7]).tp.tolist() == [1]


def test_sweep_refusals() -> None:
    x = vectors(3)
    with pytest.raises(ConfigError, match="2 names and 3 embeddings"):
        sweep(["A", "A"], x)
    with pytest.raises(ConfigError, match=r"no two names share a concept\. Remedy: evaluate on a source that has"):
        sweep(["A", "B", "C"], x)
    for bad in ([], [0.5, 0.5], [0.6, 0.5], [1.5], [float("nan")], 0.5):
        with pytest.raises(ConfigError, match="thresholds must be cosines"):
            sweep(["A", "A", "B"], x, thresholds=bad)
    with pytest.raises(ConfigError, match="vector 0 has length 2"):
        sweep(["A", "A", "B"], 2 * x)
