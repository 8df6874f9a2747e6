"""The demo bundle kept open, and fixtures of the tests of ``medlink train biolord``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medlink.index import Bundle
from medlink.mapping.run import map_codes
from medlink.notes.link import link_notes

from .biolord_folder import fill, train


@pytest.fixture(scope="package", autouse=True)
def _demo_stays_open(demo_path: Path, demo: Bundle) -> Iterator[None]:
    """Open the demo bundle once for all runs of ``medlink link`` and ``medlink map``, which load its encoder."""

    def link(bundle: Any, *inputs: Any, **options: Any) -> Any:
        return link_notes(demo if bundle == demo_path else bundle, *inputs, **options)

    def map_list(bundle: Any, *inputs: Any, **options: Any) -> Any:
        return map_codes(demo if bundle == demo_path else bundle, *inputs, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medlink.notes.link.link_notes", link)
        patch.setattr("medlink.mapping.run.map_codes", map_list)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base, a transformer, tables and a recipe."""
    folder = tmp_path_factory.mktemp("biolord")
    fill(folder)
    return folder


@pytest.fixture(scope="session")
def complete(folder: Path) -> tuple[Path, str]:
    """The folder of an uninterrupted run, and its output."""
    return folder / "run", train("run", folder / "recipe.toml")
