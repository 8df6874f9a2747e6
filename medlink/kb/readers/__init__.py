"""Readers of foreign formats: from release files to the records of :mod:`medlink.records`.

A delimited file needs no code: a description in ``medlink/resources/kb/formats`` names its columns
(:mod:`medlink.kb.readers.descriptions`). A format with more logic is a module here. It defines

* a function ``read_x(path, *, ..., problems: Problems | None = None)`` that yields records: first its
  :class:`~medlink.records.Source`, and a :class:`~medlink.records.Concept` for each id that it defines. It reads text
  through :mod:`medlink.files` (``LineFile``, ``open_table``, ``read_json_lines``), which handles gzip, encodings, bad
  rows and progress. It counts bad rows with ``problems.bad_row``, and rows left out on purpose in
  ``problems.skipped``. The build passes its filter as ``languages``; all other arguments are options of
  :class:`medlink.kb.Input`. Common arguments are ``path``, a file, plain or ``.gz``; ``source`` and ``version``, the
  name and version of the source; and ``language``, the language of names and definitions. All readers raise
  ``InputError`` if the file cannot be read, has another format, or has too many bad rows, and ``ConfigError`` if a
  language is unknown;
* ``FORMAT = Format("x", read_x, "--x", "what it reads, for the help")``. :func:`formats` finds it, which adds the
  option to ``medlink kb build``, and makes ``Input("x", path)`` work.

For releases of millions of rows, a second function with the same arguments, given as ``read_batches``, also yields
:class:`~medlink.kb.readers.common.Batch`: many records of one kind by column. ``rrf`` is an example.

The rules that detect a format are in its description, or else in :mod:`medlink.kb.format_detection`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache, partial

from medlink.errors import ConfigError
from medlink.kb.readers.common import Format
from medlink.kb.readers.delimited import read_delimited
from medlink.kb.readers.descriptions import Description, builtin_descriptions, load_description


@cache
def formats() -> dict[str, Format]:
    """Return the formats by name, in loading order."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    known: list[Format] = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    known += [_delimited(description, description.name) for description in builtin_descriptions()]
    return {form.name: form for form in sorted(known, key=lambda form: (form.order, form.name))}


def get_format(name: str) -> Format:
    """Return a format by name, or by the path of a TOML description; raises :class:`ConfigError` for any other."""
    if name.endswith(".toml"):
        return _delimited(load_description(name), name)
    if name not in formats():
        known = ", ".join(formats())
        raise ConfigError(f"unknown format {name!r}", remedy=f"use one of {known}, or a description in a TOML file")
    return formats()[name]


def _delimited(description: Description, name: str) -> Format:
    spec, read = description.spec, partial(read_delimited, name)
    option, text, order = spec.get("option", ""), spec.get("help", ""), spec.get("order", 50)
    return Format(name, read, option, text, order, folder=description.in_folder)
