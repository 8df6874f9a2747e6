"""Options of the service, and the linking options that a request may set."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from medlink.linking.options import check_path
from medlink.notes.options import NoteOptions
from medlink.settings import Settings

FIXED = ("ranker", "ranker_cache", "learned", "finder", "abbreviations")
"""Options of notes that are fixed when the service starts: they name files and addresses of the server, or load
libraries.
"""
PER_REQUEST = tuple(name for name in NoteOptions.model_fields if name not in FIXED)
"""Options of notes that a request may set."""


class ServeOptions(Settings):
    """Options of :class:`medlink.service.app.Service`."""

    host: Annotated[
        str, Field(description="Address to listen on; any other than a loopback address needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 is any free one.")] = 8000
    token: Annotated[
        str | None,
        AfterValidator(lambda given: check_path("token", given)),
        Field(description="File with the token that requests must send  [default: none is needed]"),
    ] = None
    allow_host: Annotated[
        tuple[str, ...],
        Field(
            strict=False, description="Name by which clients reach the service, as of a reverse proxy; may be repeated."
        ),
    ] = ()
    decisions: Annotated[
        str | None,
        AfterValidator(lambda given: check_path("decisions", given)),
        Field(description="Table for corrections on the page, as of 'medlink review', .tsv  [default: none]"),
    ] = None
    max_bytes: Annotated[int, Field(ge=1, le=1 << 30, description="Size of the largest request.")] = 1_000_000
    timeout: Annotated[int, Field(ge=1, le=3600, description="Seconds after which a request is refused.")] = 60
    queue: Annotated[
        int, Field(ge=1, le=1000, description="Requests that are read and linked at a time; others are refused.")
    ] = 64
