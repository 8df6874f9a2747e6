"""A folder of a further language."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.language.languages import VARIABLE


@pytest.fixture
def italian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for Italian, still empty, that medlink reads."""
    (tmp_path / "it").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path / "it"
