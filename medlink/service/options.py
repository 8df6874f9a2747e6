"""Options of the service, and the linking options that a request may set."""

from __future__ import annotations

from medlink.linking.options import PathOption
from medlink.notes.options import NoteOptions
from medlink.settings import Settings, option

FIXED = ("ranker", "ranker_cache", "learned", "finder", "abbreviations")
"""Options of notes that are fixed when the service starts: they name files and addresses of the server, or load
libraries.
"""
PER_REQUEST = tuple(name for name in NoteOptions.model_fields if name not in FIXED)
"""Options of notes that a request may set."""


class ServeOptions(Settings):
    """Options of :class:`medlink.service.app.Service`."""

    host: str = option("127.0.0.1", "Address to listen on; any other than a loopback address needs a token.")
    port: int = option(8000, "Port to listen on; 0 is any free one.", ge=0, le=65535)
    token: PathOption = option(None, "File with the token that requests must send  [default: none is needed]")
    allow_host: tuple[str, ...] = option(
        (), "Name by which clients reach the service, as of a reverse proxy; may be repeated.", strict=False
    )
    decisions: PathOption = option(
        None, "Table for corrections on the page, as of 'medlink review', .tsv  [default: none]"
    )
    max_bytes: int = option(1_000_000, "Size of the largest request.", ge=1, le=1 << 30)
    timeout: int = option(60, "Seconds after which a request is refused.", ge=1, le=3600)
    queue: int = option(64, "Requests that are read and linked at a time; others are refused.", ge=1, le=1000)
