"""Killed at any change of the file system, or at any time, a writer leaves the old state or the new one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys

import pytest

from .cases import CASES, Case
from .children import ROOT, call
from .conftest import Table
from .faults import MOVES, Fault
from .states import listing, states
from .workshop import Tally, Workshop, judge

RANDOM_KILLS = 200
_SYSCALLS = "rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat"


def points(case: Case, changes: list[str], full: bool) -> list[Fault]:
    """Where a writer is killed: before every change and right after each that moves something, or at one of them."""
    every = range(1, len(changes) + 1)
    moves = [at for at in every if changes[at - 1] in MOVES]
    if full:
        return [Fault(at) for at in every] + [Fault(at, after=True) for at in moves]
    draw = random.Random(case.name)
    return [Fault(draw.choice(moves if draw.random() < 0.5 else [*every]), draw.random() < 0.3)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_killed_at_a_change(case: Case, workshop: Workshop, table: Table, full: bool) -> None:
    if case.words.startswith("train") and not full:
        pytest.skip("a part of make faults")
    tally = Tally()
    for fault in points(case, workshop.reference(case).changes, full):
        workshop.killed(case, tally, fault=fault)
    table.take("killed at a change", case.name, tally)


def test_killed_at_any_time(workshop: Workshop, table: Table, full: bool) -> None:
    draw, tally = random.Random(11), Tally()
    cases = [case for case in CASES if full or not case.slow]
    for number in range(RANDOM_KILLS if full else 8):
        case = cases[number % len(cases)]
        workshop.killed(case, tally, kill_after=draw.uniform(0.0, workshop.reference(case).seconds))
    table.take("killed at a random time", "all of them", tally)


@pytest.mark.parametrize("name", ["index build, replacing", "index add, again"])
def test_killed_at_a_system_call(name: str, workshop: Workshop, table: Table, full: bool) -> None:
    """The same from outside, at what the process asks of the system, whatever library asks it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    (case,) = (case for case in CASES if case.name == name)
    reference, tally = workshop.reference(case), Tally()
    program = [sys.executable, "-c", "from medlink.cli.main import main; main()", *case.words.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for at in range(1 if full else 3, 1000 if full else 4):
        work = workshop.copy(reference.start)
        inject = [f"--inject={one}:signal=KILL:when={at}" for one in (_SYSCALLS,)]
        run = subprocess.run(
            [strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={_SYSCALLS}", *inject, *program],
            cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if "PTRACE" in run.stderr or "ptrace" in run.stderr:
            pytest.skip(f"strace may not trace here: {run.stderr.strip()}")
        after = call(work, states, case.targets)
        what, problem = judge(after, reference)
        if run.returncode == 0:
            assert (what, listing(work)) == ("new", reference.listing)
            break
        tally.add(what, problem and f"{case.name}, system call {at}: {problem}")
    table.take("killed at a system call", case.name, tally)
