"""Processes that medlink begins: how they end, and that it does not matter."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medlink.processes import collection_paused, working_ahead

CHILD = """
import os, sys, time
from medlink.processes import working_ahead

def work():
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(60)

with working_ahead(work, wanted=True) as is_at_work:
    is_at_work(60)
"""


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


def test_the_collector_waits_until_a_block_ends() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()  # who does without it goes on without it
    finally:
        gc.enable()
