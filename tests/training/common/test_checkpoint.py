"""Checkpoints: what is read is what was written, no pickle among it, and damage is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medlink.errors import EncoderError
from medlink.training.common import checkpoint

LISTS = np.array([[1, 1], [0, -1]], dtype=np.int32)


def net(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    """A tied pair of layers after two steps, its optimizer and its schedule."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = torch.optim.AdamW([{"params": model[0].parameters()}, {"params": [model[1].bias]}], lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    for _ in range(2):
        torch.autograd.backward(model(torch.ones(2, 3)).sum())
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


def written(work: Path, step: int, found: int) -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    """A complete checkpoint."""
    made = net(seed=1)
    with checkpoint.new_folder(work / f"checkpoint-{step}", "the checkpoint") as draft:
        checkpoint.write_weights(draft, made[0], {})
        checkpoint.write_optimizer(draft, made[1], {"found": found, "scheduler": made[2].state_dict()})
    checkpoint.write_neighbours(work, found, LISTS)
    checkpoint.keep_only(work, step, [checkpoint.neighbours(found)])
    return made


def test_round_trip(tmp_path: Path) -> None:
    model, optimizer, scheduler = written(tmp_path, step=5, found=2)
    folder = checkpoint.newest(tmp_path)
    assert folder == tmp_path / "checkpoint-5"
    other, other_optimizer, other_scheduler = net(seed=2)
    checkpoint.read_weights(folder, other, other, {})
    schedule = checkpoint.read_optimizer(folder, other_optimizer)
    other_scheduler.load_state_dict(schedule["scheduler"])
    assert schedule["found"] == 2
    for _ in range(2):
        for a, b, c in ((model, optimizer, scheduler), (other, other_optimizer, other_scheduler)):
            b.zero_grad()
            torch.autograd.backward(a(torch.ones(2, 3)).square().sum())
            b.step()
            c.step()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], tensor, rtol=0, atol=0)
    np.testing.assert_array_equal(checkpoint.read_neighbours(tmp_path, 2, 2), LISTS)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".safetensors", ".json", ".npy"}


def test_a_new_checkpoint_takes_the_place_of_the_old(tmp_path: Path) -> None:
    written(tmp_path, step=9, found=1)
    written(tmp_path, step=10, found=1)
    assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "neighbours-1.npy"]
    written(tmp_path, step=12, found=3)
    assert sorted(path.name for path in tmp_path.glob("n*")) == ["neighbours-3.npy"]
    # a run that goes on from an older copy writes the step again
    written(tmp_path, step=12, found=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12", "neighbours-3.npy"]


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "schedule.json"])
@pytest.mark.parametrize("how", ["missing", "short"])
def test_damage_is_named(name: str, how: str, tmp_path: Path) -> None:
    written(tmp_path, step=5, found=2)
    path = tmp_path / "checkpoint-5" / name
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:7])
    model, optimizer, _ = net(seed=2)

    def read() -> None:
        checkpoint.read_weights(path.parent, model, model, {})
        checkpoint.read_optimizer(path.parent, optimizer)

    with pytest.raises(EncoderError) as error:
        read()
    assert f"{path}: the checkpoint cannot be read" in str(error.value)
    assert "Remedy: delete the folder of checkpoints" in str(error.value)


@pytest.mark.parametrize("content", [None, b"\x93NUMPY"])
def test_damaged_neighbours_are_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "neighbours-4.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EncoderError, match=r"neighbours-4\.npy: the checkpoint cannot be read"):
        checkpoint.read_neighbours(tmp_path, 4, 2)


def test_a_pickle_among_the_neighbours_is_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "neighbours-4.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(EncoderError, match="cannot be read"):
        checkpoint.read_neighbours(tmp_path, 4, 2)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (LISTS[:1], r"\(1, 2\) int32, lists of 2 terms expected"),
        (LISTS[0], "lists of 2 terms expected"),
        (LISTS.astype(float), "lists of 2 terms expected"),
        (LISTS + 1, "a term of number 2, below 2 expected"),
    ],
)
def test_neighbours_of_other_terms_are_named(lists: np.ndarray[Any, Any], message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "neighbours-4.npy", lists)
    with pytest.raises(EncoderError, match=rf"neighbours-4\.npy: the checkpoint cannot be read: .*{message}"):
        checkpoint.read_neighbours(tmp_path, 4, 2)


def test_random_numbers_go_on(tmp_path: Path) -> None:
    checkpoint.write_random(tmp_path, [{}, checkpoint.random_states()])
    expected = torch.rand(3)
    torch.set_rng_state(checkpoint.read_random(tmp_path, 1)["cpu"])
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)
    with pytest.raises(EncoderError, match=r"random-2\.safetensors: the checkpoint cannot be read"):
        checkpoint.read_random(tmp_path, 2)


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("schedule.json", "{}", "no 'rates'"),
        ("schedule.json", "[]", "list indices"),
        ("schedule.json", '{"found": 1, "rates": [0.1, "x"], "scheduler": {"last_epoch": 5}}', "a number is missing"),
        ("schedule.json", '{"found": 1, "rates": [0.1], "scheduler": {"last_epoch": 5}}', "shorter"),
        ("weights.safetensors", "", "eader"),
    ],
)
def test_files_that_hold_something_else(name: str, content: str, detail: str, tmp_path: Path) -> None:
    written(tmp_path, step=5, found=2)
    (tmp_path / "checkpoint-5" / name).write_text(content)
    model, optimizer, _ = net(seed=2)
    with pytest.raises(EncoderError, match=rf"{name}: the checkpoint cannot be read: .*{detail}.*Remedy: delete"):
        read_all(tmp_path / "checkpoint-5", model, optimizer)


def test_weights_of_another_model(tmp_path: Path) -> None:
    written(tmp_path, step=5, found=2)
    _, optimizer, _ = net(seed=2)
    with pytest.raises(EncoderError, match=r"weights\.safetensors: the checkpoint cannot be read: .*loading") as error:
        read_all(tmp_path / "checkpoint-5", torch.nn.Linear(2, 2), optimizer)
    assert "\n" not in str(error.value)


def read_all(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    checkpoint.read_weights(folder, model, model, {})
    checkpoint.read_optimizer(folder, optimizer)


def test_a_full_disk_is_named_and_nothing_half_written_stays(tmp_path: Path) -> None:
    def write() -> None:
        with checkpoint.new_folder(tmp_path / "checkpoint-5", "the checkpoint") as draft:
            (draft / "half").touch()
            raise OSError(28, "No space left on device")

    with pytest.raises(EncoderError, match=r"5: the checkpoint cannot be written: No space.*Remedy: make room"):
        write()
    assert not list(tmp_path.iterdir())
