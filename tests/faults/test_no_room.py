"""A full disk, and one that is only read: one line says so, and what was there stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .cases import CASES, Case
from .children import Done, call, command
from .conftest import Table
from .faults import FULL, Fault
from .states import listing, states
from .workshop import Reference, Tally, Workshop, differences, judge

_SIZES = 8
_SOME = ("kb build, replacing", "index build, new", "index add, again")
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
    """Kilobytes that a folder takes on a disk of such pages."""
    return sum(4 + (path.stat().st_size + 4095) // 4096 * 4 for path in folder.rglob("*"))


def refused(case: Case, reference: Reference, work: Path, run: Done) -> tuple[str, str]:
    """What came of a run that could not write: the old state, or the new one where there was room after all."""
    after, lines = call(work, states, case.targets), run.err.splitlines()
    if run.crashed:
        return "", run.crashed
    if run.value == 0:
        return "new", "" if after.value == reference.new else f"it says nothing, and there is {after.value}"
    what, problem = judge(after, reference)
    # what a command says on the way stands before
    if run.value != 1 or [line.startswith("medlink: ") for line in lines].index(True) != len(lines) - 1:
        problem = f"exit code {run.value}: {run.err}"
    elif what == "new" and len(case.targets) == 1:
        problem = f"it says {run.err}, and has done it"
    elif what == "old" and "--resume" not in case.again and listing(work) != listing(reference.start):
        problem = f"it leaves {differences(work, listing(reference.start))}"
    return what, problem


CHOSEN = _CHANGING if FULL else [case for case in _CHANGING if case.name in _SOME]
"""The writers whose room is taken."""


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_full_disk(case: Case, workshop: Workshop, table: Table) -> None:
    reference, tally = workshop.reference(case), Tally()
    begun = occupied(reference.start)
    with disk(workshop.top / "disk", 65536) as place:
        work = workshop.copy(reference.start, place / "work")
        call(work, command, case.words)
        needed = max(64, 2 * (occupied(work) - begun) + 512)
    for step in range(_SIZES if FULL else 1):
        room = 16 + needed * step // _SIZES
        with disk(workshop.top / "disk", begun + room) as place:
            work = workshop.copy(reference.start, place / "work")
            run = call(work, command, case.words)
            what, problem = refused(case, reference, work, run)
            tally.add(what, problem and f"{room} kB free: {problem}")
    table.take("a full disk", case.name, tally)


def test_largest_file(workshop: Workshop, table: Table) -> None:
    """What the system allows a process to write, where nothing can be mounted."""
    tally = Tally()
    for case in CHOSEN:
        reference = workshop.reference(case)
        for largest in (1_000, 5_000, 20_000, 100_000) if FULL else (2_000,):
            work = workshop.copy(reference.start)
            run = call(work, command, case.words, fault=Fault(largest=largest))
            what, problem = refused(case, reference, work, run)
            tally.add(what, problem and f"{case.name}, {largest} bytes: {problem}")
    table.take("no file may grow further", "all of them", tally)


def test_read_only(workshop: Workshop, table: Table) -> None:
    tally = Tally()
    for case in CHOSEN:
        reference = workshop.reference(case)
        with read_only(reference, workshop) as work:
            run = call(work, command, case.words)
            what, problem = refused(case, reference, work, run)
        tally.add(what, problem and f"{case.name}: {problem}")
    table.take("a folder that is only read", "all of them", tally)


@contextmanager
def read_only(reference: Reference, workshop: Workshop) -> Iterator[Path]:
    """A copy of a start folder in which nothing can be written."""
    if not os.geteuid():
        # root may write anywhere but on a disk that nobody may write
        with disk(workshop.top / "disk", 65536) as place:
            work = workshop.copy(reference.start, place / "work")
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            yield work
        return
    work = workshop.copy(reference.start)
    folders = [work, *(path for path in work.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield work
    finally:
        for folder in folders:
            folder.chmod(0o755)
