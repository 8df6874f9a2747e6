"""Processes forked from one that has imported everything: a run costs no more than its command."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medlink.errors import MedlinkError

from . import faults

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 600.0
"""Seconds after which a process counts as hanging: far more than concurrent writers take on a busy machine."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([f"{__package__}.preload"])


@dataclass(frozen=True)
class Task:
    """A function to call in a process of its own, in a folder, under a fault.

    ``fault`` is set up in the process before the function is called (:mod:`tests.faults.faults`); ``kill_after`` are
    seconds after which the process is killed from outside.
    """

    folder: Path
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    fault: faults.Fault | None = None
    kill_after: float | None = None


@dataclass
class Outcome:
    """The end of a process.

    ``value`` is the result of the function, ``refused`` the message of a :class:`MedlinkError`, ``traceback`` that of
    any other exception. ``signal`` ended the process, 0 for none. A process that ``hung`` had not answered within
    :data:`LIMIT` and was killed.
    """

    value: Any = None
    refused: str = ""
    traceback: str = ""
    signal: int = 0
    hung: bool = False
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    changes: list[str] = field(default_factory=list)

    @property
    def crashed(self) -> str:
        """Why the process ended as none may, ``""`` if it did not."""
        if self.hung:
            return f"not done within {LIMIT:.0f} s"
        if self.signal:
            return f"signal {self.signal}"
        return self.traceback or ("Traceback" in self.err and self.err) or ""


def call_together(tasks: Sequence[Task]) -> list[Outcome]:
    """Run functions concurrently, each in a process of its own."""
    with TemporaryDirectory(prefix="medlink-faults-") as folder, _importable():
        begun = []
        for number, task in enumerate(tasks):
            ours, theirs = _context.Pipe()
            texts = [str(Path(folder) / f"{number}.{name}") for name in ("out", "err")]
            process = _context.Process(target=_child, args=(task, theirs, *texts), daemon=True)
            begun.append((process, ours, theirs, texts, time.perf_counter()))
        for process, _, theirs, _, _ in begun:
            process.start()
            theirs.close()
        done = []
        for task, (process, ours, _, texts, start) in zip(tasks, begun, strict=True):
            one, limit = Outcome(), LIMIT if task.kill_after is None else task.kill_after
            ready = wait([ours], max(0.0, start + limit - time.perf_counter()))
            if not ready:
                one.hung = task.kill_after is None
                process.kill()
            process.join(LIMIT)
            try:
                if not one.hung and ours.poll():
                    one = ours.recv()
            except EOFError:
                pass
            if process.exitcode is not None and process.exitcode < 0:
                one.signal = -process.exitcode
            one.out, one.err = (
                Path(text).read_text("utf-8", "replace") if Path(text).exists() else "" for text in texts
            )
            one.seconds = time.perf_counter() - start
            done.append(one)
            ours.close()
            process.close()
    return done


def call(
    folder: Path,
    function: Callable[..., Any],
    *arguments: Any,
    fault: faults.Fault | None = None,
    kill_after: float | None = None,
) -> Outcome:
    """Run one function in a process of its own."""
    return call_together([Task(folder, function, arguments, fault, kill_after)])[0]


def command(words: str) -> int:
    """Run ``medlink`` with these words, for :func:`call`; returns the exit code."""
    from medlink.cli.main import main
    from medlink.linking import demo

    # the inputs have a tenth of the demo terminology
    demo.demo_folder = _small_demo
    try:
        if words:
            main(words.split())
        else:
            demo.demo_bundle()
    except MedlinkError as error:
        sys.stderr.write(f"medlink: {error}\n")
        return 1
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _small_demo() -> Path:
    return Path("demo").absolute()


@contextmanager
def _importable() -> Any:
    """Let the process that all others are forked from import the package and these tests."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before]))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _child(task: Task, answer: Connection, out: str, err: str) -> None:
    """Do a task and answer; standard output and error go into two files."""
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(number, stream.fileno())
    os.chdir(task.folder)
    os.environ["XDG_CACHE_HOME"] = str(task.folder / "cache")
    os.environ.pop("MEDLINK_BUNDLE", None)
    done = Outcome()
    try:
        with faults.under(task.fault, task.folder) as done.changes:
            done.value = task.function(*task.arguments)
    except MedlinkError as error:
        done.refused = str(error)
    except BaseException:
        done.traceback = traceback.format_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    answer.send(done)
    answer.close()
    # no exit handler of a library runs
    os._exit(0)
