"""Work that another process does ahead: what it leaves is taken, and how it ends does not matter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medlink.index import embedded as module
from medlink.index import part
from medlink.index.ahead import working_ahead
from medlink.index.part import Part
from medlink.models import StaticEncoder
from medlink.records import Name
from tests.models.test_static import CONFIG, random_encoder

NAMES = [Name(f"T:{n % 30}", f"pain in part {n}", "en") for n in range(90)]
CHILD = """
import os, sys, time
from medlink.index.ahead import working_ahead

def work():
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(60)

with working_ahead(work, wanted=True) as is_at_work:
    is_at_work(60)
"""


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts this process embeds at a time, with shards of 16."""
    for where in (module, part):
        monkeypatch.setattr(where, "SHARD", 16)
    numbers, encode = list[int](), StaticEncoder.encode

    def counted(self: StaticEncoder, texts: list[str]) -> object:
        numbers.append(len(texts))
        return encode(self, texts)

    monkeypatch.setattr(StaticEncoder, "encode", counted)
    return numbers


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_names_are_embedded_while_they_are_read(kind: str, encoded: list[int], tmp_path: Path) -> None:
    encoder, steps = random_encoder(CONFIG), list[tuple[str, int, int]]()
    Part.build(tmp_path / "one", NAMES, encoder, kind=kind)
    assert encoded == [16] * 5 + [10]
    encoded.clear()
    Part.build(tmp_path / "two", NAMES, encoder, kind=kind, threads=2, progress=lambda *step: steps.append(step))
    # the last shard is not whole
    assert encoded == [10]
    assert ("names embedded", len(NAMES), len(NAMES)) in steps
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_what_fails_ahead_is_done_later(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def work() -> None:
        begun.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with working_ahead(work, wanted=True) as is_at_work:
        while is_at_work(1.0):
            pass
    assert begun.exists()


def test_it_ends_with_the_block() -> None:
    start = time.monotonic()
    with working_ahead(lambda: time.sleep(60), wanted=True) as is_at_work:
        assert is_at_work(0.1)
    assert time.monotonic() - start < 30
    with pytest.raises(ValueError, match="closed"):
        is_at_work(0.0)


def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(told)])
    while not (told.exists() and told.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    stat = Path(f"/proc/{told.read_text()}/stat")
    end = time.monotonic() + 20
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_none_is_wanted() -> None:
    done = []
    with working_ahead(lambda: done.append(1), wanted=False) as is_at_work:
        assert not is_at_work(1.0)
    assert not done
