"""``medlink serve``: link notes over HTTP."""

from __future__ import annotations

import logging
from typing import Any

import click

from medlink.cli.options import PATH_OR_NAME, Command, explicit_options, make_settings, settings_options
from medlink.notes.options import NoteOptions
from medlink.service.options import ServeOptions


@click.command(cls=Command)
@click.argument("bundles", metavar="BUNDLE...", nargs=-1, required=True, type=PATH_OR_NAME)
@settings_options(ServeOptions)
@settings_options(NoteOptions)
def serve(bundles: tuple[str, ...], **options: Any) -> None:
    """Link notes over HTTP, and on a page, with the concepts of each BUNDLE, until Ctrl-C.

    Prints the address of the page. Requests select a BUNDLE by the name of its folder, or by NAME in NAME=FOLDER; a
    BUNDLE that is replaced is opened again. Options of linking are the defaults of requests. Each request is logged on
    standard error, without words of notes; docs/how-to/serve.md lists the calls.
    """
    from medlink.service.app import Service
    from medlink.web.server import until_stopped

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.getLogger("medlink.access").addHandler(handler)
    logging.getLogger("medlink.access").setLevel(logging.INFO)
    given = explicit_options(options, NoteOptions)
    with until_stopped(), Service(bundles, make_settings(ServeOptions, options), **given) as service:
        click.echo(service.url)
        service.serve_forever()
