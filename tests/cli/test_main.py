"""The command line as a whole: help, start-up, errors, demo, index and train."""

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
from medlink.cli.main import COMMANDS, app, main
from medlink.index import Bundle
from medlink.models import StaticEncoder
from tests.index.test_bundle import small_kb


def walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += walk(child, (*path, name))
    return found


EVERY = walk(app, ("medlink",))


@pytest.mark.parametrize(("path", "command"), EVERY, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_every_command_and_option_has_help(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path}: {parameter.name}"
    result = CliRunner().invoke(app, [*path[1:], "--help"])
    assert result.exit_code == 0
    assert "..." not in result.output.partition("\n\n")[2], "help is cut short"


def test_an_error_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["index", "info", "a\nb\x1b[2J"])
    line = capsys.readouterr().err
    assert (line.count("\n"), "\x1b" in line, r"a\nb\u001b[2J" in line) == (1, False, True)


def command(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell in which ``medlink`` is the command, in a process of its own."""
    call = f"{sys.executable} -c 'from medlink.cli.main import main; main()'"
    return subprocess.run(
        ["sh", "-c", line.replace("medlink", call)],
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(medlink.__file__).parents[1]), **variables},
    )


def test_streams_that_are_not_as_usual(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Migräne", encoding="utf-8")
    (tmp_path / "wide.txt").write_bytes("Migräne, Fieber".encode("utf-16-le"))
    for encoding in ("ascii", "latin-1"):
        done = command(f"medlink link {demo_path} note.txt --language de", tmp_path, PYTHONIOENCODING=encoding)
        assert done.returncode == 0
        assert json.loads(done.stdout)["text"] == "Migräne"
    done = command(f"medlink link {demo_path} wide.txt --encoding utf-16", tmp_path)
    assert done.returncode == 1
    assert b"not UTF-16" in done.stderr
    done = command("medlink cluster wide.txt --encoding utf-16", tmp_path)
    assert done.returncode == 1
    assert b"not UTF-16" in done.stderr
    done = command(f"medlink link {demo_path} - <&-", tmp_path)
    assert done.returncode == 1
    assert b"standard input is closed" in done.stderr
    done = command(f"medlink kb info {demo_path} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"medlink: standard output cannot be written")


def test_umlauts_where_the_system_speaks_ascii(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "Überblick.txt").write_text("Migräne", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for line in ("medlink link B *.txt --language de | cat", "cat *.txt | medlink link B - --language de | cat"):
        done = command(line.replace("B", str(demo_path)), tmp_path, **ascii_only)
        assert json.loads(done.stdout)["text"] == "Migräne"
        assert done.stderr == b"1 note, 1 mention, 1 linked\n"


@pytest.mark.parametrize(
    "line", ["--help", "kb info B", "kb search B fever --json", "index verify B", "lexicon show fever"]
)
def test_a_closed_output_is_an_error(line: str, demo_path: Path, tmp_path: Path) -> None:
    """What nobody can read is not left out in silence."""
    done = command(f"medlink {line.replace('B', str(demo_path))} >&-", tmp_path)
    assert done.stderr == b"medlink: standard output is closed. Remedy: send it to a file, or to /dev/null.\n"
    assert done.returncode == 1


def test_a_closed_output_that_nothing_is_written_to(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("Fieber", encoding="utf-8")
    done = command(f"medlink link {demo_path} n.txt -o out >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"1 note, 1 mention, 1 linked\n")


def test_listing_commands_imports_none_of_them() -> None:
    code = (
        "import sys, medlink.cli.options; from medlink.cli.main import main\n"  # the options that all commands share
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'spacy', 'faiss', 'sqlalchemy', 'scipy', 'filelock', 'httpx'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "heavy: []" in out
    assert set(re.findall(r"^  (\w+)  ", out.split("Commands:")[1], re.MULTILINE)) == set(COMMANDS)


def test_it_runs_as_a_module() -> None:
    out = subprocess.run([sys.executable, "-m", "medlink", "--version"], capture_output=True, text=True, check=True)
    assert out.stdout == f"medlink, version {medlink.__version__}\n"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["index", "info", "missing"])
    assert stop.value.code == 1
    printed = capsys.readouterr().err
    where = "missing"
    assert printed == f"medlink: {where}: no such bundle. Remedy: name a folder made by 'medlink index build'.\n"
    assert CliRunner().invoke(app, ["nothing"]).exit_code == 2
    assert medlink.__version__ in CliRunner().invoke(app, ["--version"]).output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["link", "KB", "n.txt", "--threshold", "2"], "--threshold is 2.0, at least 0 and at most 1 expected"),
        (["link", "KB", "n.txt", "--threshold", "nan"], "--threshold is nan, at least 0 and at most 1 expected"),
        (["cluster", "n.txt", "--threshold", "inf"], "--threshold is inf, above 0 and below 1 expected"),
        (["kb", "build", "x", "--table", "n.txt", "--max-bad-share", "2"], "--max-bad-share is 2.0. Remedy: give a sh"),
        (["kb", "build", "x", "--table", "bad.tsv"], "Remedy: mend or fetch the file again, or raise --max-bad-share."),
        (["train", "static", "KB", "-o", "x", "--batch-size", "0"], "--batch-size is 0, at least 2 expected"),
    ],
)
def test_errors_name_the_option_as_typed(
    args: list[str],
    said: str,
    demo_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.txt").write_text("concept_id\n", encoding="utf-8")
    Path("bad.tsv").write_text("concept_id\tname\n" + "X\n" * 10, encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main([str(demo_path) if part == "KB" else part for part in args])
    assert stop.value.code == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["link", "B"], "Missing argument 'PATHS...'. Name files or folders, or - for standard input."),
        (["cluster"], "Missing argument 'TERMS'. Name files or folders, or - for standard input."),
        (["link", "B", "n.txt", "--langauge", "de"], "--language"),
        (["kb", "search", "K", "x", "--langauge", "de"], "Did you mean '--language'?"),
    ],
)
def test_what_is_missing_or_misspelt_comes_with_what_is_meant(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


PATHS = [
    (path[1:], parameter)
    for path, command in EVERY
    for parameter in command.params
    if isinstance(parameter.type, click.Path) or parameter.name in ("terms", "encoder", "start", "teacher")
]


@pytest.mark.parametrize(
    ("path", "parameter"), PATHS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else str(x.name)
)
def test_an_empty_path_is_not_the_current_folder(
    path: tuple[str, ...], parameter: click.Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command: click.Command = dict(EVERY)["medlink", *path]
    given, name = [""], str(parameter.human_readable_name)
    if isinstance(parameter, click.Option):
        name = max(parameter.opts, key=len)
        given = [name, ""]
    else:
        places = [one for one in command.params if isinstance(one, click.Argument)]
        given = [*["x"] * places.index(parameter), ""]
    error = CliRunner().invoke(app, [*path, *given]).exception
    assert isinstance(error, medlink.MedlinkError)
    assert str(error) == f"{name} is empty. Remedy: name a file or a folder."
    assert not list(tmp_path.iterdir())


def test_demo(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    for language in ("de", "en", "es"):
        assert re.search(rf"^{language}: \d+ mentions$", result.output, re.MULTILINE)
    assert re.search(
        r"^Wasser in den Beinen +DEMO:\d{4} +\w+ +0\.\d{3}  exact: Wasser in den Beinen \[de, DEMO\]",
        result.output,
        re.MULTILINE,
    )
    assert "as long form" in result.output
    page = (tmp_path / "notes.html").read_text("utf-8")
    assert str((tmp_path / "notes.html").resolve()) in result.output
    for language in ("de", "en", "es"):
        assert f'["{language}.txt","{language}",' in page


def test_index_build_and_info(tmp_path: Path) -> None:
    kb = small_kb(tmp_path / "kb.sqlite")
    build = ["index", "build", str(tmp_path / "b"), "--kb", str(kb)]
    runner = CliRunner()
    result = runner.invoke(app, build, catch_exceptions=False)
    assert "2 names of 2 concepts, 2 distinct, flat index of 256 dimensions" in result.output
    info = json.loads(runner.invoke(app, ["index", "info", str(tmp_path / "b")]).stdout)
    assert info["index"]["kind"] == "flat"
    assert info["kb"] == Bundle(tmp_path / "b").kb.content_hash
    runner.invoke(app, [*build[:3], "--kind", "hnsw", "--threads", "2", "--encoder", "builtin"], catch_exceptions=False)
    assert Bundle(tmp_path / "b").index.manifest["kind"] == "hnsw"
    runner.invoke(app, [*build[:3], "--memory", "0.6K"], catch_exceptions=False)
    found = Bundle(tmp_path / "b").index.manifest
    assert [found[key] for key in ("kind", "memory", "bytes_per_name")] == ["ivfpq", 600, 72]
    refused = runner.invoke(app, [*build[:3], "--memory", "1G", "--kind", "flat"])
    assert "both a kind of index and its memory are named" in str(refused.exception)
    assert "'some' is no size, such as 500M or 2G" in runner.invoke(app, [*build[:3], "--memory", "some"]).output


TRAINED = (("kidney", "en"), ("renal", "en"), ("nephros", "en"), ("reins", "en"), ("ren", "en"), ("Niere", "de"))
SMALL = ("--rows", "512", "--dimension", "16", "--hidden", "16")
MORE = (("--feature-dropout", "0.5"), ("--language-boost", "1"))


def test_train_static(tmp_path: Path) -> None:
    table = tmp_path / "names.tsv"
    table.write_text(
        "concept_id\tname\tlanguage\n" + "".join(f"C:{i}\t{w} {i}\t{la}\n" for i in range(6) for w, la in TRAINED),
        encoding="utf-8",
    )
    runner = CliRunner()
    kb = tmp_path / "kb.sqlite"
    runner.invoke(app, ["kb", "build", str(kb), "--table", str(table)], catch_exceptions=False)

    def train(name: str, *options: str) -> str:
        result = runner.invoke(
            app,
            ["train", "static", str(kb), "-o", str(tmp_path / name), "--epochs", "2", *SMALL, *options],
            catch_exceptions=False,
        )
        assert result.exit_code == 0, result.output
        return StaticEncoder.load(tmp_path / name).fingerprint

    base = train("a")
    assert train("again") == base
    for options in (("--seed", "2"), ("--epochs", "1"), ("--batch-size", "4"), ("--hard-epochs", "0"), *MORE):
        assert train("other", *options) != base, options
    mean = runner.invoke(
        app, ["train", "average", str(tmp_path / "a"), str(tmp_path / "other"), "-o", str(tmp_path / "mean")]
    )
    assert "the mean of 2" in mean.output
    assert StaticEncoder.load(tmp_path / "mean").fingerprint not in (base, "")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("mine")
    with pytest.raises(medlink.MedlinkError, match="not empty and holds no encoder"):
        runner.invoke(app, ["train", "static", str(kb), "-o", str(tmp_path / "full")], catch_exceptions=False)
