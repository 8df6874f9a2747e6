"""``cluster_list``: the whole of ``medlink cluster`` as one call."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.curation import cluster_list
from medlink.curation.page import MIN_SCORE
from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase

from .test_page import Page, data

LIST = "fever\nFieber\nleft arm\nright arm\n"
DECIDED = (
    "id\tname\tlanguage\ttype\tparent\tdecision\n"
    "NEW:1\tleft arm\ten\tpreferred\tDEMO:0400\taccept\n"
    "NEW:1\tright arm\ten\tsynonym\tDEMO:0400\taccept\n"
)


@pytest.mark.slow
def test_a_list_becomes_clusters_files_and_names_of_a_bundle(demo_path: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    terms, decisions = tmp_path / "terms.txt", tmp_path / "decisions.tsv"
    terms.write_text(LIST, "utf-8")
    decisions.write_text(DECIDED, "utf-8")
    messages: list[str] = []
    steps: set[str] = set()
    out, page = tmp_path / "out.tsv", tmp_path / "page.html"
    found = cluster_list(
        terms, bundle=bundle, decisions=decisions, add_to=bundle, out=out, report=page, on_message=messages.append,
        progress=lambda step, done, total: steps.add(step), known_at=0.4,
    )  # fmt: skip
    by_term = {member.term: one for one in found.clusters for member in one.members}
    assert by_term["left arm"].number == by_term["right arm"].number
    assert by_term["left arm"].concept_id == "NEW:1"
    assert found.has_concepts
    assert out.read_text("utf-8") == "".join(found.lines())
    assert page.read_text("utf-8").endswith("</html>\n")
    assert medlink.load(bundle).link(["right arm"])[0].concept_id == "NEW:1"
    assert found.text() in messages
    assert messages[-1] == "accepted new ids: NEW:1"
    assert {"reading", "embeddings", "concepts"} <= steps


@pytest.mark.slow
def test_a_stream(tmp_path: Path) -> None:
    found = cluster_list("a list", stream=io.BytesIO(LIST.encode()), threshold=0.9)
    assert not found.has_concepts
    assert found.summary.terms == 4
    assert list(tmp_path.iterdir()) == []


def test_contradictory_options_are_rejected_before_the_list_is_read(tmp_path: Path) -> None:
    options: dict[str, Any]
    for options, message in (
        ({"add_to": tmp_path}, "without decisions there is nothing to add"),
        ({"known_at": 0.5}, "without a bundle no concept is known"),
        ({"prefer": ["HPO"]}, "without a bundle no concept is known.*or leave prefer out"),
        ({"treshold": 0.5}, "unknown option 'treshold'"),
    ):
        with pytest.raises(ConfigError, match=message):
            cluster_list("missing", **options)


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
