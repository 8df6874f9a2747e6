"""Run ``medlink`` in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app, main
from medlink.errors import MedlinkError


def run(*words: object, input: str | bytes | None = None, exit_code: int = 0) -> Result:
    """Run a command; a :class:`MedlinkError` of it is raised, with the wording of the library."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=input)
    if isinstance(result.exception, MedlinkError):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result


def error_of(capsys: pytest.CaptureFixture[str], *words: object, exit_code: int = 1) -> str:
    """What a command that fails prints to standard error, as the user sees it."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == exit_code
    return capsys.readouterr().err


def write(path: Path, *rows: str, header: str = "concept_id\tname\tlanguage") -> Path:
    """Write a table."""
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def json_lines(text: str | Path) -> list[dict[str, Any]]:
    """The objects of JSON lines."""
    text = text.read_text("utf-8") if isinstance(text, Path) else text
    return [json.loads(line) for line in text.splitlines()]
