"""``--pooling`` of each command that opens an encoder: for checkpoints without ``modules.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import ConfigError, EncoderError
from medlink.index import Bundle
from medlink.kb import Input, build_kb
from medlink.models import load_encoder
from tests.training.small_bert import small_bert

from .runner import run, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer without ``modules.json``."""
    return small_bert(tmp_path_factory.mktemp("bert")).parent / "bert"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of names, one of rated pairs, and a knowledge base."""
    made = tmp_path_factory.mktemp("folder")
    names = [f"C:{i}\t{word} {i}" for i in range(3) for word in ("kidney", "renal")]
    build_kb(made / "kb.sqlite", [Input("table", write(made / "names.tsv", *names, header="concept_id\tname"))])
    pairs = ("abc\tcab\t0", "liver\tlive\t1", "stone\ttones\t2", "rib\tbir\t3", "leg\tgel\t4")
    write(made / "pairs.tsv", *pairs, header="text_1\ttext_2\tscore")
    return made


def test_an_index_and_a_measure_follow_the_pooling(folder: Path, bare: Path, tmp_path: Path) -> None:
    printed = []
    for pooling in ("cls", "mean"):
        bundle = tmp_path / pooling
        run("index", "build", bundle, "--kb", folder / "kb.sqlite", "--encoder", bare, "--pooling", pooling)
        assert Bundle(bundle).encoder.fingerprint == load_encoder(f"{pooling}:{bare}").fingerprint
        words = ("similarity", folder / "pairs.tsv", "--encoder", bare, "--pooling", pooling)
        printed.append(run("evaluate", *words).stdout)
    assert printed[0] != printed[1]


def test_training_begins_with_the_pooling(folder: Path, bare: Path, tmp_path: Path) -> None:
    out, short = tmp_path / "out", ("--epochs", "1", "--anchors", "3", "--accumulation", "1")
    command = ("train", "coderpp", folder / "kb.sqlite", "-o", out, "--start", bare, "--pooling", "cls", *short)
    run(*command)
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
def test_every_command_has_the_option(
    command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(EncoderError, match=r"^cls:missing: no such encoder folder"):
        run(*command.replace("OUT", str(tmp_path / "out")).split(), "missing", "--pooling", "cls")


@pytest.mark.parametrize("command", ["evaluate similarity pairs.tsv", "cluster names.tsv --column name"])
def test_nothing_is_written_into_the_encoder(
    command: str, folder: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="is in a folder that is read"):
        run(*command.split(), "--encoder", bare, "--pooling", "cls", "-o", bare / "out.tsv")
    assert not (bare / "out.tsv").exists()


def test_a_pooling_without_an_encoder(folder: Path, tmp_path: Path) -> None:
    message = r"^--pooling needs an encoder\. Remedy: name one with --enc"
    with pytest.raises(ConfigError, match=message):
        run("index", "build", tmp_path / "out", "--kb", folder / "kb.sqlite", "--pooling", "cls")
