"""The HTTP service: its routes, and the server that runs it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from medlink import __version__
from medlink.curation.concepts import MAX_HITS, search_concepts
from medlink.curation.decisions import DecisionStore
from medlink.curation.note_page import PAGE_FILES, note_page_data
from medlink.curation.page import iter_page
from medlink.errors import ConfigError
from medlink.kb.decision_table import ACCEPT, MENTION, Decision, collapse_whitespace
from medlink.kb.formatting import concept_to_dict
from medlink.language.tags import named_tag
from medlink.linking import Mention
from medlink.notes.options import NoteOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Fields, Note, is_english, parse_row
from medlink.notes.writers import JsonLinesWriter, TextWriter
from medlink.notes.writers.base import note_name
from medlink.notes.writers.fhir import FhirWriter
from medlink.service.bundles import OpenBundle, ServedBundle, open_bundles
from medlink.service.models import DecisionRequest, LinkRequest, MentionsRequest, PageRequest, openapi, parse_request
from medlink.service.options import PER_REQUEST, ServeOptions
from medlink.web.guard import Guard, Refusal, result_of
from medlink.web.server import WebServer, is_loopback

_MAX_HITS = 100
_DEPTH = 8  # levels of the concepts above a concept
_PUBLIC = ("/", "/health", "/openapi.json")
_MIN_TOKEN = 16  # characters
_PAGE_FILES = (
    "serve/ask.html", "review/concept-dialog.html", *PAGE_FILES, "review/dialog.css", "serve/style.css",
    "review/dialog.js", "serve/page.js",
)  # fmt: skip
access = logging.getLogger("medlink.access")


class Service(WebServer):
    """Serve bundles over HTTP: ``/link``, ``/mentions``, ``/search``, ``/concepts/ID``, ``/info``, ``/health``; a page.

    The page is the same for everybody; its content comes from ``/page``, which needs the token if there is one. The
    logger ``medlink.access`` logs only the method, route, status and milliseconds of each request.

    Args:
        bundles: folders of bundles, or ``NAME=FOLDER``. Requests that name no bundle use the first.
        serve: options of the service.
        options: fields of :class:`~medlink.notes.options.NoteOptions` for requests that do not set them.

    Raises:
        ConfigError: an option is out of range, two bundles have one name, the token is missing or too short, or the
            address cannot be used.
        BundleError: a bundle is missing or damaged.
    """

    def __init__(self, bundles: Sequence[str], serve: ServeOptions | None = None, **options: Any) -> None:
        self.options, self._linking = serve or ServeOptions(), NoteOptions(**options)
        token = _read_token(self.options)
        super().__init__(self.options.host, self.options.port)
        self._active = 0
        try:
            self._store = None if self.options.decisions is None else DecisionStore(self.options.decisions)
            self._bundles = open_bundles(bundles, self._linking)
        except BaseException:
            self._socket.close()
            raise
        own = {self.host, f"localhost:{self.port}"} if is_loopback(self.options.host) else {self.host}
        post = {"/link": self._link, "/mentions": self._mentions, "/page": self._link_page, "/decisions": self._decide}
        get = {
            "/": self._page, "/search": self._search, "/concepts/{concept_id:path}": self._concept,
            "/info": self._info, "/health": self._health, "/openapi.json": self._openapi,
        }  # fmt: skip
        self.app = Guard(
            [Route(path, call, methods=["POST"]) for path, call in post.items()] + list(map(Route, get, get.values())),
            own | set(self.options.allow_host), token=token, public=_PUBLIC, max_bytes=self.options.max_bytes,
            seconds=self.options.timeout, log=_log,
        )  # fmt: skip
        self.url = f"http://{self.host}/"

    def __exit__(self, *error: Any) -> None:
        for bundle in self._bundles.values():
            bundle.close()
        super().__exit__(*error)

    async def _link(self, request: Request) -> Response:
        with self._place():
            wanted = parse_request(LinkRequest, await request.body())
            bundle, state = self._bundle(wanted.bundle)
            language = wanted.options.get("language", self._linking.language)
            fields = Fields(date="date", day_first=bool(language and not is_english(language)))
            notes = [parse_row(note.model_dump(), str(number), fields) for number, note in enumerate(wanted.notes, 1)]
            pipeline = await _pipeline(bundle, state, wanted.options)
            render = {"json": _note_json, "jsonl": _lines(JsonLinesWriter), "fhir": _lines(FhirWriter)}[wanted.format]
            found: list[str] = await result_of(request, bundle.queue.submit(pipeline, notes, render))
        if wanted.format == "json":
            content = f'{{"bundle": {json.dumps(state.hash)}, "notes": [{", ".join(found)}]}}'
            return Response(content, media_type="application/json")
        media = {"jsonl": "application/x-ndjson", "fhir": "application/fhir+ndjson"}[wanted.format]
        return Response("".join(found), media_type=media)

    async def _mentions(self, request: Request) -> Response:
        with self._place():
            wanted = parse_request(MentionsRequest, await request.body())
            bundle, state = self._bundle(wanted.bundle)
            pipeline = await _pipeline(bundle, state, wanted.options)
            mentions = [Mention(one.text, one.language or pipeline.options.language) for one in wanted.mentions]
            contexts = [one.context for one in wanted.mentions]
            call = partial(pipeline.linker.link, mentions, contexts if any(contexts) else None)
            links = [link.to_dict() for link in await result_of(request, bundle.queue.call(call))]
        return JSONResponse({"bundle": state.hash, "mentions": links})

    async def _search(self, request: Request) -> Response:
        query = request.query_params
        if not query.get("text", "").strip():
            raise Refusal(422, "There is nothing to search: give text.")
        limit = query.get("limit", str(MAX_HITS))
        if not limit.isdecimal() or not 1 <= int(limit) <= _MAX_HITS:
            raise Refusal(422, f"limit is a number from 1 to {_MAX_HITS}.")
        with self._place():
            bundle, state = self._bundle(query.get("bundle"))
            language = _language(request) or ""
            search = bundle.call(search_concepts, state.linker, query["text"], language, int(limit))
            found = await result_of(request, search)
        return JSONResponse({"concepts": found})

    async def _concept(self, request: Request) -> Response:
        with self._place():
            bundle, state = self._bundle(request.query_params.get("bundle"))
            kb, language = state.bundle.kb, _language(request)

            def describe() -> dict[str, Any] | None:
                view = kb.get(request.path_params["concept_id"])
                return None if view is None else concept_to_dict(kb, view, language, _DEPTH)

            found = await result_of(request, bundle.call(describe))
        if found is None:
            raise Refusal(404, "The bundle has no concept with this id.")
        return JSONResponse(found)

    async def _page(self, request: Request) -> Response:
        return Response(_read_page(), media_type="text/html")

    async def _link_page(self, request: Request) -> Response:
        with self._place():
            wanted = parse_request(PageRequest, await request.body())
            bundle, state = self._bundle(wanted.bundle)
            item = f"note-{hashlib.sha256(wanted.text.encode()).hexdigest()[:16]}"
            pipeline = await _pipeline(bundle, state, {"values": True})
            note = Note(item, wanted.text, wanted.language)
            (data,) = await result_of(request, bundle.queue.submit(pipeline, [note], _page_data))
            rows = [] if self._store is None else await run_in_threadpool(self._store.find, item)
        decided = [{name: getattr(row, name) for name in ("start", "end", "decision", "concept_id")} for row in rows]
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

    async def _info(self, request: Request) -> Response:
        linking, own = self._linking.to_dict(), self.options
        served = [
            {
                "name": name, "hash": bundle.now.hash, "languages": sorted(bundle.now.bundle.index.languages),
                "versions": bundle.now.pipeline({}).versions,
            }
            for name, bundle in self._bundles.items()
        ]  # fmt: skip
        return JSONResponse(
            {
                "medlink": __version__, "decisions": self._store is not None, "bundles": served,
                "options": {name: linking[name] for name in PER_REQUEST},
                "limits": {"bytes": own.max_bytes, "seconds": own.timeout, "requests": own.queue},
            }
        )  # fmt: skip

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi())

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Reserve one of the places for requests, or refuse the request before reading its body."""
        if self._active >= self.options.queue:
            raise Refusal(503, f"{self._active} requests are in progress: try again later.", {"Retry-After": "1"})
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def _bundle(self, name: str | None) -> tuple[ServedBundle, OpenBundle]:
        bundle = next(iter(self._bundles.values())) if name is None else self._bundles.get(name)
        if bundle is None:
            known = ", ".join(map(repr, self._bundles))
            raise Refusal(422, f"There is no bundle of this name: one of {known} is expected.")
        return bundle, bundle.now


