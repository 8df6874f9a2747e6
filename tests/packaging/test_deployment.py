"""The Dockerfile and the compose file: what they promise, and their commands in a fresh environment."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import medlink

ROOT = Path(medlink.__file__).parents[1]
TOKEN = "4711-a-token-of-the-tests"


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, with their arguments."""
    found: list[list[tuple[str, str]]] = []
    for line in (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, given = line.partition(" ")
            if name == "FROM":
                found.append([])
            found[-1].append((name, given))
    return found


def words(stage: list[tuple[str, str]], name: str) -> list[str]:
    """The words of an instruction in JSON, such as CMD."""
    (given,) = [given for instruction, given in stage if instruction == name]
    listed: list[str] = json.loads(given.removeprefix("CMD "))
    return listed


def compose() -> dict[str, Any]:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    assert list(services) == ["medlink"]
    service: dict[str, Any] = services["medlink"]
    return service


def test_the_container_can_do_little() -> None:
    build, final = stages()
    assert build[0][1].endswith(" AS build")
    # the second stage runs nothing as root
    assert [name for name, _ in final] == ["FROM", "COPY", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"]
    assert int(dict(final)["USER"].partition(":")[0]) > 0
    service = compose()
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["ro"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["command"][: len(words(final, "CMD"))] == words(final, "CMD")


@pytest.mark.slow
def test_its_commands_run_in_a_fresh_environment(demo_path: Path, tmp_path: Path) -> None:
    """Libraries are those of this environment, which pip finds there; medlink is built and installed anew."""
    build, final = stages()
    source, opt, token = tmp_path / "source", tmp_path / "opt", tmp_path / "token"
    source.mkdir()
    token.write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    own = {"/opt/medlink": str(opt), "/bundle": str(demo_path), "/run/secrets/token": str(token), "8000": port}

    def here(text: str) -> str:
        for place, path in own.items():
            text = text.replace(place, path)
        return text.replace("${MEDLINK_HOST:-localhost}", "links.example").replace("0.0.0.0", "127.0.0.1")

    # to pip, 0 means that it builds without isolation, with the setuptools of this environment
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib"), "PIP_NO_BUILD_ISOLATION": "0"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name, given in build:
        if name == "COPY":
            *copied, target = given.split()
            for path in copied:
                if (ROOT / path).is_dir():
                    shutil.copytree(ROOT / path, source / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / path, source / target)
        elif name == "RUN":
            done = subprocess.run(
                shlex.split(here(given)), cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    shutil.rmtree(source)

    assert [name for name, _ in final[:4]] == ["FROM", "COPY", "ENV", "USER"]
    started = {**environment, "PATH": f"{opt}/bin{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent"}
    before = sorted(path.name for path in demo_path.rglob("*"))
    command = [here(word) for word in (*words(final, "ENTRYPOINT"), *compose()["command"])]
    health = [here(word) for word in words(final, "HEALTHCHECK")]
    place = tmp_path / "empty"
    place.mkdir()
    with subprocess.Popen([f"{opt}/bin/{command[0]}", *command[1:]], cwd=place, env=started) as service:
        try:
            end = time.monotonic() + 60
            while subprocess.run(health, env=started, capture_output=True, check=False).returncode:
                assert service.poll() is None
                assert time.monotonic() < end
                time.sleep(0.5)
            headers = {"Authorization": f"Bearer {TOKEN}", "Host": "links.example"}
            answer = httpx.get(f"http://127.0.0.1:{port}/info", headers=headers, trust_env=False)
            assert answer.json()["bundles"][0]["name"] == demo_path.name
        finally:
            service.send_signal(signal.SIGTERM)
    # it needs no place to write
    assert sorted(path.name for path in demo_path.rglob("*")) == before
    assert not list(place.iterdir())
