"""What the tests of ``medlink train biolord`` share: made once, for those that ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .biolord_folder import fill, train


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base, a transformer, tables and a recipe."""
    folder = tmp_path_factory.mktemp("biolord")
    fill(folder)
    return folder


@pytest.fixture(scope="session")
def complete(folder: Path) -> tuple[Path, str]:
    """The folder of a run that was left alone, and what it said."""
    return folder / "run", train("run", folder / "recipe.toml")
