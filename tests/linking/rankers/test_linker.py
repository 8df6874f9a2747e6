"""A re-ranker between the ranking and the decision: what it gets, what becomes of its order and of judged mentions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import spacy

from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.calibration import Calibration
from medlink.linking.rankers.common import chosen_first, shown
from medlink.linking.ranking import Ranked
from medlink.records import Definition
from tests.linking.rankers.server import chooses, serving
from tests.linking.test_stages import Tenths

TEXT = "shortnes of breath"


class SecondFirst:
    """Puts the second candidate first where the context says so, or always."""

    fingerprint = "second"

    def __init__(self, calibration: Calibration | None = None, *, by_context: bool = False) -> None:
        self.uses_context, self.calibration = by_context, calibration
        self.asked: list[tuple[str, str | None]] = []

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Sequence[Ranked]]:
        around = contexts or [None] * len(mentions)
        self.asked += [(mention.text, context) for mention, context in zip(mentions, around, strict=True)]
        wanted = [len(some) > 1 and context in (None, "second") for some, context in zip(ranked, around, strict=True)]
        return [chosen_first(some, 1, 8) if yes else some for some, yes in zip(ranked, wanted, strict=True)]

    def said(self) -> list[str]:
        return []


def test_its_order_counts_and_each_mention_is_asked_about_once(demo: Bundle) -> None:
    reranker = SecondFirst()
    linker, plain = Linker(demo, reranker=reranker, language="en"), Linker(demo, language="en")
    before, after = (one.link([TEXT, TEXT, "fever"], ["a", "b", "c"]) for one in (plain, linker))
    assert after[0].candidates[0].concept_id == before[0].candidates[1].concept_id
    assert linker.link([TEXT], ["d"])[0] == after[0] == after[1]
    assert [text for text, _ in reranker.asked] == [TEXT, "fever"]
    # what finds mentions asks by the evidence alone
    best = [one.best([Mention(TEXT, "en")])[0] for one in (plain, linker)]
    assert best[0] == best[1]
    assert len(reranker.asked) == 2


def test_one_that_reads_the_context_is_asked_anew_in_each(demo: Bundle) -> None:
    reranker = SecondFirst(by_context=True)
    linker = Linker(demo, reranker=reranker, language="en")
    first, second, none = linker.link([TEXT] * 2, ["first", "second"]) + linker.link([TEXT])
    assert first.candidates[0].concept_id == second.candidates[1].concept_id
    assert none == second
    assert reranker.asked == [(TEXT, "first"), (TEXT, "second"), (TEXT, None)]


def test_its_curves_count_unless_others_are_given(demo: Bundle) -> None:
    found = [
        Linker(demo, reranker=SecondFirst(own), calibration=given).link([TEXT])[0].candidates[0].score
        for own, given in ((None, None), (Tenths(), None), (None, Tenths()), (Tenths(), Linker(demo).calibration))
    ]
    assert found[0] != found[1]
    assert (found[1], found[0]) == (found[2], found[3])


def test_what_was_judged_bounds_the_score_of_another_name(demo: Bundle) -> None:
    scores = {}
    for likely in (0.2, 0.99):
        mention = Mention(TEXT, "en", likely=likely)
        linkers = Linker(demo, language="en"), Linker(demo, reranker=SecondFirst(), language="en")
        scores[likely] = [linker.link([mention])[0].candidates[0].score for linker in linkers]
    free = Linker(demo, reranker=SecondFirst()).link([Mention(TEXT, "en")])[0].candidates[0].score
    assert scores == {0.2: [0.2, 0.2], 0.99: [0.99, free]}
    assert 0.2 < free < 0.99


def test_what_is_taught_stays_first(demo: Bundle) -> None:
    mention = Mention(TEXT, "en", taught="DEMO:0021", likely=0.9)
    plain = Mention(TEXT, "en")
    linker = Linker(demo, reranker=SecondFirst())
    taught, free = linker.link([mention, plain])
    assert taught.concept_id == "DEMO:0021"
    assert free == Linker(demo, reranker=SecondFirst()).link([plain])[0]


def test_definitions_are_shown_in_the_language_of_the_mention(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [("A  sign.", "en"), ("Ein Zeichen.", "de")]
    monkeypatch.setattr(type(demo.kb), "definitions", lambda _, one: [Definition(one, *each) for each in told])
    some = Linker(demo).rank([Mention(TEXT, "en"), Mention(TEXT, "de"), Mention(TEXT)])
    one, other, none = (
        [each.definition for each in mine]
        for mine in shown(demo, [mine[:2] for mine in some], ["en", "de-at", None], definitions=True)
    )
    assert (one, other, none) == (["A sign."] * 2, ["Ein Zeichen."] * 2, ["A sign."] * 2)
    assert {each.definition for mine in shown(demo, some, ["en", "de", None]) for each in mine} == {""}
    assert shown(demo, [], []) == []


def test_the_component_has_the_option(demo: Bundle) -> None:
    nlp = spacy.blank("en")
    with serving(chooses(lambda question: question["candidates"][1]["concept_id"])) as server:
        config = {"bundle": str(demo.folder), "ranker": server.url}
        nlp.add_pipe("medlink_mentions", config={"bundle": str(demo.folder)})
        nlp.add_pipe("biolord_linker", config=config)
        nlp("He has shortnes of breath.")
    assert "shortnes of breath" in [question["mention"] for question in server.questions()]
