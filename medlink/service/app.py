"""The application of the service: its routes, and the server that runs it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from medlink import __version__
from medlink.curation.concepts import MAX_HITS, search_concepts
from medlink.curation.decisions import DecisionStore
from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.kb.formatting import concept_to_dict
from medlink.language.tags import named_tag
from medlink.linking import Mention
from medlink.notes.options import NoteOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Fields, is_english, parse_row
from medlink.notes.writers import JsonLinesWriter, TextWriter
from medlink.notes.writers.base import note_name
from medlink.notes.writers.fhir import FhirWriter
from medlink.service.bundles import OpenBundle, ServedBundle, open_bundles
from medlink.service.models import LinkRequest, MentionInput, MentionsRequest, parse_request
from medlink.service.openapi import openapi
from medlink.service.options import PER_REQUEST, ServeOptions
from medlink.service.page import ServicePage
from medlink.web.guard import Guard, Refusal, result_of
from medlink.web.server import WebServer, is_loopback

_MAX_HITS = 100
_DEPTH = 8  # levels of the concepts above a concept
_PUBLIC = ("/", "/health", "/openapi.json")
_MIN_TOKEN = 16  # characters
_T = TypeVar("_T")
access = logging.getLogger("medlink.access")


class Service(WebServer):
    """Serve bundles over HTTP: ``/link``, ``/mentions``, ``/search``, ``/concepts/ID``, ``/info``, ``/health``; a page.

    The logger ``medlink.access`` logs only the method, route, status and milliseconds of each request.

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
        self.app = Guard(
            [
                *ServicePage(self._bundle, self._place, self._store).routes,
                Route("/link", self._link, methods=["POST"]),
                Route("/mentions", self._mentions, methods=["POST"]),
                Route("/search", self._search),
                Route("/concepts/{concept_id:path}", self._concept),
                Route("/info", self._info),
                Route("/health", self._health),
                Route("/openapi.json", self._openapi),
            ],
            own | set(self.options.allow_host),
            token=token,
            public=_PUBLIC,
            max_bytes=self.options.max_bytes,
            seconds=self.options.timeout,
            log=_log,
        )
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
            links = await result_of(request, bundle.queue.call(partial(_link_mentions, pipeline, wanted.mentions)))
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
            concept_id = request.path_params["concept_id"]
            call = bundle.call(_describe, state.bundle.kb, concept_id, _language(request))
            found = await result_of(request, call)
        if found is None:
            raise Refusal(404, "The bundle has no concept with this id.")
        return JSONResponse(found)

    async def _info(self, request: Request) -> Response:
        linking, own = self._linking.to_dict(), self.options
        served = [
            {
                "name": name,
                "hash": bundle.now.hash,
                "languages": sorted(bundle.now.bundle.index.languages),
                "versions": bundle.now.pipeline({}).versions,
            }
            for name, bundle in self._bundles.items()
        ]
        return JSONResponse(
            {
                "medlink": __version__,
                "decisions": self._store is not None,
                "bundles": served,
                "options": {name: linking[name] for name in PER_REQUEST},
                "limits": {"bytes": own.max_bytes, "seconds": own.timeout, "requests": own.queue},
            }
        )

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi())

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Reserve one of the places for requests, or refuse the request before reading its body."""
        if self._active >= self.options.queue:
            sentence = f"{self._active} requests are in progress: try again later."
            raise Refusal(503, sentence, {"Retry-After": "1"})
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def _bundle(self, name: str | None) -> tuple[ServedBundle, OpenBundle]:
        if name is not None and name not in self._bundles:
            raise Refusal(
                422, f"There is no bundle of this name: one of {', '.join(map(repr, self._bundles))} is expected."
            )
        bundle = next(iter(self._bundles.values())) if name is None else self._bundles[name]
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


def _link_mentions(pipeline: NotePipeline, given: Sequence[MentionInput]) -> list[dict[str, Any]]:
    mentions = [Mention(one.text, one.language or pipeline.options.language) for one in given]
    contexts = [one.context for one in given] if any(one.context for one in given) else None
    return [link.to_dict() for link in pipeline.linker.link(mentions, contexts)]


def _describe(kb: KnowledgeBase, concept_id: str, language: str | None) -> dict[str, Any] | None:
    view = kb.get(concept_id)
    return None if view is None else concept_to_dict(kb, view, language, _DEPTH)


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
