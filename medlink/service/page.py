"""The page of the service: users write or paste a note, link it, and correct its links.

The page itself is the same for everybody. Its content comes from calls, which need the token if there is one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from medlink.curation.decisions import DecisionStore
from medlink.curation.note_page import PAGE_FILES, note_page_data
from medlink.curation.page import iter_page
from medlink.kb.decision_table import ACCEPT, MENTION, Decision, collapse_whitespace
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.service.bundles import OpenBundle, ServedBundle
from medlink.service.models import DecisionRequest, PageRequest, parse_request
from medlink.web.guard import Refusal, result_of

_FILES = (
    "serve/ask.html",
    "review/concept-dialog.html",
    *PAGE_FILES,
    "review/dialog.css",
    "serve/style.css",
    "review/dialog.js",
    "serve/page.js",
)
_OPTIONS = {"values": True}


class ServicePage:
    """The routes of the page.

    Args:
        bundle: returns a bundle by its name.
        place: reserves one of the limited places for requests.
        store: the store of corrections; without it, the page accepts none.
    """

    def __init__(
        self,
        bundle: Callable[[str | None], tuple[ServedBundle, OpenBundle]],
        place: Callable[[], AbstractContextManager[None]],
        store: DecisionStore | None,
    ) -> None:
        self._bundle, self._place, self._store = bundle, place, store
        self.routes = [
            Route("/", self._show),
            Route("/page", self._link, methods=["POST"]),
            Route("/decisions", self._decide, methods=["POST"]),
        ]

    @cached_property
    def _page(self) -> bytes:
        return "".join(iter_page(_FILES, "medlink", ["{}"], served=True)).encode()

    async def _show(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def _link(self, request: Request) -> Response:
        with self._place():
            wanted = parse_request(PageRequest, await request.body())
            bundle, state = self._bundle(wanted.bundle)
            item = f"note-{hashlib.sha256(wanted.text.encode()).hexdigest()[:16]}"
            pipeline = await asyncio.wrap_future(bundle.call(state.pipeline, _OPTIONS))
            submitted = bundle.queue.submit(pipeline, [Note(item, wanted.text, wanted.language)], _page_data)
            (data,) = await result_of(request, submitted)
            rows = [] if self._store is None else await run_in_threadpool(self._store.find, item)
        decided = [
            {"start": row.start, "end": row.end, "decision": row.decision, "concept_id": row.concept_id} for row in rows
        ]
        content = f'{{"item": "{item}", "decisions": {json.dumps(decided)}, "data": {data}}}'
        return Response(content, media_type="application/json")

    async def _decide(self, request: Request) -> Response:
        if self._store is None:
            raise Refusal(422, "There is no table of decisions: start the service with --decisions.")
        with self._place():
            wanted = parse_request(DecisionRequest, await request.body())
            concept_id = wanted.concept_id if wanted.decision == ACCEPT else ""
            bundle, state = self._bundle(wanted.bundle)
            if concept_id and not await result_of(request, bundle.call(state.bundle.kb.__contains__, concept_id)):
                raise Refusal(422, "The bundle has no concept with this id.")
            row = Decision(
                concept_id, collapse_whitespace(wanted.name), wanted.language, False, "", wanted.decision, 0,
                MENTION, wanted.item, wanted.start, wanted.end, wanted.section, wanted.proposed,
            )  # fmt: skip
            await run_in_threadpool(self._store.decide, row)
        return JSONResponse({})


def _page_data(pipeline: NotePipeline, linked: LinkedNote) -> str:
    return "".join(note_page_data([linked], pipeline.bundle.kb))
