"""What many tests share: the demo bundle, built once, and a cache folder that is not the user's."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.linking import Linker
from medlink.linking.demo import build_demo_bundle

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("MEDLINK_BUNDLE", None)


@pytest.fixture(scope="session")
def demo_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the demo bundle."""
    folder = tmp_path_factory.mktemp("demo") / "bundle"
    build_demo_bundle(folder)
    return folder


@pytest.fixture(scope="session")
def demo(demo_path: Path) -> Bundle:
    """The demo bundle, opened."""
    return Bundle(demo_path)


@pytest.fixture(scope="session")
def linker(demo: Bundle) -> Linker:
    """A linker on the demo bundle."""
    return Linker(demo)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the folder with real data is not beside the repository")
    return SHARED


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """A training begins by collecting garbage; what the libraries hold need not be searched every time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
