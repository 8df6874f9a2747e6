"""``--pooling``: how a checkpoint without ``modules.json`` is read by each command that opens an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app
from medlink.errors import ConfigError, EncoderError
from medlink.index import Bundle
from medlink.models import load_encoder
from tests.training.small_bert import small_bert


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer without ``modules.json``."""
    return small_bert(tmp_path_factory.mktemp("bert")).parent / "bert"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of names, one of rated pairs, and a knowledge base."""
    made = tmp_path_factory.mktemp("folder")
    names = "".join(f"C:{i}\t{word} {i}\n" for i in range(3) for word in ("kidney", "renal"))
    (made / "names.tsv").write_text(f"concept_id\tname\n{names}", encoding="utf-8")
    pairs = "".join(
        f"{one}\t{two}\t{i}\n"
        for i, (one, two) in enumerate(
            [("abc", "cab"), ("liver", "live"), ("stone", "tones"), ("rib", "bir"), ("leg", "gel")]
        )
    )
    (made / "pairs.tsv").write_text(f"text_1\ttext_2\tscore\n{pairs}", encoding="utf-8")
    run("kb", "build", made / "kb.sqlite", "--table", made / "names.tsv")
    return made


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_an_index_and_a_measure_follow_the_pooling(folder: Path, bare: Path, tmp_path: Path) -> None:
    printed = []
    for pooling in ("cls", "mean"):
        bundle = tmp_path / pooling
        built = run("index", "build", bundle, "--kb", folder / "kb.sqlite", "--encoder", bare, "--pooling", pooling)
        assert built.exit_code == 0, built.output
        assert Bundle(bundle).encoder.fingerprint == load_encoder(f"{pooling}:{bare}").fingerprint
        measured = run("evaluate", "similarity", folder / "pairs.tsv", "--encoder", bare, "--pooling", pooling)
        assert measured.exit_code == 0, measured.output
        printed.append(measured.stdout)
    assert printed[0] != printed[1]


def test_training_begins_with_the_pooling(folder: Path, bare: Path, tmp_path: Path) -> None:
    out, short = tmp_path / "out", ("--epochs", "1", "--anchors", "3", "--accumulation", "1")
    command = ("train", "coderpp", folder / "kb.sqlite", "-o", out, "--start", bare, "--pooling", "cls", *short)
    assert run(*command).exit_code == 0
    assert load_encoder(f"cls:{bare}").fingerprint in (out / "README.md").read_text("utf-8")
    assert load_encoder(f"cls:{out}").fingerprint == load_encoder(out).fingerprint


@pytest.mark.parametrize(
    "command",
    [
        "index build OUT --kb kb.sqlite --encoder",
        "evaluate similarity pairs.tsv --encoder",
        "cluster names.tsv --column name --encoder",
        "train coderpp kb.sqlite -o OUT --start",
        "train map kb.sqlite -o OUT --start",
        "train grounding kb.sqlite -o OUT --start",
        "train mlte pairs.tsv -o OUT --beta 1 --start",
        "train biolord sts pairs.tsv -o OUT --start",
    ],
)
def test_every_command_hands_it_on(command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(EncoderError, match=r"^cls:missing: no such encoder folder"):
        run(*command.replace("OUT", str(tmp_path / "out")).split(), "missing", "--pooling", "cls")


@pytest.mark.parametrize("command", ["evaluate similarity pairs.tsv", "cluster names.tsv --column name"])
def test_nothing_is_written_into_the_encoder(
    command: str, folder: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="lies in a folder that is read"):
        run(*command.split(), "--encoder", bare, "--pooling", "cls", "-o", bare / "out.tsv")
    assert not (bare / "out.tsv").exists()


def test_a_pooling_of_no_encoder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        Exception, match=r"^--pooling is of an encoder, and there is none\. Remedy: name one with --enc"
    ):
        run("index", "build", tmp_path / "out", "--kb", folder / "kb.sqlite", "--pooling", "cls")
