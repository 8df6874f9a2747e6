"""The join and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import medlink
from medlink.errors import BundleError
from medlink.index import Bundle
from medlink.kb import Input
from medlink.linking import Linker, Mention
from medlink.linking.calibration import WIDEST
from medlink.linking.candidates import ROUTES, QueryBatch
from medlink.linking.features import FEATURES, Evidence, compute_features
from medlink.linking.fit import Example, Table
from medlink.linking.ranking import Join, default_join
from tests.scripts import benchmark

_fit_join = benchmark("fit_join")
fit, join_tables, tabulate = _fit_join.fit, _fit_join.join_tables, _fit_join.tabulate


def gather(bundle: Bundle, texts: list[str], languages: list[str | None]) -> Evidence:
    return compute_features(QueryBatch(bundle.index, bundle.encoder, texts, languages))


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
    assert value["spelling"] == pytest.approx(1, abs=1e-6)
    assert value["length"] == value["more_words"] == value["numbers_differ"] == 0
    assert found.features[:, FEATURES.index("cosine_gap")].max() == 0
    wrong = gather(demo, ["Synkopa"], ["de"])
    at = wrong.norms.index("synkope")
    value = dict(zip(FEATURES, wrong.features[at].tolist(), strict=True))
    a, b = demo.encoder.encode(["Synkopa", "Synkope"])
    assert ROUTES[wrong.route[at]] == "words"
    assert value["cosine"] == pytest.approx(float(a @ b), abs=1e-3)
    assert value["cosine_squared"] == pytest.approx(value["cosine"] ** 2, abs=1e-6)
    assert value["spelling"] == pytest.approx((6 / 7 - 0.8) / 0.2, abs=1e-5)  # one letter of seven replaced
    longer = gather(demo, ["Synkope gestern nachts"], ["de"])
    at = longer.norms.index("synkope")
    value = dict(zip(FEATURES, longer.features[at].tolist(), strict=True))
    assert value["length"] == pytest.approx(np.log(22 / 7), abs=1e-6)
    assert value["fewer_words"] == pytest.approx(np.log(3), abs=1e-6)
    assert value["more_words"] == 0
    two = gather(demo, ["diabetes mellitus of type 2"], ["en"])
    column = dict(zip(two.norms, two.features[:, FEATURES.index("numbers_differ")].tolist(), strict=True))
    ones = {name: value for name, value in column.items() if name.endswith((" 1", " i"))}
    twos = {name: value for name, value in column.items() if name.endswith((" 2", " ii"))}
    assert ones
    assert twos
    assert (set(ones.values()), set(twos.values())) == ({1}, {0})


def measured(bundle: Bundle, mention: str, language: str, name: str) -> dict[str, float]:
    """The measures of a mention and a name."""
    found = gather(bundle, [mention], [language])
    return dict(zip(FEATURES, found.features[found.norms.index(name)].tolist(), strict=True))


def test_words_by_hand(demo: Bundle) -> None:
    whole = measured(demo, "Infarkt des Herzens", "de", "herzinfarkt")
    assert (whole["said"], whole["says"], whole["same_words"], whole["both"]) == pytest.approx((1, 1, 1, 1), abs=1e-3)
    assert (whole["more"], whole["fewer"], whole["opposed"]) == pytest.approx((0, 0, 0), abs=1e-3)
    part = measured(demo, "Infarkt des Herzens Gartenzaun", "de", "herzinfarkt")
    assert (part["says"], part["same_words"], part["more"]) == pytest.approx((1, 0, 0), abs=1e-3)
    slots = demo.index.read(["Infarkt des Herzens Gartenzaun"], ["de"])
    assert len(slots.weight) == 3  # an article is none
    weights = slots.weight.tolist()
    assert part["said"] == pytest.approx(sum(weights[:2]) / sum(weights), abs=1e-3)
    assert part["both"] == pytest.approx(part["said"] * part["says"], abs=1e-6)
    assert part["fewer"] == pytest.approx(weights[2] / 12, abs=1e-3)
    more = measured(demo, "Infarkt", "de", "herzinfarkt")
    assert more["said"] > 0.99 > more["says"] > 0
    assert more["more"] > 0 == more["fewer"] == more["same_words"]


def test_opposites_are_opposed(demo: Bundle) -> None:
    keys = demo.index.keys()
    norms = demo.index.norms(keys)
    names = np.array([keys[norms.index(norm)] for norm in ("overactive thyroid", "hipotiroidismo")])
    asked = demo.index.read(["Schilddrüse Überfunktion"], ["de"])
    assert demo.index.overlap(asked, np.zeros(2, dtype=np.int64), names).opposed.tolist() == [False, True]


def test_a_finding_lacks_in_a_name_without_one(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    names = ("neuron", "neuronal loss", "neuron xyzzor")
    rows = "".join(f"X:{i}\t{name}\ten\n" for i, name in enumerate(names))
    table.write_text(f"concept_id\tname\tlanguage\n{rows}", encoding="utf-8")
    medlink.build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    bundle = medlink.build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite")
    # of a word that the lexicon lacks nobody knows whether it is a finding
    for mention, wanted in (("Verlust von Neuronen", (1, 0, 0)), ("kleines Neuron", (0, 0, 0))):
        assert tuple(measured(bundle, mention, "de", name)["lacks"] for name in names) == wanted
    linker = Linker(bundle)
    assert linker.link([Mention("Verlust von Neuronen", "de")])[0].candidates[0].concept_id == "X:1"
    # nor is a part of the body a finding of it
    found = {c.concept_id: c.score for c in linker.link([Mention("Neuronen", "de")])[0].candidates}
    assert found["X:1"] <= 0.25 < found["X:0"]


def test_no_evidence_for_nothing(demo: Bundle) -> None:
    assert gather(demo, [], []).features.shape == (0, len(FEATURES))
    assert len(gather(demo, ["", "…"], ["de", None]).name) == 0


NAMED = [FEATURES.index(kind) for kind in ("exact", "inflected")]


def random_table(seed: int, n: int = 60, noise: float = 0.0, languages: Sequence[str] = ("en",)) -> Table:
    """Examples of seven likenesses, of which the right one is that which a hidden linear model likes best."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((7 * n, len(FEATURES))).astype(np.float32)
    x[:, NAMED] = 0
    score = (x @ HIDDEN).reshape(n, 7)
    gold = (score == score.max(axis=1, keepdims=True)).reshape(-1)
    x += rng.normal(0, noise, x.shape).astype(np.float32) if noise else 0
    x[:, NAMED] = 0
    example = np.repeat(np.arange(n), 7)
    language = np.array(languages)[example % len(languages)]
    return Table(example, np.arange(7.0 * n), x, gold, np.ones(7 * n), language)


