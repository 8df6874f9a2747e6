"""The columns of candidate spans, against counting the words of each span; what the filter drops."""

from __future__ import annotations

import random

import numpy as np
import pytest

from medlink.index import Bundle, family_match
from medlink.linking.demo import demo_notes
from medlink.reading import classifier, features
from medlink.reading.candidates import CandidateSpan
from medlink.reading.classifier import shipped_filter
from medlink.reading.features import KINDS, SPAN, UNRANKED, SpanColumns
from medlink.reading.reader import TextReader


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_columns_against_counting(demo: Bundle, language: str) -> None:
    finder, rng = TextReader(demo, language), random.Random(7)
    texts = finder.scan([*demo_notes().values(), "", "..."])
    spans = []
    for text in texts:
        starts = [rng.randrange(len(text.words)) for _ in range(60)] if text.words else []
        spans.append([CandidateSpan((at, min(at + rng.randint(1, 6), len(text.words)))) for at in sorted(starts)])
    ((_, rows),) = SpanColumns(texts, spans, frozenset(("and", "und", "y")), f"{language}-AT").rows()
    assert rows.shape[1] == len(SPAN)
    at = 0
    for text, found in zip(texts, spans, strict=True):
        for one in found:
            start, stop = one.place
            words, clause = text.words[start:stop], [word.clause for word in text.words]
            others = [i for i, word in enumerate(text.words) if not word.function]
            own = dict(zip(SPAN, rows[at], strict=True))
            assert [tag for tag in ("de", "en", "es", "fr") if own.get(f"language_{tag}")] == [language]
            content = [word for word in words if not word.function]
            assert own["content"] == len(content)
            assert own["grammar"] == len(words) - len(content)
            before = [i for i in others if i < start and clause[i] == clause[start]]
            behind = [i for i in others if i >= stop and clause[i] == clause[stop - 1]]
            assert own["opens"] == (not before)
            assert own["closes"] == (not behind)
            assert own["grammar_before"] == bool(before and before[-1] < start - 1)
            assert own["grammar_behind"] == bool(behind and behind[0] > stop)
            assert own["characters"] == words[-1].end - words[0].start
            assert own["digit"] == any(any(map(str.isdigit, text.written((i, i + 1)))) for i in range(start, stop))
            for kind in KINDS:
                assert own[f"kind_{kind}"] == min(sum(kind in word.kinds for word in content), 2), kind
            assert own["unknown"] == sum(not word.kinds for word in content)
            for kind in ("finding", "change", "body"):
                assert own[f"first_{kind}"] == bool(content and kind in content[0].kinds)
                assert own[f"last_{kind}"] == bool(content and kind in content[-1].kinds)
            assert own["whole"] == bool(text.meanings(one.place))
            at += 1
    assert at == len(rows) > 100


@pytest.mark.parametrize(("language", "text"), [("en", "Her fingers were tapering."), ("de", "Nachts starker Husten.")])
def test_the_filter_drops_what_is_hardly_a_mention(demo: Bundle, language: str, text: str) -> None:
    generator = (finder := TextReader(demo, language)).generator
    texts = finder.scan([text])
    (every,), (kept,) = (generator.candidates(texts, [{}], filtered=filtered) for filtered in (False, True))
    rows = [one.context[: len(UNRANKED)] for one in every if not one.sure]
    model, least = shipped_filter()
    likely = iter(model.probabilities(rows))
    assert kept == [one for one in every if one.sure or next(likely) >= least]
    assert all(one in kept for one in every if one.sure)
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_a_long_note_is_read_a_part_at_a_time(demo: Bundle, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = TextReader(demo, language)
    text = demo_notes()[language]
    whole = reader.read([text])
    monkeypatch.setattr(features, "_AT_A_TIME", 7)
    monkeypatch.setattr(classifier, "_AT_A_TIME", 5)
    monkeypatch.setattr(family_match, "_CLAUSES", 2)
    assert reader.read([text]) == whole
    assert len(whole[0]) > 20


@pytest.mark.parametrize(
    ("language", "text"),
    [("de", "Lunge: eupn., VAG bds."), ("de", "Haut anikterisch, warm."), ("en", "Abdomen soft, nontender.")],
)
def test_a_word_that_denies_is_a_candidate_whatever_its_words_are(demo: Bundle, language: str, text: str) -> None:
    generator = (finder := TextReader(demo, language)).generator
    (kept,) = generator.candidates(finder.scan([text]), [{}])
    assert any(one.expanded and one.short is not None and one.short.usual.safe for one in kept)
