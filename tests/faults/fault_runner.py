"""Start folders of writers, their expected results, and faulty runs compared with these."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Case, write_inputs
from .children import Outcome, call, command
from .faults import Fault
from .states import State, listing, states


@dataclass(frozen=True)
class Reference:
    """A run without a fault: start folder, states before and after, the paths it leaves, its changes and its time."""

    start: Path
    old: list[State]
    new: list[State]
    listing: list[str]
    changes: list[str]
    seconds: float


@dataclass
class Tally:
    """Counts of how runs ended, and descriptions of the problems."""

    runs: int = 0
    found: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, what: str, problem: str = "") -> None:
        """Count a run; one with a problem counts as "other"."""
        self.runs += 1
        self.found["other" if problem else what] += 1
        if problem:
            self.problems.append(problem)


class FaultRunner:
    """Start folders, each made once, and copies of them to work in."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._starts: dict[tuple[str, ...], Path] = {}
        self._references: dict[Case, Reference] = {}
        self._twice: dict[Case, list[State]] = {}

    def start(self, before: tuple[str, ...]) -> Path:
        """The folder that a sequence of commands makes of the inputs."""
        if before not in self._starts:
            earlier = self.start(before[:-1]) if before else None
            folder = self.top / f"start-{len(self._starts)}"
            if earlier is None:
                folder.mkdir(parents=True)
                write_inputs(folder)
            else:
                shutil.copytree(earlier, folder, symlinks=True)
                run = call(folder, command, before[-1])
                assert run.value == 0, (before[-1], run)
            self._starts[before] = folder
        return self._starts[before]

    def copy(self, start: Path, work: Path | None = None) -> Path:
        """Copy a start folder, with its times, over the previous copy."""
        work = work or self.top / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(start, work, symlinks=True, dirs_exist_ok=True)
        return work

    def reference(self, case: Case) -> Reference:
        """A run of a writer without a fault."""
        if case not in self._references:
            start = self.start(case.before)
            old = call(start, states, case.targets)
            work = self.copy(start)
            run = call(work, command, case.words)
            assert run.value == 0, (case.name, run)
            new = call(work, states, case.targets)
            assert old.value != new.value, (case.name, old, new)
            self._references[case] = Reference(start, old.value, new.value, listing(work), run.changes, run.seconds)
        return self._references[case]

    def twice(self, case: Case) -> list[State]:
        """The states after a second run: those of the first, but for reports of what a run did."""
        if case not in self._twice:
            work = self.copy(self.reference(case).start, self.top / "twice")
            for words in (case.words, case.again or case.words):
                assert call(work, command, words).value == 0
            found, new = call(work, states, case.targets).value, self.reference(case).new
            for (path, kind), one, other in zip(case.targets, found, new, strict=True):
                assert one == other or (case.reports and kind == "file"), path
            self._twice[case] = found
        return self._twice[case]

    def killed(self, case: Case, tally: Tally, *, fault: Fault | None = None, kill_after: float | None = None) -> None:
        """Kill a run of a writer, check the state, and run it again to the end."""
        reference, which = self.reference(case), fault or f"after {kill_after} s"
        work = self.copy(reference.start)
        run = call(work, command, case.words, fault=fault, kill_after=kill_after)
        if run.hung or (run.crashed and run.signal != 9):
            tally.add("", f"{case.name}, {which}: {run.crashed}")
            return
        after = call(work, states, case.targets)
        what, problem = judge(after, reference)
        if not problem:
            again = call(work, command, case.again or case.words)
            last = call(work, states, case.targets)
            if again.value != 0:
                problem = f"the next run says: {again.err.strip() or again.crashed}"
            elif last.value != reference.new and last.value != self.twice(case):
                problem = f"the next run gives {last.value or last.crashed}, {reference.new} expected"
            elif listing(work) != reference.listing:
                problem = f"the next run leaves {differences(work, reference.listing)}"
        tally.add(what, problem and f"{case.name}, {which}: {problem}")


def differences(folder: Path, expected: list[str]) -> str:
    """Unexpected and missing paths of a folder."""
    more, less = Counter(listing(folder)), Counter(expected)
    return f"{sorted((more - less).elements())} beyond, and lacks {sorted((less - more).elements())}"


def judge(after: Outcome, reference: Reference) -> tuple[str, str]:
    """``old`` or ``new``, and the problem if it is neither; each of several targets may be one or the other."""
    if after.value is None:
        return "", f"looking at it: {after.crashed}"
    for number, found in enumerate(after.value):
        if found not in (reference.old[number], reference.new[number]):
            return "", f"target {number} is {found}"
    return ("old" if after.value == reference.old else "new"), ""
