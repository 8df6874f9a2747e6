"""``medlink train biolord``: options reach the recipe, what each command prints, what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import medlink
from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.models import StaticEncoder, load_encoder
from medlink.training.recipes import ContrastiveRecipe
from tests.training.small_bert import small_bert
from tests.training.trained import card, fingerprint, missing
from tests.training.trained import recipe_on_card as recipe

from .biolord_folder import rated, train
from .runner import error_of

pytestmark = pytest.mark.slow

SHORT = ("--batch-size", 32, "--learning-rate", 0.01)


def test_contrastive(folder: Path, tmp_path: Path) -> None:
    command = ("contrastive", folder / "kb.sqlite", "--start", folder / "base", "--pairs", 96, *SHORT)
    printed = train(*command, "-o", tmp_path / "a")
    base = fingerprint(tmp_path / "a")
    assert f"{tmp_path / 'a'}: encoder {base}, trained on 96 pairs an epoch" in printed
    assert "step 3/3 loss" in printed
    with KnowledgeBase(folder / "kb.sqlite") as kb:
        assert not missing(tmp_path / "a", f"- knowledge base: `{kb.content_hash}`")
    # each option of the data changes the weights
    fingerprints = {base}
    data = (("--language", "en"), ("--without", folder / "held_out.txt"), ("--definitions", folder / "glossary.tsv"))
    for number, option in enumerate(data, 2):
        train(*command, *option, "-o", tmp_path / str(number))
        fingerprints.add(fingerprint(tmp_path / str(number)))
        assert len(fingerprints) == number, option
    values = {"temperature": 0.1, "seed": 2, "mini_batch": 8, "precision": "bf16"}
    pairs = {"definition_share": 0.5, "open_share": 0.0, "semantic_type_share": 0.25, "name_share": 0.25}
    options = [word for name, value in (values | pairs).items() for word in (f"--{name.replace('_', '-')}", value)]
    train(*command, *options, "-o", tmp_path / "values")
    assert recipe(tmp_path / "values") | values == recipe(tmp_path / "values")
    assert not missing(tmp_path / "values", *(f"'{name}': {value}" for name, value in pairs.items()), "'seed': 2")


def test_contrastive_of_a_static_encoder(folder: Path, tmp_path: Path) -> None:
    command = ("contrastive", folder / "kb.sqlite", "--start", "builtin", "--pairs", 96, "--batch-size", 32)
    printed = train(*command, "--dev", folder / "sts.tsv", "-o", tmp_path / "a")
    weights = StaticEncoder.load(tmp_path / "a").fingerprint
    assert f"{tmp_path / 'a'}: encoder {weights}, trained on 96 pairs an epoch" in printed
    assert "step 3/3 measure" in printed
    assert recipe(tmp_path / "a") == ContrastiveRecipe.static().replace(batch_size=32).to_dict()
    train(*command, "--feature-dropout", 0.5, "-o", tmp_path / "b")
    assert recipe(tmp_path / "b")["feature_dropout"] == 0.5


def test_sts(folder: Path, tmp_path: Path) -> None:
    """Several tables, also of one name; rows that cannot be used are counted; the measure stops the run."""
    tables = [tmp_path / name / "train.tsv" for name in ("stsb", "sick")]
    for table, scores in zip(tables, (range(5), range(9, 2, -1)), strict=True):
        table.parent.mkdir()
        table.write_text(rated(scores) + "secret\tsecret\tmany\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(rated(range(5)) + "\tsecret\t1\n", encoding="utf-8")
    command = ("--start", folder / "base", *SHORT)
    printed = train("sts", *tables, *command, "--epochs", 1, "-o", tmp_path / "a", "--dev", tmp_path / "dev.tsv")
    assert "trained on 40 rated pairs" in printed
    assert not missing(tmp_path / "a", *(f"- {table}: 20 rated pairs" for table in tables))
    for kind, path in (("rating that is not a number", tables[0]), ("empty text", tmp_path / "dev.tsv")):
        assert f"rows that cannot be used: 1 ({kind}, the first at {path}:22)" in printed
    assert "secret" not in printed
    again = tmp_path / "sick" / ".." / "stsb" / "train.tsv"
    with pytest.raises(ConfigError, match=r"train\.tsv is given twice\. Remedy: name each table once"):
        train("sts", tables[0], again, *command, "-o", tmp_path / "twice")
    # trained on the opposite of the development pairs
    (tmp_path / "dev.tsv").write_text(rated(range(4, -1, -1)), encoding="utf-8")
    measured = ("--dev", tmp_path / "dev.tsv", "--evaluate-steps", 1, "--epochs", 10, "--loss", "cosent")
    printed = train("sts", folder / "sts.tsv", *command, *measured, "--patience", 1, "-o", tmp_path / "b")
    assert re.search(r"step 1/10 measure -?\d\.\d{4}", printed)
    assert "step 10/10 measure" not in printed
    assert recipe(tmp_path / "b")["loss"] == "cosent"


def test_distill(folder: Path, tmp_path: Path) -> None:
    command = ("distill", folder / "kb.sqlite", "--teacher", folder / "base", "--start", folder / "base", "--runs", 1)
    options = ("--dimension", 4, "--language", "en", *SHORT)
    texts = []
    for name, more in (("a", ()), ("b", ("--descriptions", 0, "--head-start", "random", "--head-rate", 0.1))):
        assert "1 encoders, run-1 to run-1" in train(*command, *options, *more, "-o", tmp_path / name)
        texts.append(int(re.findall(r"- texts: ([\d,]+)", card(tmp_path / name / "run-1"))[0]))
    values = {"descriptions": 0, "head_start": "random", "head_rate": 0.1, "dimension": 4}
    assert recipe(tmp_path / "b" / "run-1") | values == recipe(tmp_path / "b" / "run-1")
    # every second concept of the 60 has a definition, the others a description
    assert 20 < texts[0] - texts[1] <= 30


def test_static(folder: Path, tmp_path: Path) -> None:
    command = ("static", folder / "kb.sqlite", "--teacher", folder / "base", "--epochs", 1, "--held-out", 10)
    printed = train(*command, "-o", tmp_path / "a", "--without", folder / "held_out.txt")
    assert (
        f"static encoder {StaticEncoder.load(tmp_path / 'a').fingerprint}; its README.md states what it loses"
        in printed
    )


def test_multilingual(folder: Path, tmp_path: Path) -> None:
    command = ("multilingual", folder / "kb.sqlite", "--teacher", folder / "base", "--filter", "", "--epochs", 1)
    student = ("--student", folder / "base")
    assert "for en, de" in train(*command, *student, "--language", "GER", "-o", tmp_path / "a")
    train(*command, *student, "--language", "de", "-o", tmp_path / "b", "--alignments", folder / "aligned.tsv")
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "b")
    narrow = ("--student", small_bert(tmp_path / "bert", width=8), "--language", "de", "-o", tmp_path / "c")
    with pytest.raises(ConfigError, match="or add a linear layer with project"):
        train(*command, *narrow)
    train(*command, *narrow, "--project")
    assert load_encoder(tmp_path / "c").dimension == 16


def test_encoders_and_systems_that_do_not_exist(folder: Path, tmp_path: Path) -> None:
    remedy = "name 'builtin', the folder of an encoder, or hf:ORG/NAME for a model of the Hugging Face hub"
    for words in (("contrastive", "--start"), ("distill", "--start", folder / "base", "--teacher")):
        with pytest.raises(medlink.MedlinkError, match=rf"nope: no such encoder folder\. Remedy: {remedy}"):
            train(*words, "nope", folder / "kb.sqlite", "-o", tmp_path / "a")
    command = ("contrastive", folder / "kb.sqlite", "--start", folder / "base", "-o", tmp_path / "a")
    with pytest.raises(medlink.MedlinkError, match="the knowledge base has no codes of the system 'HOUSE'"):
        train(*command, "--definitions", folder / "glossary.tsv", "--definitions-system", "HOUSE")


COMMANDS = (
    "sts nowhere.tsv --start builtin",
    "contrastive nowhere.sqlite --start builtin",
    "distill nowhere.sqlite --teacher builtin --start builtin",
    "multilingual nowhere.sqlite --teacher builtin --student builtin",
    "static nowhere.sqlite --teacher builtin",
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run nowhere.toml", "nowhere.toml: cannot be read: "),
        (f"{COMMANDS[0]} -o out", "nowhere.tsv: "),
        ("soup nowhere -o out", "nowhere: no encoder folder"),
        (f"{COMMANDS[1]} -o out --epochs 0", "epochs is 0"),
        (f"{COMMANDS[0]} -o out --evaluate-steps epoch", "evaluate-steps is 'epoch' and there is no dev. Remedy"),
        *(
            (f"{command} -o out --patience 2", "patience is 2 and there is no dev. Remedy: name")
            for command in COMMANDS
        ),
    ],
)
def test_errors_are_one_line(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = error_of(capsys, "train", "biolord", *words.split())
    assert message in printed
    assert printed.count("\n") == 1
    assert not any(tmp_path.iterdir())
