"""Command-line options, most of them made from the fields of :class:`medlink.settings.Settings`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial, reduce, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from medlink.errors import ConfigError
from medlink.language.tags import named_tag
from medlink.settings import POOLINGS, Settings

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Settings)


class _NonEmptyPath(click.Path):
    """A path that is not empty: an empty path, such as an unset shell variable, would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _check_not_empty(value, param, "name a file or a folder")
        return super().convert(value, param, ctx)


class _InputPath(_NonEmptyPath):
    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        return "Name files or folders, or - for standard input."


class _NonEmptyWord(click.types.StringParamType):
    """A word, or several separated by commas; empty words are refused, because they would select nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _check_not_empty(str(value).strip(" ,"), param, "give a value, or leave it out")
        return super().convert(value, param, ctx)


class ByteSize(click.types.StringParamType):
    """A number of bytes, such as 500M or 2G; K, M, G and T are powers of 1000."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)B?", str(value).strip(), re.ASCII | re.IGNORECASE)
        size = round(float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ")) if match else 0
        if size < 1:
            self.fail(f"{value!r} is not a size, such as 500M or 2G", param, ctx)
        return size


def _check_not_empty(value: object, param: click.Parameter | None, remedy: str) -> None:
    if value == "" and param is not None:
        name = max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
        raise ConfigError(f"{name} is empty", remedy=remedy)


class _OutputPath(_NonEmptyPath):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "-" else super().convert(value, param, ctx)


PATH = _NonEmptyPath(path_type=Path)
OUTPUT = _OutputPath(path_type=Path)
"""``None`` for ``-``, which means standard output, as no output does."""
OUTPUT_OR_NAME = _OutputPath(readable=False)
PATH_OR_NAME = _NonEmptyPath(readable=False)
"""The value is a string."""
PATH_OR_INPUT = _InputPath(readable=False)
"""Like :data:`PATH_OR_NAME`; ``-`` means standard input."""


class Command(click.Command):
    """A command that refuses a second value of an option, of which click would silently keep only the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args(list(args))[2]
        for param in dict.fromkeys(given):
            if isinstance(param, click.Option) and not param.multiple and given.count(param) > 1:
                message = f"Option {param.get_error_hint(ctx)} is given {given.count(param)} times. Give it once."
                raise click.UsageError(message, ctx)
        return super().parse_args(ctx, args)


class Commands(click.Group):
    """A group whose help shows the whole first sentence of each command."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for command in self.commands.values():
            command.short_help = command.get_short_help_str(limit=1000)
        super().format_commands(ctx, formatter)


def combine(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine the decorators of several options into one."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def _converted(convert: Callable[[dict[str, Any]], object], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options whose values ``convert`` changes before the command is called."""

    def add(command: F) -> F:
        @wraps(command)
        def run(*args: Any, **values: Any) -> Any:
            convert(values)
            return command(*args, **values)

        return combine(*options)(cast(F, run))

    return add


def note_field_options(what: str) -> Callable[[F], F]:
    """Add options for the field names and the encoding of notes; the command gets ``fields`` and ``encoding``."""

    def convert(values: dict[str, Any]) -> None:
        from medlink.notes.reading import Fields

        values["fields"] = Fields(*(values.pop(f"{name}_field", "") for name in ("text", "id", "language", "date")))

    texts = {"text": "the text", "id": "the id of the note", "language": "the language"}
    option = partial(click.option, show_default=True)
    fields = (option(f"--{name}-field", default=name, help=f"{what} with {it}.") for name, it in texts.items())
    return _converted(convert, *fields, encoding_option("notes"))


def column_options(kind: Callable[..., object], **titles: str) -> Callable[[F], F]:
    """Add an option for each column of a list; the command gets ``columns``, an instance of ``kind``."""
    names = {field: "column" if field == "term" else f"{field}_column" for field in titles}

    def convert(values: dict[str, Any]) -> None:
        values["columns"] = kind(**{field: values.pop(name) for field, name in names.items()})

    flags = (f"--{name.replace('_', '-')}" for name in names.values())
    texts = (f"Column of the {title}." for title in titles.values())
    return _converted(convert, *(click.option(flag, help=text) for flag, text in zip(flags, texts, strict=True)))


def encoding_option(what: str) -> Callable[[F], F]:
    help_ = f"Encoding of the {what}, such as latin-1."
    return click.option("--encoding", default="utf-8", show_default=True, help=help_)


bad_share_option = click.option(
    "--max-bad-share", type=float, default=0.01, show_default=True,
    help="Stop when a larger share of a file's rows cannot be used; 0 stops at the first.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
progress_option = click.option(
    "--progress/--no-progress", default=None, help="Show a progress bar; by default on a terminal only."
)
lexicon_option: Callable[[F], F] = click.option(
    "--lexicon", "folders", multiple=True, type=PATH, help="Folder of your own tables of words; may be repeated."
)


def integer_option(
    flag: str, default: int, text: str, *, minimum: int = 0, maximum: int | None = None
) -> Callable[[F], F]:
    return click.option(flag, default=default, show_default=True, type=click.IntRange(minimum, maximum), help=text)


threads_option: Callable[[F], F] = integer_option(
    "--threads", 1, "Threads that build the graph or cells; with more than one they may differ from run to run.",
    minimum=1,
)  # fmt: skip


def pooling_option(encoder: str) -> Callable[[F], F]:
    """Add ``--pooling``; its value becomes a prefix of the encoder in the option ``encoder``, as in ``cls:FOLDER``."""

    def convert(values: dict[str, Any]) -> None:
        pooling = values.pop("pooling", None)
        if pooling and not values.get(encoder):
            raise ConfigError("--pooling needs an encoder", remedy=f"name one with --{encoder}")
        if pooling:
            values[encoder] = f"{pooling}:{values[encoder]}"

    help_ = "How a checkpoint without modules.json pools the vectors of its tokens."
    return _converted(convert, click.option("--pooling", type=click.Choice(POOLINGS), help=help_))


def language_option(text: str) -> Callable[[F], F]:
    """Add an option that takes one language; the command gets its BCP 47 tag."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        return named_tag(value) if value else None

    return click.option("--language", callback=parse, metavar="TAG", help=text)


def settings_options(
    kind: type[Settings], *, exclude: Collection[str] = (), defaults: Mapping[str, str] | None = None
) -> Callable[[F], F]:
    """Add an option for each field: ``--batch-size`` for ``batch_size``, with the field's description as its help.

    An option that the user left out is ``None`` or an empty tuple: see :func:`explicit_options`. ``defaults`` replaces
    the default that the help shows.
    """
    replaced = dict(defaults or {})

    def add(command: F) -> F:
        for name, field in reversed(kind.model_fields.items()):
            if name not in exclude:
                default = replaced.get(name, _format_default(field.get_default(call_default_factory=True)))
                help_ = (field.description or "") + (f"  [default: {default}]" if default else "")
                flag = f"--{name.replace('_', '-')}"
                if field.default is True:
                    flag += f"/--no-{flag[2:]}"
                command = click.option(flag, name, help=help_, **_click_type(field))(command)
        return command

    return add


def explicit_options(options: Mapping[str, Any], kind: type[Settings]) -> dict[str, Any]:
    """Return the options that are fields of ``kind`` and that the user gave."""
    return {name: options[name] for name in kind.model_fields if options.get(name) not in (None, ())}


def make_settings(kind: type[S], options: Mapping[str, Any]) -> S:
    """Make settings from the options that the user gave; other fields keep their defaults."""
    return kind(**explicit_options(options, kind))


def without_unset(options: Mapping[str, Any], *kinds: type[Settings]) -> dict[str, Any]:
    """Drop the options that are fields of ``kinds`` and that the user left out."""
    unset = {name for kind in kinds for name in kind.model_fields if options.get(name) in (None, ())}
    return {name: value for name, value in options.items() if name not in unset}


def _format_default(default: Any) -> str:
    """Format a default as a user types it; empty for none and for a flag that is off."""
    if default in (None, (), "") or default is False:
        return ""
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return "on" if default is True else f"{default:g}" if isinstance(default, float) else str(default)


def _click_type(field: FieldInfo) -> dict[str, Any]:
    """Return arguments of :func:`click.option` for the type of a field; the settings check ranges."""
    kind, origin = field.annotation, get_origin(field.annotation)
    if origin is tuple:
        item = get_args(kind)[0]
        return {"multiple": True, "type": _NonEmptyWord() if item is str else item}
    if origin in (Union, UnionType):
        kinds = [get_args(member)[0] if get_origin(member) is Annotated else member for member in get_args(kind)]
        kinds = [member for member in kinds if member is not NoneType]
        if len(kinds) > 1:
            return {"type": _number_or_word(kinds)}
        kind, origin = kinds[0], get_origin(kinds[0])
        if origin is not Literal:
            return {"type": kind}
    if origin is Literal:
        return {"type": click.Choice(list(map(str, get_args(kind))))}
    return {"is_flag": True, "default": None} if kind is bool else {"type": kind}


def _number_or_word(kinds: list[Any]) -> Callable[[str], Any]:
    """Make the parser of a union such as ``int | Literal["epoch", "never"]``."""

    def parse(text: str) -> Any:
        for kind in {int, float}.intersection(kinds):
            with suppress(ValueError):
                return kind(text)
        return text

    return parse
