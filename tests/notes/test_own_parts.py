"""A user's own parts in a pipeline: a spaCy pipeline as the finder, a ranker and a re-ranker as objects."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import spacy
from numpy.typing import NDArray

from medlink import Linker, Note, NotePipeline, link_notes
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking import Mention
from medlink.linking.demo import demo_notes
from medlink.linking.features import CandidateFeatures
from medlink.linking.ranking import RankedConcept, Ranker
from medlink.reading.protocols import Span
from medlink.records import Qualifiers
from tests.linking.rankers.server import says, serving


@pytest.fixture
def recogniser(tmp_path: Path) -> Path:
    """A spaCy pipeline that knows two words, one of which is in no terminology."""
    nlp = spacy.blank("en", meta={"name": "own", "version": "1.2"})
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": word} for word in ("fever", "Tuesday")])
    nlp.to_disk(tmp_path / "own")
    return tmp_path / "own"


@pytest.mark.slow
def test_a_spacy_pipeline_as_finder(demo: Bundle, recogniser: Path) -> None:
    note, pipeline = Note("n", "No fever since Tuesday, but asthma.", "en"), NotePipeline(demo, finder=str(recogniser))
    (own,), (other,) = NotePipeline(demo).link([note]), pipeline.link([note])
    assert [one.link.mention for one in own.mentions] == ["fever", "asthma"]
    assert [(one.link.mention, one.link.nil) for one in other.mentions] == [("fever", False), ("Tuesday", True)]
    assert other.mentions[0].link.candidates[0].score == own.mentions[0].link.candidates[0].score
    assert other.mentions[0].qualifiers == own.mentions[0].qualifiers
    assert pipeline.versions == {**demo.versions, "finder": "en_own 1.2"}


@pytest.mark.parametrize("name", ["no_such_pipeline", "."])
def test_an_invalid_spacy_pipeline(demo: Bundle, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="not a spaCy pipeline"):
        NotePipeline(demo, finder=name)


class CountingRanker:
    """Wraps a ranker and records its mentions."""

    uses_context = False

    def __init__(self, ranker: Ranker) -> None:
        self.ranker, self.ranked = ranker, list[str]()

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: CandidateFeatures
    ) -> NDArray[np.float64]:
        self.ranked += [mention.text for mention in mentions]
        return self.ranker.rank(mentions, contexts, candidates)


class ReverseReranker:
    """Reverses the order of the candidates."""

    uses_context, calibration, fingerprint, counts = False, None, "reverse", Counter[str]()

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[RankedConcept]]
    ) -> list[Sequence[RankedConcept]]:
        return [[*reversed(ones)] for ones in ranked]

    def warnings(self) -> list[str]:
        return []


def test_a_ranker_as_an_object(demo: Bundle) -> None:
    note, counting = Note("n", "No fever, but asthma.", "en"), CountingRanker(Linker(demo).ranker)
    assert NotePipeline(demo, ranker=counting).link([note]) == NotePipeline(demo).link([note])
    assert {"fever", "asthma"} <= set(counting.ranked)


def test_a_reranker_as_an_object(demo: Bundle) -> None:
    note = Note("n", "No fever, but asthma.", "en")
    pipeline = NotePipeline(demo, reranker=ReverseReranker(), verbatim=True)
    (own,), (other,) = NotePipeline(demo, verbatim=True).link([note]), pipeline.link([note])
    first = [one.link.candidates[0].concept_id for one in own.mentions]
    assert [one.link.candidates[0].concept_id for one in other.mentions] != first
    assert pipeline.versions == {**demo.versions, "ranker": "reverse"}


class EmptyFinder:
    """A finder and qualifier without results."""

    def find(self, texts: Sequence[str], language: str) -> list[list[Span]]:
        return [[] for _ in texts]

    def qualify(self, text: str, spans: Sequence[Span]) -> list[Qualifiers | None]:
        return [None for _ in spans]


def test_own_parts_are_versions(demo: Bundle) -> None:
    """A run with other parts is not resumed."""
    named = f"{__name__}.EmptyFinder"
    assert NotePipeline(demo, finder=EmptyFinder()).versions == {**demo.versions, "finder": named}
    assert NotePipeline(demo, qualifier=EmptyFinder()).versions == {**demo.versions, "qualifier": named}


@pytest.mark.slow
def test_threads_share_a_pipeline(demo: Bundle) -> None:
    """Words are numbered in order of appearance, and threads must not assign a number twice."""
    german = demo_notes()["de"].split()
    # unique words between those of names
    texts = [" ".join(f"{word} {word[:3]}{chr(97 + n)}x{at}" for at, word in enumerate(german)) for n in range(6)]
    notes = [Note(str(number), text, "de") for number, text in enumerate(texts)]
    wanted = NotePipeline(demo, language="de").link(notes)
    pipeline, linker, interval = NotePipeline(demo, language="de"), Linker(demo, language="de"), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda note: pipeline.link([note])[0], notes)) == wanted
            links = list(pool.map(lambda text: linker.link(["Vorhofflimmern"], [text])[0], texts))
    finally:
        sys.setswitchinterval(interval)
    assert links == Linker(demo, language="de").link(["Vorhofflimmern"] * len(texts), texts)


BATCH = 32


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_counts_of_all_processes(demo: Bundle, processes: int, tmp_path: Path) -> None:
    words = ["kidney failure", "diabetes"]
    notes = [Note(str(n), f"He has {words[n // BATCH]}.", "en") for n in range(len(words) * BATCH)]
    messages: list[str] = []
    with serving(says("none of your business")) as server:
        link_notes(
            demo, notes, out=tmp_path / "o.jsonl", ranker=server.url, processes=processes, on_message=messages.append
        )
    assert len(server.requests) == len(words)
    assert len(messages) == 1
    assert "2 mentions" in messages[0]
