"""Options of the commands that read release files: one for each format, and the filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from medlink.cli.options import PATH, bad_share_option, combine
from medlink.errors import ConfigError
from medlink.kb import Input
from medlink.kb.readers import formats

F = TypeVar("F", bound=Callable[..., Any])
_UMLS = ("sources", "term_types", "include_suppressed")

changes_option = click.option("-o", "--out", type=PATH, help="File for every change, one a row: .tsv or .jsonl.")
under_options = combine(
    click.option("--under", metavar="ID", multiple=True, help="Only the concept ID and all below it. May be repeated."),
    click.option(
        "--not-under", metavar="ID", multiple=True, help="Leave out the concept ID and all below it. May be repeated."
    ),
)


def _list_option(flag: str, values: str, text: str) -> Callable[[F], F]:
    """Make an option with values separated by commas; empty values are dropped."""

    def split(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
        return None if value is None else [part.strip() for part in value.split(",") if part.strip()]

    return click.option(flag, callback=split, metavar=values, help=text)


def release_options(command: F) -> F:
    """Add an option for each format and the filters; :func:`pop_inputs` makes inputs of their values."""
    of_formats = (
        click.option(form.option, form.name, multiple=True, type=PATH, help=f"{form.help} May be repeated.")
        for form in formats().values()
    )
    return combine(
        *of_formats,
        _list_option("--languages", "TAGS", "Keep these languages only, such as en,de,es."),
        _list_option("--sources", "SABS", "UMLS: keep these sources only, such as MSH,SNOMEDCT_US."),
        _list_option("--term-types", "TTYS", "UMLS: keep names of these types only, such as PT,SY."),
        click.option("--include-suppressed", is_flag=True, default=None, help="UMLS: take in suppressed rows too."),
        bad_share_option,
        under_options,
    )(command)


def pop_inputs(given: dict[str, Any]) -> list[Input]:
    """Take the options of formats and of UMLS out of ``given`` and make inputs of them.

    Raises:
        ConfigError: an option of UMLS is given without a UMLS release.
    """
    releases = {name: given.pop(name) for name in formats()}
    umls = {name: value for name in _UMLS if (value := given.pop(name)) is not None}
    if umls and not releases["rrf"]:
        names = ", ".join("--" + name.replace("_", "-") for name in umls)
        raise ConfigError(f"{names} is for UMLS, and there is no --umls", remedy="add --umls META or leave it out")
    inputs = []
    for name, form in formats().items():
        options, several = umls if name == "rrf" else {}, releases[name]
        if form.extra_paths:
            options, several = {form.extra_paths: several[1:]}, several[:1]
        inputs += [Input(name, path, options) for path in several]
    return inputs


def pop_required_inputs(given: dict[str, Any]) -> list[Input]:
    """Make inputs like :func:`pop_inputs`; raise ConfigError if there is none."""
    inputs = pop_inputs(given)
    if not inputs:
        raise ConfigError("no release is given", remedy="name at least one, for example --obograph hp.json.gz")
    return inputs
