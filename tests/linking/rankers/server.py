"""A local server of the chat completions protocol, with arbitrary answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Server(ThreadingHTTPServer):
    """Records requests: path, body and headers."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.requests = answer, list[tuple[str, dict[str, Any], dict[str, str]]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def questions(self) -> list[dict[str, Any]]:
        """The data of each request."""
        return [json.loads(body["messages"][1]["content"]) for _, body, _ in self.requests]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, dict(self.headers)))
        try:
            self.server.answer(self, body)
        except OSError:
            self.close_connection = True  # the client is gone

    def log_message(self, *_: Any) -> None:
        """Silence."""


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, **headers: str) -> None:
    """Send any bytes."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def says(content: object) -> Answer:
    """Always the same content."""
    data = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
    return lambda handler, _: send(handler, data)


def chooses(choice: Callable[[dict[str, Any]], object]) -> Answer:
    """Chooses a concept by the question."""

    def answer(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        question = json.loads(body["messages"][1]["content"])
        says(json.dumps({"concept_id": choice(question)}))(handler, body)

    return answer


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """Run the server during a block."""
    with Server(answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