HIDDEN = np.zeros(len(FEATURES))
HIDDEN[2:5] = (3.0, -2.0, 1.0)


def best(join: Join, table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank and margin of the best of seven likenesses, and whether it is right."""
    rank = join.ranker.sums(table.features).reshape(-1, 7)
    ordered = np.sort(rank, axis=1)
    right = np.take_along_axis(table.gold.reshape(-1, 7), rank.argmax(axis=1)[:, None], axis=1)[:, 0]
    return ordered[:, -1], ordered[:, -1] - ordered[:, -2], right


def test_fit_finds_the_hidden_model() -> None:
    table = random_table(0, 200)
    join = fit(table)
    got = np.array(join.ranker.weights)
    assert got @ HIDDEN / np.linalg.norm(got) / np.linalg.norm(HIDDEN) > 0.98
    assert best(join, random_table(1, 600))[2].mean() > 0.9
    assert fit(table) == join


def test_scores_mean_what_they_say() -> None:
    """Of links, about the score's share is right, of other mentions than those that were fitted on as well."""
    join = fit(random_table(2, 4000, noise=0.8))
    for seed in (2, 4):
        rank, margin, right = best(join, random_table(seed, 4000, noise=0.8))
        score = join.calibration.score(rank, margin, np.zeros(len(rank), dtype=bool), ["en"] * len(rank))
        bounds = np.quantile(score, [0, 0.25, 0.5, 0.75, 1])
        for low, high in pairwise(bounds):
            at = (score >= low) & (score <= high)
            assert right[at].mean() == pytest.approx(score[at].mean(), abs=0.06)


def test_a_margin_makes_a_likeness_more_certain() -> None:
    join = fit(random_table(2, 4000, noise=0.8))
    assert join.calibration.alike.slope >= 0
    assert join.calibration.alike.margin > 0.1


def test_languages_have_an_addend() -> None:
    """What is right more often in a language at the same rank has a higher score in it; names have none."""
    table = random_table(3, 4000, noise=1.5, languages=("en", "de"))
    # where the German right name is far ahead in the hidden model only, it is noise that keeps it down
    rng = np.random.default_rng(8)
    wrong = (table.language == "en") & (rng.uniform(size=len(table.example) // 7) < 0.4)[table.example]
    join = fit(replace(table, gold=table.gold & ~wrong))
    assert set(join.calibration.languages) == {"de"}
    assert join.calibration.languages["de"] > 0.3
    rank, margin = np.full(4, 3.0), np.zeros(4)
    named = np.array([False, False, True, True])
    english, german, *names = join.calibration.score(rank, margin, named, ["en", "de-AT", "en", "de"])
    assert german > english
    assert names[0] == names[1]
    # an unknown language, and none, have the plain curve
    assert join.calibration.score(rank[:2], margin[:2], named[:2], [None, "fr"]).tolist() == [english] * 2


def test_names_have_a_curve_of_their_own() -> None:
    """A mention that is its best name is right more often than a likeness of the same rank, whatever that is."""
    table = random_table(3, 3000, noise=0.8)
    x = table.features.copy()
    # in every second example the right name is the mention itself
    x[table.gold & (table.example % 2 == 0), FEATURES.index("exact")] = 1
    join = fit(replace(table, features=x))
    rank = np.array([-2.0, 0.0, 2.0])
    named, other = (
        join.calibration.score(rank, np.full(3, 0.5), np.full(3, which), ["en"] * 3) for which in (True, False)
    )
    assert (named > 0.95).all()
    assert other[0] < 0.6


def test_a_name_is_never_held_down_by_another_one() -> None:
    """It comes first even where another name ranks higher: below 0 a margin says nothing, nor does a rank below all."""
    curves = default_join().calibration
    rank = np.array([curves.named_least, curves.named_least, curves.named_least - 9])
    scores = curves.score(rank, np.array([0.0, -4.0, 0.0]), np.ones(3, dtype=bool), ["en"] * 3)
    assert (scores == scores[0]).all()
    assert scores[0] > 0.5


def test_that_there_is_no_other_name_is_no_margin() -> None:
    """A poor likeness is no better in a terminology of one name, a good one nearly as good as elsewhere."""
    curves, likeness = default_join().calibration, np.zeros(3, dtype=bool)
    rank = np.array([curves.rival - 1, curves.rival, curves.rival + 8])
    poor, level, good = curves.score(rank, np.full(3, WIDEST), likeness, ["en"] * 3)
    assert poor < level < 0.5 < good
    assert level == curves.score(rank, np.zeros(3), likeness, ["en"] * 3)[1]
    assert good == curves.score(rank, np.full(3, 99.0), likeness, ["en"] * 3)[2]


def test_tabulate_marks_names_of_right_concepts(demo: Bundle) -> None:
    wanted = demo.kb.lookup("Herzinfarkt", "de")[0].concept_id
    table = tabulate(
        demo, [Example("Herzinfarct", "de", frozenset({wanted})), Example("qq", "de", frozenset({"none"}))]
    )
    assert table.gold[table.example == 0].sum() >= 2
    assert not table.gold[table.example == 1].any()


def test_join_round_trip_and_refusals() -> None:
    join = default_join()
    assert Join.from_dict(join.to_dict()) == join
    with pytest.raises(BundleError, match="another version"):
        Join.from_dict({**join.to_dict(), "weights": {"cosine": 1.0}})
    curves = join.to_dict()["calibration"]
    for wrong in (
        {"slope": 1.0, "offset": 0.0, "named_slope": 1.0, "named_offset": 0.0, "named_least": 0.0},  # as it once was
        {**curves, "alike": {"slope": "steep", "margin": 1.0, "offset": 0.0}},
        {**curves, "named": {"slope": 1.0}},
        {**curves, "languages": ["de"]},
        {key: value for key, value in curves.items() if key != "rival"},
        None,
    ):
        with pytest.raises(BundleError, match=r"another version of medlink. Remedy: build the index again"):
            Join.from_dict({**join.to_dict(), "calibration": wrong})


def test_the_score_is_monotonous_and_bounded() -> None:
    score = default_join().calibration.score
    values, level = np.array([-1e9, -1.0, 0.0, 5.0, 1e9]), np.full(5, 6.0)
    for named in (False, True):
        for rank, margin in ((values, np.zeros(5)), (level, values), (values, values)):
            scores = score(rank, margin, np.full(5, named), ["en"] * 5)
            assert (np.diff(scores) >= 0).all()
            assert 0 <= scores[0] <= scores[-1] <= 1
