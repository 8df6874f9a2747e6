"""The server of a review: one page, for this machine only.

It listens on 127.0.0.1. Every path begins with a random token, which only the URL for the user contains. The ``Host``
header must name this server, against DNS rebinding. Writes must come from the server's own page. Nothing is logged.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from medlink.curation.decisions import DecisionsChangedError, DecisionStore
from medlink.curation.review_page import CONCEPT, concept_row
from medlink.errors import ConfigError, MedlinkError
from medlink.language.tags import language_tag
from medlink.linking import Linker, Mention

LOOPBACK = "127.0.0.1"
_MAX_HITS = 20
_MAX_BYTES = 1 << 28  # of a table
_MAX_QUERY = 500  # characters
_TIMEOUT = 30  # seconds for a request to arrive
_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ReviewServer(ThreadingHTTPServer):
    """Serve a page (UTF-8), the concepts of a bundle, and a table of decisions; port 0 is any free port.

    ``url`` is the address of the page, with the token.

    Raises:
        ConfigError: the port is taken or not allowed.
    """

    daemon_threads = True

    def __init__(self, page: bytes, store: DecisionStore, linker: Linker, port: int = 0) -> None:
        self.page, self.store, self._linker = page, store, linker
        self.token = secrets.token_urlsafe(24)
        self._lock = Lock()
        try:
            super().__init__((LOOPBACK, port), _Request)
        except OSError as error:
            remedy = "name another port, or leave port out"
            raise ConfigError(f"port {port} cannot be used: {error.strerror or error}", remedy=remedy) from error
        self.host = f"{LOOPBACK}:{self.server_address[1]}"
        self.url = f"http://{self.host}/{self.token}/"

    def server_bind(self) -> None:
        """Bind without the DNS query of HTTPServer."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a request may contain words of a note."""

    def concept(self, concept_id: str, language: str) -> dict[str, Any] | None:
        """Return a concept for its card."""
        with self._lock:
            row = concept_row(self._linker.kb, language, concept_id)
        return None if row is None else dict(zip(CONCEPT, row, strict=True))

    def search(self, text: str, language: str) -> list[dict[str, Any]]:
        """Find concepts by id, by linking the text, and by names that contain its words."""
        text, kb = text.strip()[:_MAX_QUERY], self._linker.kb
        if not text:
            return []
        with self._lock:
            link = self._linker.link([Mention(text, language_tag(language) or None)], k=_MAX_HITS)[0]
            linked = {candidate.concept_id: candidate.to_dict() for candidate in link.candidates}
            named = [text] * (text in kb) + [name.concept_id for name in kb.search(text, _MAX_HITS)]
            ids = dict.fromkeys([*named, *linked])
            names = kb.preferred_names(ids, language_tag(language) or None)
        empty: dict[str, Any] = {"score": None, "source": "", "name": "", "language": "", "route": "", "same_as": []}
        hits = [linked.get(id_) or {**empty, "concept_id": id_, "preferred_name": names.get(id_, id_)} for id_ in ids]
        # the exact id first, then linked concepts by score, then other names
        return sorted(hits, key=lambda hit: (hit["concept_id"] != text, -(hit["score"] or 0)))[:_MAX_HITS]


class _Request(BaseHTTPRequestHandler):
    server: ReviewServer
    timeout = _TIMEOUT
    server_version, sys_version = "medlink", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing of a request."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._refuse(HTTPStatus(code))

    def do_GET(self) -> None:
        request = self._authorize()
        if request is None:
            return
        path, query = request
        answers: dict[str, Callable[[], Any]] = {
            "concept": lambda: self.server.concept(query.get("id", ""), query.get("language", "")),
            "search": lambda: self.server.search(query.get("text", ""), query.get("language", "")),
        }
        if path == "":
            self._answer(self.server.page, "text/html; charset=utf-8")
        elif path == "decisions":
            data, revision = self.server.store.read()
            self._answer(data, "text/tab-separated-values; charset=utf-8", {"ETag": revision})
        elif path in answers:
            try:
                self._answer(json.dumps(answers[path]()).encode(), "application/json")
            except MedlinkError as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_PUT(self) -> None:
        request = self._authorize()
        if request is None:
            return
        size = self.headers.get("Content-Length", "")
        if request[0] != "decisions":
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not size.isdecimal() or int(size) > _MAX_BYTES:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        else:
            data = self.rfile.read(int(size))
            # a truncated table must not replace the complete one
            if len(data) < int(size):
                self._refuse(HTTPStatus.BAD_REQUEST)
                return
            try:
                self._answer(
                    b"", "text/plain", {"ETag": self.server.store.write(data, self.headers.get("If-Match", ""))}
                )
            except DecisionsChangedError as error:
                self._refuse(HTTPStatus.PRECONDITION_FAILED, f"Not saved: {error}")
            except MedlinkError as error:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"Not saved: {error}")

    def _authorize(self) -> tuple[str, dict[str, str]] | None:
        """Return the path after the token, and the query; refuse requests of other pages, with ``None``."""
        parts = urlsplit(self.path)
        _, token, *path = parts.path.split("/")
        origin = self.headers.get("Origin")
        if self.headers.get("Host") != self.server.host or origin not in (None, f"http://{self.server.host}"):
            self._refuse(HTTPStatus.FORBIDDEN)
        elif not path or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            return "/".join(path), {name: values[0] for name, values in parse_qs(parts.query).items()}
        return None

    def _refuse(self, status: HTTPStatus, message: str = "") -> None:
        self._answer((message or status.phrase).encode(), "text/plain; charset=utf-8", status=status)

    def _answer(
        self, data: bytes, kind: str, headers: dict[str, str] | None = None, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self.send_response(status)
        for name, value in {
            **_SECURITY_HEADERS,
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
