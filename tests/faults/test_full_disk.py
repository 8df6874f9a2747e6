"""A full disk and a read-only one: a one-line error, and the old state stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .cases import CASES, Case
from .children import Outcome, call, command
from .conftest import Table
from .fault_runner import FaultRunner, Reference, Tally, differences, judge
from .faults import FULL, Fault
from .states import listing, states

pytestmark = pytest.mark.slow
_SIZES = 8
_SOME = ("kb build, replacing", "index add, again")
_CHANGING = [case for case in CASES if case.name not in ("link --resume", "the cached demo bundle")]


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A small disk of its own in memory; skips where nothing may be mounted."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    if (
        os.geteuid()
        or shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("nothing may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def occupied(folder: Path) -> int:
    """Kilobytes that a folder takes on such a disk."""
    return sum(4 + (path.stat().st_size + 4095) // 4096 * 4 for path in folder.rglob("*"))


def refused(case: Case, reference: Reference, work: Path, run: Outcome) -> tuple[str, str]:
    """The state after a run that could not write, ``old`` or ``new`` if there was room, and the problem."""
    after, lines = call(work, states, case.targets), run.err.splitlines()
    if run.crashed:
        return "", run.crashed
    if run.value == 0:
        return "new", "" if after.value == reference.new else f"it says nothing, and there is {after.value}"
    what, problem = judge(after, reference)
    # other messages of the command come before the error
    if run.value != 1 or [line.startswith("medlink: ") for line in lines].index(True) != len(lines) - 1:
        problem = f"exit code {run.value}: {run.err}"
    elif what == "new" and len(case.targets) == 1:
        problem = f"it says {run.err}, and has done it"
    elif what == "old" and "--resume" not in case.again and listing(work) != listing(reference.start):
        problem = f"it leaves {differences(work, listing(reference.start))}"
    return what, problem


CHOSEN = _CHANGING if FULL else [case for case in _CHANGING if case.name in _SOME]
"""The writers of these tests."""


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_full_disk(case: Case, runner: FaultRunner, table: Table) -> None:
    reference, tally = runner.reference(case), Tally()
    begun = occupied(reference.start)
    with disk(runner.top / "disk", 65536) as place:
        work = runner.copy(reference.start, place / "work")
        call(work, command, case.words)
        needed = max(64, 2 * (occupied(work) - begun) + 512)
    for step in range(_SIZES if FULL else 1):
        room = 16 + needed * step // _SIZES
        with disk(runner.top / "disk", begun + room) as place:
            work = runner.copy(reference.start, place / "work")
            run = call(work, command, case.words)
            what, problem = refused(case, reference, work, run)
            tally.add(what, problem and f"{room} kB free: {problem}")
    table.add("a full disk", case.name, tally)


def test_largest_file(runner: FaultRunner, table: Table) -> None:
    """The limit of the system for one file, where nothing can be mounted."""
    tally = Tally()
    for case in CHOSEN:
        reference = runner.reference(case)
        for largest in (1_000, 5_000, 20_000, 100_000) if FULL else (2_000,):
            work = runner.copy(reference.start)
            run = call(work, command, case.words, fault=Fault(largest=largest))
            what, problem = refused(case, reference, work, run)
            tally.add(what, problem and f"{case.name}, {largest} bytes: {problem}")
    table.add("no file may grow further", "all of them", tally)


def test_read_only(runner: FaultRunner, table: Table) -> None:
    tally = Tally()
    for case in CHOSEN:
        reference = runner.reference(case)
        with read_only(reference, runner) as work:
            run = call(work, command, case.words)
            what, problem = refused(case, reference, work, run)
        tally.add(what, problem and f"{case.name}: {problem}")
    table.add("a folder that is only read", "all of them", tally)


@contextmanager
def read_only(reference: Reference, runner: FaultRunner) -> Iterator[Path]:
    """A copy of a start folder in which nothing can be written."""
    if not os.geteuid():
        # root may write anywhere but on a read-only disk
        with disk(runner.top / "disk", 65536) as place:
            work = runner.copy(reference.start, place / "work")
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            yield work
        return
    work = runner.copy(reference.start)
    folders = [work, *(path for path in work.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield work
    finally:
        for folder in folders:
            folder.chmod(0o755)
