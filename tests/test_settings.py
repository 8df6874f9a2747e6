"""Settings: declared once, validated on creation, turned into options of the command line."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

import click
import pytest
from click.testing import CliRunner
from pydantic import Field, model_validator

from medlink.cli.options import explicit_options, settings_options
from medlink.errors import ConfigError
from medlink.settings import Settings


class Width(Settings):
    columns: Annotated[int, Field(ge=1, description="Columns of the table.")] = 5
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    names: Annotated[tuple[str, ...], Field(strict=False, description="A name; may be repeated.")] = ()
    every: Literal["epoch"] | Annotated[int, Field(ge=1)] = "epoch"


def test_settings_are_validated_on_creation_and_replacement() -> None:
    assert Width(columns=3).replace(columns=4).to_dict() == {"columns": 4, "share": 0.5, "names": [], "every": "epoch"}
    assert Width(names=["a"]).names == ("a",)
    with pytest.raises(ConfigError, match="columns is 0, at least 1 expected"):
        Width().replace(columns=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"columns": 0}, "columns is 0, at least 1 expected. Remedy: leave columns out for 5."),
        ({"columns": True}, "columns is True, a whole number expected. Remedy: leave columns out for 5."),
        ({"share": float("nan")}, "share is nan, at least 0 and at most 1 expected. Remedy: leave share out for 0.5."),
        ({"every": "year"}, "every is 'year', 'epoch' or a whole number expected. Remedy: leave every out for epoch."),
        ({"names": 3}, "names is 3, a list expected. Remedy: leave names out."),
        ({"column": 3}, "unknown option 'column'. Remedy: one of columns, share, names, every."),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Width(**values)


def test_missing_and_conflicting_values_have_a_remedy() -> None:
    class Needed(Settings):
        size: Annotated[int, Field(ge=1)]

        @model_validator(mode="after")
        def _is_odd(self) -> Self:
            if self.size % 2 == 0:
                raise ValueError("size is even")
            return self

    for values, message in (
        ({}, "size is missing. Remedy: add it."),
        ({"size": 0}, "size is 0, at least 1 expected. Remedy: give such a value."),
        ({"size": 2}, "size is even. Remedy: change it, or leave it out."),
    ):
        with pytest.raises(ConfigError) as caught:
            Needed(**values)
        assert str(caught.value) == message


def test_options_of_a_command() -> None:
    @click.command()
    @settings_options(Width, exclude=["share"], defaults={"columns": "5; static 3"})
    def command(**options: Any) -> None:
        click.echo(repr(explicit_options(options, Width)))

    run = CliRunner().invoke
    assert "Columns of the table.  [default: 5; static 3]" in run(command, ["--help"]).output
    assert "--share" not in run(command, ["--help"]).output
    assert run(command, []).output == "{}\n"
    typed = run(command, ["--columns", "3", "--names", "a", "--names", "b", "--every", "2"]).output
    assert typed == "{'columns': 3, 'names': ('a', 'b'), 'every': 2}\n"
    assert run(command, ["--every", "epoch"]).output == "{'every': 'epoch'}\n"
