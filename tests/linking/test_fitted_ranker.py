"""Features, the ranker that is fitted on them, and its calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.errors import BundleError
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.calibration import MAX_MARGIN
from medlink.linking.candidates import ROUTES, QueryBatch
from medlink.linking.features import FEATURES, CandidateFeatures, compute_features
from medlink.linking.ranking import FittedRanker, default_ranker
from tests.reading.bundles import bundle_of


def compute(bundle: Bundle, texts: list[str], languages: list[str | None]) -> CandidateFeatures:
    return compute_features(QueryBatch(bundle.index, bundle.encoder, texts, languages))


def features_of(bundle: Bundle, mention: str, language: str, name: str) -> dict[str, float]:
    """Features of a mention and a name, and the route."""
    found = compute(bundle, [mention], [language])
    at = found.norms.index(name)
    return {"route": int(found.route[at]), **dict(zip(FEATURES, found.features[at].tolist(), strict=True))}


def test_features_by_hand(demo: Bundle) -> None:
    value = features_of(demo, "Synkopen", "de", "synkope")
    assert (ROUTES[value["route"]], value["inflected"], value["exact"]) == ("inflected", 1, 0)
    # an inflected name has the features of the name
    assert (value["cosine"], value["spelling"]) == pytest.approx((1, 1), abs=1e-3)
    assert value["length"] == value["more_words"] == value["numbers_differ"] == 0
    assert compute(demo, ["Synkopen"], ["de"]).features[:, FEATURES.index("cosine_gap")].max() == 0
    value = features_of(demo, "Synkopa", "de", "synkope")
    a, b = demo.encoder.encode(["Synkopa", "Synkope"])
    assert ROUTES[value["route"]] == "words"
    assert value["cosine"] == pytest.approx(float(a @ b), abs=1e-3)
    assert value["cosine_squared"] == pytest.approx(value["cosine"] ** 2, abs=1e-6)
    assert value["spelling"] == pytest.approx((6 / 7 - 0.8) / 0.2, abs=1e-5)  # one letter of seven replaced
    value = features_of(demo, "Synkope gestern nachts", "de", "synkope")
    lengths = value["length"], value["fewer_words"], value["more_words"]
    assert lengths == pytest.approx((np.log(22 / 7), np.log(3), 0), abs=1e-6)
    found = compute(demo, ["diabetes mellitus of type 2"], ["en"])
    differ = dict(zip(found.norms, found.features[:, FEATURES.index("numbers_differ")].tolist(), strict=True))
    assert {value for name, value in differ.items() if name.endswith((" 1", " i"))} == {1}
    assert {value for name, value in differ.items() if name.endswith((" 2", " ii"))} == {0}


def test_word_features_by_hand(demo: Bundle) -> None:
    whole = features_of(demo, "Infarkt des Herzens", "de", "herzinfarkt")
    covered = [whole[name] for name in ("mention_covered", "name_covered", "same_words", "both")]
    assert covered == pytest.approx([1, 1, 1, 1], abs=1e-3)
    assert [whole[name] for name in ("more", "fewer", "opposed")] == pytest.approx([0, 0, 0], abs=1e-3)
    part = features_of(demo, "Infarkt des Herzens Gartenzaun", "de", "herzinfarkt")
    assert [part[name] for name in ("name_covered", "same_words", "more")] == pytest.approx([1, 0, 0], abs=1e-3)
    weights = demo.index.read(["Infarkt des Herzens Gartenzaun"], ["de"]).weight.tolist()
    assert len(weights) == 3  # without the article
    assert part["mention_covered"] == pytest.approx(sum(weights[:2]) / sum(weights), abs=1e-3)
    assert part["both"] == pytest.approx(part["mention_covered"] * part["name_covered"], abs=1e-6)
    assert part["fewer"] == pytest.approx(weights[2] / 12, abs=1e-3)
    more = features_of(demo, "Infarkt", "de", "herzinfarkt")
    assert more["mention_covered"] > 0.99 > more["name_covered"] > 0
    assert more["more"] > 0 == more["fewer"] == more["same_words"]


@pytest.mark.slow
def test_a_name_that_lacks_the_finding_of_the_mention(tmp_path: Path) -> None:
    names = ("neuron", "neuronal loss", "neuron xyzzor")
    bundle = Bundle(bundle_of(tmp_path, *(f"X:{i}\t{name}\ten" for i, name in enumerate(names))))
    # a word that the lexicon lacks may be a finding
    for mention, wanted in (("Verlust von Neuronen", (1, 0, 0)), ("kleines Neuron", (0, 0, 0))):
        assert tuple(features_of(bundle, mention, "de", name)["lacks"] for name in names) == wanted
    linker = Linker(bundle)
    assert linker.link([Mention("Verlust von Neuronen", "de")])[0].candidates[0].concept_id == "X:1"
    # a body part is not the finding either
    found = {c.concept_id: c.score for c in linker.link([Mention("Neuronen", "de")])[0].candidates}
    assert found["X:1"] <= 0.25 < found["X:0"]


def test_no_candidates_for_empty_mentions(demo: Bundle) -> None:
    assert compute(demo, [], []).features.shape == (0, len(FEATURES))
    assert len(compute(demo, ["", "…"], ["de", None]).name) == 0


def test_a_language_has_an_offset_but_for_equal_names() -> None:
    given = default_ranker().to_dict()
    given["calibration"]["languages"] = {"de": 1.0}
    rank, margin, named = np.full(4, 3.0), np.zeros(4), np.array([False, False, True, True])
    score = FittedRanker.from_dict(given).calibration.score
    english, german, *names = score(rank, margin, named, ["en", "de-AT", "en", "de"])
    assert german > english
    assert names[0] == names[1]
    # no offset for an unknown language
    assert score(rank[:2], margin[:2], named[:2], [None, "fr"]).tolist() == [english] * 2


def test_other_names_do_not_lower_the_score_of_an_equal_name() -> None:
    """Negative margins are ignored, and so are ranks below all in training."""
    curves = default_ranker().calibration
    rank = np.array([curves.named_least, curves.named_least, curves.named_least - 9])
    scores = curves.score(rank, np.array([0.0, -4.0, 0.0]), np.ones(3, dtype=bool), ["en"] * 3)
    assert (scores == scores[0]).all()
    assert scores[0] > 0.5


def test_a_missing_competitor_is_no_margin() -> None:
    """A poor match is no better in a terminology with a single name."""
    curves, unequal = default_ranker().calibration, np.zeros(3, dtype=bool)
    rank = np.array([curves.rival - 1, curves.rival, curves.rival + 8])
    poor, level, good = curves.score(rank, np.full(3, MAX_MARGIN), unequal, ["en"] * 3)
    assert poor < level < 0.5 < good
    assert level == curves.score(rank, np.zeros(3), unequal, ["en"] * 3)[1]
    assert good == curves.score(rank, np.full(3, 99.0), unequal, ["en"] * 3)[2]


def test_round_trip_and_invalid_data() -> None:
    fitted = default_ranker()
    assert FittedRanker.from_dict(fitted.to_dict()) == fitted
    with pytest.raises(BundleError, match="another version"):
        FittedRanker.from_dict({**fitted.to_dict(), "weights": {"cosine": 1.0}})
    curves = fitted.to_dict()["calibration"]
    for wrong in (
        {"slope": 1.0, "offset": 0.0, "named_slope": 1.0, "named_offset": 0.0, "named_least": 0.0},  # an earlier format
        {**curves, "alike": {"slope": "steep", "margin": 1.0, "offset": 0.0}}, {**curves, "named": {"slope": 1.0}},
        {**curves, "languages": ["de"]}, {key: value for key, value in curves.items() if key != "rival"}, None,
    ):  # fmt: skip
        with pytest.raises(BundleError, match=r"another version of medlink. Remedy: build the index again"):
            FittedRanker.from_dict({**fitted.to_dict(), "calibration": wrong})


def test_the_score_is_monotonous_and_bounded() -> None:
    score = default_ranker().calibration.score
    values, level = np.array([-1e9, -1.0, 0.0, 5.0, 1e9]), np.full(5, 6.0)
    for named in (False, True):
        for rank, margin in ((values, np.zeros(5)), (level, values), (values, values)):
            scores = score(rank, margin, np.full(5, named), ["en"] * 5)
            assert (np.diff(scores) >= 0).all()
            assert 0 <= scores[0] <= scores[-1] <= 1
