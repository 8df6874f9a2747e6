"""``cluster_list``: the whole of ``medlink cluster`` as one call; ``tests/cli/test_cluster.py`` tests its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.curation import cluster_list
from medlink.curation.page import MIN_SCORE
from medlink.kb import KnowledgeBase

from .test_page import Page, data

GERMAN = (
    "term\tlanguage\nHerzinfarkt\t{0}\nKopfschmerzen\t{0}\nLungenentzündung beidseits\t{0}\nAsthma mit Husten\t{0}\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["", "de"])
def test_the_page_names_concepts_in_the_language_of_the_list(language: str, demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text(GERMAN.format(language), "utf-8")
    found = cluster_list(tmp_path / "terms.tsv", bundle=demo_path, report=tmp_path / "page.html", known_at=0.9)
    given = data(Page(tmp_path / "page.html"))
    fields = given["fields"]["cluster"]
    rows = [dict(zip(fields, row, strict=True)) for row in given["clusters"]]
    named = {row["representative"]: row["concept_name"] for row in rows}
    assert named["Herzinfarkt"] == "Myokardinfarkt"
    assert named["Kopfschmerzen"] == "Kopfschmerz"
    assert any(row["parent_name"] for row in rows)
    with KnowledgeBase(demo_path) as kb:
        for row, cluster in zip(rows, found.clusters, strict=True):
            visible = [one.concept_id for one in cluster.nearest if one.score >= MIN_SCORE]
            names = kb.preferred_names([*visible, row["parent_id"] or ""], "de")
            assert [near[:2] for near in row["nearest"]] == [[one, names[one]] for one in visible]
            assert row["parent_name"] == names.get(row["parent_id"], "")
    # lines for programs keep the preferred names
    assert "myocardial infarction" in "".join(found.lines())
    assert given["summary"]["language"] == "de"
