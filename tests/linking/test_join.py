"""The join and its fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.linking.candidates import ROUTES, Asked
from medlink.linking.fit import Example, Table, fit, join_tables, tabulate
from medlink.linking.join import Join, default_join
from medlink.linking.measures import FEATURES, Evidence
from medlink.linking.measures import gather as gather_asked


def gather(bundle: Bundle, texts: list[str], languages: list[str | None]) -> Evidence:
    return gather_asked(Asked(bundle.index, bundle.encoder, texts, languages))


def test_measures_by_hand(demo: Bundle) -> None:
    found = gather(demo, ["Synkopen"], ["de"])
    names = found.norms
    at = names.index("synkope")
    value = dict(zip(FEATURES, found.features[at].tolist(), strict=True))
    assert ROUTES[found.route[at]] == "inflected"
    assert value["inflected"] == 1
    assert value["exact"] == 0
    # a name in another inflection is measured as that name
    assert value["cosine"] == pytest.approx(1, abs=1e-3)
    for measure in ("ratio", "spelling", "compact", "token_set"):
        assert value[measure] == pytest.approx(1, abs=1e-6)
    assert value["length"] == value["more_words"] == value["numbers_differ"] == 0
    assert found.features[:, FEATURES.index("cosine_gap")].max() == 0
    wrong = gather(demo, ["Synkopa"], ["de"])
    at = wrong.norms.index("synkope")
    value = dict(zip(FEATURES, wrong.features[at].tolist(), strict=True))
    a, b = demo.encoder.encode(["Synkopa", "Synkope"])
    assert ROUTES[wrong.route[at]] == "lexical"
    assert value["cosine"] == pytest.approx(float(a @ b), abs=1e-3)
    assert value["cosine_squared"] == pytest.approx(value["cosine"] ** 2, abs=1e-6)
    assert value["ratio"] == pytest.approx(2 * 6 / 14, abs=1e-6)  # indel: 6 of 7 letters shared
    assert value["spelling"] == pytest.approx((6 / 7 - 0.8) / 0.2, abs=1e-5)  # one letter of seven replaced
    longer = gather(demo, ["Synkopa gestern nachts"], ["de"])
    at = longer.norms.index("synkope")
    value = dict(zip(FEATURES, longer.features[at].tolist(), strict=True))
    assert value["length"] == pytest.approx(np.log(22 / 7), abs=1e-6)
    assert value["fewer_words"] == pytest.approx(np.log(3), abs=1e-6)
    assert value["more_words"] == 0
    two = gather(demo, ["type 2 diabetis"], ["en"])
    names = two.norms
    column = two.features[:, FEATURES.index("numbers_differ")]
    assert column[names.index("type 1 diabetes mellitus")] == 1
    assert column[names.index("type 2 diabetes mellitus")] == 0


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_names_that_are_equally_near_are_all_the_nearest(kind: str, tmp_path: Path) -> None:
    """Stored in 16 bits, one of two names that are the mention is a little longer than the other."""
    pairs = [("cataract", "cataracts"), ("adenoma", "adenomas"), ("diabetic nephropathy", "diabetic nephropathies")]
    table = tmp_path / "t.tsv"
    rows = [f"X:{i}\t{name}\ten" for i, pair in enumerate(pairs) for name in pair]
    table.write_text("\n".join(["concept_id\tname\tlanguage", *rows, "X:9\tpsychosis\ten"]) + "\n", encoding="utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    bundle = build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite", kind=kind)
    asked = [name for pair in pairs for name in pair]
    found = gather(bundle, asked, ["en" for _ in asked])
    column = found.features[:, FEATURES.index("nearest")] > 0
    for number, name in enumerate(asked):
        near = np.flatnonzero(column & (found.mention == number)).tolist()
        assert {found.norms[at] for at in near} == {*pairs[number // 2]}, name


def test_no_evidence_for_nothing(demo: Bundle) -> None:
    assert gather(demo, [], []).features.shape == (0, len(FEATURES))
    assert len(gather(demo, ["", "…"], ["de", None]).name) == 0


def random_table(seed: int, n: int = 60) -> tuple[Table, np.ndarray]:
    """Examples whose right name is the one that a hidden linear model likes best."""
    rng = np.random.default_rng(seed)
    w = np.zeros(len(FEATURES))
    w[2:5] = (3.0, -2.0, 1.0)
    example = np.repeat(np.arange(n), 7)
    x = rng.standard_normal((7 * n, len(FEATURES))).astype(np.float32)
    x[:, [FEATURES.index(kind) for kind in ("exact", "inflected", "nearest")]] = 0
    score = (x @ w).reshape(n, 7)
    gold = (score == score.max(axis=1, keepdims=True)).reshape(-1)
    return Table(example, x, gold, np.ones(len(example))), w


def test_fit_finds_the_hidden_model() -> None:
    table, w = random_table(0)
    join = fit(table)
    got = np.array(join.ranker.weights)
    assert got @ w / np.linalg.norm(got) / np.linalg.norm(w) > 0.98
    fresh, _ = random_table(1, 600)
    rank = join.ranker.sums(fresh.features).reshape(-1, 7)
    assert (fresh.gold.reshape(-1, 7).argmax(axis=1) == rank.argmax(axis=1)).mean() > 0.9
    assert fit(table) == join


def test_fit_ignores_examples_without_a_right_name_when_ranking() -> None:
    table, _ = random_table(0)
    more = Table(table.example, -table.features, np.zeros_like(table.gold), table.weight)
    weights = fit(table).ranker.weights
    np.testing.assert_allclose(fit(join_tables([table, more])).ranker.weights, weights, atol=0.02)


def test_scores_mean_what_they_say() -> None:
    """Of links on mentions that have a concept three times out of four, about the score's share is right."""
    rng = np.random.default_rng(5)
    n = 4000
    table, _ = random_table(2, n)
    noise = rng.normal(0, 0.8, table.features.shape).astype(np.float32)
    noise[:, [FEATURES.index(kind) for kind in ("exact", "inflected")]] = 0
    noisy = Table(table.example, table.features + noise, table.gold, table.weight)
    join = fit(noisy)
    rank = join.ranker.sums(noisy.features).reshape(n, 7)
    gold = noisy.gold.reshape(n, 7)
    right = np.take_along_axis(gold, rank.argmax(axis=1)[:, None], axis=1)[:, 0]
    unnamed = np.zeros(n, dtype=bool)
    score = join.calibration.score(rank.max(axis=1), unnamed)
    hidden = join.calibration.score(np.where(gold, -np.inf, rank).max(axis=1), unnamed)
    weight = np.concatenate([np.ones(n), np.full(n, 1 / 3)])
    every, truth = np.concatenate([score, hidden]), np.concatenate([right, np.zeros(n)])
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 1.0)):
        at = (every >= low) & (every < high)
        share = (truth[at] * weight[at]).sum() / weight[at].sum()
        assert share == pytest.approx((every[at] * weight[at]).sum() / weight[at].sum(), abs=0.06)


