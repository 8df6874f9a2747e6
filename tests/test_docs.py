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
def generating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from _module("generate_reference", monkeypatch)


def test_the_documentation_stays_short(counting: Any) -> None:
    words = {path: counting.count_words(path.read_text("utf-8")) for path in counting.documents()}
    assert len(words) > 50
    assert sum(words.values()) <= 35_000
    assert words[ROOT / "CHANGELOG.md"] < 1_500


@pytest.mark.slow
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


@pytest.mark.slow
def test_every_exported_name_is_in_the_reference(generating: Any) -> None:
    page = generating.pages()["reference/python.md"]
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(medlink.__all__) - {"__version__"} <= shown
    for module, names in generating.FURTHER.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names), module


@pytest.mark.slow
def test_the_site_lists_every_page(generating: Any) -> None:
    listed = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    written = {str(path.relative_to(ROOT / "docs")) for path in PAGES}
    assert set(listed) | {"index.md"} == written | set(generating.pages())
    assert len(listed) == len(set(listed))
