"""A server with routes of the tests: refusals, errors, and connections that do not get on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from medlink.errors import BundleError, ConfigError
from medlink.web.guard import Guard
from medlink.web.server import WebServer, is_loopback

SECRET = "words of a note"


async def crash(request: Request) -> Response:
    raise ValueError(f"{SECRET} {request.query_params['q']}")


async def refuse(request: Request) -> Response:
    raise ConfigError("k is 0", path=SECRET, remedy="leave k out")


async def damaged(request: Request) -> Response:
    raise BundleError("a file of the bundle is damaged", path=SECRET)


async def read(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


ROUTES = [Route("/crash", crash), Route("/refuse", refuse), Route("/damaged", damaged)]
ROUTES += [Route("/read/{name:path}", read, methods=["POST"])]


@contextmanager
def serving(**options: Any) -> Iterator[WebServer]:
    with WebServer() as server:
        server.app = Guard(ROUTES, [server.host], **{"max_bytes": 1000, "seconds": 5, **options})
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_errors_say_nothing_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    logged: list[tuple[Any, ...]] = []
    with serving(log=lambda *given: logged.append(given[:3])) as server:
        answers = [
            httpx.get(f"http://{server.host}/{path}", trust_env=False) for path in ("crash?q=x", "refuse", "damaged")
        ]
        found = httpx.post(f"http://{server.host}/read/{SECRET}", content=b"x" * 1000, trust_env=False)
    problems = [answer.json() for answer in answers]
    crashed = problems[0].pop("detail")
    assert crashed.startswith("unexpected ValueError at test_guard.py:")
    assert problems == [
        {"title": "Internal Server Error", "status": 500},
        {"title": "Unprocessable Content", "status": 422, "detail": "k is 0: leave k out."},
        {"title": "Service Unavailable", "status": 503, "detail": "a file of the bundle is damaged."},
    ]
    assert found.text == "1000"
    assert caplog.messages == [crashed]
    assert logged == [
        ("GET", "/crash", 500), ("GET", "/refuse", 422), ("GET", "/damaged", 503), ("POST", "/read/{name}", 200),
    ]  # fmt: skip


def send_slowly(connection: socket.socket) -> None:
    for _ in range(100):
        connection.sendall(b"G")
        time.sleep(0.05)


@pytest.mark.slow
def test_connections_that_do_not_get_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes letter by letter, one without end, and a body that is longer than the connection."""
    monkeypatch.setattr("medlink.web.server._SECONDS_TO_BEGIN", 0.5)
    with serving(seconds=0.5) as server:
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address, timeout=10) as connection, pytest.raises(ConnectionError):
            send_slowly(connection)
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000)
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        head = f"POST /read/x HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 500\r\n\r\n".encode()
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(head + b"x")
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(head + b"x" * 500)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_addresses(tmp_path: Path) -> None:
    assert [is_loopback(one) for one in ("127.8.9.1", "::1", "192.0.2.1", "::", "links.example")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    with WebServer("127.0.0.2") as server:
        assert server.host == f"127.0.0.2:{server.port}"
        with pytest.raises(ConfigError, match=f"port {server.port} of 127.0.0.2 cannot be used: "):
            WebServer("127.0.0.2", server.port)
    with pytest.raises(ConfigError, match=r"port 0 of 192\.0\.2\.1 cannot be used: .*Remedy: name an address of this"):
        WebServer("192.0.2.1")
