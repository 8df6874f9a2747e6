"""What the commands share that read release files: an option for each format, and the filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from medlink.cli.options import PATH, together
from medlink.errors import ConfigError
from medlink.kb import Input
from medlink.kb.readers import formats

F = TypeVar("F", bound=Callable[..., Any])
_UMLS = ("sources", "term_types", "include_suppressed")

max_bad_share = click.option(
    "--max-bad-share", type=float, default=0.01, show_default=True,
    help="Stop when a larger share of a file's rows cannot be used; 0 stops at the first.",
)  # fmt: skip
changes_out = click.option(
    "-o", "--out", type=PATH, help="File for every change, one a row: JSON lines if it ends in .jsonl, else TSV."
)
under_options = together(
    click.option("--under", metavar="ID", multiple=True, help="Only the concept ID and all below it. May be repeated."),
    click.option(
        "--not-under", metavar="ID", multiple=True, help="Leave out the concept ID and all below it. May be repeated."
    ),
)


def _listed(flag: str, values: str, text: str) -> Callable[[F], F]:
    """An option with values parted by commas; empty ones are dropped."""

    def parts(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
        return None if value is None else [part.strip() for part in value.split(",") if part.strip()]

    return click.option(flag, callback=parts, metavar=values, help=text)


def release_options(command: F) -> F:
    """An option for each format that can be read, and how it is read; :func:`inputs_of` makes inputs of them."""
    of_formats = (
        click.option(found.option, found.name, multiple=True, type=PATH, help=f"{found.help} May be repeated.")
        for found in formats().values()
    )
    return together(
        *of_formats,
        _listed("--languages", "TAGS", "Keep these languages only, such as en,de,es."),
        _listed("--sources", "SABS", "UMLS: keep these sources only, such as MSH,SNOMEDCT_US."),
        _listed("--term-types", "TTYS", "UMLS: keep names of these types only, such as PT,SY."),
        click.option("--include-suppressed", is_flag=True, default=None, help="UMLS: take in suppressed rows too."),
        max_bad_share,
        under_options,
    )(command)


def inputs_of(given: dict[str, Any]) -> list[Input]:
    """The inputs of what was typed for the options of the formats and of UMLS, which are taken out of ``given``.

    There are none where no release was named. ConfigError: an option is for UMLS, and there is no UMLS.
    """
    releases = {name: given.pop(name) for name in formats()}
    umls = {name: value for name in _UMLS if (value := given.pop(name)) is not None}
    if umls and not releases["rrf"]:
        names = ", ".join("--" + name.replace("_", "-") for name in umls)
        raise ConfigError(f"{names} is for UMLS, and there is no --umls", remedy="add --umls META or leave it out")
    inputs = []
    for name, found in formats().items():
        options, several = umls if name == "rrf" else {}, releases[name]
        if found.further:
            options, several = {found.further: several[1:]}, several[:1]
        inputs += [Input(name, path, options) for path in several]
    return inputs


def some_inputs(given: dict[str, Any]) -> list[Input]:
    """As :func:`inputs_of`; at least one, or it raises :class:`ConfigError`."""
    inputs = inputs_of(given)
    if not inputs:
        raise ConfigError("no release is given", remedy="name at least one, for example --obograph hp.json.gz")
    return inputs
