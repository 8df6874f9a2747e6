"""``medlink serve`` under load, beside ``NotePipeline`` on the same notes.

    python benchmarks/serve.py --work FOLDER

The notes are those of ``notes.py``, the dictionary is HPO in three languages. ``NotePipeline`` links them in batches of
32 in a process of its own, before and after the service; its rates are the means of both. The clients share a process:
each sends one note a request, as soon as it has the answer to the last. Both link 48 notes before the clock starts.
Latency is that of the client. Memory is what is resident after a quarter of the time and at its end. Where other
programs use the processors too, compare kB for each second of the processor.

In the second table the service is killed under the same load and started again on its port. Failed are requests that
were in work; refused are those that were sent while no service listened, and sent again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import click
import httpx
from fit_choice import hpo_bundle
from notes import Timed, chosen

_PIPELINE = """
import json, sys, time
from itertools import cycle, islice
from medlink import Note, NotePipeline

bundle, notes, seconds = sys.argv[1], json.load(open(sys.argv[2])), float(sys.argv[3])
source = cycle([Note(str(at), *note) for at, note in enumerate(notes)])
pipeline = NotePipeline(bundle)
pipeline.link(list(islice(source, 48)))
start, used, done, size = time.perf_counter(), time.process_time(), 0, 0
while time.perf_counter() - start < seconds:
    batch = list(islice(source, 32))
    pipeline.link(batch)
    done, size = done + len(batch), size + sum(len(note.text.encode()) for note in batch)
wall, used = time.perf_counter() - start, time.process_time() - used
print(json.dumps([done / wall, size / wall / 1000, size / used / 1000]))
"""


_WARM = 48  # notes before the clock starts


class Rates(NamedTuple):
    """Notes and kB a second, and kB a second of the processor."""

    notes: float
    size: float
    of_processor: float


class Sent(NamedTuple):
    """An answered request: status, seconds, bytes of its note."""

    status: int
    seconds: float
    size: int


class Load:
    """Clients that send notes all the time; ``failed`` counts requests without an answer."""

    def __init__(self, url: str, notes: Sequence[Timed], clients: int) -> None:
        self._url, self._notes, self._clients = url, cycle(notes), clients
        self.sent: list[Sent] = []
        self.failed = self.refused = 0
        self.stopped = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        # without certificates, which each client would read
        async with httpx.AsyncClient(base_url=self._url, timeout=120, trust_env=False, verify=False) as client:
            while not self.stopped:
                note = next(self._notes)
                body, start = {"notes": [{"text": note.text, "language": note.language}]}, time.perf_counter()
                try:
                    answer = await client.post("/link", json=body)
                except httpx.ConnectError:
                    self.refused += 1
                    await asyncio.sleep(0.2)
                except httpx.TransportError:
                    self.failed += 1
                else:
                    size = len(note.text.encode())
                    self.sent.append(Sent(answer.status_code, time.perf_counter() - start, size))


@contextmanager
def service(bundle: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service and its address; it is killed at the end."""
    command = [sys.executable, "-c", "from medlink.cli.main import main; main()", "serve", str(bundle)]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def memory(process: int) -> float:
    """Resident memory in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1000


def processor(process: int) -> float:
    """Seconds of the processor."""
    cells = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def pipeline(bundle: Path, notes: Path, seconds: float) -> Rates:
    """The rates of NotePipeline."""
    command = [sys.executable, "-c", _PIPELINE, str(bundle), str(notes), str(seconds)]
    return Rates(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


async def measured(load: Load, process: int, seconds: float) -> tuple[Rates, float, float]:
    """The rates of the service, and its memory after a quarter of the time and at its end."""
    running = asyncio.create_task(load.run())
    while len(load.sent) < _WARM:
        await asyncio.sleep(0.1)
    load.sent.clear()
    start, used = time.perf_counter(), processor(process)
    await asyncio.sleep(seconds / 4)
    early = memory(process)
    await asyncio.sleep(3 * seconds / 4)
    late, wall, used = memory(process), time.perf_counter() - start, processor(process) - used
    size = sum(one.size for one in load.sent) / 1000
    rates = Rates(len(load.sent) / wall, size / wall, size / used)
    load.stopped = True
    await running
    return rates, early, late


async def killed(bundle: Path, notes: Sequence[Timed], clients: int) -> Load:
    """Kill the service under load, start it again, and let it answer as many requests as it has clients."""
    with service(bundle) as (process, url):
        load = Load(url, notes, clients)
        running = asyncio.create_task(load.run())
        while len(load.sent) < clients:
            await asyncio.sleep(0.1)
        process.kill()
    before = len(load.sent)
    # in a thread: the clients go on
    started = service(bundle, httpx.URL(url).port or 0)
    await asyncio.to_thread(started.__enter__)
    while len(load.sent) < before + clients:
        await asyncio.sleep(0.1)
    load.stopped = True
    await running
    started.__exit__(None, None, None)
    return load


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("--seconds", default=60.0, show_default=True, help="Time of the load, and of NotePipeline each time.")
@click.option("--clients", default=32, show_default=True, type=click.IntRange(2), help="Clients at a time.")
def main(work: Path, seconds: float, clients: int) -> None:
    """Print the tables."""
    bundle, notes, file = hpo_bundle(work).folder, [note for note in chosen() if not note.warm], work / "serve.json"
    file.write_text(json.dumps([(note.text, note.language) for note in notes]), "utf-8")
    before = pipeline(bundle, file, seconds)
    with service(bundle) as (process, url):
        load = Load(url, notes, clients)
        own, early, late = asyncio.run(measured(load, process.pid, seconds))
    after = pipeline(bundle, file, seconds)
    mean = Rates(*(sum(pair) / 2 for pair in zip(before, after, strict=True)))
    parts = quantiles([one.seconds for one in load.sent], n=100)
    failed = load.failed + load.refused + sum(one.status != 200 for one in load.sent)
    click.echo(f"{clients} clients for {seconds:g} s.\n")
    click.echo(
        "| | notes a second | kB a second | `NotePipeline` = 1 | kB a second of the processor | `NotePipeline` = 1 | "
        "median, s | p99, s | failed | memory, MB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    click.echo(
        f"| `NotePipeline` | {mean.notes:.1f} | {mean.size:.1f} | 1.00 | {mean.of_processor:.1f} | 1.00 | | | | |"
    )
    click.echo(
        f"| `medlink serve` | {own.notes:.1f} | {own.size:.1f} | {own.size / mean.size:.2f} | {own.of_processor:.1f} | "
        f"{own.of_processor / mean.of_processor:.2f} | {parts[49]:.2f} | {parts[98]:.2f} | "
        f"{failed} of {len(load.sent)} | {early:,.0f}, {late:,.0f} |"
    )
    load = asyncio.run(killed(bundle, notes, clients))
    click.echo("\n| killed and started again | answered | failed | refused |\n|---|---:|---:|---:|")
    click.echo(f"| {clients} clients | {len(load.sent)} | {load.failed} | {load.refused} |")


if __name__ == "__main__":
    main()