def _log(method: str, route: str, status: int, seconds: float) -> None:
    access.info("%s %s %d %.0f ms", method, route, status, 1000 * seconds)


def _read_token(options: ServeOptions) -> str | None:
    """Read the token from its file; an address that other machines can reach needs a token."""
    if options.token is None:
        if is_loopback(options.host):
            return None
        message = f"{options.host} can be reached from other machines, and there is no token"
        raise ConfigError(message, remedy="name a file with one by token=..., or listen on 127.0.0.1")
    try:
        token = Path(options.token).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("the token cannot be read", path=options.token, remedy="name a file with one line") from error
    if len(token) < _MIN_TOKEN or not token.isascii() or len(token.split()) > 1:
        message, remedy = f"the token is not a word of {_MIN_TOKEN} or more ASCII characters", "draw one at random"
        raise ConfigError(message, path=options.token, remedy=remedy)
    return token


def _language(request: Request) -> str | None:
    given = request.query_params.get("language")
    return named_tag(given) if given else None


async def _pipeline(bundle: ServedBundle, state: OpenBundle, given: dict[str, Any]) -> NotePipeline:
    """Return the pipeline of a request; another thread prepares a new set of options."""
    if not given:
        return state.pipeline({})
    made: Future[NotePipeline] = bundle.call(state.pipeline, given)
    return await asyncio.wrap_future(made)


@cache
def _read_page() -> bytes:
    return "".join(iter_page(_PAGE_FILES, "medlink", ["{}"], served=True)).encode()


def _page_data(pipeline: NotePipeline, linked: LinkedNote) -> str:
    return "".join(note_page_data([linked], pipeline.bundle.kb))


def _writer(kind: type[TextWriter], pipeline: NotePipeline) -> TextWriter:
    writer = kind()
    writer.bundle, writer.versions = pipeline.bundle.manifest["hash"], pipeline.versions
    return writer


def _note_json(pipeline: NotePipeline, linked: LinkedNote) -> str:
    note = linked.note
    mentions = _writer(JsonLinesWriter, pipeline).lines(note, linked.language, linked.mentions)
    head = {"note": note_name(note), "language": linked.language, "problem": note.problem, "remedy": note.remedy}
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "mentions": [{", ".join(mentions)}]}}'


def _lines(kind: type[TextWriter]) -> Any:
    """Return the function that renders a note as lines of a format that cannot report problems."""

    def render(pipeline: NotePipeline, linked: LinkedNote) -> str:
        note = linked.note
        if note.problem is not None:
            raise ConfigError(f"the note {note_name(note)} has {note.problem}", remedy=note.remedy)
        lines = _writer(kind, pipeline).lines(note, linked.language, linked.mentions)
        return "".join(f"{line}\n" for line in lines)

    return render
