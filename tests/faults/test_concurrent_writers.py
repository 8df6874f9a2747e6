"""Several writers of one bundle at once: those that report success succeeded, and readers go on reading."""

from __future__ import annotations

import pickle
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import cases, states
from .children import Task, call_together, command
from .conftest import Table
from .fault_runner import FaultRunner, Tally
from .faults import FULL

pytestmark = pytest.mark.faults
ROUNDS = 50
_BUILD, _BASE, _ADD = "index build house --encoder encoder", "kb build house/kb.sqlite --table base.tsv", "index add"
_LOADED = "kb build house/kb.sqlite --table more-base.tsv"


@dataclass(frozen=True)
class Crowd:
    """Writers that begin together: a number of ``index add``, and other commands."""

    name: str
    adds: int = 0
    others: tuple[str, ...] = ()


CROWDS = (
    Crowd("index build with index add", 1, (_BUILD,)),
    Crowd("kb build with index build", 0, (_LOADED, _BUILD)),
    Crowd("two index build with four index add", 4, (_BUILD, _BUILD)),
    Crowd("two index add", 2),
    Crowd("two index build", 0, (_BUILD, _BUILD)),
    Crowd("six index add", 6),
)


def write(words: str, gate: Path, crowd: int, number: int) -> int:
    """Run a command when the whole crowd has arrived, and leave a mark when it has ended."""
    _meet(gate, crowd, str(number))
    try:
        return command(words)
    finally:
        (gate / f"{number}.done").touch()


def read(gate: Path, crowd: int, writers: int) -> list[str]:
    """Read the bundle while it is written; returns the problems.

    One bundle is opened before and read all the time, one is opened before and read at the end, others are opened in
    between.
    """
    from medlink.index import Bundle
    from medlink.linking import Linker

    held, late = Linker(Bundle("house")), Bundle("house")
    packed = pickle.dumps(late)
    first, problems = states.links_to_lists(held.link(list(cases.MENTIONS))), list[str]()
    certain = {mention: concept for mention, concept, _ in first[:3]}
    _meet(gate, crowd, "reader")
    while not problems and len(list(gate.glob("*.done"))) < writers:
        if states.links_to_lists(held.link(list(cases.MENTIONS))) != first:
            problems.append("a bundle that was open links otherwise than before")
        found = {link.mention: link.concept_id for link in Linker(Bundle("house")).link(list(certain))}
        if found != certain:
            problems.append(f"a bundle that is opened links {found}")
        time.sleep(0.02)
    for name, opened in (("read late", late), ("unpacked", pickle.loads(packed))):  # noqa: S301 # our own
        if states.links_to_lists(Linker(opened).link(list(cases.MENTIONS))) != first:
            problems.append(f"a bundle that is {name} links otherwise than before")
    return problems


def _meet(gate: Path, crowd: int, name: str) -> None:
    (gate / f"{name}.here").touch()
    began = time.monotonic()
    while len(list(gate.glob("*.here"))) < crowd and time.monotonic() - began < 60:
        time.sleep(0.001)


def held(names: dict[str, str]) -> dict[str, Any]:
    """Which new names the bundle links to their concepts, and the links of its first names."""
    from medlink.index import Bundle
    from medlink.linking import Linker

    linker = Linker(Bundle("house"))
    found = {link.concept_id for link in linker.link(list(names.values()))}
    return {concept: concept in found for concept in names} | {
        link.mention: link.concept_id for link in linker.link(list(cases.MENTIONS[:3]))
    }


def one_round(runner: FaultRunner, crowd: Crowd, seed: int) -> tuple[str, str]:
    """Run a round: ``new`` if all succeeded, else ``refused``; and the problems."""
    work = runner.copy(runner.start((_BASE, _BUILD)))
    gate = runner.top / "gate"
    shutil.rmtree(gate, ignore_errors=True)
    gate.mkdir()
    names = {number: cases.added(seed * 10 + number) for number in range(crowd.adds)}
    words = list(crowd.others)
    (work / "more-base.tsv").write_text(
        (work / "base.tsv").read_text("utf-8") + "X:99\ttussis\ten\t\t\t\n", encoding="utf-8"
    )
    for number, brought in names.items():
        (work / f"add-{number}.tsv").write_text(cases.table(brought), encoding="utf-8")
        words.append(f"{_ADD} house --table add-{number}.tsv")
    random.Random(seed).shuffle(words)
    tasks = [Task(work, write, (line, gate, len(words) + 1, number)) for number, line in enumerate(words)]
    *written, reader = call_together([*tasks, Task(work, read, (gate, len(words) + 1, len(words)))])
    unread = [reader.refused or reader.crashed] if reader.value is None else reader.value
    problems = [f"the reader: {one}" for one in unread]
    for line, done in zip(words, written, strict=True):
        is_refused = done.value == 1 and done.err.startswith("medlink: ") and len(done.err.splitlines()) == 1
        if done.crashed or (done.value != 0 and not is_refused):
            problems.append(f"{line}: {done.crashed or done.err}")
    every = {concept: name for brought in names.values() for concept, name in brought.items()}
    last = call_together([Task(work, held, (every,))])[0]
    if last.value is None:
        problems.append(f"the bundle in the end: {last.refused or last.crashed}")
        return "", "; ".join(problems)
    for line, done in zip(words, written, strict=True):
        for number, brought in names.items():
            if line.endswith(f"add-{number}.tsv") and any(last.value[one] != (done.value == 0) for one in brought):
                problems.append(f"{line} gave {done.value}, and the bundle has {[last.value[one] for one in brought]}")
    if [last.value[mention] for mention in cases.MENTIONS[:3]] != ["X:0", "X:7", "X:13"]:
        problems.append(f"the first names are linked to {last.value}")
    for line in (_LOADED, _BUILD) if _LOADED in words else (_BUILD,):
        again = call_together([Task(work, command, (line,))])[0]
        if again.value != 0:
            problems.append(f"afterwards {line}: {again.crashed or again.err}")
    left = sorted(path.name for path in (work / "house").rglob("*") if path.name.startswith(".writing-"))
    if left:
        problems.append(f"afterwards there is {left}")
    return ("new" if all(done.value == 0 for done in written) else "refused"), "; ".join(problems)


@pytest.mark.parametrize("crowd", CROWDS if FULL else CROWDS[2:3], ids=lambda crowd: crowd.name)
def test_writers_at_once(crowd: Crowd, runner: FaultRunner, table: Table, full: bool) -> None:
    tally = Tally()
    for seed in range(ROUNDS if full else 1):
        what, problem = one_round(runner, crowd, seed)
        tally.add(what, problem and f"round {seed}: {problem}")
    table.add("at once, with readers", crowd.name, tally)
