"""A writer that is killed at any change of the file system, or at any time, leaves the old state or the new one."""

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
from .fault_runner import FaultRunner, Tally, judge
from .faults import FULL, MOVES, Fault
from .states import listing, states

QUICK = ("kb build, replacing", "index build, replacing", "index add, again")
"""A writer of each mechanism: a file, parts of a bundle, a part beside others. A file that is continued:
``tests/notes/writers/test_kills.py``."""
RANDOM_KILLS = 200
_SYSCALLS = "rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat"


def points(case: Case, changes: list[str], full: bool) -> list[Fault]:
    """The kills of a writer: before every change and after each move, or at a sampled one."""
    every = range(1, len(changes) + 1)
    moves = [at for at in every if changes[at - 1] in MOVES]
    if full:
        return [Fault(at) for at in every] + [Fault(at, after=True) for at in moves]
    draw = random.Random(case.name)
    return [Fault(draw.choice(moves if draw.random() < 0.5 else [*every]), draw.random() < 0.3)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.slow if case.name in QUICK else pytest.mark.faults)
        for case in CASES
    ],
)
def test_killed_at_a_change(case: Case, runner: FaultRunner, table: Table, full: bool) -> None:
    if case.words.startswith("train") and not full:
        pytest.skip("a part of make faults")
    tally = Tally()
    for fault in points(case, runner.reference(case).changes, full):
        runner.killed(case, tally, fault=fault)
    table.add("killed at a change", case.name, tally)


@pytest.mark.faults
@pytest.mark.skipif(not FULL, reason="needs every point")
def test_killed_at_any_time(runner: FaultRunner, table: Table) -> None:
    draw, tally = random.Random(11), Tally()
    for number in range(RANDOM_KILLS):
        case = CASES[number % len(CASES)]
        runner.killed(case, tally, kill_after=draw.uniform(0.0, runner.reference(case).seconds))
    table.add("killed at a random time", "all of them", tally)


@pytest.mark.faults
@pytest.mark.skipif(not FULL, reason="needs every point")
@pytest.mark.parametrize("name", ["index build, replacing", "index add, again"])
def test_killed_at_a_system_call(name: str, runner: FaultRunner, table: Table) -> None:
    """Killed from outside at a system call, whichever library makes it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    (case,) = (case for case in CASES if case.name == name)
    reference, tally = runner.reference(case), Tally()
    program = [sys.executable, "-c", "from medlink.cli.main import main; main()", *case.words.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for at in range(1, 1000):
        work = runner.copy(reference.start)
        inject = f"--inject={_SYSCALLS}:signal=KILL:when={at}"
        run = subprocess.run(
            [strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={_SYSCALLS}", inject, *program],
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
    table.add("killed at a system call", case.name, tally)
