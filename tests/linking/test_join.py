"""The join and its fit."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle
from medlink.linking.evidence import FEATURES, gather
from medlink.linking.fit import Example, Table, fit, join_tables, tabulate
from medlink.linking.join import Join, default_join


def test_measures_by_hand(demo: Bundle) -> None:
    found = gather(demo.index, demo.encoder, ["Synkopen"], ["de"])
    names = [demo.index.names.norms[row] for row in found.row.tolist()]
    at = names.index("synkope")
    value = dict(zip(FEATURES, found.features[at].tolist(), strict=True))
    assert found.route[at] == "inflected"
    assert value["inflected"] == 1
    assert value["exact"] == 0
    a, b = demo.encoder.encode(["Synkopen", "Synkope"])
    assert value["cosine"] == pytest.approx(float(a @ b), abs=1e-3)
    assert value["cosine_squared"] == pytest.approx(value["cosine"] ** 2, abs=1e-6)
    assert value["cosine_gap"] <= 0
    assert found.features[:, FEATURES.index("cosine_gap")].max() == 0
    assert value["ratio"] == pytest.approx(2 * 7 / 15, abs=1e-6)  # indel similarity of 8 and 7 letters, 7 shared
    assert value["compact"] == value["ratio"]
    assert value["length"] == pytest.approx(np.log(8 / 7), abs=1e-6)
    assert value["more_words"] == 0
    assert value["numbers_differ"] == 0
    two = gather(demo.index, demo.encoder, ["type 2 diabetes"], ["en"])
    names = [demo.index.names.norms[row] for row in two.row.tolist()]
    column = two.features[:, FEATURES.index("numbers_differ")]
    assert column[names.index("type 1 diabetes mellitus")] == 1
    assert column[names.index("type 2 diabetes mellitus")] == 0


def test_no_evidence_for_nothing(demo: Bundle) -> None:
    assert gather(demo.index, demo.encoder, [], []).features.shape == (0, len(FEATURES))
    assert len(gather(demo.index, demo.encoder, ["", "…"], ["de", None]).row) == 0


def random_table(seed: int, n: int = 60) -> tuple[Table, np.ndarray]:
    """Examples whose right name is the one that a hidden linear model likes best."""
    rng = np.random.default_rng(seed)
    w = np.zeros(len(FEATURES))
    w[:3] = (3.0, -2.0, 1.0)
    example = np.repeat(np.arange(n), 7)
    x = rng.standard_normal((7 * n, len(FEATURES))).astype(np.float32)
    score = (x @ w).reshape(n, 7)
    gold = (score == score.max(axis=1, keepdims=True)).reshape(-1)
    return Table(example, x, gold), w


def test_fit_finds_the_hidden_model() -> None:
    table, w = random_table(0)
    join = fit(table)
    got = np.array(join.weights)
    assert got @ w / np.linalg.norm(got) / np.linalg.norm(w) > 0.98
    fresh, _ = random_table(1)
    rank = join.rank(fresh.features).reshape(-1, 7)
    assert (fresh.gold.reshape(-1, 7).argmax(axis=1) == rank.argmax(axis=1)).mean() > 0.9
    assert fit(table) == join


def test_fit_ignores_examples_without_a_right_name_when_ranking() -> None:
    table, _ = random_table(0)
    more = Table(table.example, -table.features, np.zeros_like(table.gold))
    weights = fit(table).weights
    np.testing.assert_allclose(fit(join_tables([table, more])).weights, weights, atol=0.02)


def test_scores_mean_what_they_say() -> None:
    """Of links on mentions that have a concept three times out of four, about the score's share is right."""
    rng = np.random.default_rng(5)
    n = 4000
    table, _ = random_table(2, n)
    noisy = Table(
        table.example, table.features + rng.normal(0, 0.8, table.features.shape).astype(np.float32), table.gold
    )
    join = fit(noisy)
    rank = join.rank(noisy.features).reshape(n, 7)
    gold = noisy.gold.reshape(n, 7)
    right = np.take_along_axis(gold, rank.argmax(axis=1)[:, None], axis=1)[:, 0]
    score = join.score(rank.max(axis=1))
    hidden = join.score(np.where(gold, -np.inf, rank).max(axis=1))
    weight = np.concatenate([np.ones(n), np.full(n, 1 / 3)])
    every, truth = np.concatenate([score, hidden]), np.concatenate([right, np.zeros(n)])
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.0)):
        at = (every >= low) & (every < high)
        share = (truth[at] * weight[at]).sum() / weight[at].sum()
        assert share == pytest.approx((every[at] * weight[at]).sum() / weight[at].sum(), abs=0.06)


def test_tabulate_marks_names_of_right_concepts(demo: Bundle) -> None:
    wanted = demo.kb.lookup("Herzinfarkt", "de")[0].concept_id
    table = tabulate(
        demo, [Example("Herzinfarct", "de", frozenset({wanted})), Example("qq", "de", frozenset({"none"}))]
    )
    assert table.gold[table.example == 0].sum() >= 2
    assert not table.gold[table.example == 1].any()
    with pytest.raises(ConfigError, match="no training mentions"):
        join_tables([])


def test_join_round_trip_and_refusals() -> None:
    join = default_join()
    assert Join.from_dict(join.to_dict()) == join
    with pytest.raises(BundleError, match="another version"):
        Join.from_dict({"weights": {"cosine": 1.0}, "slope": 1, "offset": 0})
    with pytest.raises(BundleError, match="another version"):
        Join.from_dict({**join.to_dict(), "slope": "steep"})


def test_the_score_is_monotonous_and_bounded() -> None:
    scores = default_join().score(np.array([-1e9, -1.0, 0.0, 5.0, 1e9]))
    assert (np.diff(scores) >= 0).all()
    assert 0 <= scores[0] <= scores[-1] <= 1


def test_an_exact_name_beats_every_other(demo: Bundle) -> None:
    """Same form means the same cosine and likeness as itself: nothing can outrank it."""
    names = demo.index.names
    texts = [names.surface(row) for row in range(0, len(names), 37)]
    found = gather(demo.index, demo.encoder, texts, [None] * len(texts))
    rank = default_join().rank(found.features)
    lost = []
    for i, text in enumerate(texts):
        mine = found.mention == i
        best = found.row[mine][rank[mine].argmax()]
        if (
            names.norms[int(best)]
            != names.norms[int(found.row[mine][[r == "exact" for r in np.array(found.route)[mine]]][0])]
        ):
            lost.append(text)
    assert not lost
