"""Measures of a clustering, against double loops over terms."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.evaluation import measure_partition
from tests.evaluation.test_pairs import random_groups


def naive(
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


def test_by_hand() -> None:
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
    assert (*got, found.cross_lingual_recall) == pytest.approx(naive(clusters, concepts, languages))


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


def test_mixed_is_of_clusters_of_several_terms() -> None:
    """Of {a b}, {c d} and {e}, two have several terms, and one of these joins two concepts."""
    assert measure_partition(["1", "1", "2", "2", "3"], ["A", "A", "B", "C", "D"]).mixed == 0.5
    # of three terms in a chain the two ends share nothing
    assert measure_partition(["1", "1", "1"], [("A",), ("A", "B"), ("B",)]).mixed == 1


def test_languages_decide_only_the_cross_lingual_share() -> None:
    clusters, concepts = ["1", "1", "2"], ["A", "A", "A"]
    assert measure_partition(clusters, concepts).cross_lingual_recall is None
    assert measure_partition(clusters, concepts, ["", "", ""]).cross_lingual_recall is None
    assert measure_partition(clusters, concepts, ["en", "en", "en"]).cross_lingual_recall is None
    assert measure_partition(clusters, concepts, ["en", "de", ""]).cross_lingual_recall == 1
    assert measure_partition(clusters, concepts, ["en", "en", "de"]).cross_lingual_recall == 0
    assert measure_partition(clusters, concepts, [("de", "en"), "en", "en"]).cross_lingual_recall == 0.5


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="no terms to measure"):
        measure_partition([], [])
    with pytest.raises(ConfigError, match="2 terms and 1 entries of concepts"):
        measure_partition(["1", "1"], ["A"])
    with pytest.raises(ConfigError, match="as many of both expected"):
        measure_partition(["1"], ["A"], [])
    with pytest.raises(ConfigError, match="name 0 belongs to no concept"):
        measure_partition(["1"], [()])
