"""A PostgreSQL server for the tests, run by a user without rights."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_USER = "nobody"  # the server refuses to run as root


def programs() -> Path | None:
    """The folder of the newest ``initdb`` and ``pg_ctl``; ``None`` if they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    installed = [path.parent for path in found] or [Path(one).parent for one in [shutil.which("initdb")] if one]
    return installed[-1] if installed else None


@contextmanager
def server() -> Iterator[str]:
    """The address of a server; skips or, if one is required, fails."""
    bin_, missing = programs(), ""
    if bin_ is None:
        missing = "PostgreSQL is not installed"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        missing = "psycopg is not installed"
    if missing and os.environ.get("MEDLINK_REQUIRE_POSTGRES"):
        pytest.fail(f"MEDLINK_REQUIRE_POSTGRES is set, and {missing}")
    if missing or bin_ is None:
        pytest.skip(missing)
    is_root = os.geteuid() == 0
    # other users cannot access the folders of pytest, and perhaps not TMPDIR
    with TemporaryDirectory(prefix="medlink-postgres-", dir="/tmp") as folder:
        if is_root:
            shutil.chown(folder, _USER)
        yield from _started(bin_, Path(folder), is_root)


def _started(bin_: Path, folder: Path, is_root: bool) -> Iterator[str]:
    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(name: str, *words: str) -> None:
        # output goes to a file, because the server keeps a pipe open
        with (folder / f"{name}.log").open("ab") as log:
            done = subprocess.run(
                [str(bin_ / name), *words], cwd="/", stdout=log, stderr=log, check=False, timeout=120,
                user=_USER if is_root else None,
            )  # fmt: skip
        assert done.returncode == 0, (folder / f"{name}.log").read_text("utf-8")

    call("initdb", "-D", str(data), "-U", "medlink", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    call("pg_ctl", "-D", str(data), "-l", str(data / "log"), "-w", "-t", "100", "-o", settings, "start")
    try:
        yield f"postgresql://medlink@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
