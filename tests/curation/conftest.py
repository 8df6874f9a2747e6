from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import Tab, driver


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder = tmp_path_factory.mktemp("browser")
    started = driver(folder)
    yield Tab(started, folder)
    started.quit()
