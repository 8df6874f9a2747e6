"""``medlink train biolord``: its options, its defaults, what each command does, its errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import medlink
from medlink.cli.main import main
from medlink.kb import KnowledgeBase
from medlink.models import StaticEncoder, load_encoder
from medlink.training.recipes import (
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PhaseRecipe,
    StaticStudentRecipe,
    StsRecipe,
)
from tests.training.small_bert import small_bert

from .biolord_folder import rated, train

RECIPES: dict[str, PhaseRecipe] = {
    "sts": StsRecipe(),
    "contrastive": ContrastiveRecipe(),
    "distill": DistillationRecipe(),
    "multilingual": MultilingualRecipe(),
    "static": StaticStudentRecipe(),
}
SHORT = ("--batch-size", "32", "--learning-rate", "0.01")


def test_contrastive(folder: Path, tmp_path: Path) -> None:
    command = ("contrastive", folder / "kb.sqlite", "--start", folder / "base", "--pairs", 96, *SHORT)
    said = train(*command, "-o", tmp_path / "a")
    base = load_encoder(tmp_path / "a").fingerprint
    assert f"{tmp_path / 'a'}: encoder {base}, trained on 96 pairs an epoch" in said
    assert "step 3/3 loss" in said
    card = (tmp_path / "a" / "README.md").read_text("utf-8")
    with KnowledgeBase(folder / "kb.sqlite") as kb:
        assert f"- knowledge base: `{kb.content_hash}`" in card
    assert "- definitions: " in card
    seen = {base}
    for i, option in enumerate(
        (
            ("--temperature", "0.1"),
            ("--seed", "2"),
            ("--definition-share", "0.5"),
            ("--name-share", "0.5"),
            ("--open-share", "0"),
            ("--semantic-type-share", "0"),
            ("--language", "en"),
            ("--without", folder / "held_out.txt"),
            ("--definitions", folder / "glossary.tsv"),
            ("--mini-batch", "8", "--precision", "bf16"),
        )
    ):
        train(*command, *option, "-o", tmp_path / str(i))
        seen.add(load_encoder(tmp_path / str(i)).fingerprint)
        assert len(seen) == i + 2, option
    # pairs made by another process are the same
    train(*command, "--pair-workers", "1", "-o", tmp_path / "same")
    assert load_encoder(tmp_path / "same").fingerprint == base


def test_contrastive_of_a_static_encoder(folder: Path, tmp_path: Path) -> None:
    command = ("contrastive", folder / "kb.sqlite", "--start", "builtin", "--pairs", 96)
    said = train(*command, "--batch-size", 32, "-o", tmp_path / "a")
    encoder = StaticEncoder.load(tmp_path / "a")
    assert f"{tmp_path / 'a'}: encoder {encoder.fingerprint}, trained on 96 pairs an epoch" in said
    assert "step 3/3 loss" in said
    stated = json.loads((tmp_path / "a" / "README.md").read_text("utf-8").split("```json")[1].split("```")[0])
    assert stated == ContrastiveRecipe.static().replace(batch_size=32).to_dict()
    for i, option in enumerate((("--feature-dropout", 0.5), ("--learning-rate", 1e-4), ("--temperature", 0.1))):
        train(*command, "--batch-size", 32, *option, "-o", tmp_path / str(i))
        assert load_encoder(tmp_path / str(i)).fingerprint != encoder.fingerprint
    # its development measure is that of any other
    measured = train(*command, "--batch-size", 32, "--dev", folder / "sts.tsv", "-o", tmp_path / "b")
    assert "step 3/3 measure" in measured


@pytest.mark.parametrize("option", ["--start", "--teacher"])
def test_an_encoder_that_is_not_there(folder: Path, tmp_path: Path, option: str) -> None:
    command = ("contrastive",) if option == "--start" else ("distill", "--start", folder / "base")
    remedy = "name 'builtin', the folder of an encoder, or hf:ORG/NAME for a model of the Hugging Face hub"
    with pytest.raises(medlink.MedlinkError, match=rf"nope: no such encoder folder\. Remedy: {remedy}"):
        train(*command, folder / "kb.sqlite", option, "nope", "-o", tmp_path / "a")


def test_codes_of_a_system_lead_to_concepts(folder: Path, tmp_path: Path) -> None:
    command = ("contrastive", folder / "kb.sqlite", "--start", folder / "base", "-o", tmp_path / "a")
    with pytest.raises(medlink.MedlinkError, match="the knowledge base has no codes of the system 'HOUSE'"):
        train(*command, "--definitions", folder / "glossary.tsv", "--definitions-system", "HOUSE")


def test_sts_and_its_measure(folder: Path, tmp_path: Path) -> None:
    command = ("sts", folder / "sts.tsv", "--start", folder / "base", "--epochs", 2, *SHORT)
    said = train(*command, "-o", tmp_path / "a", "--dev", folder / "sts.tsv", "--evaluate-steps", "1")
    assert "trained on 20 rated pairs" in said
    assert len(re.findall(r"step \d/2 measure -?\d\.\d{4}", said)) == 2
    train(*command, "-o", tmp_path / "b", "--loss", "cosent")
    assert load_encoder(tmp_path / "a").fingerprint != load_encoder(tmp_path / "b").fingerprint
    # learned is the opposite of what is measured
    (tmp_path / "dev.tsv").write_text(rated(range(4, -1, -1)), encoding="utf-8")
    measured = ("--dev", tmp_path / "dev.tsv", "--evaluate-steps", "1", "--epochs", 10)
    assert "step 10/10 measure" in train(*command, *measured, "-o", tmp_path / "c")
    assert "step 10/10 measure" not in train(*command, *measured, "--patience", 1, "-o", tmp_path / "d")


def test_two_tables_of_one_name(folder: Path, tmp_path: Path) -> None:
    for name, scores in (("stsb", range(5)), ("sick", range(9, 2, -1))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.tsv").write_text(rated(scores), encoding="utf-8")
    tables = [tmp_path / name / "train.tsv" for name in ("stsb", "sick")]
    command = ("sts", *tables, "--start", folder / "base", "--epochs", 1, *SHORT)
    assert "trained on 40 rated pairs" in train(*command, "-o", tmp_path / "both")
    card = (tmp_path / "both" / "README.md").read_text("utf-8")
    assert all(f"- {table}: 20 rated pairs" in card for table in tables)
    train("sts", tables[1], *command[3:], "-o", tmp_path / "one")
    assert load_encoder(tmp_path / "both").fingerprint != load_encoder(tmp_path / "one").fingerprint
    again = tmp_path / "sick" / ".." / "stsb" / "train.tsv"
    with pytest.raises(medlink.MedlinkError, match=r"train\.tsv is given twice\. Remedy: name each table once"):
        train("sts", tables[0], again, *command[3:], "-o", tmp_path / "twice")


def test_rows_that_are_not_used_are_said(folder: Path, tmp_path: Path) -> None:
    for name, row in (("table.tsv", "secret\tsecret\tmany\n"), ("dev.tsv", "\tsecret\t1\n")):
        (tmp_path / name).write_text(rated(range(5)) + row, encoding="utf-8")
    options = ("--start", folder / "base", "--epochs", 1, *SHORT, "-o", tmp_path / "out")
    said = train("sts", tmp_path / "table.tsv", *options, "--dev", tmp_path / "dev.tsv")
    for kind, name in (("rating that is not a number", "table.tsv"), ("empty text", "dev.tsv")):
        assert f"rows that cannot be used: 1 ({kind}, the first at {tmp_path / name}:22)" in said
    assert "secret" not in said


def test_self_distillation(folder: Path, tmp_path: Path) -> None:
    command = ("distill", folder / "kb.sqlite", "--teacher", folder / "base", "--start", folder / "base", "--runs", 1)
    options = ("--dimension", 4, "--language", "en", *SHORT)
    made = {}
    for i, option in enumerate(((), ("--descriptions", 0), ("--head-start", "random"), ("--head-rate", "0.1"))):
        assert "1 encoders, run-1 to run-1" in train(*command, *options, *option, "-o", tmp_path / str(i))
        card = (tmp_path / str(i) / "run-1" / "README.md").read_text("utf-8")
        made[load_encoder(tmp_path / str(i) / "run-1").fingerprint] = int(re.findall(r"- texts: ([\d,]+)", card)[0])
    assert len(made) == 4
    assert re.search(r"\bdescriptions\W+1\b", card)
    with_, without, *_ = made.values()
    # every second concept of the 60 has a definition, the others a description
    assert 20 < with_ - without <= 30


def test_the_static_student(folder: Path, tmp_path: Path) -> None:
    command = ("static", folder / "kb.sqlite", "--teacher", folder / "base", "--epochs", 1, "--held-out", 10)
    said = train(*command, "-o", tmp_path / "a")
    encoder = StaticEncoder.load(tmp_path / "a")
    assert f"static encoder {encoder.fingerprint}; its README.md states what it loses" in said
    train(*command, "-o", tmp_path / "b", "--without", folder / "held_out.txt")
    assert StaticEncoder.load(tmp_path / "b").fingerprint != encoder.fingerprint


def test_an_alignment_table(folder: Path, tmp_path: Path) -> None:
    command = ("multilingual", folder / "kb.sqlite", "--teacher", folder / "base", "--student", folder / "base")
    options = ("--filter", "", "--epochs", 1)
    assert "for en, de" in train(*command, *options, "--language", "de", "-o", tmp_path / "a")
    made = load_encoder(tmp_path / "a").fingerprint
    train(*command, *options, "--language", "de", "-o", tmp_path / "b", "--alignments", folder / "aligned.tsv")
    assert load_encoder(tmp_path / "b").fingerprint != made
    # a language by another of its codes
    assert "for en, de" in train(*command, *options, "--language", "GER", "-o", tmp_path / "c")
    assert load_encoder(tmp_path / "c").fingerprint == made


def test_a_student_of_another_width(folder: Path, tmp_path: Path) -> None:
    student = small_bert(tmp_path / "bert", width=8)
    command = ("multilingual", folder / "kb.sqlite", "--teacher", folder / "base", "--student", student)
    options = ("--language", "de", "--filter", "", "--epochs", 1, "-o", tmp_path / "out")
    with pytest.raises(medlink.MedlinkError, match="or add a linear layer with project"):
        train(*command, *options)
    train(*command, *options, "--project")
    assert load_encoder(tmp_path / "out").dimension == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nowhere.toml"), "nowhere.toml: cannot be read: "),
        (("sts", "nowhere.tsv", "--start", "builtin", "-o", "out"), "nowhere.tsv: "),
        (("soup", "nowhere", "-o", "out"), "nowhere: no encoder folder"),
        (("contrastive", "nowhere.sqlite", "--start", "builtin", "-o", "out", "--epochs", "0"), "epochs is 0"),
        *(
            (
                (*command, "-o", "out", *map(str, option)),
                f"{option[0]} is {option[1]!r} and there is no dev. Remedy: name rated pairs as dev, or leave",
            )
            for command in (
                ("sts", "nowhere.tsv", "--start", "builtin"),
                ("contrastive", "nowhere.sqlite", "--start", "builtin"),
                ("distill", "nowhere.sqlite", "--teacher", "builtin", "--start", "builtin"),
                ("multilingual", "nowhere.sqlite", "--teacher", "builtin", "--student", "builtin"),
                ("static", "nowhere.sqlite", "--teacher", "builtin"),
            )
            for option in (("--patience", 2), ("--evaluate-steps", "epoch"))
        ),
    ],
)
def test_errors_are_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", "biolord", *arguments])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())
