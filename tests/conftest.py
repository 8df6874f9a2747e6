"""What many tests share: the demo bundle, built once, and a cache folder that is not the user's."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from medlink.index import Bundle, build_bundle
from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.forms import load_shared_forms
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.tables import Tables
from medlink.linking import Linker
from tests.demo import copied_demo
from tests.fork_server import SERVER
from tests.small_kb import small_kb
from tests.small_lexicon import write_small_lexicon

SHARED = Path(__file__).resolve().parents[2] / "shared"
GROUPS = {
    "documents": ("test_readme.py", "test_docs.py"),
    "hpo": ("test_real_data.py", "test_second_reading.py"),
    "biolord": ("test_biolord_run.py", "test_biolord_record.py"),
    "spark": ("test_link_notes.py", "test_partition.py"),
    "faults": ("test_kills.py", "test_flips.py", "test_full_disk.py"),
}
"""Files that one process runs, as they share what takes long to make; they begin first."""
LONG = [name for names in GROUPS.values() for name in names] + [
    "test_no_network.py",
    "test_link_notes.py",
    "test_light_base.py",
    "test_browser.py",
    "test_releases.py",
    "test_train.py",
    "test_main.py",
    "test_impact.py",
]
"""Files that take long, some of them with few tests."""
_ALL_SLOW = re.compile(
    r"^(?:pytestmark = \[?\s*pytest\.mark\.(?:slow|faults|browser|gpu)\b|import torch$)", re.MULTILINE
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread in a quick run what has no quick test, and trainers, whose libraries take ten seconds to import."""
    if "not slow" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    is_trainer = collection_path.match("tests/training/*/*.py") and collection_path.parent.name != "data"
    return is_trainer or bool(_ALL_SLOW.search(collection_path.read_text("utf-8"))) or None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """In a quick run spaCy does without torch, which it imports where it finds it, for seconds in each process."""
    if "not slow" in collector.config.option.markexpr and "spacy" not in sys.modules:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "torch", None)
            import_module("spacy")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files begin first, as one that begins last leaves the other cores idle; reading the lexicon is slow."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    for item in items:
        if "lexicon" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process runs the tests of a file, or of a group of files."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    group_of = {name: group for group, names in GROUPS.items() for name in names}

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return group_of.get(path.rpartition("/")[2], path)

    return GroupScheduling(config, log)


gc.disable()  # until all is imported


def pytest_collection_finish() -> None:
    """What the libraries and the tests hold is not searched for garbage."""
    gc.freeze()
    gc.enable()


_files = set[Path]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nor is what earlier files left, such as the lexicon: a training begins by collecting garbage, for seconds."""
    if item.path not in _files:
        _files.add(item.path)
        gc.freeze()


def pytest_sessionfinish() -> None:
    """Stop the fork server, and give all to the collector where the plug-in of Hypothesis asks it at the end."""
    if "hypothesis" not in sys.modules:
        gc.unfreeze()
    SERVER.stop()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache that is not the user's, and that all processes of a run share."""
    top = tmp_path_factory.getbasetemp()
    os.environ["XDG_CACHE_HOME"] = str((top.parent if "PYTEST_XDIST_WORKER" in os.environ else top) / "cache")
    os.environ.pop("MEDLINK_BUNDLE", None)


@pytest.fixture(scope="session", autouse=True)
def _lexicon_stays_open() -> Iterator[None]:
    """What was read of the lexicon stays in memory, and no test waits for the disk: none cuts the power."""
    shipped = load_shared_forms(SHIPPED)
    tables: dict[Path, Tables] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medlink.language.lexicon.lexicon._cache", tables)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
    del shipped


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    """The lexicon that ships."""
    return Lexicon()


@pytest.fixture(scope="session")
def _small_lexicon_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_lexicon(tmp_path_factory.mktemp("lexicon") / "small")


@pytest.fixture
def small_lexicon(_small_lexicon_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows of the lexicon that ships, in place of all of them, wherever its tables are read."""
    monkeypatch.setattr("medlink.language.lexicon.lexicon.SHIPPED", _small_lexicon_folder)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``kb.tsv``, ``kb.sqlite`` of two names, and the ``bundle`` built from them."""
    folder = tmp_path_factory.mktemp("built")
    build_bundle(folder / "bundle", kb=small_kb(folder / "kb.sqlite"))
    return folder


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    """A copy of that bundle, beside its ``kb.sqlite``."""
    return shutil.copytree(built, tmp_path, dirs_exist_ok=True) / "bundle"


@pytest.fixture(scope="session")
def demo_path(_own_cache: None) -> Path:
    """Folder of the demo bundle, which the first process builds while others wait."""
    return copied_demo()


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


@pytest.fixture(scope="session")
def hpo(shared: Path, _own_cache: None) -> Path:
    """All of HPO in three languages as a bundle, which the first process builds while others wait."""
    from tests.scripts import benchmark

    work = Path(os.environ["XDG_CACHE_HOME"]) / "hpo"
    with FileLock(f"{work}.lock"):
        folder: Path = benchmark("fit_choice").hpo_bundle(work).folder
    return folder
