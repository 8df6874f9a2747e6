"""The trainer of the phases: resumed to the same weights, shared by processes, stopped by NaN and damage."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.models.transformer import compute_fingerprint
from medlink.training.biolord.contrastive import InfoNceLoss
from medlink.training.common.checkpoints import find_newest_checkpoint
from medlink.training.common.run import open_run_folder
from medlink.training.data.batches import Batch, TextList
from medlink.training.recipes import PhaseRecipe, RunOptions
from tests.training.small_bert import Killed, kill_at, two_processes

pytestmark = pytest.mark.slow

RECIPE = PhaseRecipe(epochs=2, batch_size=6, learning_rate=1e-2, warmup=0.1, seed=3)
STEPS = 10
Facts = dict[str, Any]
Result = tuple[str, Facts, list[str]]
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on


class Pairs:
    """Five batches an epoch of six pairs each, drawn by the epoch."""

    digest = "five of six"

    def __init__(self, count: int = 5, rows: int = 6) -> None:
        self.count, self.rows = count, rows
        letters = [chr(97 + i) for i in range(26)]
        names = [letter * (number + 2 + i % 7) for number in range(count) for i, letter in enumerate(letters)]
        self.texts = TextList([*names, *(f"{letter} kidney" for letter in letters)], "letters")

    def batches_per_epoch(self) -> int:
        return self.count

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        rng = np.random.default_rng([7, epoch])
        for number in range(self.count):
            letters = rng.permutation(26)[: self.rows]
            if number >= start:
                yield Batch((26 * number + letters, 26 * self.count + letters), np.eye(self.rows, dtype=bool))


def fit(model: SentenceTransformer, work: Path, recipe: PhaseRecipe, batches: Pairs, **options: Any) -> Facts:
    """Train without deleting the folder at the end."""
    calls = [options.pop(name, None) for name in ("log", "evaluate")]
    with open_run_folder(work, RunOptions(**options), *calls) as run:
        run.bind(recipe, data=batches.digest, start=compute_fingerprint(model))
        return run.fit(model, batches, InfoNceLoss(0.05), recipe)


def train(
    bert: Path, work: Path, recipe: PhaseRecipe = RECIPE, batches: Pairs | None = None, **options: Any
) -> tuple[str, Facts]:
    """Train; the fingerprint of the weights and the figures."""
    model = SentenceTransformer(str(bert), device="cpu")
    figures = fit(model, work, recipe, batches or Pairs(), **options)
    return compute_fingerprint(model), figures


@pytest.fixture(scope="module")
def uninterrupted(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Weights, figures and log."""
    lines: list[str] = []
    weights, figures = train(bert, tmp_path_factory.mktemp("uninterrupted") / "work", log=lines.append)
    return weights, figures, lines


def losses(lines: list[str]) -> list[float]:
    return [float(found[1]) for line in lines if (found := re.search(r" loss (\S+) ", line))]


def test_the_log_and_the_summary(bert: Path, uninterrupted: Result) -> None:
    weights, figures, lines = uninterrupted
    assert weights != compute_fingerprint(SentenceTransformer(str(bert), device="cpu"))
    assert len(lines) == figures["steps"] == STEPS
    assert re.fullmatch(rf"step {STEPS}/{STEPS} loss \S+ learning rate \S+ \S+ rows/s", lines[-1])
    assert figures["best development measure"] is figures["step of the best"] is None
    assert float(figures["loss over the last of them"]) == pytest.approx(losses(lines)[-1], rel=1e-2)
    assert not any("kidney" in line for line in lines)


# before a checkpoint, at the end of an epoch, at the last step
@pytest.mark.parametrize("stops", [pytest.param((1, 6), marks=pytest.mark.faults), (5, 10)])
def test_a_run_killed_twice_ends_in_the_same_weights(
    stops: tuple[int, int], bert: Path, uninterrupted: Result, tmp_path: Path
) -> None:
    for step in stops:
        with pytest.raises(Killed):
            train(bert, tmp_path, log=kill_at(f"step {step}/"), checkpoint_steps=2, resume=True)
    lines: list[str] = []
    assert train(bert, tmp_path, log=lines.append, checkpoint_steps=2, resume=True)[0] == uninterrupted[0]
    assert lines[0].startswith(f"step {(stops[1] - 1) // 2 * 2 + 1}/")
    assert losses(lines) == losses(uninterrupted[2])[-len(losses(lines)) :]
    # a complete run is only read
    assert train(bert, tmp_path, log=kill_at("step"), resume=True)[0] == uninterrupted[0]


