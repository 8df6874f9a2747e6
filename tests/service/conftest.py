from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.curation.conftest import chromium

from .running import Running, serving

__all__ = ["chromium"]


@pytest.fixture(scope="session")
def service(demo_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The demo bundle, served by default options."""
    with serving(tmp_path_factory.mktemp("service"), demo_path) as running:
        yield running
