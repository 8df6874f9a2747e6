"""The loop of the phases: resumed to the same weights, shared by processes, stopped where it must be."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.models.transformer import fingerprint_of
from medlink.training.biolord.contrastive import InfoNceLoss, no_negatives
from medlink.training.common.fit import Figures, newest
from medlink.training.common.losses import EmbeddingLoss, features_of
from medlink.training.common.run import work_folder
from medlink.training.data.batches import Batch
from medlink.training.data.pairs import Pair
from medlink.training.recipes import PhaseRecipe, RunOptions
from tests.training.small_bert import Killed, small_bert

RECIPE = PhaseRecipe(epochs=2, batch_size=6, learning_rate=1e-2, warmup=0.1, seed=3)
STEPS = 10


class Pairs:
    """Five batches an epoch of six pairs each, drawn by the epoch."""

    digest = "five of six"

    def __init__(self, count: int = 5, rows: int = 6) -> None:
        self.count, self.rows = count, rows

    def batches_per_epoch(self) -> int:
        return self.count

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        rng = np.random.default_rng([7, epoch])
        for number in range(self.count):
            letters = rng.permutation(26)[: self.rows]
            pairs = [Pair(f"C{i}", chr(97 + i) * (number + 2), f"{chr(97 + i)} kidney", "definition") for i in letters]
            if number >= start:
                yield Batch(([p.name for p in pairs], [p.text for p in pairs]), no_negatives(pairs))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """The copy of a process that a test kills has one thread, and weights are those of a number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without dropout."""
    return small_bert(tmp_path_factory.mktemp("still"), dropout=0.0)


def fit(
    model: SentenceTransformer,
    batches: Pairs,
    loss: torch.nn.Module,
    recipe: PhaseRecipe,
    *,
    work: Path,
    log: object = None,
    evaluate: object = None,
    **options: object,
) -> Figures:
    """A run whose folder is not deleted at its end."""
    with work_folder(work, RunOptions(**options), log, evaluate) as run:  # type: ignore[arg-type]  # of any test
        run.bind(recipe, data=batches.digest, start=fingerprint_of(model))
        return run.fit(model, batches, loss, recipe)


def train(
    start: Path, work: Path, recipe: PhaseRecipe = RECIPE, batches: Pairs | None = None, **options: object
) -> tuple[str, Figures]:
    """Train; the fingerprint of the weights and the figures."""
    model = SentenceTransformer(str(start), device="cpu")
    figures = fit(model, batches or Pairs(), InfoNceLoss(0.05), recipe, work=work, **options)
    return fingerprint_of(model), figures


def kill_at(*starts: str) -> object:
    def kill(line: str) -> None:
        if line.startswith(starts):
            raise Killed

    return kill


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Figures, list[str]]:
    """A run left alone, and its log."""
    lines: list[str] = []
    weights, figures = train(start, tmp_path_factory.mktemp("whole") / "work", log=lines.append)
    return weights, figures, lines


def losses(lines: list[str]) -> list[float]:
    return [float(found[1]) for line in lines if (found := re.search(r" loss (\S+) ", line))]


def test_it_says_how_it_goes(start: Path, whole: tuple[str, Figures, list[str]]) -> None:
    weights, figures, lines = whole
    assert weights != fingerprint_of(SentenceTransformer(str(start), device="cpu"))
    assert len(lines) == STEPS
    assert lines[-1].startswith(f"step {STEPS}/{STEPS} loss ")
    assert "learning rate" in lines[-1]
    assert "rows/s" in lines[-1]
    assert figures == Figures(STEPS, figures.seconds, figures.loss)
    assert figures.loss == pytest.approx(losses(lines)[-1], abs=1e-4)
    assert not any("kidney" in line for line in lines)


# before a checkpoint, within an epoch, at its end, in the last
@pytest.mark.parametrize("stops", [(1, 3), (3, 6), (5, 10)])
def test_a_run_killed_twice_ends_in_the_same_weights(
    stops: tuple[int, int], start: Path, whole: tuple[str, Figures, list[str]], tmp_path: Path
) -> None:
    for step in stops:
        with pytest.raises(Killed):
            train(start, tmp_path, log=kill_at(f"step {step}/"), checkpoint_steps=2, resume=True)
    lines: list[str] = []
    assert train(start, tmp_path, log=lines.append, checkpoint_steps=2, resume=True)[0] == whole[0]
    assert lines[0].startswith(f"step {(stops[1] - 1) // 2 * 2 + 1}/")
    assert losses(lines) == losses(whole[2])[-len(losses(lines)) :]
    # a run that is complete is only read
    assert train(start, tmp_path, log=kill_at("step"), resume=True)[0] == whole[0]


def test_how_often_checkpoints_are_written_may_change(
    start: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Killed):
        train(start, tmp_path, log=kill_at("step 4"), checkpoint_steps=2)
    with pytest.raises(Killed):
        train(start, tmp_path, log=kill_at("step 10"), checkpoint_steps=4, resume=True)
    assert newest(tmp_path) == tmp_path / "checkpoint-8"
    with pytest.raises(Killed):
        train(start, tmp_path, log=kill_at("step 10"), checkpoint_steps=9, resume=True)
    assert newest(tmp_path) == tmp_path / "checkpoint-9"
    assert not caplog.records


def killed_at_five(start: Path, work: Path) -> None:
    """A process that the system kills at a step."""

    def kill(line: str) -> None:
        if line.startswith("step 5/"):
            os.kill(os.getpid(), signal.SIGKILL)

    train(start, work, log=kill, checkpoint_steps=2)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
def test_a_process_killed_by_the_system(start: Path, whole: tuple[str, Figures, list[str]], tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=killed_at_five, args=(start, tmp_path))
    process.start()
    process.join(60)
    process.kill()
    assert process.exitcode == -signal.SIGKILL
    # what a kill in the middle of writing leaves behind
    (tmp_path / ".writing-0f-6").mkdir()
    (tmp_path / ".writing-1f-7" / "draft").mkdir(parents=True)
    assert train(start, tmp_path, resume=True)[0] == whole[0]
    assert not list(tmp_path.glob(".writing-*"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
def test_workers_do_not_change_the_weights(
    start: Path, whole: tuple[str, Figures, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    assert train(start, tmp_path, workers=1)[0] == whole[0]


def test_every_option_changes_the_weights(start: Path, tmp_path: Path) -> None:
    short = RECIPE.replace(epochs=1)
    seen = {train(start, tmp_path / "short", short)[0]}
    # cached gradients draw other random numbers for dropout, and only these differ
    for option in (
        {"epochs": 2},
        {"mini_batch": 2},
        {"learning_rate": 2e-2},
        {"warmup": 0.5},
        {"weight_decay": 0.5},
        {"max_grad_norm": 1e-3},
        {"max_tokens": 3},
        {"precision": "bf16"},
        {"seed": 4},
    ):
        weights = train(start, tmp_path / next(iter(option)), short.replace(**option))[0]  # type: ignore[arg-type]
        assert weights not in seen, option
        seen.add(weights)


def measured(*values: float) -> object:
    """A measure that has these values one after the other."""
    left = list(values)
    return lambda _: left.pop(0)


def test_the_best_weights_are_kept(start: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(evaluate_steps=2)
    lines: list[str] = []
    weights, figures = train(
        start, tmp_path / "a", recipe, evaluate=measured(0.1, 0.4, 0.3, 0.4, 0.2), log=lines.append
    )
    assert (figures.measure, figures.best_step, figures.steps) == (0.4, 4, STEPS)
    assert [line for line in lines if "measure" in line] == [
        "step 2/10 measure 0.1000 (best)",
        "step 4/10 measure 0.4000 (best)",
        "step 6/10 measure 0.3000",
        "step 8/10 measure 0.4000",
        "step 10/10 measure 0.2000",
    ]
    assert sorted(path.name for path in (tmp_path / "a").glob("[bc]*")) == ["checkpoint-10", "checkpoint-4"]
    last = train(start, tmp_path / "b", recipe, evaluate=measured(0.1, 0.2, 0.3, 0.4, 0.5))
    assert last[1].best_step == STEPS
    assert last[0] != weights
    # measured at the end of each epoch, and at the end of the run
    assert train(start, tmp_path / "c", evaluate=measured(0.1, 0.2))[1].best_step == STEPS
    assert train(start, tmp_path / "d", recipe.replace(evaluate_steps=7), evaluate=measured(0.2, 0.1))[1].best_step == 7


def test_it_stops_when_nothing_is_better(start: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(evaluate_steps=2, patience=2)
    values = (0.3, 0.2, 0.4, 0.1, 0.4)
    weights, figures = train(start, tmp_path / "whole", recipe, evaluate=measured(*values))
    assert (figures.steps, figures.best_step) == (10, 6)
    weights, figures = train(start, tmp_path / "alone", recipe, evaluate=measured(0.3, 0.2, 0.1))
    assert (figures.steps, figures.best_step) == (6, 2)
    # stopped is complete: nothing is measured again
    assert train(start, tmp_path / "alone", recipe, evaluate=measured(), resume=True)[0] == weights
    # killed between: how long nothing was better is not forgotten
    with pytest.raises(Killed):
        train(
            start, tmp_path / "killed", recipe, evaluate=measured(0.3, 0.2), log=kill_at("step 5"), checkpoint_steps=4
        )
    resumed = train(start, tmp_path / "killed", recipe, evaluate=measured(0.1), resume=True)
    assert resumed[0] == weights
    assert resumed[1].steps == 6


def test_a_measure_that_is_no_number(start: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"the development measure is nan at step 5\. Remedy: measure on data whose"):
        train(start, tmp_path, evaluate=lambda _: float("nan"))


def test_a_loss_that_is_no_number_names_the_batch(
    start: Path, whole: tuple[str, Figures, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = InfoNceLoss.compute_loss_from_embeddings, []

    def broken(self: InfoNceLoss, *args: object) -> torch.Tensor:
        calls.append(1)
        return real(self, *args) * (float("nan") if len(calls) == 7 else 1)  # type: ignore[arg-type]

    monkeypatch.setattr(InfoNceLoss, "compute_loss_from_embeddings", broken)
    message = r"checkpoint-6: the loss is nan at step 7 \(batch 2 of epoch 2\)\. Remedy: lower the learning rate and"
    with pytest.raises(EncoderError, match=message):
        train(start, tmp_path, checkpoint_steps=3)
    monkeypatch.undo()
    assert train(start, tmp_path, resume=True)[0] == whole[0]


@pytest.mark.parametrize(("step", "seen"), [(4, 6), (9, 10)])
def test_losses_that_wait_on_a_gpu_are_seen_before_they_are_kept(
    step: int, seen: int, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = InfoNceLoss.compute_loss_from_embeddings, []

    def broken(self: InfoNceLoss, *args: object) -> torch.Tensor:
        calls.append(1)
        return real(self, *args) * (float("inf") if len(calls) == step else 1)  # type: ignore[arg-type]

    monkeypatch.setattr(InfoNceLoss, "compute_loss_from_embeddings", broken)
    monkeypatch.setattr("medlink.training.common.fit._LOSSES_AT_ONCE", {"cpu": 16})
    with pytest.raises(EncoderError, match=rf"the loss is inf at step {step} \(batch {(step - 1) % 5 + 1} of epoch"):
        train(start, tmp_path, checkpoint_steps=6)
    assert len(calls) == seen
    found = newest(tmp_path)
    assert (found and found.name) == ("checkpoint-6" if step > 6 else None)


def test_a_start_whose_embeddings_are_nan(start: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(start), device="cpu")
    torch.nn.init.constant_(next(iter(model.parameters())), float("nan"))
    with pytest.raises(EncoderError, match="the embeddings of the encoder to start from are NaN or infinite"):
        fit(model, Pairs(), InfoNceLoss(0.05), RECIPE, work=tmp_path)


def test_what_is_refused(start: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="checkpoint_steps is 0, at least 1 expected"):
        train(start, tmp_path, checkpoint_steps=0)
    with pytest.raises(ConfigError, match="workers is -1, at least 0 expected"):
        train(start, tmp_path, workers=-1)
    with pytest.raises(ConfigError, match=r"the data do not fill one batch\. Remedy: train on more data"):
        train(start, tmp_path, batches=Pairs(0))
    short = Pairs()
    short.batches_per_epoch = lambda: 6  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="epoch 0 had 5 batches, 6 announced"):
        train(start, tmp_path / "b", batches=short)


def one_of_two(rank: int, port: int, start: Path, work: Path, recipe: PhaseRecipe, rows: int, stop: int) -> None:
    """A process of a run in which both end at a step."""
    from accelerate import PartialState

    # what the copy of the test's process knows of itself
    PartialState._shared_state.clear()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({**{name: str(value) for name, value in given.items()}, "MASTER_ADDR": "127.0.0.1"})

    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        if stop and line.startswith(f"step {stop}/"):
            os._exit(9)

    model = SentenceTransformer(str(start), device="cpu")
    fit(model, Pairs(rows=rows), InfoNceLoss(0.05), recipe, work=work, log=log, checkpoint_steps=2, resume=True)
    if not rank:
        (work / "losses.json").write_text(json.dumps(losses(lines)))
        model.save(str(work / "model"), create_model_card=False)


def two(start: Path, work: Path, recipe: PhaseRecipe = RECIPE, rows: int = 6, stop: int = 0) -> list[int | None]:
    """Train by two processes; their exit codes, not 0 for one that was left waiting."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=one_of_two, args=(rank, port, start, work, recipe, rows, stop)) for rank in (0, 1)]
    for process in both:
        process.start()
    both[0].join(60)
    both[1].join(60 if not stop else 1)
    for process in both:
        process.kill()
        process.join()
    return [process.exitcode for process in both]


