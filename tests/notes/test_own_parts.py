"""Parts of one's own in a pipeline: a spaCy pipeline as the finder, a ranker and a re-ranker as objects."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import spacy
from click.testing import CliRunner
from numpy.typing import NDArray

from medlink import Linker, Note, NotePipeline, link_notes
from medlink.cli.main import app
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking import Mention
from medlink.linking.demo import demo_notes
from medlink.linking.features import Evidence
from medlink.linking.ranking import Ranked, Ranker
from medlink.reading.protocols import Span
from medlink.records import Qualifiers
from tests.linking.rankers.server import says, serving


@pytest.fixture
def recogniser(tmp_path: Path) -> Path:
    """A spaCy pipeline that knows two words, one of which no terminology has."""
    nlp = spacy.blank("en", meta={"name": "own", "version": "1.2"})
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": word} for word in ("fever", "Tuesday")])
    nlp.to_disk(tmp_path / "own")
    return tmp_path / "own"


def test_entities_of_a_spacy_pipeline(demo_path: Path, recogniser: Path) -> None:
    note = "No fever since Tuesday, but asthma."
    command = ["link", str(demo_path), "-", "--language", "en"]
    own, other = (
        [json.loads(line) for line in CliRunner().invoke(app, [*command, *more], input=note).stdout.splitlines()]
        for more in ([], ["--finder", str(recogniser)])
    )
    assert [row["text"] for row in own] == ["fever", "asthma"]
    assert [(row["text"], row["nil"]) for row in other] == [("fever", False), ("Tuesday", True)]
    assert {key: other[0][key] for key in ("concept_id", "score", "presence")} == {
        key: own[0][key] for key in ("concept_id", "score", "presence")
    }


def test_a_spacy_pipeline_is_part_of_what_links_depend_on(demo: Bundle, recogniser: Path) -> None:
    assert NotePipeline(demo, finder=str(recogniser)).versions == {**demo.versions, "finder": "en_own 1.2"}


@pytest.mark.parametrize("name", ["no_such_pipeline", "."])
def test_what_is_no_spacy_pipeline(demo: Bundle, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = "is no spaCy pipeline. Remedy: install the package of the pipeline, or name its folder"
    with pytest.raises(ConfigError, match=wanted):
        NotePipeline(demo, finder=name)


class Counting:
    """A ranker that ranks as another one, and counts what it is asked."""

    uses_context = False

    def __init__(self, ranker: Ranker) -> None:
        self.ranker, self.asked = ranker, list[str]()

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        self.asked += [mention.text for mention in mentions]
        return self.ranker.rank(mentions, contexts, candidates)


class Backwards:
    """A re-ranker that turns the order of the candidates round."""

    uses_context, calibration, fingerprint, counts = False, None, "backwards", Counter[str]()

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Sequence[Ranked]]:
        return [[*reversed(ones)] for ones in ranked]

    def said(self) -> list[str]:
        return []


def test_a_ranker_as_an_object(demo: Bundle) -> None:
    note, counting = Note("n", "No fever, but asthma.", "en"), Counting(Linker(demo).ranker)
    assert NotePipeline(demo, ranker=counting).link([note]) == NotePipeline(demo).link([note])
    assert {"fever", "asthma"} <= set(counting.asked)


def test_a_reranker_as_an_object(demo: Bundle) -> None:
    note, pipeline = Note("n", "No fever, but asthma.", "en"), NotePipeline(demo, reranker=Backwards(), verbatim=True)
    (own,), (other,) = NotePipeline(demo, verbatim=True).link([note]), pipeline.link([note])
    first = [one.link.candidates[0].concept_id for one in own.mentions]
    assert [one.link.candidates[0].concept_id for one in other.mentions] != first
    assert pipeline.versions == {**demo.versions, "ranker": "backwards"}


class Nothing:
    """A finder and reader of qualifiers that finds nothing."""

    def find(self, texts: Sequence[str], language: str) -> list[list[Span]]:
        return [[] for _ in texts]

    def qualify(self, text: str, spans: Sequence[Span]) -> list[Qualifiers | None]:
        return [None for _ in spans]


def test_own_parts_are_among_the_versions(demo: Bundle) -> None:
    """A run with another part is not resumed."""
    named = f"{__name__}.Nothing"
    assert NotePipeline(demo, finder=Nothing()).versions == {**demo.versions, "finder": named}
    assert NotePipeline(demo, qualifier=Nothing()).versions == {**demo.versions, "qualifier": named}


def test_threads_share_a_pipeline(demo: Bundle) -> None:
    """Words have numbers in the order in which they come: two threads must not give the same one."""
    german = demo_notes()["de"].split()
    # many words that no other note has, between those of names
    texts = [" ".join(f"{word} {word[:3]}{chr(97 + n)}x{at}" for at, word in enumerate(german)) for n in range(12)]
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


@pytest.mark.parametrize("processes", [1, 2])
def test_all_processes_are_counted(demo: Bundle, processes: int, tmp_path: Path) -> None:
    words = ["kidney failure", "diabetes"]
    notes = [Note(str(n), f"He has {words[n // BATCH]}.", "en") for n in range(len(words) * BATCH)]
    told: list[str] = []
    with serving(says("none of your business")) as server:
        link_notes(demo, notes, out=tmp_path / "o.jsonl", ranker=server.url, processes=processes, say=told.append)
    assert len(server.asked) == len(words)
    assert told == ["the ranker gave no valid answer for 2 mentions: not one of the candidates (2)"]
