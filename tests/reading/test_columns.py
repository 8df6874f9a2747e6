"""Columns of candidate spans against a naive oracle, and the span filter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from medlink.index import Bundle, family_match
from medlink.linking.demo import demo_notes
from medlink.reading import classifier, features
from medlink.reading.candidates import CandidateSpan
from medlink.reading.classifier import default_span_filter
from medlink.reading.features import KINDS, SPAN, UNRANKED, SpanColumns
from medlink.reading.reader import TextReader


@pytest.mark.slow
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
        for span in found:
            start, stop = span.place
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
            assert own["whole"] == bool(text.meanings(span.place))
            at += 1
    assert at == len(rows) > 100


@pytest.mark.parametrize(("language", "text"), [("en", "Her fingers were tapering."), ("de", "Nachts starker Husten.")])
def test_the_filter_drops_unlikely_spans(demo: Bundle, language: str, text: str) -> None:
    generator = (finder := TextReader(demo, language)).generator
    texts = finder.scan([text])
    (every,), (kept,) = (generator.candidates(texts, [{}], filtered=filtered) for filtered in (False, True))
    rows = [span.context[: len(UNRANKED)] for span in every if not span.sure]
    model, least = default_span_filter()
    probability = iter(model.predict_proba(rows))
    assert kept == [span for span in every if span.sure or next(probability) >= least]
    assert all(span in kept for span in every if span.sure)
    assert np.isfinite(rows).all()


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_chunks_do_not_change_the_result(demo: Bundle, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = TextReader(demo, language)
    text = demo_notes()[language]
    whole = reader.read([text])
    monkeypatch.setattr(features, "_CHUNK", 7)
    monkeypatch.setattr(classifier, "_CHUNK", 5)
    monkeypatch.setattr(family_match, "_CLAUSES", 2)
    assert reader.read([text]) == whole
    assert len(whole[0]) > 20


@pytest.mark.parametrize(
    ("language", "text"),
    [("de", "Lunge: eupn., VAG bds."), ("de", "Haut anikterisch, warm."), ("en", "Abdomen soft, nontender.")],
)
def test_the_filter_keeps_words_that_deny_a_finding(demo: Bundle, language: str, text: str) -> None:
    generator = (finder := TextReader(demo, language)).generator
    (kept,) = generator.candidates(finder.scan([text]), [{}])
    assert any(span.expanded and span.short is not None and span.short.usual.safe for span in kept)