# seven rows are not shared evenly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.parametrize(("rows", "mini_batch"), [(6, 0), (7, 0), (6, 2)])
def test_two_processes_learn_what_one_does(rows: int, mini_batch: int, still: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(mini_batch=mini_batch)
    assert two(still, tmp_path / "two", recipe, rows) == [0, 0]
    model, lines = SentenceTransformer(str(still), device="cpu"), []
    fit(model, Pairs(rows=rows), InfoNceLoss(0.05), recipe, work=tmp_path / "one", log=lines.append)
    shared = json.loads((tmp_path / "two" / "losses.json").read_text())
    assert len(shared) == STEPS
    # four digits are logged
    assert shared == pytest.approx(losses(lines), abs=2e-4)
    other = SentenceTransformer(str(tmp_path / "two" / "model"), device="cpu").state_dict()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
def test_two_processes_go_on_to_the_same_weights(start: Path, tmp_path: Path) -> None:
    assert 0 not in two(start, tmp_path / "killed", stop=5)
    with pytest.raises(ConfigError, match=r"the unfinished run has processes 2 \(now 1\)"):
        train(start, tmp_path / "killed", resume=True)
    assert two(start, tmp_path / "killed") == two(start, tmp_path / "alone") == [0, 0]
    first, second = (SentenceTransformer(str(tmp_path / name / "model")) for name in ("killed", "alone"))
    assert fingerprint_of(first) == fingerprint_of(second)


def test_cached_gradients_are_those_of_the_whole_batch(still: Path) -> None:
    batch = next(Pairs().epoch(0))
    gradients, values = [], []
    for mini_batch in (0, 4):
        model = SentenceTransformer(str(still), device="cpu")
        loss = EmbeddingLoss(model, InfoNceLoss(0.05), mini_batch, shared=True)
        value = loss([features_of(model, column) for column in batch.columns], torch.from_numpy(batch.labels))
        torch.autograd.backward(value)
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
        with torch.no_grad():
            again = loss([features_of(model, column) for column in batch.columns], torch.from_numpy(batch.labels))
        values += [value.item(), again.item()]
    assert values == pytest.approx([values[0]] * 4, rel=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-5, msg=name)


@pytest.fixture(scope="module")
def unfinished(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was cut short after its checkpoint of step 4."""
    work = tmp_path_factory.mktemp("unfinished") / "work"
    with pytest.raises(Killed):
        train(start, work, log=kill_at("step 6"), checkpoint_steps=4)
    return work


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("run.json", "[]", "list indices"),
        ("checkpoint-4/trainer_state.json", "{", "Expecting"),
        ("checkpoint-4/trainer_state.json", "{}", "no 'global_step'"),
        ("checkpoint-4/optimizer.pt", None, "no such file"),
        ("checkpoint-4/rng_state.pth", None, "no such file"),
        ("checkpoint-4/optimizer.pt", "junk", ""),
        ("checkpoint-4/rng_state.pth", "junk", ""),
        ("checkpoint-4/model.safetensors", "junk", ""),
    ],
)
def test_damage_is_named(
    name: str, content: str | None, detail: str, start: Path, unfinished: Path, tmp_path: Path
) -> None:
    shutil.copytree(unfinished, tmp_path / "work")
    path = tmp_path / "work" / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    place = name if detail else "checkpoint-4"
    with pytest.raises(EncoderError, match=rf"{place}: the checkpoint cannot be read: .*{detail}.*Remedy: delete the"):
        train(start, tmp_path / "work", resume=True)
    assert (tmp_path / "work" / "checkpoint-4").exists()


def test_a_pickle_in_a_checkpoint_is_not_opened(start: Path, unfinished: Path, tmp_path: Path) -> None:
    shutil.copytree(unfinished, tmp_path / "work")

    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save(Code(), tmp_path / "work" / "checkpoint-4" / "optimizer.pt")
    with pytest.raises(EncoderError, match="checkpoint-4: the checkpoint cannot be read"):
        train(start, tmp_path / "work", resume=True)
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_that_was_not_finished_is_passed_over(
    start: Path, whole: tuple[str, Figures, list[str]], unfinished: Path, tmp_path: Path
) -> None:
    shutil.copytree(unfinished, tmp_path / "work")
    shutil.copytree(unfinished / "checkpoint-4", tmp_path / "work" / "checkpoint-5")
    state = tmp_path / "work" / "checkpoint-5" / "trainer_state.json"
    state.write_text(state.read_text()[:50])
    shutil.copytree(unfinished / "checkpoint-4", tmp_path / "work" / "checkpoint-6")
    (tmp_path / "work" / "checkpoint-6" / "trainer_state.json").unlink()
    lines: list[str] = []
    assert train(start, tmp_path / "work", resume=True, log=lines.append)[0] == whole[0]
    assert lines[0].startswith("step 5/")


@pytest.mark.parametrize("owner", [SentenceTransformer, torch])
def test_a_full_disk_costs_nothing(
    owner: Any, start: Path, whole: tuple[str, Figures, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        train(start, tmp_path, checkpoint_steps=4)
    monkeypatch.undo()
    assert newest(tmp_path) == tmp_path / "checkpoint-4"
    assert train(start, tmp_path, resume=True)[0] == whole[0]