def test_how_often_checkpoints_are_written_may_change(
    bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Killed):
        train(bert, tmp_path, log=kill_at("step 4"), checkpoint_steps=2)
    with pytest.raises(Killed):
        train(bert, tmp_path, log=kill_at("step 10"), checkpoint_steps=4, resume=True)
    assert find_newest_checkpoint(tmp_path) == tmp_path / "checkpoint-8"
    with pytest.raises(Killed):
        train(bert, tmp_path, log=kill_at("step 10"), checkpoint_steps=9, resume=True)
    assert find_newest_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
    assert not caplog.records


@forks
def test_a_process_killed_by_the_system(bert: Path, uninterrupted: Result, tmp_path: Path) -> None:
    def kill(line: str) -> None:
        if line.startswith("step 5/"):
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"log": kill, "checkpoint_steps": 2}
    process = multiprocessing.get_context("fork").Process(target=train, args=(bert, tmp_path), kwargs=options)
    process.start()
    process.join(60)
    process.kill()
    assert process.exitcode == -signal.SIGKILL
    # remnants of a kill while writing
    (tmp_path / ".writing-0f-6").mkdir()
    (tmp_path / ".writing-1f-7" / "draft").mkdir(parents=True)
    assert train(bert, tmp_path, resume=True)[0] == uninterrupted[0]
    assert not list(tmp_path.glob(".writing-*"))


def test_every_option_changes_the_weights(bert: Path, tmp_path: Path) -> None:
    short = RECIPE.replace(epochs=1)
    seen = set()
    # cached gradients draw other random numbers for dropout
    options = {"epochs": 2, "mini_batch": 2, "learning_rate": 2e-2, "warmup": 0.5, "weight_decay": 0.5}
    options |= {"max_grad_norm": 1e-3, "max_tokens": 3, "precision": "bf16", "seed": 4}
    for option, value in {"batch_size": short.batch_size, **options}.items():
        weights = train(bert, tmp_path / option, short.replace(**{option: value}), Pairs(2))[0]
        assert weights not in seen, option
        seen.add(weights)


def best(figures: Facts) -> tuple[float, int]:
    return figures["best development measure"], figures["step of the best"]


def measured(*values: float) -> object:
    """A measure with these values in turn."""
    left = list(values)
    return lambda _: left.pop(0)


