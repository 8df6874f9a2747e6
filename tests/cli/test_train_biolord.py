"""``medlink train biolord``: its options, its defaults, a recipe run through, its errors."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import medlink
from medlink.cli import biolord_run
from medlink.cli.main import app, main
from medlink.cli.train_biolord import biolord
from medlink.kb import KnowledgeBase
from medlink.models import StaticEncoder, load_encoder
from medlink.models.distillation import DistillationRecipe
from medlink.models.loop import PhaseLoop
from medlink.models.multilingual import MultilingualRecipe
from medlink.models.pairs import PairRecipe
from medlink.models.recipes import ContrastiveRecipe, PhaseRecipe, StsRecipe
from medlink.models.static_student import StaticStudentRecipe
from tests.models.pairs_kb import random_kb
from tests.models.small_bert import small_bert

pytestmark = pytest.mark.usefixtures("frozen")

RECIPES: dict[str, PhaseRecipe] = {
    "sts": StsRecipe(),
    "contrastive": ContrastiveRecipe(),
    "distill": DistillationRecipe(),
    "multilingual": MultilingualRecipe(),
    "static": StaticStudentRecipe(),
}
RUN = {"out", "start", "dev", "checkpoint_steps", "workers", "resume"}
OF_ITS_OWN = {
    "sts": {"tables"},
    "contrastive": {"kb", "definitions", "system", "languages", "without", "pair_workers"},
    "distill": {"kb", "definitions", "system", "languages", "without", "teacher"},
    "multilingual": {"kb", "languages", "without", "teacher", "alignments"},
    "static": {"kb", "languages", "without", "student"},
}
SHORT = ("--batch-size", "32", "--learning-rate", "0.01")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base, a transformer, tables and a recipe."""
    folder = tmp_path_factory.mktemp("biolord")
    random_kb(folder, concepts=60).close()
    shutil.copytree(small_bert(folder / "bert"), folder / "base")
    rows = "".join(f"{chr(97 + i)} stone\t{chr(97 + i // 2)} stone\t{i % 5}\n" for i in range(20))
    (folder / "sts.tsv").write_text(f"text_1\ttext_2\tscore\n{rows}", encoding="utf-8")
    (folder / "glossary.tsv").write_text("concept_id\tdefinition\nC0001\tof the glossary\nX9\tof nothing\n")
    (folder / "held_out.txt").write_text("C0003\n\nC0005\n")
    (folder / "aligned.tsv").write_text("source\ttarget\tlanguage\nfever\tFieber\tde\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(TOML, encoding="utf-8")
    return folder


TOML = """
kb = "kb.sqlite"
out = "run"
base = "base"

[data]
definitions = ["glossary.tsv"]
languages = ["en"]
without = "held_out.txt"

[run]
checkpoint_steps = 2

[sts]
tables = ["sts.tsv"]
dev = "sts.tsv"
epochs = 1
batch_size = 8
learning_rate = 1e-2

[contrastive]
batch_size = 16
learning_rate = 1e-2
pairs = { pairs = 80, definition_share = 0.3 }

[sts-again]
tables = ["sts.tsv"]
epochs = 1
batch_size = 8

[distill]
dimension = 8
runs = 2
batch_size = 64

[multilingual]
student = "base"
languages = ["de"]
filter = ""
epochs = 1
batch_size = 64
"""


def train(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["train", "biolord", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", RECIPES)
def test_every_option_is_one_of_the_recipe_or_of_the_run(command: str) -> None:
    options = {option.name for option in biolord.commands[command].params}
    known = set(RECIPES[command].to_dict())
    if command == "contrastive":
        known |= set(PairRecipe().to_dict()) - {"seed"}
    assert options - known == RUN | OF_ITS_OWN[command]
    assert known - options == ({"mini_batch", "max_tokens"} if command == "static" else set())


@pytest.mark.parametrize("command", RECIPES)
def test_the_help_states_the_defaults_of_the_recipes(command: str) -> None:
    defaults = {**PairRecipe().to_dict(), **RECIPES[command].to_dict()}
    for option in biolord.commands[command].params:
        if not isinstance(option, click.Option) or option.name not in defaults:
            continue
        found = re.search(r"\[([^\]]+)\]$", option.help or "")
        assert found, option.name
        value = defaults[option.name]
        if value is None:
            assert " " in found[1], option.name
        elif isinstance(value, bool):
            assert found[1] == ("yes" if value else "no")
        elif isinstance(value, str):
            assert found[1] == value
        else:
            assert float(found[1]) == pytest.approx(value, rel=0.01), option.name


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


def test_the_static_student(folder: Path, tmp_path: Path) -> None:
    command = ("static", folder / "kb.sqlite", "--teacher", folder / "base", "--epochs", 1, "--held-out", 10)
    said = train(*command, "-o", tmp_path / "a")
    encoder = StaticEncoder.load(tmp_path / "a")
    assert f"static encoder {encoder.fingerprint}; its README.md states what it loses" in said
    train(*command, "-o", tmp_path / "b", "--without", folder / "held_out.txt")
    assert StaticEncoder.load(tmp_path / "b").fingerprint != encoder.fingerprint


def test_an_alignment_table(folder: Path, tmp_path: Path) -> None:
    command = ("multilingual", folder / "kb.sqlite", "--teacher", folder / "base", "--student", folder / "base")
    options = ("--language", "de", "--filter", "", "--epochs", 1)
    assert "for en, de" in train(*command, *options, "-o", tmp_path / "a")
    train(*command, *options, "-o", tmp_path / "b", "--alignments", folder / "aligned.tsv")
    assert load_encoder(tmp_path / "a").fingerprint != load_encoder(tmp_path / "b").fingerprint


@pytest.fixture(scope="module")
def complete(folder: Path) -> tuple[Path, str]:
    """The folder of a run that was left alone, and what it said."""
    return folder / "run", train("run", folder / "recipe.toml")


def test_a_recipe_runs_all_phases_in_order(complete: tuple[Path, str]) -> None:
    out, said = complete
    assert sorted(path.name for path in out.iterdir()) == [*sorted(biolord_run.FOLDERS.values()), "recipe.json"]
    begun = re.findall(r"^(\S+): begins$", said, re.MULTILINE)
    assert begun == list(biolord_run.FOLDERS)
    assert f"{out}: complete, 5-multilingual is the last encoder" in said
    prints = {
        name: load_encoder(out / name).fingerprint for name in biolord_run.FOLDERS.values() if name != "3-distill"
    }
    # each says what it started from
    for name, started in (
        ("2-contrastive", "1-sts"),
        ("2-sts-again", "2-contrastive"),
        ("3-distill/run-1", "1-sts"),
        ("3-distill/run-2", "1-sts"),
    ):
        assert prints[started] in (out / name / "README.md").read_text("utf-8"), name
    for name, teacher in (("3-distill/run-1", "2-sts-again"), ("5-multilingual", "4-soup")):
        assert prints[teacher] in (out / name / "README.md").read_text("utf-8"), name


def test_a_recipe_goes_on_where_it_stopped(
    folder: Path, complete: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "b", ignore=shutil.ignore_patterns("run", "bert"))
    step, made = PhaseLoop.training_step, []

    def stop(self: PhaseLoop, *args: object, **kwargs: object) -> object:
        made.append(1)
        # within the contrastive phase, and within the second run of the self-distillation
        if len(made) in (7, 18):
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    monkeypatch.setattr(PhaseLoop, "training_step", stop)
    runner = CliRunner()
    command = ["train", "biolord", "run", str(tmp_path / "b" / "recipe.toml")]
    for _ in range(2):
        assert runner.invoke(app, command).exit_code
    assert not (tmp_path / "b" / "run" / "4-soup").exists()
    said = train("run", tmp_path / "b" / "recipe.toml")
    assert "sts: done before" in said
    assert "contrastive: done before" in said
    for name in biolord_run.FOLDERS.values():
        if name != "3-distill":
            both = [load_encoder(root / name).fingerprint for root in (tmp_path / "b" / "run", complete[0])]
            assert both[0] == both[1], name
    assert "begins" not in train("run", tmp_path / "b" / "recipe.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs = 2", "runs = 3", r"the run began with another distill\. Remedy: run it with what it began with"),
        ('base = "base"', 'base = "bert/model"', "the run began with another base"),
    ],
)
def test_a_changed_recipe_is_refused(
    old: str, new: str, message: str, folder: Path, complete: tuple[Path, str]
) -> None:
    (folder / "changed.toml").write_text(TOML.replace(old, new), encoding="utf-8")
    with pytest.raises(medlink.MedlinkError, match=message):
        train("run", folder / "changed.toml")


def test_changed_tables_are_refused_and_other_checkpoints_are_not(
    folder: Path, complete: tuple[Path, str], tmp_path: Path
) -> None:
    (folder / "changed.toml").write_text(TOML.replace("checkpoint_steps = 2", "workers = 0"), encoding="utf-8")
    assert "begins" not in train("run", folder / "changed.toml")
    shutil.copytree(folder, tmp_path / "c", ignore=shutil.ignore_patterns("bert"))
    with (tmp_path / "c" / "sts.tsv").open("a") as file:
        file.write("a\tb\t3\n")
    with pytest.raises(medlink.MedlinkError, match="the run began with another content of the tables"):
        train("run", tmp_path / "c" / "recipe.toml")
    (tmp_path / "c" / "run" / "recipe.json").write_text("{")
    with pytest.raises(medlink.MedlinkError, match="the record of the run cannot be read"):
        train("run", tmp_path / "c" / "recipe.toml")
    (tmp_path / "c" / "run" / "recipe.json").unlink()
    with pytest.raises(medlink.MedlinkError, match="the folder is not empty and holds no run"):
        train("run", tmp_path / "c" / "recipe.toml")
    (tmp_path / "c" / "sts.tsv").unlink()
    with pytest.raises(medlink.MedlinkError, match=r"sts\.tsv: cannot be read: .*Remedy: mend the recipe, or bring"):
        train("run", tmp_path / "c" / "recipe.toml")
    (tmp_path / "c" / "file").touch()
    shutil.copy(folder / "sts.tsv", tmp_path / "c")
    (tmp_path / "c" / "recipe.toml").write_text(TOML.replace('out = "run"', 'out = "file/run"'))
    with pytest.raises(medlink.MedlinkError, match="run: cannot be written: "):
        train("run", tmp_path / "c" / "recipe.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kb = "kb.sqlite"', "", r'kb is missing\. Remedy: say kb = "..." before the sections'),
        (
            "[sts]",
            "[sst]",
            r"sst means nothing in the recipe\. Remedy: leave it out; known are base, contrastive, data",
        ),
        ("runs = 2", "run = 2", r"run means nothing in \[distill\]"),
        ("runs = 2", 'runs = "two"', r"runs in \[distill\] is 'two', a whole number expected"),
        ("runs = 2", "runs = true", r"runs in \[distill\] is True, a whole number expected"),
        ("runs = 2", "runs = 0", "runs is 0, at least 1 expected"),
        ("pairs = 80", "pairz = 80", r"pairz means nothing in \[contrastive\.pairs\]"),
        ("pairs = 80", "pairs = 0", "pairs is 0, at least 1 expected"),
        ('student = "base"', "", r"student is missing in \[multilingual\]"),
        ('tables = ["sts.tsv"]', 'tables = "sts.tsv"', r"tables in \[sts\] is 'sts.tsv', a list expected"),
        ("[contrastive]\n", "[contrastive]\nlow =\n", "is not TOML: "),
        (TOML[TOML.index("[contrastive]") : TOML.index("[sts-again]")], "", "come after the contrastive phase"),
        (TOML[TOML.index("[sts]") :], "", "there is no phase in it"),
        ('languages = ["en"]', 'language = ["en"]', r"language means nothing in \[data\]"),
        ("checkpoint_steps = 2", "steps = 2", r"steps means nothing in \[run\]"),
    ],
)
def test_recipes_that_are_refused(old: str, new: str, message: str, folder: Path, tmp_path: Path) -> None:
    assert old in TOML
    (tmp_path / "recipe.toml").write_text(TOML.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(medlink.MedlinkError, match=message):
        train("run", tmp_path / "recipe.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nowhere.toml"), "nowhere.toml: cannot be read: "),
        (("sts", "nowhere.tsv", "--start", "builtin", "-o", "out"), "nowhere.tsv: "),
        (("soup", "nowhere", "-o", "out"), "nowhere: no encoder folder"),
        (("contrastive", "nowhere.sqlite", "--start", "builtin", "-o", "out", "--epochs", "0"), "epochs is 0"),
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


def test_the_record_of_a_run_is_plain(complete: tuple[Path, str]) -> None:
    record = json.loads((complete[0] / "recipe.json").read_text("utf-8"))
    assert record["distill"] == {"dimension": 8, "runs": 2, "batch_size": 64}
    assert "run" not in record
