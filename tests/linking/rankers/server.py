"""A server on this machine that speaks the protocol of chat completions, as well or as badly as a test has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Server(ThreadingHTTPServer):
    """What was asked, with its headers, and the one who answers."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.asked = answer, list[tuple[str, dict[str, Any], dict[str, str]]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def questions(self) -> list[dict[str, Any]]:
        """What was said of each mention."""
        return [json.loads(body["messages"][1]["content"]) for _, body, _ in self.asked]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, dict(self.headers)))
        try:
            self.server.answer(self, body)
        except OSError:
            self.close_connection = True  # who asked is gone

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, **headers: str) -> None:
    """An answer of any bytes."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def says(content: object) -> Answer:
    """One that always says the same."""
    data = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
    return lambda handler, _: send(handler, data)


def chooses(choice: Callable[[dict[str, Any]], object]) -> Answer:
    """One that chooses by the question."""

    def answer(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        question = json.loads(body["messages"][1]["content"])
        says(json.dumps({"concept_id": choice(question)}))(handler, body)

    return answer


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """The server, for as long as the block lasts."""
    with Server(answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
