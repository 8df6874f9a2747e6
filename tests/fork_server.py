"""Run ``medlink`` and Python scripts as processes that are forked from one that has imported everything.

A new process spends seconds on imports and on reading the lexicon. The documents run hundreds of commands, so their
shell finds a ``medlink`` of this module first in its ``PATH``: it hands its arguments, environment, folder and standard
streams to the server, which forks a process for them and gives back its exit status. That process runs
:func:`medlink.cli.main.main` or the script, as the installed program would.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

_CLIENT = """\
#!{python} -SE
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    job = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(job).to_bytes(8, "little")], [0, 1, 2])
    server.sendall(job)
    sys.exit(int(server.recv(16) or b"70"))
"""
MODULES = (
    "medlink.cli.cluster medlink.cli.evaluate medlink.cli.impact medlink.cli.index medlink.cli.kb "
    "medlink.cli.learn medlink.cli.lexicon medlink.cli.link medlink.cli.map medlink.cli.review medlink.cli.serve "
    "medlink.cli.train medlink.notes.link medlink.spacy_components.pipeline medlink.index.vectors.flat "
    "medlink.linking.linker medlink.curation.review medlink.service.app"
)
"""Modules that the commands import, of which none needs an extra when it is imported."""


class ForkServer:
    """The server as a process of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._programs: Path | None = None

    def programs(self) -> Path:
        """A folder with the programs ``medlink`` and ``python``, for the front of a ``PATH``."""
        if self._programs is None:
            folder = Path(self._open.enter_context(TemporaryDirectory(prefix="fork-server-")))
            for name in ("medlink", "python"):
                client = folder / name
                client.write_text(_CLIENT.format(python=sys.executable, address=f"{folder}/socket", name=name), "utf-8")
                client.chmod(0o755)
            command = [sys.executable, "-m", "tests.fork_server", f"{folder}/socket"]
            server = self._open.enter_context(
                subprocess.Popen(
                    command,
                    cwd=Path(__file__).parents[1],
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            )
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n"
            self._programs = folder
        return self._programs

    def stop(self) -> None:
        """Close the server's standard input, which ends it, and remove the folder."""
        self._open.close()
        self._programs = None


SERVER = ForkServer()


def _serve(address: str) -> None:
    for module in [*MODULES.split(), "faiss"]:
        import_module(module)
    from medlink import Bundle, Note, NotePipeline
    from medlink.linking.demo import demo_notes
    from tests.demo import cached_demo

    # what this reads of lexicon and languages stays as long as the pipeline; a short note needs more of the detector
    pipeline = NotePipeline(Bundle(cached_demo()))
    pipeline.link([Note(name, text) for name, text in [*demo_notes().items(), ("short", "Fieber")]])
    gc.freeze()
    os.fsync = lambda descriptor: None  # as in all tests
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, b"listening\n")
        while True:
            # standard input ends with the process that began the server
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            client, _ = listening.accept()
            with client:
                if os.fork() == 0:
                    listening.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _run_for(client)


def _run_for(client: socket.socket) -> None:
    """Fork the job, watch it and its client, and exit."""
    head, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as file:
        name, arguments, folder, environment = json.loads(file.read(int.from_bytes(head, "little")))
    job = os.fork()
    if job == 0:
        client.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        # new objects for the new streams: the server's have a position of their own
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        _run(name, arguments)
    for stream in streams:
        os.close(stream)
    watched = os.pidfd_open(job)
    while watched not in select.select([watched, client], [], [])[0]:
        number = client.recv(1)  # none from a client that is gone
        with suppress(ProcessLookupError):
            os.kill(job, number[0] if number else signal.SIGTERM)
        if not number:
            break
    _, status = os.waitpid(job, 0)
    code = os.waitstatus_to_exitcode(status)
    with suppress(OSError):
        client.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _run(name: str, arguments: list[str]) -> None:
    from medlink.cli.main import main

    code = 0
    try:
        if name == "medlink":
            sys.argv = ["medlink", *arguments]
            main()
        else:
            sys.argv = arguments
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        code = 120
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
