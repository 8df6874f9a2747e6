"""``medlink train biolord run``: all phases in order, interrupted and resumed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.errors import ConfigError
from medlink.models import StaticEncoder, load_encoder
from medlink.training.biolord import run_recipe
from medlink.training.biolord.pipeline import FOLDERS
from medlink.training.common.resumable_trainer import BatchTrainer
from medlink.training.common.run import open_run_folder
from medlink.training.recipes import ContrastiveRecipe, RunOptions
from tests.training.trained import fingerprint, missing, recipe_on_card

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
    # each card names the start and the teacher
    for name, *sources in (
        ("2-contrastive", "1-sts"),
        ("2-sts-again", "2-contrastive"),
        ("3-distill/run-1", "1-sts", "2-sts-again"),
        ("3-distill/run-2", "1-sts", "2-sts-again"),
        ("5-multilingual", "4-soup"),
    ):
        assert not missing(out / name, *(fingerprint(out / source) for source in sources)), name
    # tables are named as in the recipe, wherever that lies
    assert not missing(out / "1-sts", "- sts.tsv: 20 rated pairs")


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
            assert fingerprint(tmp_path / "b" / "run" / name) == fingerprint(complete[0] / name), name
    assert "begins" not in train("run", recipe)


def test_an_interrupted_phase_keeps_its_values_or_begins_anew(
    folder: Path, complete: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = copy_of(folder, tmp_path / "c") / "recipe.toml"
    stop_at(monkeypatch, 7)
    interrupt(recipe)
    rewrite(tmp_path / "c", ("batch_size = 16\nlearning_rate = 1e-2", "batch_size = 16\nlearning_rate = 1e-3"))
    work = tmp_path / "c" / "run" / "2-contrastive.checkpoints"
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(work))}: the unfinished run .* or delete the folder\.$"):
        train("run", recipe)
    shutil.rmtree(work)
    assert "sts: done before" in train("run", recipe)
    rates = [recipe_on_card(root / "2-contrastive")["learning_rate"] for root in (work.parent, complete[0])]
    assert rates == [0.001, 0.01]


def test_a_recipe_for_a_static_encoder(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    contrastive = "[contrastive]\nbatch_size = 16\npairs = { pairs = 32 }\n"
    recipe.write_text(f'kb = "{folder}/kb.sqlite"\nout = "run"\nbase = "builtin"\n{contrastive}', encoding="utf-8")
    last = run_recipe(recipe)
    assert isinstance(load_encoder(last), StaticEncoder)
    # omitted values have the defaults of this kind of encoder
    assert recipe_on_card(last) == ContrastiveRecipe.static().replace(batch_size=16).to_dict()


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
