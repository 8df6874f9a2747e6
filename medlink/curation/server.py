"""The server of a review: one page, for this machine only.

It listens on 127.0.0.1. Every path begins with a random token, which only the URL for the user contains. Nothing is
logged.
"""

from __future__ import annotations

import secrets

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from medlink.curation.concepts import concept_card, search_concepts
from medlink.curation.decisions import DecisionsChangedError, DecisionStore
from medlink.errors import MedlinkError
from medlink.linking import Linker
from medlink.web.guard import Guard, Refusal
from medlink.web.server import WebServer

_MAX_BYTES = 1 << 28  # of a table
_TIMEOUT = 30  # seconds for a request


class ReviewServer(WebServer):
    """Serve a page (UTF-8), the concepts of a bundle, and a table of decisions; port 0 is any free port.

    ``url`` is the address of the page, with the token.

    Raises:
        ConfigError: the port is taken or not allowed.
    """

    def __init__(self, page: bytes, store: DecisionStore, linker: Linker, port: int = 0) -> None:
        super().__init__(port=port)
        self.page, self.store, self._linker = page, store, linker
        self.token = secrets.token_urlsafe(24)
        self.url = f"http://{self.host}/{self.token}/"
        routes = [
            Route("/", lambda request: Response(self.page, media_type="text/html")),
            Route("/concept", self._concept), Route("/search", self._search),
            Route("/decisions", self._decisions), Route("/decisions", self._save, methods=["PUT"]),
        ]  # fmt: skip
        self.app = Guard(
            routes, [self.host], token=self.token, token_in_path=True, max_bytes=_MAX_BYTES, seconds=_TIMEOUT
        )

    # Starlette runs what is not async in a thread

    def _concept(self, request: Request) -> Response:
        language, concept_id = (request.query_params.get(name, "") for name in ("language", "id"))
        return JSONResponse(concept_card(self._linker.kb, language, concept_id))

    def _search(self, request: Request) -> Response:
        text, language = (request.query_params.get(name, "") for name in ("text", "language"))
        return JSONResponse(search_concepts(self._linker, text, language))

    def _decisions(self, request: Request) -> Response:
        data, revision = self.store.read()
        return Response(data, media_type="text/tab-separated-values", headers={"ETag": revision})

    async def _save(self, request: Request) -> Response:
        data = await request.body()
        try:
            revision = await run_in_threadpool(self.store.write, data, request.headers.get("If-Match", ""))
        except DecisionsChangedError as error:
            raise Refusal(412, f"Not saved: {error}") from None
        except MedlinkError as error:
            raise Refusal(500, f"Not saved: {error}") from None
        return Response(headers={"ETag": revision})
