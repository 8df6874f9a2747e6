"""Command-line options made of the fields of :class:`medlink.settings.Settings`: declared once, read from there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import reduce, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from medlink.errors import ConfigError
from medlink.language.tags import named_tag
from medlink.settings import POOLINGS, Settings

F = TypeVar("F", bound=Callable[..., Any])


class _Given(click.Path):
    """A path that is not empty, as that of an unset shell variable is: it would stand for the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, ConfigError where it is empty."""
        _refuse_empty(value == "", param, "name a file or a folder")
        return super().convert(value, param, ctx)


class _Notes(_Given):
    """Inputs among which ``-`` is standard input, as an error says where none is named."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        """What to name."""
        return "Name files or folders, or - for standard input."


class _Words(click.types.StringParamType):
    """A word of an option that may be repeated, or several with commas between; not empty, which would choose none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, ConfigError where it is empty."""
        _refuse_empty(not str(value).strip(" ,"), param, "give a value, or leave it out")
        return super().convert(value, param, ctx)


class Size(click.types.StringParamType):
    """A number of bytes, with K, M, G or T behind it for thousands, millions, and so on."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of bytes."""
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)B?", str(value).strip(), re.ASCII | re.IGNORECASE)
        size = round(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " ")) if found else 0
        if size < 1:
            self.fail(f"{value!r} is no size, such as 500M or 2G", param, ctx)
        return size


def _refuse_empty(is_empty: bool, param: click.Parameter | None, remedy: str) -> None:
    if is_empty and param is not None:
        name = max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
        raise ConfigError(f"{name} is empty", remedy=remedy)


PATH = _Given(path_type=Path)
"""Type of every parameter that is a file or a folder."""
PATH_OR_NAME = _Given(readable=False)
"""As :data:`PATH`, where a word may stand for something else too; the value is a string."""
PATH_OR_INPUT = _Notes(readable=False)
"""As :data:`PATH_OR_NAME`, where ``-`` is standard input."""


