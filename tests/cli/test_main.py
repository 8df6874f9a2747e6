"""The command line as a whole: help, start-up, streams, errors, the demo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import medlink
from medlink.cli.main import COMMANDS, app
from tests.cli.runner import error_of, run


def walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    """A command and those below it, each with its path."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += walk(child, (*path, name))
    return found


EVERY = walk(app, ("medlink",))


def test_every_command_and_option_has_help() -> None:
    assert len(EVERY) > 40
    for path, command in EVERY:
        assert command.help, path
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (path, parameter.name)
        text = run(*path[1:], "--help").output
        assert "..." not in text.partition("\n\n")[2], f"the help of {path} is cut short"


@pytest.mark.parametrize(("path", "command"), [pair for pair in EVERY if not isinstance(pair[1], click.Group)])
def test_an_option_given_twice_is_an_error(path: tuple[str, ...], command: click.Command) -> None:
    options = [one for one in command.params if isinstance(one, click.Option) and not one.multiple]
    for option in options:
        words = [option.opts[0], *([] if option.is_flag else ["1"])]
        error = f"Error: Option {option.get_error_hint(click.Context(command))} is given 2 times. Give it once."
        assert error in run(*path[1:], *words, *words, exit_code=2).output


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell in which ``medlink`` is the command, in a process of its own."""
    call = f"{sys.executable} -c 'from medlink.cli.main import main; main()'"
    environment = {**os.environ, "PYTHONPATH": str(Path(medlink.__file__).parents[1]), **variables}
    command = ["sh", "-c", re.sub(r"(?<!\S)medlink(?= )", lambda _: call, line)]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("link B note.txt --language de", 0, ""),
        ("link B wide.txt --encoding utf-16", 1, "not UTF-16"),
        ("link B - <&-", 1, "standard input is closed"),
        ("kb info B >/dev/full", 1, "medlink: standard output cannot be written"),
        # closed, and nothing is written to it
        ("link B note.txt -o out >&-", 0, "1 note, 1 mention, 1 linked\n"),
        # what nobody can read is not left out in silence
        ("--help >&-", 1, "medlink: standard output is closed. Remedy: send it to a file, or to /dev/null.\n"),
    ],
)
def test_streams_and_encodings(line: str, code: int, message: str, demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Migräne", encoding="utf-8")
    (tmp_path / "wide.txt").write_bytes("Migräne, Fieber".encode("utf-16-le"))
    done = shell(f"medlink {line.replace('B', str(demo_path))}", tmp_path, PYTHONIOENCODING="latin-1")
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert not done.stdout or json.loads(done.stdout)["text"] == "Migräne"


@pytest.mark.slow
def test_umlauts_where_the_locale_is_ascii(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "Überblick.txt").write_text("Migräne", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f"cat *.txt | medlink link {demo_path} - *.txt --language de | cat", tmp_path, **ascii_only)
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["Migräne"] * 2
    assert done.stderr == b"2 notes, 2 mentions, 2 linked\n"


def test_it_runs_as_a_module_and_lists_its_commands() -> None:
    program = [sys.executable, "-X", "importtime", "-m", "medlink"]
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    assert set(re.findall(r"^  (\w+)  ", done.stdout.split("Commands:")[1], re.MULTILINE)) == set(COMMANDS)
    assert "click" in done.stderr
    assert not re.search(r" (numpy|torch|spacy|faiss|sqlalchemy|scipy|filelock|httpx)$", done.stderr, re.MULTILINE)
    done = subprocess.run([*program[:1], *program[3:], "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"medlink, version {medlink.__version__}\n"


def test_an_error_is_one_line_of_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    printed = error_of(capsys, "index", "info", "missing")
    assert printed == "medlink: missing: no such bundle. Remedy: name a folder made by 'medlink index build'.\n"
    printed = error_of(capsys, "index", "info", "a\nb\x1b[2J")
    assert (printed.count("\n"), "\x1b" in printed, r"a\nb\u001b[2J" in printed) == (1, False, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("nothing", 2, "No such command 'nothing'."),
        ("link B", 2, "Missing argument 'PATHS...'. Name files or folders, or - for standard input."),
        ("cluster", 2, "Missing argument 'TERMS'. Name files or folders, or - for standard input."),
        ("link B n.txt --langauge de", 2, "--language"),
        ("kb search K x --langauge de", 2, "Did you mean '--language'?"),
        ("link B n.txt --threshold 2", 1, "--threshold is 2.0, at least 0 and at most 1 expected"),
        ("link B n.txt --threshold nan", 1, "--threshold is nan, at least 0 and at most 1 expected"),
        ("cluster n.txt --threshold inf", 1, "--threshold is inf, above 0 and below 1 expected"),
        ("kb build x --table n.txt --max-bad-share 2", 1, "--max-bad-share is 2.0. Remedy: give a sh"),
        ("kb build x --table bad.tsv", 1, "Remedy: correct or fetch the file again, or raise --max-bad-share."),
        ("train static B -o x --batch-size 0", 1, "--batch-size is 0, at least 2 expected"),
    ],
)
def test_errors_name_what_was_typed_and_what_to_type(
    words: str, code: int, message: str, demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("n.txt").write_text("concept_id\n", encoding="utf-8")
    Path("bad.tsv").write_text("concept_id\tname\n" + "X\n" * 10, encoding="utf-8")
    given = [str(demo_path) if word == "B" else word for word in words.split()]
    assert message in error_of(capsys, *given, exit_code=code)


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tried = 0
    for path, command in EVERY:
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        for parameter in command.params:
            if not (
                isinstance(parameter.type, click.Path) or parameter.name in ("terms", "encoder", "start", "teacher")
            ):
                continue
            is_option = isinstance(parameter, click.Option)
            name = max(parameter.opts, key=len) if is_option else str(parameter.human_readable_name)
            before = [name] if is_option else ["x"] * arguments.index(parameter)  # type: ignore[arg-type]  # no option
            error = CliRunner().invoke(app, [*path[1:], *before, ""]).exception
            assert isinstance(error, medlink.MedlinkError), (path, name)
            assert str(error) == f"{name} is empty. Remedy: name a file or a folder."
            tried += 1
    assert tried > 80
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    output = run("demo", "-o", tmp_path).output
    for language in ("de", "en", "es"):
        assert re.search(rf"^{language}: \d+ mentions$", output, re.MULTILINE)
    table_row = r"^Wasser in den Beinen +DEMO:\d{4} +\w+ +0\.\d{3}  exact: Wasser in den Beinen \[de, DEMO\]"
    assert re.search(table_row, output, re.MULTILINE)
    assert "as long form" in output
    page = tmp_path / "notes.html"
    assert str(page.resolve()) in output
    assert all(f'["{language}.txt","{language}",' in page.read_text("utf-8") for language in ("de", "en", "es"))
