"""``medlink serve`` as a process, and a client of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import medlink
from tests.fork_server import SERVER

MAIN = "from medlink.cli.main import main; main()"


@dataclass(frozen=True)
class Running:
    """A service that answers under ``url``; its log is the file ``log``."""

    process: subprocess.Popen[str]
    url: str
    client: httpx.Client
    log: Path

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def refusal(self, answer: httpx.Response) -> tuple[int, str]:
        """Status and sentence of a refused request."""
        problem = answer.json()
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert (problem["status"], list(problem)) == (answer.status_code, ["title", "status", "detail"])
        return answer.status_code, problem["detail"]


@contextmanager
def serving(folder: Path, *words: object, port: int = 0, end: int = signal.SIGTERM) -> Iterator[Running]:
    """Run ``medlink serve`` in a folder; the block begins when it listens.

    What shall be killed is a new process, all else is forked from one that has imported everything.
    """
    log = folder / "log"
    program = [sys.executable, "-c", MAIN] if end == signal.SIGKILL else [str(SERVER.programs() / "medlink")]
    command = [*program, "serve", *map(str, words), "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(Path(medlink.__file__).parents[1])}
    with (
        log.open("a") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment) as run,
    ):
        try:
            assert run.stdout is not None
            url = run.stdout.readline().strip()
            assert url, log.read_text()
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield Running(run, url, client, log)
        finally:
            run.send_signal(end)
            run.wait(60)
