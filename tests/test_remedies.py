"""Every error that a user can cause names a remedy, worded as a user types it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import medlink
from medlink.cli.output import as_typed

PACKAGE = Path(medlink.__file__).parent
ERRORS = {"MedlinkError", "ConfigError", "InputError", "BundleError", "KnowledgeBaseError", "EncoderError"}


def without_remedy(path: Path) -> list[str]:
    """Errors of a file without a remedy; "... expected" is enough for arguments of another shape or number."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            given = {keyword.arg for keyword in node.keywords}
            is_shape = "path" not in given and ast.unparse(node.args[0]).rstrip("'\"").endswith(" expected")
            if "remedy" not in given and not is_shape:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.slow
def test_every_error_has_a_remedy() -> None:
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    assert [line for path in files for line in without_remedy(path)] == []


COMMAND = re.compile(
    r"\bmedlink (?:kb|index|link|map|cluster|review|learn|train|evaluate|lexicon|impact)\b|(?<!\S)--[a-z]"
)


def messages(path: Path) -> Iterator[str]:
    """Errors of a file, and assignments to variables named remedy."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_error = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS
        if is_error or (isinstance(node, ast.Assign) and "remedy" in ast.unparse(node.targets[0]).lower()):
            yield ast.unparse(node)


@pytest.mark.slow
def test_the_library_names_no_command() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if "cli" not in path.relative_to(PACKAGE).parts]
    assert [text for path in files for text in messages(path) if COMMAND.search(text)] == []


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("run build_bundle(house) again", "run 'medlink index build house' again"),
        ("run build_bundle(a/b, encoder=NAME), or", "run 'medlink index build a/b --encoder NAME', or"),
        ("build it again with build_kb()", "build it again with 'medlink kb build'"),
        ("a file that cluster_list(format=jsonl) wrote", "a file that 'medlink cluster --format jsonl' wrote"),
        ("name it with id_field=..., or", "name it with --id-field, or"),
        ('add encoding="utf-16-le".', "add --encoding utf-16-le."),
        ("a table, or give definition_share=0.", "a table, or give --definition-share 0."),
        ("with id_field=..., in Python with Fields(note_id=...)", "with --id-field"),
        ("see Other(x)", "see Other(x)"),
    ],
)
def test_calls_become_commands(text: str, typed: str) -> None:
    assert as_typed(text) == typed


def test_an_error_without_a_remedy_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    code = ["InputError('is bad', path=p)", "InputError('is bad', remedy='mend it')", "ConfigError('2, 1 expected')"]
    (tmp_path / "a.py").write_text("\n".join([*code, "ConfigError('2, 1 expected', path=p)"]), encoding="utf-8")
    assert [line.partition(" ")[0] for line in without_remedy(tmp_path / "a.py")] == ["a.py:1:", "a.py:4:"]
