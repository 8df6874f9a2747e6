"""``medlink train biolord run``: all phases in order, interrupted and resumed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticEncoder, load_encoder
from medlink.training.biolord import run_recipe
from medlink.training.biolord.pipeline import FOLDERS
from medlink.training.common.resumable_trainer import BatchTrainer
from medlink.training.common.run import open_run_folder
from medlink.training.recipes import ContrastiveRecipe, RunOptions

from .biolord_folder import copy_of, rewrite, train

pytestmark = pytest.mark.slow


def stop_at(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Interrupt the run at steps, counted over all phases and runs."""
    step, count = BatchTrainer.training_step, iter(range(1, 1000))

    def stop(self: BatchTrainer, *args: object, **kwargs: object) -> object:
        if next(count) in steps:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    monkeypatch.setattr(BatchTrainer, "training_step", stop)


def interrupt(recipe: Path) -> None:
    assert CliRunner().invoke(app, ["train", "biolord", "run", str(recipe)]).exit_code


def test_a_recipe_runs_all_phases_in_order(complete: tuple[Path, str]) -> None:
    out, output = complete
    assert sorted(path.name for path in out.iterdir()) == [*sorted(FOLDERS.values()), "recipe.json"]
    begun = re.findall(r"^(\S+): begins$", output, re.MULTILINE)
    assert begun == list(FOLDERS)
    assert f"{out}: complete, 5-multilingual is the last encoder" in output
    prints = {name: load_encoder(out / name).fingerprint for name in FOLDERS.values() if name != "3-distill"}
    # each card names the start and the teacher
    for name, started in (
        ("2-contrastive", "1-sts"),
        ("2-sts-again", "2-contrastive"),
        ("3-distill/run-1", "1-sts"),
        ("3-distill/run-2", "1-sts"),
    ):
        assert prints[started] in (out / name / "README.md").read_text("utf-8"), name
    for name, teacher in (("3-distill/run-1", "2-sts-again"), ("5-multilingual", "4-soup")):
        assert prints[teacher] in (out / name / "README.md").read_text("utf-8"), name
    # tables are named as in the recipe, wherever that lies
    assert "- sts.tsv: 20 rated pairs" in (out / "1-sts" / "README.md").read_text("utf-8")


def test_descriptions_reach_the_phase(
    folder: Path, complete: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    monkeypatch.setattr(
        "medlink.training.biolord.phases.run_distill", lambda *given: texts.append(given[3].descriptions) or ""
    )
    for change in ((), (("runs = 2", "runs = 2\ndescriptions = 0"),)):
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        copy_of(folder, tmp_path / "d", with_run=True)
        for left in ("3-distill", "4-soup", "5-multilingual"):
            shutil.rmtree(tmp_path / "d" / "run" / left)
        with pytest.raises(EncoderError, match="3-distill: no encoder folder"):
            run_recipe(rewrite(tmp_path / "d", *change))
    assert texts == [1, 0]


def test_an_interrupted_recipe_ends_in_the_same_weights(
    folder: Path, complete: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = copy_of(folder, tmp_path / "b") / "recipe.toml"
    # in the contrastive phase, and in the second run of the self-distillation
    stop_at(monkeypatch, 7, 18)
    for _ in range(2):
        interrupt(recipe)
    assert not (tmp_path / "b" / "run" / "4-soup").exists()
    output = train("run", recipe)
    assert "sts: done before" in output
    assert "contrastive: done before" in output
    for name in FOLDERS.values():
        if name != "3-distill":
            both = [load_encoder(root / name).fingerprint for root in (tmp_path / "b" / "run", complete[0])]
            assert both[0] == both[1], name
    assert "begins" not in train("run", recipe)


def test_an_interrupted_phase_keeps_its_values_or_begins_anew(
    folder: Path, complete: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = copy_of(folder, tmp_path / "c") / "recipe.toml"
    stop_at(monkeypatch, 7)
    interrupt(recipe)
    rewrite(tmp_path / "c", ("definition_share = 0.3", "definition_share = 0.4"))
    with pytest.raises(ConfigError, match="the unfinished run has other data"):
        train("run", recipe)
    rewrite(tmp_path / "c", ("batch_size = 16\nlearning_rate = 1e-2", "batch_size = 16\nlearning_rate = 1e-3"))
    work = tmp_path / "c" / "run" / "2-contrastive.checkpoints"
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(work))}: the unfinished run .* or delete the folder\.$"):
        train("run", recipe)
    shutil.rmtree(work)
    assert "sts: done before" in train("run", recipe)
    cards = [(root / "2-contrastive" / "README.md").read_text("utf-8") for root in (work.parent, complete[0])]
    assert ['"learning_rate": 0.001' in card for card in cards] == [True, False]


def test_a_recipe_runs_from_python_in_one_call(folder: Path, complete: tuple[Path, str], tmp_path: Path) -> None:
    copied = copy_of(folder, tmp_path / "python", with_run=True)
    shutil.rmtree(copied / "run" / "5-multilingual")
    lines: list[str] = []
    last = run_recipe(copied / "recipe.toml", progress=lines.append)
    assert last == copied / "run" / "5-multilingual"
    assert load_encoder(last).fingerprint == load_encoder(complete[0] / last.name).fingerprint
    assert [line for line in lines if "done before" in line] == [f"{name}: done before" for name in FOLDERS][:-1]


def test_a_recipe_for_a_static_encoder(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    contrastive = "[contrastive]\nbatch_size = 16\npairs = { pairs = 32 }\n"
    recipe.write_text(f'kb = "{folder}/kb.sqlite"\nout = "run"\nbase = "builtin"\n{contrastive}', encoding="utf-8")
    last = run_recipe(recipe)
    assert isinstance(load_encoder(last), StaticEncoder)
    # omitted values have the defaults of this kind of encoder
    stated = json.loads((last / "README.md").read_text("utf-8").split("```json")[1].split("```")[0])
    assert stated == ContrastiveRecipe.static().replace(batch_size=16).to_dict()


def test_checkpoints_of_a_killed_process_are_deleted(folder: Path, complete: tuple[Path, str], tmp_path: Path) -> None:
    recipe = copy_of(folder, tmp_path / "e", with_run=True) / "recipe.toml"
    left = [tmp_path / "e" / "run" / f"{name}.checkpoints" for name in ("1-sts", "3-distill", "4-soup")]
    for work in left:
        (work / "best-3").mkdir(parents=True)
        (work / "run.json").write_text("{}")
    # a process is at work in one of them
    with open_run_folder(left[0], RunOptions(resume=True)):
        assert "sts: done before" in train("run", recipe)
        assert [work.exists() for work in left] == [True, False, False]
    train("run", recipe)
    assert not left[0].exists()
    assert sorted(path.name for path in (tmp_path / "e" / "run").iterdir()) == [
        *sorted(FOLDERS.values()),
        "recipe.json",
    ]