def test_names_have_a_curve_of_their_own() -> None:
    """A mention that is its best name is right more often than a likeness of the same rank, whatever that is."""
    table, _ = random_table(3, 3000)
    noise = np.random.default_rng(6).normal(0, 0.8, table.features.shape).astype(np.float32)
    x = table.features + noise
    x[:, [FEATURES.index(kind) for kind in ("exact", "inflected", "nearest")]] = 0
    # in every second example the right name is the mention itself
    x[table.gold & (table.example % 2 == 0), FEATURES.index("exact")] = 1
    join = fit(Table(table.example, x, table.gold, table.weight))
    rank = np.array([-2.0, 0.0, 2.0])
    named, other = (join.calibration.score(rank, np.full(3, which)) for which in (True, False))
    assert (named > 0.95).all()
    assert other[0] < 0.6


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
        Join.from_dict({**join.to_dict(), "weights": {"cosine": 1.0}})
    with pytest.raises(BundleError, match="another version"):
        Join.from_dict({**join.to_dict(), "slope": "steep"})


def test_the_score_is_monotonous_and_bounded() -> None:
    for named in (False, True):
        scores = default_join().calibration.score(np.array([-1e9, -1.0, 0.0, 5.0, 1e9]), np.full(5, named))
        assert (np.diff(scores) >= 0).all()
        assert 0 <= scores[0] <= scores[-1] <= 1
