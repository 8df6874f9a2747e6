"""The checks of every request to a server of medlink, and the answer to a refused request.

The ``Host`` header must name the server, against DNS rebinding; ``Origin`` must be the server, against requests from
other sites. Logs and refusals contain no query, body or message of an unexpected error, which may be text of a note.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from hmac import compare_digest
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from medlink.errors import ConfigError, InputError, MedlinkError, describe_unexpected

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

_PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}  # older versions of Python differ
_SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_T = TypeVar("_T")
logger = logging.getLogger("medlink")
LogRequest = Callable[[str, str, int, float], object]
"""Called with the method, route (``-`` for none), status and seconds of each request."""


class Refusal(HTTPException):
    """A request that is answered with an error status, one sentence and ``headers``."""

    def __init__(self, status: int, sentence: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(status, sentence or _phrase(status), headers)


def _phrase(status: int) -> str:
    return _PHRASES.get(status) or HTTPStatus(status).phrase


def problem(refusal: HTTPException) -> JSONResponse:
    """Make the answer to a refused request: problem details (RFC 9457)."""
    content = {"title": _phrase(refusal.status_code), "status": refusal.status_code, "detail": refusal.detail}
    return JSONResponse(content, refusal.status_code, refusal.headers, media_type="application/problem+json")


class Guard:
    """An ASGI application that checks requests before its routes answer them.

    Args:
        routes: the routes of the application.
        hosts: allowed values of ``Host``; a name without a port allows every port.
        token: the secret of the server. Requests send it as ``Authorization: Bearer TOKEN``, except to the ``public``
            paths. If ``token_in_path`` is set, it is the first part of every path instead.
        max_bytes: size of the largest body.
        seconds: maximum time from the head of a request to its answer.
        log: called for each request; by default nothing is logged.
    """

    def __init__(
        self, routes: Collection[Route], hosts: Collection[str], *, max_bytes: int, seconds: float,
        token: str | None = None, token_in_path: bool = False, public: Collection[str] = (),
        log: LogRequest | None = None,
    ) -> None:  # fmt: skip
        self._app = Router(list(routes), redirect_slashes=False)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token, self._token_in_path, self._public = token, token_in_path, frozenset(public)
        self._max_bytes, self._seconds, self._log = max_bytes, seconds, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status, arrived = time.monotonic(), 0, False

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        async def read() -> Message:
            nonlocal arrived
            message = await receive()
            size = len(message.get("body", b""))
            scope["read"] = scope.get("read", 0) + size
            self._check_size(scope["read"])
            arrived = not message.get("more_body", False)
            return message

        refusal: HTTPException | None = None
        scope["app"] = self  # for Starlette: errors are handled here
        try:
            async with asyncio.timeout(self._seconds):
                self._check(scope)
                await self._app(scope, read, answer)
        except ClientDisconnect:
            return
        except HTTPException as error:
            refusal = error
        except TimeoutError:
            sentence = f"The request took longer than {self._seconds:g} s: send less in one request, or try again."
            has_arrived = arrived or scope["method"] in ("GET", "HEAD")
            refusal = Refusal(503, sentence) if has_arrived else Refusal(408)
        except MedlinkError as error:
            # the request, or the bundle of the server; a client must not see the path
            remedy = f": {error.remedy}" if error.remedy else ""
            status_code = 422 if isinstance(error, ConfigError | InputError) else 503
            refusal = Refusal(status_code, f"{error.message}{remedy}.")
        except Exception as error:
            refusal = Refusal(500, describe_unexpected(error))
            logger.warning(refusal.detail)
        if refusal is not None and not status:
            await problem(refusal)(scope, read, answer)
        if self._log is not None:
            route = getattr(scope.get("route"), "path", "-").replace(":path}", "}")
            self._log(scope["method"], route, status, time.monotonic() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        name = host if host.endswith("]") else host.rpartition(":")[0]
        if not {host, name} & self._hosts or (origin is not None and urlsplit(origin).netloc.lower() != host):
            raise Refusal(403)
        length = headers.get("content-length", "0")
        self._check_size(int(length) if length.isdecimal() else 0)
        if self._token is None:
            return
        if self._token_in_path:
            _, given, *path = scope["path"].split("/", 2)
            if not path or not _equal(given, self._token):
                raise Refusal(404)
            scope["path"] = f"/{path[0]}"
        elif scope["path"] not in self._public:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not _equal(given.strip(), self._token):
                sentence = "The token is missing or wrong: send it as 'Authorization: Bearer TOKEN'."
                raise Refusal(401, sentence, {"WWW-Authenticate": "Bearer"})

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise Refusal(413, f"The body is larger than {self._max_bytes:,} bytes: send less in one request.")


async def result_of(request: Request, future: Future[_T]) -> _T:
    """Wait for the result of another thread; if the client leaves, cancel the work and raise ClientDisconnect."""
    work, left = asyncio.wrap_future(future), asyncio.create_task(_leave(request))
    try:
        await asyncio.wait((work, left), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        work.cancel()
        left.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the empty body of a GET


def _equal(given: str, token: str) -> bool:
    return compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())
