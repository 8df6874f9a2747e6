"""Replacing stages: a ranker, a calibration, a decision; and what the mention finder passes on."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from medlink.index import Bundle
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.linking import Linker, Mention
from medlink.linking.arrays import Bools, Floats
from medlink.linking.candidates import Contexts
from medlink.linking.decision import SharedNamePolicy, Shares
from medlink.linking.demo import demo_notes
from medlink.linking.features import CandidateFeatures
from medlink.reading.names import NameFinder
from medlink.records import LINKED, Candidate, Status


class ContextRanker:
    """Prefers candidates that share words with the context."""

    uses_context = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        self.calls += [mention.text for mention in mentions]
        around = [set(context.lower().split()) for context in contexts or [""] * len(mentions)]
        pairs = zip(candidates.mention.tolist(), candidates.norms, strict=True)
        return np.array([float(len(around[mention] & set(norm.split()))) for mention, norm in pairs])


class Tenths:
    """A calibration without curves."""

    def score(self, rank: Floats, margin: Floats, named: Bools, languages: Sequence[str | None]) -> Floats:
        return np.clip(rank / 10 + 0.05 * named, 0, 1)


class NeverNil(SharedNamePolicy):
    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        return LINKED


def test_a_ranker_that_uses_the_context(demo: Bundle) -> None:
    ranker = ContextRanker()
    linker = Linker(demo, ranker=ranker, language="en")
    contexts = ["the pneumonia was severe", "a pleural effusion", "the pneumonia was severe"]
    links = linker.link(["pneumonia or effusions"] * 3, contexts)
    assert [link.candidates[0].name for link in links][:2] != [links[0].candidates[0].name] * 2
    assert "effusion" in links[1].candidates[0].name
    assert links[0] == links[2]
    # called once for each context
    assert linker.link(["pneumonia or effusions"], contexts[:1]) == links[:1]
    assert ranker.calls == ["pneumonia or effusions"] * 2
    # also without contexts
    assert linker.link(["pneumonia or effusions"])[0].candidates


def test_the_calibration_scores_the_ranks(demo: Bundle) -> None:
    plain = Linker(demo, ranker=ContextRanker()).link(["effusions x"], ["pleural effusion"])[0]
    other = Linker(demo, ranker=ContextRanker(), calibration=Tenths()).link(["effusions x"], ["pleural effusion"])[0]
    assert [c.concept_id for c in plain.candidates] == [c.concept_id for c in other.candidates]
    assert other.candidates[0].score == pytest.approx(0.2)
    # no other name shares a word: the margins are 2 and -2
    curve = Linker(demo).calibration.score(np.array([2.0, 0.0]), np.array([2.0, -2.0]), np.zeros(2, bool), [None, None])
    assert [c.score for c in plain.candidates[:2]] == pytest.approx(curve.tolist(), abs=1e-6)


def test_the_decision_can_be_replaced(demo: Bundle) -> None:
    assert Linker(demo).link(["qwrtz"])[0].nil
    assert not Linker(demo, decision=NeverNil(demo)).link(["qwrtz"])[0].nil


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_matches_of_the_finder_are_not_looked_up_again(
    language: str, demo: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = demo_notes()[language]
    found = NameFinder(demo.index, language).find(Scanner(language, shared_analyser(demo.index.forms)).scan(note))
    matches = [match for match in found.values() if match is not None]
    texts = [note[match.start : match.end] for match in matches]
    assert len(texts) > 10
    for text, match in zip(texts, matches, strict=True):
        assert match.rows == demo.index.lookup(text, language), text
    expected = Linker(demo).link([Mention(text, language) for text in texts])
    filtered = Linker(demo, languages=["en"]).link([Mention(text, language) for text in texts])
    monkeypatch.setattr(type(demo.index), "lookup", None)
    mentions = [Mention(text, language, match=match) for text, match in zip(texts, matches, strict=True)]
    assert Linker(demo).link(mentions) == expected
    assert Linker(demo, languages=["en"]).link(mentions) == filtered


def test_no_cache_holds_a_context(demo: Bundle) -> None:
    linker = Linker(demo, ranker=ContextRanker())
    linker.link(["type 2", "fever", "IV fever"], ["Zebulonquartermain"] * 3)
    caches = [linker._rankings, linker._reranked, linker._names]
    stored = pickle.dumps([dict(cache._values) for cache in caches])
    assert b"fever" in stored
    assert b"zebulon" not in stored.lower()
