"""Tiny models, made once for all tests of trainers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from medlink.models import StaticConfig
from tests.training.small_bert import small_bert


@pytest.fixture(scope="module", autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Weights are reproducible for one number of threads, and a forked process has one."""
    if request.path.parent.name == "data":  # trains nothing
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer and 16 dimensions, with dropout."""
    return small_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def other_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with other weights."""
    return small_bert(tmp_path_factory.mktemp("other"), seed=2)


@pytest.fixture(scope="session")
def narrow_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 12 dimensions."""
    return small_bert(tmp_path_factory.mktemp("narrow"), seed=2, width=12)


@pytest.fixture(scope="session")
def still_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT without dropout."""
    return small_bert(tmp_path_factory.mktemp("still"), dropout=0.0)


@pytest.fixture(scope="session")
def static_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static encoder of 16 dimensions with random weights."""
    from medlink.training.static.student import random_student

    shape = StaticConfig(families=False, rows=256, dimension=16, hidden=8)
    return random_student(shape, 0.0, 1).encoder().save(tmp_path_factory.mktemp("static") / "encoder")
