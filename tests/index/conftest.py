"""A small bundle, built once; each test has a copy of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medlink.index import build_bundle
from tests.index.test_bundle import small_kb


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``kb.tsv``, ``kb.sqlite``, and the ``bundle`` built from them."""
    folder = tmp_path_factory.mktemp("built")
    build_bundle(folder / "bundle", kb=small_kb(folder / "kb.sqlite"))
    return folder


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path, dirs_exist_ok=True) / "bundle"


@pytest.fixture
def house(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built / "bundle", tmp_path / "house")