def test_the_best_weights_are_written(bert: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(evaluate_steps=2)
    lines: list[str] = []
    weights, figures = train(bert, tmp_path / "a", recipe, evaluate=measured(0.1, 0.4, 0.3, 0.4, 0.2), log=lines.append)
    assert best(figures) == (0.4, 4)
    assert figures["steps"] == STEPS
    measures = ["0.1000 (best)", "0.4000 (best)", "0.3000", "0.4000", "0.2000"]
    expected = [f"step {2 * number}/10 measure {measure}" for number, measure in enumerate(measures, 1)]
    assert [line for line in lines if "measure" in line] == expected
    assert sorted(path.name for path in (tmp_path / "a").glob("[bc]*")) == ["checkpoint-10", "checkpoint-4"]
    last = train(bert, tmp_path / "b", recipe, evaluate=measured(0.1, 0.2, 0.3, 0.4, 0.5))
    assert best(last[1]) == (0.5, STEPS)
    assert last[0] != weights
    # the last step is always measured
    seventh = train(bert, tmp_path / "d", recipe.replace(evaluate_steps=7), evaluate=measured(0.2, 0.1))
    assert best(seventh[1]) == (0.2, 7)


def test_training_stops_when_the_patience_runs_out(bert: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(evaluate_steps=2, patience=2)
    weights, figures = train(bert, tmp_path / "alone", recipe, evaluate=measured(0.3, 0.2, 0.1))
    assert (figures["steps"], *best(figures)) == (6, 0.3, 2)
    # a stopped run is complete: nothing is measured again
    assert train(bert, tmp_path / "alone", recipe, evaluate=measured(), resume=True)[0] == weights
    # a killed run resumes with the patience that is left
    with pytest.raises(Killed):
        train(bert, tmp_path / "killed", recipe, evaluate=measured(0.3, 0.2), log=kill_at("step 5"), checkpoint_steps=4)
    resumed = train(bert, tmp_path / "killed", recipe, evaluate=measured(0.1), resume=True)
    assert resumed[0] == weights
    assert resumed[1]["steps"] == 6


def test_a_nan_measure(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"the development measure is nan at step 5\. Remedy: measure on data whose"):
        train(bert, tmp_path, evaluate=lambda _: float("nan"))


def break_loss(monkeypatch: pytest.MonkeyPatch, at: int, value: float) -> list[int]:
    """Replace the loss of one call; gives the list of calls."""
    real, calls = InfoNceLoss.compute_loss_from_embeddings, list[int]()

    def broken(self: InfoNceLoss, *args: object) -> torch.Tensor:
        calls.append(1)
        return real(self, *args) * (value if len(calls) == at else 1)  # type: ignore[arg-type]

    monkeypatch.setattr(InfoNceLoss, "compute_loss_from_embeddings", broken)
    return calls


def test_a_nan_loss_names_the_batch(
    bert: Path, uninterrupted: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_loss(monkeypatch, 7, float("nan"))
    with pytest.raises(EncoderError, match=r"checkpoint-6: the loss is nan at step 7 \(batch 2 of epoch 2\)"):
        train(bert, tmp_path, checkpoint_steps=3)
    monkeypatch.undo()
    assert train(bert, tmp_path, resume=True)[0] == uninterrupted[0]


def test_pending_losses_of_a_gpu_are_checked_before_saving(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = break_loss(monkeypatch, 9, float("inf"))
    monkeypatch.setattr("medlink.training.common.resumable_trainer._LOSSES_PER_CHECK", {"cpu": 16})
    with pytest.raises(EncoderError, match=r"the loss is inf at step 9 \(batch 4 of epoch"):
        train(bert, tmp_path, checkpoint_steps=6)
    assert len(made) == 10
    assert find_newest_checkpoint(tmp_path) == tmp_path / "checkpoint-6"


def test_a_start_with_nan_embeddings(bert: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(bert), device="cpu")
    torch.nn.init.constant_(next(iter(model.parameters())), float("nan"))
    with pytest.raises(EncoderError, match="the embeddings of the encoder to start from are NaN or infinite"):
        fit(model, tmp_path, RECIPE, Pairs())


def test_refusals(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="checkpoint_steps is 0, at least 1 expected"):
        train(bert, tmp_path, checkpoint_steps=0)
    with pytest.raises(ConfigError, match=r"the data do not fill one batch\. Remedy: train on more data"):
        train(bert, tmp_path, batches=Pairs(0))
    short = Pairs()
    short.batches_per_epoch = lambda: 6  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="epoch 0 had 5 batches, 6 announced"):
        train(bert, tmp_path / "b", batches=short)


def two(start: Path, work: Path, recipe: PhaseRecipe = RECIPE, rows: int = 6, stop: int = 0) -> list[int | None]:
    """Train by two processes, which both end at a step; their exit codes."""

    def run(rank: int) -> None:
        lines: list[str] = []

        def log(line: str) -> None:
            lines.append(line)
            if stop and line.startswith(f"step {stop}/"):
                os._exit(9)

        model = SentenceTransformer(str(start), device="cpu")
        fit(model, work, recipe, Pairs(rows=rows), log=log, checkpoint_steps=2, resume=True)
        if not rank:
            (work / "losses.json").write_text(json.dumps(losses(lines)))
            model.save(str(work / "model"), create_model_card=False)

    return two_processes(run, seconds=1 if stop else 60)


# seven rows are not shared evenly, and parts of few tokens differ between processes
@forks
@pytest.mark.parametrize(("rows", "mini_batch", "most"), [(7, 0, 20), (6, 2, 512)])
def test_two_processes_learn_the_same_as_one(
    rows: int, mini_batch: int, most: int, still_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medlink.training.common.loader._MOST_TOKENS", {"cpu": most})
    recipe = RECIPE.replace(mini_batch=mini_batch)
    assert two(still_bert, tmp_path / "two", recipe, rows) == [0, 0]
    model, lines = SentenceTransformer(str(still_bert), device="cpu"), []
    fit(model, tmp_path / "one", recipe, Pairs(rows=rows), log=lines.append)
    shared = json.loads((tmp_path / "two" / "losses.json").read_text())
    assert len(shared) == STEPS
    # four digits are logged
    assert shared == pytest.approx(losses(lines), abs=2e-4)
    other = SentenceTransformer(str(tmp_path / "two" / "model"), device="cpu").state_dict()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-3, msg=name)


@forks
def test_two_processes_resume_to_the_same_weights(bert: Path, tmp_path: Path) -> None:
    assert 0 not in two(bert, tmp_path / "killed", stop=5)
    with pytest.raises(ConfigError, match=r"the unfinished run has processes 2 \(now 1\)"):
        train(bert, tmp_path / "killed", resume=True)
    assert two(bert, tmp_path / "killed") == two(bert, tmp_path / "alone") == [0, 0]
    first, second = (SentenceTransformer(str(tmp_path / name / "model")) for name in ("killed", "alone"))
    assert compute_fingerprint(first) == compute_fingerprint(second)


@pytest.fixture(scope="module")
def unfinished(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run killed after its checkpoint of step 4."""
    work = tmp_path_factory.mktemp("unfinished") / "work"
    with pytest.raises(Killed):
        train(bert, work, log=kill_at("step 6"), checkpoint_steps=4)
    return work


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("run.json", "[]", "list indices"),
        ("checkpoint-4/trainer_state.json", "{", "Expecting"),
        ("checkpoint-4/trainer_state.json", "{}", "no 'global_step'"),
        ("checkpoint-4/optimizer.pt", None, "no such file"),
        ("checkpoint-4/rng_state.pth", "junk", ""),
        ("checkpoint-4/model.safetensors", "junk", ""),
    ],
)
def test_damage_is_named(
    name: str, content: str | None, detail: str, bert: Path, unfinished: Path, tmp_path: Path
) -> None:
    shutil.copytree(unfinished, tmp_path / "work")
    path = tmp_path / "work" / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    place = name if detail else "checkpoint-4"
    with pytest.raises(EncoderError, match=rf"{place}: the checkpoint cannot be read: .*{detail}.*Remedy: delete the"):
        train(bert, tmp_path / "work", resume=True)
    assert (tmp_path / "work" / "checkpoint-4").exists()


def test_a_pickle_in_a_checkpoint_is_not_opened(bert: Path, unfinished: Path, tmp_path: Path) -> None:
    shutil.copytree(unfinished, tmp_path / "work")

    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save(Code(), tmp_path / "work" / "checkpoint-4" / "optimizer.pt")
    with pytest.raises(EncoderError, match="checkpoint-4: the checkpoint cannot be read"):
        train(bert, tmp_path / "work", resume=True)
    assert not (tmp_path / "ran").exists()


def test_an_unfinished_checkpoint_is_skipped(
    bert: Path, uninterrupted: Result, unfinished: Path, tmp_path: Path
) -> None:
    shutil.copytree(unfinished, tmp_path / "work")
    shutil.copytree(unfinished / "checkpoint-4", tmp_path / "work" / "checkpoint-5")
    state = tmp_path / "work" / "checkpoint-5" / "trainer_state.json"
    state.write_text(state.read_text()[:50])
    shutil.copytree(unfinished / "checkpoint-4", tmp_path / "work" / "checkpoint-6")
    (tmp_path / "work" / "checkpoint-6" / "trainer_state.json").unlink()
    lines: list[str] = []
    assert train(bert, tmp_path / "work", resume=True, log=lines.append)[0] == uninterrupted[0]
    assert lines[0].startswith("step 5/")


@pytest.mark.parametrize("owner", [pytest.param(SentenceTransformer, marks=pytest.mark.faults), torch])
def test_a_full_disk_loses_nothing(
    owner: Any, bert: Path, uninterrupted: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "save" if owner is torch else "save_pretrained"
    real, made = getattr(owner, name), []

    def write(*args: Any, **kwargs: Any) -> Any:
        made.append(1)
        # torch writes optimizer, schedule and random numbers
        if len(made) > (3 if owner is torch else 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, write)
    with pytest.raises(EncoderError, match=r"the checkpoint cannot be written: No space.*Remedy: make room"):
        train(bert, tmp_path, checkpoint_steps=4)
    monkeypatch.undo()
    assert find_newest_checkpoint(tmp_path) == tmp_path / "checkpoint-4"
    assert train(bert, tmp_path, resume=True)[0] == uninterrupted[0]
