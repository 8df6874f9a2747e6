"""Background processes: how they end, and that the program goes on without them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medlink.processes import background_process, forked, gc_disabled, map_in_two

CHILD = """
import os, sys, time
from medlink.processes import background_process

def work():
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(60)

with background_process(work, wanted=True) as is_at_work:
    is_at_work(60)
"""


@pytest.mark.slow
def test_a_killed_background_process_is_no_error(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def work() -> None:
        begun.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with background_process(work, wanted=True) as is_at_work:
        while is_at_work(1.0):
            pass
    assert begun.exists()


@pytest.mark.slow
def test_it_ends_with_its_block() -> None:
    start = time.monotonic()
    with background_process(lambda: time.sleep(60), wanted=True) as is_at_work:
        assert is_at_work(0.1)
    assert time.monotonic() - start < 30
    with pytest.raises(ValueError, match="closed"):
        is_at_work(0.0)


@pytest.mark.slow
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(pid)])
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    stat = Path(f"/proc/{pid.read_text()}/stat")
    end = time.monotonic() + 20
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_is_not_started_if_not_wanted() -> None:
    done = []
    with background_process(lambda: done.append(1), wanted=False) as is_at_work:
        assert not is_at_work(1.0)
    assert not done


def test_garbage_is_not_collected_within_a_block() -> None:
    with gc_disabled():
        assert not gc.isenabled()
        with gc_disabled():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), gc_disabled():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_disabled():
            pass
        assert not gc.isenabled()  # it was off before
    finally:
        gc.enable()


def test_a_result_of_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    with forked(os.getpid) as child, forked(os.getpid, wanted=False) as own:
        assert child() != os.getpid() == own()
    monkeypatch.setattr("medlink.processes._processors", lambda: 1)
    with forked(os.getpid) as own:
        assert own() == os.getpid()


def test_the_work_of_a_forked_process_that_fails_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    here = os.getpid()

    def work() -> str:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    with forked(work) as result:
        assert result() == "done"
    with forked(lambda: int("x")) as number, pytest.raises(ValueError, match="invalid literal"):
        number()


def test_every_second_part_is_done_by_one_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    own = os.getpid()
    results = list(map_in_two(lambda part: (part, os.getpid()), range(7)))
    assert [part for part, _ in results] == list(range(7))
    assert [pid == own for _, pid in results] == [True, False] * 3 + [True]
    assert len({pid for _, pid in results}) == 2
    assert {pid for _, pid in map_in_two(lambda part: (part, os.getpid()), range(4), wanted=False)} == {own}
    assert list(map_in_two(str, [])) == []


def test_parts_of_a_killed_process_are_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    own = os.getpid()

    def work(part: int) -> int:
        if part == 3 and os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        if part == 8:
            raise ValueError("eight")
        return part

    results = map_in_two(work, range(9))
    assert [next(results) for _ in range(8)] == list(range(8))
    with pytest.raises(ValueError, match="eight"):
        next(results)
