"""The server of a review: one page, for this machine alone.

It listens on 127.0.0.1. Every address begins with a random token, which stands in the address that the user is shown
and nowhere else. The ``Host`` header must name this server, so that no other site can point a name of its own here.
What is written must come from the server's own page. Nothing is logged.
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

from medlink.curation.decisions import Changed, Kept
from medlink.curation.review_page import CONCEPT, concept_row
from medlink.errors import ConfigError, MedlinkError
from medlink.language.tags import language_tag
from medlink.linking import Linker, Mention

LOOPBACK = "127.0.0.1"
_FOUND = 20  # concepts that a search gives
_LONGEST = 1 << 28  # bytes of a table that is written
_ASKED = 500  # characters of a search
_WAIT = 30  # seconds that a request may take to arrive
_SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ReviewServer(ThreadingHTTPServer):
    """Serves a page, as UTF-8, the concepts of a bundle, and a table of decisions; port 0 is any free one.

    ``url`` is the address of the page, with the token.

    Raises:
        ConfigError: the port is taken or not allowed.
    """

    daemon_threads = True

    def __init__(self, page: bytes, kept: Kept, linker: Linker, port: int = 0) -> None:
        self.page, self.kept, self._linker = page, kept, linker
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
        """Bind without asking who this machine is, as HTTPServer does: that asks a network."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what was asked for may be words of a note."""

    def concept(self, concept_id: str, language: str) -> dict[str, Any] | None:
        """What the card says of a concept."""
        with self._lock:
            row = concept_row(self._linker.kb, language, concept_id)
        return None if row is None else dict(zip(CONCEPT, row, strict=True))

    def search(self, text: str, language: str) -> list[dict[str, Any]]:
        """Concepts for some words: the one with that id, those that they may mean, those with such names."""
        text, kb = text.strip()[:_ASKED], self._linker.kb
        if not text:
            return []
        with self._lock:
            link = self._linker.link([Mention(text, language_tag(language) or None)], k=_FOUND)[0]
            near = [one.to_dict() for one in link.candidates]
            named = [text] * (text in kb) + [name.concept_id for name in kb.search(text, _FOUND)]
            known = {one["concept_id"]: one for one in near}
            ids = dict.fromkeys([*named, *known])
            shown = kb.preferred_names(ids, language_tag(language) or None)
        plain: dict[str, Any] = {"score": None, "source": "", "name": "", "language": "", "route": "", "same_as": []}
        found = [known.get(one) or {**plain, "concept_id": one, "preferred_name": shown.get(one, one)} for one in ids]
        exact = [one for one in found if one["concept_id"] == text]
        rest = [one for one in found if one["concept_id"] != text]
        # what is near in meaning is as likely as its score says; a name that holds the words comes behind
        return [*exact, *sorted(rest, key=lambda one: -(one["score"] or 0))][:_FOUND]


class _Request(BaseHTTPRequestHandler):
    """One request."""

    server: ReviewServer
    timeout = _WAIT
    server_version, sys_version = "medlink", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing of a request is logged."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._refuse(HTTPStatus(code))

    def do_GET(self) -> None:
        asked = self._asked()
        if asked is None:
            return
        path, query = asked
        answers: dict[str, Callable[[], Any]] = {
            "concept": lambda: self.server.concept(query.get("id", ""), query.get("language", "")),
            "search": lambda: self.server.search(query.get("text", ""), query.get("language", "")),
        }
        if path == "":
            self._answer(self.server.page, "text/html; charset=utf-8")
        elif path == "decisions":
            data, revision = self.server.kept.content()
            self._answer(data, "text/tab-separated-values; charset=utf-8", {"ETag": revision})
        elif path in answers:
            try:
                self._answer(json.dumps(answers[path]()).encode(), "application/json")
            except MedlinkError as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_PUT(self) -> None:
        asked = self._asked()
        if asked is None:
            return
        size = self.headers.get("Content-Length", "")
        if asked[0] != "decisions":
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not size.isdecimal() or int(size) > _LONGEST:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        else:
            data = self.rfile.read(int(size))
            # a table that was cut off on its way must not replace the whole one
            if len(data) < int(size):
                self._refuse(HTTPStatus.BAD_REQUEST)
                return
            try:
                self._answer(b"", "text/plain", {"ETag": self.server.kept.put(data, self.headers.get("If-Match", ""))})
            except Changed as error:
                self._refuse(HTTPStatus.PRECONDITION_FAILED, f"Not saved: {error}")
            except MedlinkError as error:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"Not saved: {error}")

    def _asked(self) -> tuple[str, dict[str, str]] | None:
        """The path after the token, and the query; ``None`` for a request of another page, which is refused."""
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

    def _refuse(self, status: HTTPStatus, said: str = "") -> None:
        self._answer((said or status.phrase).encode(), "text/plain; charset=utf-8", status=status)

    def _answer(
        self, data: bytes, kind: str, headers: dict[str, str] | None = None, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self.send_response(status)
        for name, value in {**_SAFE, "Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
