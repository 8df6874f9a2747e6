"""The how-to pages run. The documentation as a whole: its length, its generated pages, the pages of the site."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import medlink
from medlink.cli.main import app
from tests.documents import assert_prints, runs

ROOT = Path(medlink.__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TITLE = re.compile(r"# .+\n\n(.+)")


# tests/spark runs the blocks of the page of Spark
HOW_TO = [page for page in sorted((ROOT / "docs" / "how-to").glob("*.md")) if runs(page) and page.name != "spark.md"]


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_prints_what_it_says(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert_prints(page, tmp_path, lambda: request.getfixturevalue("demo_path"))


def _module(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield __import__(name)
    del sys.modules[name]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from _module("count_words", monkeypatch)


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch, counting: Any) -> Iterator[Any]:
    yield from _module("draw_sentences", monkeypatch)


@pytest.fixture
def generating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from _module("generate_reference", monkeypatch)


def test_the_documentation_stays_short(counting: Any) -> None:
    words = {path: counting.count_words(path.read_text("utf-8")) for path in counting.documents()}
    assert len(words) > 50
    assert sum(words.values()) <= 35_000
    assert words[ROOT / "CHANGELOG.md"] < 1_500


def test_words_are_those_of_prose(counting: Any) -> None:
    text = "One [link](a.md), `--two`.\n\n| a | table |\n\n<!-- three -->\n```sh\ncode here\n```\n\n## Four\n"
    assert counting.count_words(text) == 4


@pytest.mark.slow
def test_sentences_and_docstrings_are_drawn_by_seed(drawing: Any) -> None:
    sentences, docstrings = drawing.draw(seed=1, count=20)
    assert (sentences, docstrings) == drawing.draw(seed=1, count=20)
    assert sentences != drawing.draw(seed=2, count=20)[0]
    assert len(sentences) == len(docstrings) == 20
    assert all(text.startswith("medlink/") for text in docstrings)


@pytest.mark.slow
def test_pictures_show_the_pages_of_now(demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    import make

    pages = make.Pages(demo_path, tmp_path)
    for kind, path in make.PICTURES.items():
        picture = path.read_bytes()
        assert pages.write(kind)[1] in picture, "python docs/pictures/make.py takes it anew"
        assert len(picture) < 250_000
    assert sys.modules.pop("make") is make


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_a_page_begins_with_what_it_is_for(path: Path) -> None:
    found = TITLE.match(path.read_text("utf-8"))
    assert found, "a title, an empty line, a sentence"
    assert found[1].startswith(("This page ", "This tutorial ", "medlink "))


def test_every_command_and_option_is_in_the_reference(generating: Any) -> None:
    pages = generating.pages()
    assert len(pages) > 10
    seen = 0
    for path, command in generating.commands(app):
        if path == ("medlink",):
            continue
        page = pages[f"reference/commands/medlink-{path[1]}.md"]
        assert f"`{' '.join(path)}`" in page
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(f"`{name}`" in page for name in (*option.opts, *option.secondary_opts)), (path, option.name)
                assert option.help
                seen += 1
    assert seen > 200


def test_every_exported_name_is_in_the_reference(generating: Any) -> None:
    page = generating.pages()["reference/python.md"]
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(medlink.__all__) - {"__version__"} <= shown
    for module, names in generating.FURTHER.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names), module


def test_the_site_lists_every_page(generating: Any) -> None:
    listed = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    written = {str(path.relative_to(ROOT / "docs")) for path in PAGES}
    assert set(listed) | {"index.md"} == written | set(generating.pages())
    assert len(listed) == len(set(listed))


def test_a_table_of_options(generating: Any) -> None:
    @click.command()
    @click.option("--k", type=int, default=5, help="How many | at most.")
    @click.option("--yes/--no", default=True, help="Whether [default: yes]")
    @click.option("-o", "out", required=True, help="Where <it> goes.")
    def command(**_: object) -> None:
        """Do it."""

    context = click.Context(command, info_name="x")
    rows = [generating._row(option, context) for option in command.params]
    assert rows == [
        "| `--k` | `INTEGER` | How many \\| at most. | `5` |",
        "| `--yes`, `--no` |  | Whether. | yes |",
        "| `-o` | `TEXT` | Where \\<it\\> goes. Required. |  |",
    ]


def test_the_page_is_cleaned(generating: Any) -> None:
    html = "see :class:<code>~medlink.records.Link</code> and :func:<code>load</code>, not <code>x</code>"
    shown = generating.on_page_content(html, None, None, None)
    assert shown == "see <code>Link</code> and <code>load</code>, not <code>x</code>"
    cell = generating.on_page_content(r"<td><code>a\|b</code></td> <code>c\|d</code>", None, None, None)
    assert cell == r"<td><code>a|b</code></td> <code>c\|d</code>"
