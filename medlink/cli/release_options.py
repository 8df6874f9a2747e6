"""Options of the commands that read release files: one option for each format, and the filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from medlink.cli.options import PATH, bad_share_option, combine
from medlink.errors import ConfigError
from medlink.files.escapes import escape_controls
from medlink.kb import Input
from medlink.kb.readers import formats

F = TypeVar("F", bound=Callable[..., Any])
_UMLS = ("sources", "term_types", "include_suppressed")

files_argument: Callable[[F], F] = click.argument("paths", metavar="[FOLDER_OR_FILE]...", nargs=-1, type=PATH)
allow_loss_option: Callable[[F], F] = click.option(
    "--allow-loss", is_flag=True, help="Accept a release that lacks a source or language of existing names."
)
changes_option = click.option("-o", "--out", type=PATH, help="File for every change, one a row: .tsv or .jsonl.")
under_options = combine(
    click.option("--under", metavar="ID", multiple=True, help="Only the concept ID and all below it. May be repeated."),
    click.option(
        "--not-under", metavar="ID", multiple=True, help="Leave out the concept ID and all below it. May be repeated."
    ),
)


def _list_option(flag: str, values: str, text: str) -> Callable[[F], F]:
    def split(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
        return None if value is None else [part.strip() for part in value.split(",") if part.strip()]

    return click.option(flag, callback=split, metavar=values, help=text)


def release_options(command: F) -> F:
    """Add an option for each format, and the filters, for :func:`pop_inputs`."""
    of_formats = (
        click.option(form.option, form.name, multiple=True, type=PATH, help=f"{form.help} May be repeated.")
        for form in formats().values()
    )
    return combine(
        *of_formats,
        _list_option("--languages", "TAGS", "Keep these languages only, such as en,de,es."),
        _list_option("--sources", "SABS", "UMLS: keep these sources only, such as MSH,SNOMEDCT_US."),
        _list_option("--term-types", "TTYS", "UMLS: keep names of these types only, such as PT,SY."),
        click.option("--include-suppressed", is_flag=True, default=None, help="UMLS: also read suppressed rows."),
        bad_share_option,
        under_options,
    )(command)


def detect_inputs(paths: tuple[Path, ...], say: Callable[[str], object]) -> Iterator[tuple[str, Path]]:
    """Yield format and path of each input at the paths; print each detected format."""
    if not paths:
        return
    from medlink.kb.format_detection import detect_formats

    for path in paths:
        detected, left = detect_formats(path)
        for item in detected:
            say(escape_controls(f"{item.path}: taken for {formats()[item.format].option}"))
            yield item.format, item.path
        for file in left:
            say(escape_controls(f"{file}: left out, its beginning matches no format, or several"))


def pop_inputs(
    given: dict[str, Any], paths: tuple[Path, ...] = (), say: Callable[[str], object] = click.echo
) -> list[Input]:
    """Remove the options of formats and of UMLS from ``given``; make inputs from them and from ``paths``.

    Raises:
        ConfigError: an option of UMLS is given without a UMLS release.
        InputError: the format of a path cannot be detected.
    """
    for name, path in detect_inputs(paths, say):
        given[name] += (path,)
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


def pop_required_inputs(
    given: dict[str, Any], paths: tuple[Path, ...] = (), say: Callable[[str], object] = click.echo
) -> list[Input]:
    """Make inputs like :func:`pop_inputs`; raise ConfigError if there are none."""
    inputs = pop_inputs(given, paths, say)
    if not inputs:
        raise ConfigError("no release is given", remedy="name at least one, for example hp.json.gz")
    return inputs
