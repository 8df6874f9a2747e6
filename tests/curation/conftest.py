from __future__ import annotations

from collections.abc import Iterator

import pytest

from medlink.index import Bundle

from .browser import Tab, driver
from .reviewed import Linked, linked


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder = tmp_path_factory.mktemp("browser")
    started = driver(folder)
    yield Tab(started, folder)
    started.quit()


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory, demo: Bundle) -> Linked:
    """Notes in three languages with their links."""
    return linked(tmp_path_factory.mktemp("reviewed"), demo)
