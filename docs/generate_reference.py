"""Pages of the reference that come from the code: the commands with their options, and the Python API.

``mkdocs.yml`` names this file as a hook: it adds the pages to the site. Run as a program, it prints them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import medlink
from medlink.cli.main import COMMANDS, app
from medlink.errors import MedlinkError

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>~?(?:[\w.]*\.)?(\w+)</code>")
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
FURTHER = {
    "medlink.spark": ["link_notes"],
    "medlink.mapping": ["Mapper", "SourceCode", "map_codes"],
    "medlink.curation": ["cluster_list", "write_note_page"],
    "medlink.curation.review": ["Review"],
    "medlink.curation.impact": ["check_links"],
    "medlink.kb": ["extend_kb", "update_kb", "compare_kbs", "iter_changes"],
    "medlink.index": ["update_bundle"],
    "medlink.models": ["MarianTranslator", "TranslatedEncoder"],
    "medlink.reading.protocols": ["MentionFinder", "Qualifier"],
    "medlink.linking.rankers.common": ["Reranker"],
    "medlink.linking.ranking": ["Ranker"],
    "medlink.notes.learning": ["learn"],
    "medlink.service.app": ["Service"],
    "medlink.service.options": ["ServeOptions"],
}
"""Names that a user needs and that ``medlink`` itself does not export, by the module to import them from."""


def pages() -> dict[str, str]:
    """Path below ``docs/`` and text of every generated page."""
    made = {f"reference/commands/medlink-{name}.md": command_page(name) for name in sorted(COMMANDS)}
    return {**made, "reference/python.md": python_page()}


def commands(
    command: click.Command, path: tuple[str, ...] = ("medlink",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all commands below it, each with its path."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from commands(inner, (*path, name))


def command_page(name: str) -> str:
    """The page of one command of ``medlink`` with all its subcommands."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    parts = [f"# `medlink {name}`\n\nCommand and options of `medlink {name}`, generated from the code.\n"]
    for path, one in commands(command, ("medlink", name)):
        if path != ("medlink", name):
            parts.append(f"## `{' '.join(path)}`\n")
        parts.append(_described(path, one))
    return "\n".join(parts)


def _described(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path))
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    lines = [f"```text\n{usage}\n```\n"]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines.append(f"{_text(' '.join(paragraph.replace(chr(8), '').split()))}\n")
    if isinstance(command, click.Group):
        lines += [f"- `{' '.join((*path, name))}`" for name in command.list_commands(context)]
        lines.append("")
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        lines += ["| option | value | meaning | default |", "|---|---|---|---|"]
        lines += [_row(option, context) for option in options]
        lines.append("")
    return "\n".join(lines)


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag or option.count else option.make_metavar(context)
    default = option.get_default(context)
    shown = "" if default is None or default == () or option.required or callable(default) else _value(option, default)
    # medlink writes some defaults into the help, in words
    meaning, _, in_words = (option.help or "").rstrip("]").partition("[default: ")
    meaning = f"{meaning.strip().rstrip('.')}.{' Required.' if option.required else ''}"
    default_cell = _text(in_words) or (f"`{shown}`" if shown else "")
    cells = [names, f"`{value}`" if value else "", _text(meaning), default_cell]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(option: click.Option, default: Any) -> str:
    if isinstance(default, bool):
        return (option.opts if default else option.secondary_opts or [""])[0]
    if isinstance(default, list | tuple):
        return ", ".join(map(str, default))
    return str(default) if isinstance(default, int | float | str) else ""


def _text(text: str) -> str:
    """Plain text of a help with the signs escaped that Markdown would read."""
    for sign in "\\`*_[]<>":
        text = text.replace(sign, f"\\{sign}")
    return text


def python_page() -> str:
    """The page of the Python API: what ``medlink`` exports, and further names by module."""
    lines = [
        "# Python API\n",
        "Classes and functions for use from Python, generated from their docstrings.\n",
        "Import the names of the first section from `medlink`, those of the others from the module of the heading.\n",
        "## `medlink`\n",
    ]
    lines += [_directive("medlink", name) for name in sorted(set(medlink.__all__) - {"__version__"}, key=str.lower)]
    for module, names in FURTHER.items():
        lines.append(f"## `{module}`\n")
        lines += [_directive(module, name) for name in names]
    return "\n".join(lines)


def _directive(module: str, name: str) -> str:
    """The line of mkdocstrings for a name: by the module that defines it, if its libraries are installed."""
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, MedlinkError):
        return f"::: {module}.{name}\n"
    return (
        f"::: {value.__module__}.{value.__qualname__}\n" if hasattr(value, "__qualname__") else f"::: {module}.{name}\n"
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those of the folder (an event of MkDocs)."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show Sphinx roles in docstrings by the last part of their name, and a bar in a code of a table as a bar.

    GitHub wants such a bar behind a backslash, which Python-Markdown shows.
    """
    html = _ROLE.sub(r"<code>\1</code>", html)
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)


if __name__ == "__main__":
    for path, text in pages().items():
        print(f"<!-- {path} -->\n{text}")
