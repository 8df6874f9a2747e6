"""A flipped bit in any file of a bundle gives the old links or a refusal; ``medlink index verify`` finds each."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .cases import MENTIONS
from .children import Task, call, call_together, command
from .conftest import Table
from .fault_runner import FaultRunner, Tally
from .states import links_to_lists

_BASE, _BUILD = "kb build house/kb.sqlite --table base.tsv", "index build house --encoder encoder"
BUNDLE = (_BASE, _BUILD, "index add house --table more.tsv")
_HEADER = 64
"""Bytes of the header of a file."""


@dataclass(frozen=True)
class Flip:
    """One bit of a file; with ``rotten`` the file keeps its times, as on a decaying disk."""

    path: Path
    byte: int
    bit: int
    rotten: bool

    def __enter__(self) -> None:
        self._turn(self.rotten)

    def __exit__(self, *error: object) -> None:
        self._turn(True, self.times)

    def _turn(self, keep: bool, times: tuple[int, int] | None = None) -> None:
        status = self.path.stat()
        content = bytearray(self.path.read_bytes())
        content[self.byte] ^= 1 << self.bit
        # the same inode, not a new file
        with self.path.open("r+b") as file:
            file.write(content)
        if keep:
            os.utime(self.path, ns=times or (status.st_atime_ns, status.st_mtime_ns))
        object.__setattr__(self, "times", (status.st_atime_ns, status.st_mtime_ns))


def flips(bundle: Path, *, of_header: int, elsewhere: int, rotten: bool) -> Iterator[Flip]:
    """Some bits of the header and some of the rest of every file that is not empty."""
    for path in sorted(path for path in bundle.rglob("*") if path.is_file() and path.stat().st_size):
        size, draw = path.stat().st_size, random.Random(f"{path.name} {rotten}")
        begin = range(min(size, _HEADER))
        rest = range(len(begin), size)
        chosen = draw.sample(begin, min(of_header, len(begin))) + draw.sample(rest, min(elsewhere, len(rest)))
        yield from (Flip(path, at, draw.randrange(8), rotten) for at in sorted(chosen))


def use(bundle: str, trusting: bool = False) -> Any:
    """Open a bundle, link with it and query its knowledge base.

    With ``trusting`` it is opened as a large one, whose files are not hashed.
    """
    from medlink.bundles import parts
    from medlink.index import Bundle
    from medlink.linking import Linker

    if trusting:
        parts._MAX_SMALL_BYTES = 0
    opened = Bundle(bundle)
    found = links_to_lists(Linker(opened).link(list(MENTIONS)))
    names = [[name.concept_id, name.text] for name in opened.kb.search("cardio", 5, None)]
    return [found, names, opened.kb.parents("X:7"), opened.kb.preferred_name("X:1", "de")]


def verify(found: list[Flip]) -> list[int]:
    """The exit code of ``medlink index verify`` for each flip, one at a time."""
    codes = []
    for flip in found:
        with flip:
            codes.append(command("index verify house"))
    return codes


@pytest.fixture(scope="module")
def work(runner: FaultRunner) -> Path:
    """A folder with a bundle to which something was added."""
    return runner.copy(runner.start(BUNDLE), runner.top / "flips")


@pytest.mark.parametrize(
    "rotten",
    [
        pytest.param(False, id="written", marks=pytest.mark.slow),
        pytest.param(True, id="rotten", marks=pytest.mark.faults),
    ],
)
def test_one_flipped_bit(rotten: bool, work: Path, table: Table, full: bool) -> None:
    before, tally = call(work, use, "house").value, Tally()
    assert before
    every = list(flips(work / "house", of_header=4 if full else 1, elsewhere=6 if full else 1, rotten=rotten))
    for flip in every if full else random.Random(1).sample(every, 5):
        with flip:
            after = call(work, use, "house", rotten)
        where = f"bit {flip.bit} of byte {flip.byte} of {flip.path.relative_to(work)}"
        if after.signal or (after.traceback and not rotten):
            tally.add("", f"{where}: {after.crashed}")
        elif after.value is None:
            tally.add("refused" if after.refused else "unnoticed")
        elif after.value == before:
            tally.add("old")
        else:
            tally.add("unnoticed", "" if rotten else f"{where}: links {after.value}, {before} expected")
    assert call(work, use, "house").value == before
    table.add("a flipped bit, the time of the file kept" if rotten else "a flipped bit", "use of a bundle", tally)


@pytest.mark.faults
def test_verify_finds_every_flip(work: Path, table: Table, full: bool) -> None:
    assert call(work, command, "index verify house").value == 0
    tally = Tally()
    every = list(flips(work / "house", of_header=4 if full else 1, elsewhere=6 if full else 1, rotten=True))
    parts = [every[start : start + 50] for start in range(0, len(every), 50)]
    for part in parts:
        (done,) = call_together([Task(work, verify, (part,))])
        assert done.value is not None, done.crashed
        assert "Traceback" not in done.err
        for flip, code in zip(part, done.value, strict=True):
            missed = f"bit {flip.bit} of byte {flip.byte} of {flip.path.relative_to(work)} gives {code}"
            tally.add("refused", "" if code == 1 else missed)
    table.add("a flipped bit, the time of the file kept", "index verify", tally)
