"""The columns of candidate spans, against counting the words of each span; what the filter drops."""

from __future__ import annotations

import random

import numpy as np
import pytest

from medlink.index import Bundle
from medlink.linking.demo import demo_notes
from medlink.reading.candidates import CandidateSpan
from medlink.reading.columns import KINDS, SpanColumns, context_columns, filter_columns
from medlink.reading.features import CONTEXT
from medlink.reading.finder import BuiltinFinder
from medlink.reading.prefilter import COLUMNS, shipped_filter


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_columns_against_counting(demo: Bundle, language: str) -> None:
    finder, rng = BuiltinFinder(demo, language), random.Random(7)
    texts = finder.scan([*demo_notes().values(), "", "..."])
    spans = []
    for text in texts:
        starts = [rng.randrange(len(text.words)) for _ in range(60)] if text.words else []
        spans.append([CandidateSpan((at, min(at + rng.randint(1, 6), len(text.words)))) for at in sorted(starts)])
    columns = SpanColumns.of(texts, spans, frozenset(("and", "und", "y")))
    context = context_columns(columns)
    rows = filter_columns(columns, context)
    assert context.shape[1] == len(CONTEXT)
    assert rows.shape[1] == len(COLUMNS)
    at = 0
    for text, found in zip(texts, spans, strict=True):
        for one in found:
            start, stop = one.place
            words, clause = text.words[start:stop], [word.clause for word in text.words]
            others = [i for i, word in enumerate(text.words) if not word.function]
            own, row = dict(zip(CONTEXT, context[at], strict=True)), dict(zip(COLUMNS, rows[at], strict=True))
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
                assert row[f"kind_{kind}"] == min(sum(kind in word.kinds for word in content), 2), kind
            assert row["unknown"] == sum(not word.kinds for word in content)
            for kind in ("finding", "change", "body"):
                assert row[f"first_{kind}"] == bool(content and kind in content[0].kinds)
                assert row[f"last_{kind}"] == bool(content and kind in content[-1].kinds)
            assert row["whole"] == bool(text.meanings(one.place))
            at += 1
    assert at == len(rows) > 100


@pytest.mark.parametrize(("language", "text"), [("en", "Her fingers were tapering."), ("de", "Nachts starker Husten.")])
def test_the_filter_drops_what_is_hardly_a_mention(demo: Bundle, language: str, text: str) -> None:
    generator = (finder := BuiltinFinder(demo, language)).generator
    texts = finder.scan([text])
    (every,), (kept,) = generator.all_candidates(texts, [{}]), generator.candidates(texts, [{}])
    rows = [one.cheap for one in every if one.cheap is not None]
    worth = iter(shipped_filter().kept(rows))
    assert kept == [one for one in every if one.cheap is None or next(worth)]
    assert all(one in kept for one in every if one.sure)
    assert np.isfinite(rows).all()
