"""The page of clusters as a file; test_browser.py tests its behaviour."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from medlink.clustering import Cluster, Member, Neighbour
from medlink.clustering.clusters import MAYBE
from medlink.curation.decisions import term_hash
from medlink.curation.note_page import write_note_page
from medlink.curation.page import MIN_SCORE
from medlink.curation.review_page import write_cluster_page
from medlink.index import Bundle
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note

from .pages import CLUSTERS

ATTACKS = (
    "</script><script>alert(1)</script>",
    "</script /<img src=x onerror=alert(1) ",
    "<!--<script>",
    "]]>&amp;&#60;img src=x onerror=alert(1)>",
    "\"quoted\" 'and' \\u003c {{script}}",
    "\u202egnp.exe \u05d0\u05d1",
    "bell\x07 null\x00 tab\tline\u2028end",
    "heart \U0001f493 lone \ud800",
)


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(path.read_text("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def inline(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag and text.strip()]

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.tags if found == tag]


def written(tmp_path: Path, *clusters: Cluster, title: str = "t", **summary: Any) -> Page:
    write_cluster_page(tmp_path / "page.html", (c.to_dict() for c in clusters), title=title, summary=summary)
    return Page(tmp_path / "page.html")


def data(page: Page) -> Any:
    return json.loads(page.inline("script")[0])


def test_the_data(tmp_path: Path) -> None:
    below = replace(CLUSTERS[1], broader=Neighbour("fever", 1, 0.8, member="pyrexia"))
    clusters = (CLUSTERS[0], below, *CLUSTERS[2:])
    given = data(written(tmp_path, *clusters, clusters=6))
    assert (given["least"], given["maybe"]) == (MIN_SCORE, MAYBE)
    assert given["summary"] == {"clusters": 6}
    fields = given["fields"]
    for row, cluster in zip(given["clusters"], clusters, strict=True):
        read = dict(zip(fields["cluster"], row, strict=True))
        plain = cluster.to_dict()
        plain["nearest"] = [{key: one[key] for key in fields["nearest"]} for one in plain["nearest"]]
        for kind, key in (("nearest", "nearest"), ("member", "members"), ("neighbour", "neighbours")):
            read[key] = [dict(zip(fields[kind], one, strict=True)) for one in read[key]]
        read["broader"] = read["broader"] and dict(zip(fields["neighbour"], read["broader"], strict=True))
        for member in read["members"]:
            assert member.pop("hash") == term_hash(member["term"])
        assert read == {key: plain[key] for key in read}
        assert plain.keys() - read.keys() == {"same_as", "candidates"}


def test_numbers_are_rounded_and_languages_are_tags(tmp_path: Path) -> None:
    cluster = Cluster(
        1,
        "a  b",
        (Member("a  b", 1, "GER", "", 0.123456789), Member("c", 1, "Deutsch"), Member("d", 1, "fr-CA")),
        score=1 / 3,
        neighbours=(Neighbour("e  f", 2, 1 / 3, member="a  b"),),
        broader=Neighbour("e  f", 2, 2 / 3),
    )
    row = data(written(tmp_path, cluster))["clusters"][0]
    assert (row[1], row[4]) == ("a b", 0.3333)
    assert row[10:12] == [[["e f", 2, 0.3333, "", "a b"]], ["e f", 2, 0.6667, "", ""]]
    assert [member[:5] for member in row[9]] == [
        ["a b", 1, "de", "", 0.1235],
        ["c", 1, "", "", 1.0],
        ["d", 1, "fr-ca", "", 1.0],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_leaves_its_element(attack: str, tmp_path: Path) -> None:
    cluster = Cluster(1, attack, (Member(attack, id=attack),), attack, attack, 0.5)
    page, plain = written(tmp_path, cluster, title=attack, name=attack), written(tmp_path)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    given = data(page)
    assert given["summary"] == {"name": attack}
    assert given["clusters"][0][1:4] == [" ".join(attack.split()), attack, attack]
    assert page.inline("script")[0].isascii()


@pytest.mark.parametrize("kind", ["clusters", "notes"])
def test_the_page_loads_nothing(kind: str, demo: Bundle, tmp_path: Path) -> None:
    if kind == "clusters":
        page = written(tmp_path, *CLUSTERS)
    else:
        write_note_page(
            tmp_path / "page.html", NotePipeline(demo).link([Note("n", "He has a fever.", "en")]), demo.kb, title="t"
        )
        page = Page(tmp_path / "page.html")
    policy = page.attributes("meta")[1]["content"] or ""
    style, script = page.inline("style")[0], page.inline("script")[1]
    for what, text in (("style", style), ("script", script)):
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "srcset", "style"):
            assert name not in attributes or (tag, attributes[name]) == ("link", "data:,")
        assert not any(name.startswith("on") for name in attributes)
    for text in (style, script):
        assert not re.search(r"https?:|url\(|@import|innerHTML|outerHTML|insertAdjacentHTML|eval\(|localStorage", text)
