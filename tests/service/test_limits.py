"""Whom ``medlink serve`` answers, how much it takes, and what it writes of requests."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from medlink.errors import ConfigError
from medlink.linking.demo import demo_notes
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.service.app import Service
from medlink.service.options import ServeOptions
from medlink.service.queue import LinkQueue

from .running import Running, serving

pytestmark = pytest.mark.slow
SECRET = "4711-a-token-of-the-tests"
LONG = [{"text": text * 12} for text in demo_notes().values()] * 2
"""Notes that take two seconds."""


def test_other_sites_and_names_are_refused(service: Running) -> None:
    host = service.url.removeprefix("http://").rstrip("/")
    port = host.rpartition(":")[2]
    for headers, status in (
        ({"Host": host}, 200), ({"Host": f"localhost:{port}"}, 200), ({"Origin": f"http://{host}"}, 200),
        ({"Host": "evil.example"}, 403), ({"Host": f"evil.example:{port}"}, 403), ({"Host": "127.0.0.1:1"}, 403),
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Host": f"localhost:{port}", "Origin": f"http://{host}"}, 403),
    ):  # fmt: skip
        answer = service.client.get("/info", headers=headers)
        assert answer.status_code == status, headers
        assert answer.headers["Content-Security-Policy"].startswith("frame-ancestors 'none'")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers


def test_a_token_is_needed_beyond_this_machine(demo_path: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    for content, message in (
        ("", "the token cannot be read"),
        ("short", "is not a word of 16"),
        ("a b" * 9, "not a w"),
    ):
        if content:
            token.write_text(content)
        with pytest.raises(ConfigError, match=message):
            Service([str(demo_path)], ServeOptions(token=str(token), port=0))
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0 can be reached from other machines, and there is no token"):
        Service([str(demo_path)], ServeOptions(host="0.0.0.0", port=0))
    token.write_text(f"{SECRET}\n")
    with serving(
        tmp_path, demo_path, "--host", "0.0.0.0", "--token", token, "--allow-host", "links.example"
    ) as running:
        port = running.url.rstrip("/").rpartition(":")[2]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            for host, given, path, status in (
                ("links.example", SECRET, "/info", 200), (f"links.example:{port}", SECRET, "/info", 200),
                (f"127.0.0.1:{port}", SECRET, "/info", 403), ("links.example", "", "/health", 200),
                ("links.example", "", "/openapi.json", 200), ("links.example", "", "/info", 401),
                ("links.example", f"{SECRET}x", "/info", 401), ("links.example", "", "/search?text=x", 401),
            ):  # fmt: skip
                headers = {"Host": host, **({"Authorization": f"Bearer {given}"} if given else {})}
                assert client.get(path, headers=headers).status_code == status, (host, given, path)
            refused = client.post("/link", json={}, headers={"Host": "links.example"})
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert running.refusal(refused)[1] == "The token is missing or wrong: send it as 'Authorization: Bearer TOKEN'."


def test_large_requests_and_those_beyond_the_queue(demo_path: Path, tmp_path: Path) -> None:
    with serving(tmp_path, demo_path, "--max-bytes", 500_000, "--queue", 1) as running:
        client, body = running.client, b" " * 600_000
        for content in (body, iter([body])):  # with and without a stated size
            answer = client.post("/link", content=content)
            assert running.refusal(answer) == (413, "The body is larger than 500,000 bytes: send less in one request.")
        with ThreadPoolExecutor() as pool:
            first = pool.submit(httpx.post, f"{running.url}link", json={"notes": LONG}, timeout=60, trust_env=False)
            time.sleep(0.5)
            refused = running.post("/link", notes=[{"text": "fever"}])
            assert client.get("/health").status_code == 200
            assert first.result().status_code == 200
        assert running.refusal(refused) == (503, "1 requests are in progress: try again later.")
        assert refused.headers["Retry-After"] == "1"
        assert running.post("/link", notes=[{"text": "fever"}]).status_code == 200


def test_slow_requests(demo_path: Path, tmp_path: Path) -> None:
    """One that takes long to link, and one whose body does not arrive."""
    with serving(tmp_path, demo_path, "--timeout", 1) as running:
        sentence = "The request took longer than 1 s: send less in one request, or try again."
        assert running.refusal(running.post("/link", notes=LONG)) == (503, sentence)
        end = time.monotonic() + 30  # the notes in work are linked first, the others are dropped
        while running.post("/link", notes=[{"text": "fever"}]).status_code != 200:
            assert time.monotonic() < end
        host, _, port = running.url.removeprefix("http://").rstrip("/").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            head = f"POST /link HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 100\r\n\r\n{{"
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_nothing_is_linked_for_a_client_that_left(demo_path: Path, tmp_path: Path) -> None:
    with serving(tmp_path, demo_path, "--queue", 1) as running:
        start = time.monotonic()
        assert running.post("/link", notes=LONG).status_code == 200
        whole = time.monotonic() - start
        with pytest.raises(httpx.ReadTimeout):
            running.client.post("/link", json={"notes": LONG}, timeout=0.2)
        start = time.monotonic()
        while running.post("/link", notes=[{"text": "fever"}]).status_code != 200:
            time.sleep(0.05)
        # one batch of its notes was in work
        assert time.monotonic() - start < 0.8 * whole


def test_no_word_of_a_request_is_logged(demo_path: Path, tmp_path: Path) -> None:
    marker = "Geheimnisfieber"
    with serving(tmp_path, demo_path) as running:
        client = running.client
        running.post("/link", notes=[{"text": f"{marker} seit Tagen", "id": marker}], bundle=marker)
        running.post("/link", notes=[{"text": f"{marker} seit Tagen", "id": marker}], format="fhir")
        running.post("/link", **{marker: marker}, notes=marker)
        running.post("/mentions", mentions=[{"text": marker}])
        for path in (f"/search?text={marker}", f"/concepts/{marker}", f"/{marker}", f"/info?{marker}={marker}"):
            client.get(path, headers={"User-Agent": marker, "Referer": marker})
        client.request(marker.upper()[:8], "/info")
        host, _, port = running.url.removeprefix("http://").rstrip("/").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(f"{marker}\r\n\r\n".encode())  # no HTTP at all
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    lines = running.log.read_text().splitlines()
    assert not [line for line in lines if marker.lower() in line.lower()]
    words = [line.split()[2:5] for line in lines]
    assert words[:2] == [["POST", "/link", "422"], ["POST", "/link", "200"]]
    assert words[3:8] == [
        ["POST", "/mentions", "200"], ["GET", "/search", "200"], ["GET", "/concepts/{concept_id}", "404"],
        ["GET", "-", "404"], ["GET", "/info", "200"],
    ]  # fmt: skip


def test_a_note_that_fails_is_no_problem_of_others(demo_path: Path) -> None:
    pipeline, queue = NotePipeline(demo_path), LinkQueue()

    def render(pipeline: NotePipeline, linked: LinkedNote) -> int:
        if linked.note.text == "fail":
            raise ValueError(linked.note.text)
        return len(linked.mentions)

    def submit(*texts: str) -> Any:
        return queue.submit(pipeline, [Note("", text, "en") for text in texts], render)

    waiting = submit("fever and cough " * 500)  # the others wait, and are linked together
    futures = [submit("fever"), submit("fever", "fail", "cough"), submit(*["cough"] * 40, "fever and cough")]
    cancelled = submit("fever" * 1000)
    assert cancelled.cancel()
    assert queue.call(lambda: 7).result() == 7
    assert isinstance(queue.call(lambda: 1 // 0).exception(), ZeroDivisionError)
    assert waiting.result() == [1000]
    assert futures[0].result() == [1]
    assert str(futures[1].exception()) == "fail"
    assert futures[2].result() == [1] * 40 + [2]
    queue.close()
