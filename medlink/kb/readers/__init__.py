"""Readers of foreign formats, from release file to the records of :mod:`medlink.records`.

A delimited file needs no code: a description in ``medlink/resources/kb/formats`` says what its columns are
(:mod:`medlink.kb.readers.descriptions`). A format with more logic is one module here, which nothing else names. It
holds

* a function ``read_x(path, *, ..., problems: Problems | None = None)`` that yields records: first its
  :class:`~medlink.records.Source`, and a :class:`~medlink.records.Concept` for each id that it announces. The text
  comes through :mod:`medlink.files` (``LineFile``, ``open_table``, ``read_json_lines``), so that gzip, encodings, bad
  rows and progress are as everywhere; a row that cannot be used goes to ``problems.bad_row``, one that is left out on
  purpose to ``problems.skipped``. An argument ``languages``, where there is one, is the filter of the build; all other
  arguments are options of :class:`medlink.kb.Input`. In all readers alike ``path`` is a file, plain or ``.gz``,
  ``source`` the name of the source, ``version`` its version, ``language`` that of names and definitions, and
  ``problems`` where bad and left-out rows are counted. All raise ``InputError`` where the file cannot be read, is of
  another format, or holds too many bad rows, and ``ConfigError`` where a language is unknown;
* ``FORMAT = Format("x", read_x, "--x", "what it reads, for the help")``, by which :func:`formats` finds it. The
  command ``medlink kb build`` then has the option, and ``Input("x", path)`` works.

Where a release has millions of rows, a second function with the same arguments, announced as ``in_bulk``, yields
:class:`~medlink.kb.readers.common.Batch` among the records: many records of one kind by column.
``rrf`` is the example; its ``read`` is ``in_bulk``, one by one.

By what a file is known, where no option names its format, stands in its description, or for the others together in
:mod:`medlink.kb.format_detection`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache, partial

from medlink.errors import ConfigError
from medlink.kb.readers.common import Format
from medlink.kb.readers.delimited import read_delimited
from medlink.kb.readers.descriptions import Description, described, descriptions


@cache
def formats() -> dict[str, Format]:
    """The formats that can be read, by name, in the order in which the command line reads them."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    found += [_delimited(one, one.name) for one in descriptions()]
    return {one.name: one for one in sorted(found, key=lambda one: (one.order, one.name))}


def format_of(name: str) -> Format:
    """The format of a name, or of a description in a file that ends in ``.toml``.

    Raises:
        ConfigError: there is none, or the description cannot be used.
    """
    if name.endswith(".toml"):
        return _delimited(described(name), name)
    if name not in formats():
        known = ", ".join(formats())
        raise ConfigError(f"unknown format {name!r}", remedy=f"use one of {known}, or a description in a TOML file")
    return formats()[name]


def _delimited(one: Description, name: str) -> Format:
    said, read = one.said, partial(read_delimited, name)
    return Format(name, read, said.get("option", ""), said.get("help", ""), said.get("order", 50), folder=one.in_folder)
