"""A re-ranker between ranking and decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import spacy

from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import Contexts
from medlink.linking.rankers.common import candidate_texts, move_to_front
from medlink.linking.ranking import RankedConcept, Rankings
from medlink.records import Definition
from tests.linking.rankers.server import chooses, serving
from tests.linking.test_stages import Tenths

TEXT = "shortnes of breath"


class SecondFirst:
    """Puts the second candidate first, with ``by_context`` only if the context is "second"."""

    fingerprint, counts = "second", Counter[str]()

    def __init__(self, calibration: Calibration | None = None, *, by_context: bool = False) -> None:
        self.uses_context, self.calibration = by_context, calibration
        self.calls: list[tuple[str, str | None]] = []

    def rerank(
        self, mentions: Sequence[Mention], contexts: Contexts, ranked: Rankings
    ) -> list[Sequence[RankedConcept]]:
        around = contexts or [None] * len(mentions)
        self.calls += [(mention.text, context) for mention, context in zip(mentions, around, strict=True)]
        return [
            move_to_front(own, 1, 8) if len(own) > 1 and context in (None, "second") else own
            for own, context in zip(ranked, around, strict=True)
        ]

    def warnings(self) -> list[str]:
        return []


def first_score(linker: Linker, mention: Mention | str = TEXT) -> float:
    return linker.link([mention])[0].candidates[0].score


def test_each_mention_is_reranked_once(demo: Bundle) -> None:
    reranker = SecondFirst()
    linker, plain = Linker(demo, reranker=reranker, language="en"), Linker(demo, language="en")
    before, after = (own.link([TEXT, TEXT, "fever"], ["a", "b", "c"]) for own in (plain, linker))
    assert after[0].candidates[0].concept_id == before[0].candidates[1].concept_id
    assert linker.link([TEXT], ["d"])[0] == after[0] == after[1]
    assert [text for text, _ in reranker.calls] == [TEXT, "fever"]
    # the mention finder does not use it
    best = [own.best([Mention(TEXT, "en")])[0] for own in (plain, linker)]
    assert best[0] == best[1]
    assert len(reranker.calls) == 2


def test_a_reranker_with_context_is_called_for_each(demo: Bundle) -> None:
    reranker = SecondFirst(by_context=True)
    linker = Linker(demo, reranker=reranker, language="en")
    first, second, none = linker.link([TEXT] * 2, ["first", "second"]) + linker.link([TEXT])
    assert first.candidates[0].concept_id == second.candidates[1].concept_id
    assert none == second
    assert reranker.calls == [(TEXT, "first"), (TEXT, "second"), (TEXT, None)]


def test_its_calibration_counts_unless_another_is_given(demo: Bundle) -> None:
    default = Linker(demo).calibration
    pairs = (None, None), (Tenths(), None), (None, Tenths()), (Tenths(), default)
    scores = [first_score(Linker(demo, reranker=SecondFirst(own), calibration=given)) for own, given in pairs]
    assert scores[0] != scores[1]
    assert (scores[1], scores[0]) == (scores[2], scores[3])


def test_confidence_limits_the_score_of_another_name(demo: Bundle) -> None:
    linkers = Linker(demo, language="en"), Linker(demo, reranker=SecondFirst(), language="en")
    free = first_score(linkers[1])
    assert 0.2 < free < 0.99
    for confidence, expected in ((0.2, [0.2, 0.2]), (0.99, [0.99, free])):
        assert [first_score(own, Mention(TEXT, "en", confidence=confidence)) for own in linkers] == expected


def test_a_learned_concept_stays_first(demo: Bundle) -> None:
    plain = Mention(TEXT, "en")
    learned, free = Linker(demo, reranker=SecondFirst()).link(
        [Mention(TEXT, "en", learned_id="DEMO:0021", confidence=0.9), plain]
    )
    assert learned.concept_id == "DEMO:0021"
    assert free == Linker(demo, reranker=SecondFirst()).link([plain])[0]


def test_definitions_are_in_the_language_of_the_mention(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("A  sign.", "en"), ("Ein Zeichen.", "de")]
    monkeypatch.setattr(type(demo.kb), "definitions", lambda _, id_: [Definition(id_, *row) for row in rows])
    ranked = [own[:2] for own in Linker(demo).rank([Mention(TEXT, "en"), Mention(TEXT, "de"), Mention(TEXT)])]
    found = candidate_texts(demo, ranked, ["en", "de-at", None], definitions=True)
    english, german = ["A sign."] * 2, ["Ein Zeichen."] * 2
    assert [[text.definition for text in own] for own in found] == [english, german, english]
    without = candidate_texts(demo, ranked, ["en", "de", None])
    assert {text.definition for own in without for text in own} == {""}
    assert candidate_texts(demo, [], []) == []


@pytest.mark.slow
def test_the_component_has_the_option(demo: Bundle) -> None:
    nlp = spacy.blank("en")
    with serving(chooses(lambda question: question["candidates"][1]["concept_id"])) as server:
        nlp.add_pipe("medlink_mentions", config={"bundle": str(demo.folder)})
        nlp.add_pipe("biolord_linker", config={"bundle": str(demo.folder), "ranker": server.url})
        nlp("He has shortnes of breath.")
    assert TEXT in [question["mention"] for question in server.questions()]
