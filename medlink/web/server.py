"""An HTTP server for one application; it neither logs nor stores requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from medlink.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
_SECONDS_TO_BEGIN = 30  # for the head of a request to arrive
_MAX_HEAD = 1 << 16  # bytes
_MAX_CONNECTIONS = 2000
_SECONDS_TO_END = 60  # for requests that are being answered when the server is stopped
for _name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # its tracebacks would contain text of requests
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


class WebServer:
    """A listening server; port 0 is any free port. Close it with a ``with`` block.

    Attributes:
        host: address and port, as in the ``Host`` header of a request.
        app: the application; set it before the server runs.

    Raises:
        ConfigError: the address or the port cannot be used.
    """

    def __init__(self, address: str = LOOPBACK, port: int = 0) -> None:
        self.app: ASGIApp | None = None
        self._server: uvicorn.Server | None = None
        self._is_stopped = False
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._socket = socket.create_server((address, port), family=family, backlog=_MAX_CONNECTIONS)
        except (OSError, UnicodeError) as error:
            remedy = "name another port, or leave port out" if port else "name an address of this machine"
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"port {port} of {address} cannot be used: {reason}", remedy=remedy) from error
        self.port: int = self._socket.getsockname()[1]
        self.host = f"[{address}]:{self.port}" if family == socket.AF_INET6 else f"{address}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def serve_forever(self) -> None:
        """Answer requests until :meth:`shutdown`, SIGINT or SIGTERM; requests in progress are completed."""
        assert self.app is not None
        config = uvicorn.Config(
            self.app, loop="asyncio", http=_Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, limit_concurrency=_MAX_CONNECTIONS,
            h11_max_incomplete_event_size=_MAX_HEAD, timeout_graceful_shutdown=_SECONDS_TO_END,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._server.should_exit = self._is_stopped
        self._server.run([self._socket])

    def shutdown(self) -> None:
        """Make :meth:`serve_forever` return, from any thread."""
        self._is_stopped = True
        if self._server is not None:
            self._server.should_exit = True


class _Connection(H11Protocol):
    """A connection that is closed if the complete head of the next request does not arrive in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(_SECONDS_TO_BEGIN, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        # the base class stops the clock at the first byte, not at the end of the head
        self.conn.receive_data(data)
        self.handle_events()


@contextmanager
def until_stopped() -> Iterator[None]:
    """End a block without an error at SIGINT or SIGTERM, which a server raises again after its last request."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        yield


def is_loopback(address: str) -> bool:
    """Tell whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return address == "localhost"
