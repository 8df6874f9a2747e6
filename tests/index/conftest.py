"""A small bundle of which each test has a copy of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def house(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built / "bundle", tmp_path / "house")
