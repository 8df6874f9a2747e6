"""The seams between the stages: another ranker, another calibration, what the finder hands on, what caches keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import medlink
from medlink.index import Bundle
from medlink.kb import Input
from medlink.language.lexicon.reading import shared_reader
from medlink.language.scan import Scanner
from medlink.linking import Linker, Mention
from medlink.linking.decision import SharedNames, Shares
from medlink.linking.demo import demo_notes
from medlink.linking.features import Evidence
from medlink.reading.names import NameFinder
from medlink.records import LINKED, Candidate, Status


class WordsAround:
    """A ranker that likes candidates that share words with the context."""

    uses_context = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        self.asked += [mention.text for mention in mentions]
        around = [set(context.lower().split()) for context in contexts or [""] * len(mentions)]
        words = zip(candidates.mention.tolist(), candidates.norms, strict=True)
        return np.array([float(len(around[mention] & set(norm.split()))) for mention, norm in words])


class Tenths:
    def score(
        self,
        rank: NDArray[np.float64],
        margin: NDArray[np.float64],
        named: NDArray[np.bool_],
        languages: Sequence[str | None],
    ) -> NDArray[np.float64]:
        return np.clip(rank / 10 + 0.05 * named, 0, 1)


class NeverNil(SharedNames):
    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        return LINKED


def test_a_ranker_that_looks_at_the_context_decides(demo: Bundle) -> None:
    ranker = WordsAround()
    linker = Linker(demo, ranker=ranker, language="en")
    contexts = ["the pneumonia was severe", "a pleural effusion", "the pneumonia was severe"]
    links = linker.link(["pneumonia or effusions"] * 3, contexts)
    assert [link.candidates[0].name for link in links][:2] != [links[0].candidates[0].name] * 2
    assert "effusion" in links[1].candidates[0].name
    assert links[0] == links[2]
    # once for each context, and never again
    assert linker.link(["pneumonia or effusions"], contexts[:1]) == links[:1]
    assert ranker.asked == ["pneumonia or effusions"] * 2
    # without contexts it is asked, too
    assert linker.link(["pneumonia or effusions"])[0].candidates


def test_scores_of_a_ranker_are_calibrated_afterwards(demo: Bundle) -> None:
    plain = Linker(demo, ranker=WordsAround()).link(["effusions x"], ["pleural effusion"])[0]
    other = Linker(demo, ranker=WordsAround(), calibration=Tenths()).link(["effusions x"], ["pleural effusion"])[0]
    assert [c.concept_id for c in plain.candidates] == [c.concept_id for c in other.candidates]
    assert other.candidates[0].score == pytest.approx(0.2)
    # no other name shares a word, so that the first has all of its rank as a margin, and they have as much below it
    curve = Linker(demo).calibration.score(np.array([2.0, 0.0]), np.array([2.0, -2.0]), np.zeros(2, bool), [None, None])
    assert [c.score for c in plain.candidates[:2]] == pytest.approx(curve.tolist(), abs=1e-6)


def test_a_decision_of_ones_own(demo: Bundle) -> None:
    assert Linker(demo).link(["qwrtz"])[0].nil
    assert not Linker(demo, decision=NeverNil(demo)).link(["qwrtz"])[0].nil


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_what_the_finder_found_is_not_looked_up_again(
    language: str, demo: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = demo_notes()[language]
    found = NameFinder(demo.index, language).find(Scanner(language, shared_reader(demo.index.forms)).scan(note))
    matches = [match for match in found.values() if match is not None]
    texts = [note[m.start : m.end] for m in matches]
    assert len(texts) > 10
    for text, match in zip(texts, matches, strict=True):
        assert match.rows == demo.index.lookup(text, language), text
    wanted = Linker(demo).link([Mention(text, language) for text in texts])
    filtered = Linker(demo, languages=["en"]).link([Mention(text, language) for text in texts])
    monkeypatch.setattr(type(demo.index), "lookup", None)
    mentions = [Mention(text, language, found=m) for text, m in zip(texts, matches, strict=True)]
    assert Linker(demo).link(mentions) == wanted
    assert Linker(demo, languages=["en"]).link(mentions) == filtered


@pytest.mark.parametrize(("tag", "language"), [("de-AT", "de"), ("es-MX", "es"), ("", "de"), ("", "en")])
def test_regions_and_untagged_names_are_of_the_language(tag: str, language: str, tmp_path: Path) -> None:
    """A region counts as its language; a name without a language passes every filter and is looked up in every one."""
    table = tmp_path / "t.tsv"
    name, plural = {"de": ("Zyste", "Zysten"), "es": ("quiste", "quistes"), "en": ("cyst II", "cyst 2")}[language]
    if not tag:
        plural = name.upper()
    table.write_text(f"concept_id\tname\tlanguage\nX:1\t{name}\t{tag}\nX:2\tgout\tfr\n", encoding="utf-8")
    medlink.build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    bundle = medlink.build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite")
    scanned = {
        tag: Scanner(tag, shared_reader(bundle.index.forms)).scan(f"x {plural}; y") for tag in ("de", "en", "es")
    }
    found = [one.names for one in bundle.index.find(scanned[language], language)]
    assert found == [bundle.index.lookup(plural, language)]
    for options in ({}, {"languages": [language]}, {"language": language}):
        link = Linker(bundle, **options).link([Mention(plural, language)])[0]
        assert (link.concept_id, link.candidates[0].route) == ("X:1", "inflected" if tag else "exact")
    other = {"de": "es", "es": "de", "en": "de"}[language]
    assert bool(bundle.index.find(scanned[other], other)) == (not tag)


def test_no_cache_keeps_a_context(demo: Bundle) -> None:
    """Mentions are kept, a bounded number of them; the notes around them are not."""
    linker = Linker(demo, ranker=WordsAround())
    linker.link(["type 2", "fever", "IV fever"], ["Zebulonquartermain"] * 3)
    for memo in (linker._rankings, linker._reranked, linker._described):
        assert "zebulon" not in repr(list(memo.kept.items())).lower()
