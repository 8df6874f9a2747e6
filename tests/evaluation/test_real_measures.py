"""Measures on real ratings and a real hierarchy; skipped without the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.evaluation import correlate, measure_answers, pair_cosines, read_leaves, retrieve
from medlink.evaluation.task import draw_sample
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.models import load_encoder
from medlink.training.data.rated_pairs import read_pairs

pytestmark = pytest.mark.slow


def measured(path: Path, measure: str) -> tuple[int, float]:
    """Number of pairs of a file, and the correlation of their ratings with cosines of the built-in encoder."""
    problems = Problems(0.0)
    pairs = read_pairs(path, problems)
    assert problems.rows == len(pairs)
    encode = load_encoder().encode
    near = pair_cosines(encode([pair.text_1 for pair in pairs]), encode([pair.text_2 for pair in pairs]))
    found = correlate([pair.rating for pair in pairs], near, measure=measure)
    assert found.low < found.value < found.high
    return len(pairs), found.value


def test_ratings_of_concept_pairs(shared: Path) -> None:
    count, value = measured(shared / "data/benchmarks/ehr_rel/EHR-RelA.tsv", "spearman")
    assert count == 111
    assert 0.2 < value < 0.7


@pytest.mark.parametrize("language", ["de"])
def test_scores_of_sentence_pairs(shared: Path, language: str) -> None:
    count, value = measured(shared / f"data/benchmarks/stsb/stsb-{language}-dev.csv", "pearson")
    assert count == 1500
    assert 0.5 < value < 0.95


def test_leaves_of_hpo(shared: Path, tmp_path: Path) -> None:
    source = shared / "data/terminologies/hpo/hp.v2024-08-13.json.gz"
    build_kb(tmp_path / "kb.sqlite", [Input("obograph", source)])
    with KnowledgeBase(tmp_path) as kb:
        task = read_leaves(kb)
    assert (len(task.queries), len({query.source for query in task.queries}), task.nameless) == (26_319, 13_169, 0)
    assert (len(task.dictionary), len(task.dictionary.concepts)) == (15_035, 5_819)
    answers = retrieve(load_encoder().encode, task.dictionary, draw_sample(task.queries, 500, seed=1))
    assert all(answer.known for answer in answers)
    assert 0.4 < measure_answers(answers)["en"].mrr < 0.8