class Commands(click.Group):
    """A group whose help shows the first sentence of each command, whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        for command in self.commands.values():
            command.short_help = command.get_short_help_str(limit=1000)
        super().format_commands(ctx, formatter)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def note_fields(what: str) -> Callable[[F], F]:
    """The options that say where the text of a note is; the command gets ``fields`` and ``encoding``."""

    def add(command: F) -> F:
        @wraps(command)
        def run(*args: Any, text_field: str, id_field: str, language_field: str, **options: Any) -> Any:
            from medlink.notes.reading import Fields

            return command(*args, fields=Fields(text_field, id_field, language_field), **options)

        named = {"text": "the text", "id": "the id of the note", "language": "the language"}
        texts = (
            click.option(f"--{name}-field", default=name, show_default=True, help=f"{what} with {text}.")
            for name, text in named.items()
        )
        return together(*texts, encoding("notes"))(cast(F, run))

    return add


def columns(kind: Callable[..., object], **of: str) -> Callable[[F], F]:
    """Add an option for each column of a list; the command gets them as one ``columns`` of class ``kind``."""
    names = {name: "column" if name == "term" else f"{name}_column" for name in of}

    def add(command: F) -> F:
        @wraps(command)
        def run(*args: Any, **options: Any) -> Any:
            return command(*args, columns=kind(**{one: options.pop(name) for one, name in names.items()}), **options)

        flags = {f"--{names[name].replace('_', '-')}": text for name, text in of.items()}
        return together(*(click.option(flag, help=f"Column of the {text}.") for flag, text in flags.items()))(
            cast(F, run)
        )

    return add


def encoding(of: str) -> Callable[[F], F]:
    """The option of the encoding of notes or of a list."""
    help_ = f"Encoding of the {of}, such as latin-1."
    return click.option("--encoding", default="utf-8", show_default=True, help=help_)


json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

show_progress = click.option(
    "--progress/--no-progress", default=None, help="Show a progress bar; by default on a terminal only."
)


def number(flag: str, default: int, text: str, *, least: int = 0, most: int | None = None) -> Callable[[F], F]:
    """The option of a whole number."""
    return click.option(flag, default=default, show_default=True, type=click.IntRange(least, most), help=text)


graph_threads: Callable[[F], F] = number(
    "--threads",
    1,
    "Threads that build the graph or cells; with more than one they may differ from run to run.",
    least=1,
)


def pooling(of: str) -> Callable[[F], F]:
    """The option of the pooling of the encoder that another option, ``of``, names: the word before that name."""

    def add(command: F) -> F:
        @wraps(command)
        def run(*args: Any, pooling: str | None = None, **options: Any) -> Any:
            if pooling and options.get(of):
                options[of] = f"{pooling}:{options[of]}"
            elif pooling:
                raise ConfigError("--pooling is of an encoder, and there is none", remedy=f"name one with --{of}")
            return command(*args, **options)

        help_ = "How a checkpoint without modules.json makes one vector of those of its tokens."
        return click.option("--pooling", type=click.Choice(POOLINGS), help=help_)(cast(F, run))

    return add


def one_language(text: str) -> Callable[[F], F]:
    """The option of one language, by its tag."""

    def tag(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        return named_tag(value) if value else None

    return click.option("--language", callback=tag, metavar="TAG", help=text)


def settings_options(
    kind: type[Settings], *, leave_out: Collection[str] = (), defaults: Mapping[str, str] | None = None
) -> Callable[[F], F]:
    """Add an option for each field: ``batch_size`` becomes ``--batch-size`` with the field's meaning as its help.

    The option is ``None`` (an empty tuple where it may be repeated) unless it was given, so that a command passes on
    what the user typed and the settings keep their own defaults: see :func:`given`. Fields in ``leave_out`` get no
    option; ``defaults`` has what the help shows as default where it is not that of the field.
    """
    shown = dict(defaults or {})

    def add(command: F) -> F:
        for name, field in reversed(kind.model_fields.items()):
            if name not in leave_out:
                default = shown.get(name, _shown(field.get_default(call_default_factory=True)))
                help_ = (field.description or "") + (f"  [default: {default}]" if default else "")
                flag = f"--{name.replace('_', '-')}"
                if field.default is True:
                    flag += f"/--no-{flag[2:]}"
                command = click.option(flag, name, help=help_, **_type(field))(command)
        return command

    return add


def given(options: Mapping[str, Any], kind: type[Settings]) -> dict[str, Any]:
    """What of the options of :func:`settings_options` the user gave."""
    return {name: options[name] for name in kind.model_fields if options.get(name) not in (None, ())}


def passed(options: Mapping[str, Any], *kinds: type[Settings]) -> dict[str, Any]:
    """The options without those of settings that the user left out."""
    unset = {name for kind in kinds for name in kind.model_fields if options.get(name) in (None, ())}
    return {name: value for name, value in options.items() if name not in unset}


def _shown(default: Any) -> str:
    """A default as a user would type it; empty where there is none, or for a flag that is off."""
    if default in (None, (), "") or default is False:
        return ""
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return "on" if default is True else f"{default:g}" if isinstance(default, float) else str(default)


def _type(field: FieldInfo) -> dict[str, Any]:
    """Type of a click option: a choice, a flag, repeated, or a number; ranges are checked by the settings."""
    kind, origin = field.annotation, get_origin(field.annotation)
    if origin is tuple:
        inner = get_args(kind)[0]
        return {"multiple": True, "type": _Words() if inner is str else inner}
    if origin is Literal:
        return {"type": click.Choice([str(value) for value in get_args(kind)])}
    if origin in (Union, UnionType):
        kinds = [get_args(one)[0] if get_origin(one) is Annotated else one for one in get_args(kind)]
        kinds = [one for one in kinds if one is not NoneType]
        if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
            return {"type": click.Choice([str(value) for value in get_args(kinds[0])])}
        return {"type": kinds[0] if len(kinds) == 1 else _either(kinds)}
    return {"is_flag": True, "default": None} if kind is bool else {"type": kind}


def _either(kinds: list[Any]) -> Callable[[str], Any]:
    """Reads a number, or one of some words (``Union[int, Literal["epoch", "never"]]``)."""

    def value(text: str) -> Any:
        for kind in {int, float}.intersection(kinds):
            with suppress(ValueError):
                return kind(text)
        return text

    return value


lexicon_folders: Callable[[F], F] = click.option(
    "--lexicon", "folders", multiple=True, type=PATH, help="Folder of your own tables of words; may be repeated."
)
