"""Checkpoints of a training run: safetensors, NumPy and JSON, so that resuming unpickles nothing.

A work folder holds ``checkpoint-STEP/``, written beside and renamed when complete, and ``neighbours-ROUND.npy``, the
lists that the batches of that round are composed from. ``run.json`` says which names and which recipe they belong to.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from medlink.errors import ConfigError, EncoderError
from medlink.models.static import write_json

_WEIGHTS, _OPTIMIZER, _SCHEDULE = "weights.safetensors", "optimizer.safetensors", "schedule.json"
_RUN = "run.json"
_REMEDY = "delete the folder of checkpoints and train from the start"


def check_work_folder(work: Path, run: dict[str, Any], *, resume: bool) -> Path | None:
    """Look whether a run may begin, or go on, in a folder.

    Args:
        work: folder of the checkpoints.
        run: what must not change between the parts of one run.
        resume: go on from the newest checkpoint, from the start if there is none yet.

    Returns:
        The newest checkpoint.

    Raises:
        ConfigError: the folder is in use, or holds a run of other names, start or recipe.
    """
    if not work.exists() or not any(work.iterdir()):
        return None
    if not (work / _RUN).is_file():
        raise ConfigError(
            "the folder is not empty and holds no checkpoints of a run", path=work, remedy="name another folder"
        )
    if not resume:
        raise ConfigError(
            "the folder holds an unfinished run", path=work, remedy="resume it with --resume, or delete the folder"
        )
    before = _read_json(work / _RUN)
    changed = sorted(key for key in run.keys() | before.keys() if run.get(key) != before.get(key))
    if changed:
        raise ConfigError(
            f"the unfinished run has another {' and '.join(changed)}",
            path=work,
            remedy="resume with the names and options it began with, or delete the folder",
        )
    return newest(work)


def begin_work_folder(work: Path, run: dict[str, Any]) -> None:
    """Make the folder of a run, without what a killed process left half written.

    Raises:
        ConfigError: it cannot be written to.
    """
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", path=work, remedy="name a folder in one you can write to"
        ) from error
    for left in work.glob("*.writing"):
        shutil.rmtree(left)
    write_json(work / _RUN, run)


def newest(work: Path) -> Path | None:
    """The complete checkpoint of the latest step."""
    found = [path for path in work.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(found, key=lambda path: int(path.name[11:]), default=None)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors, each a copy of its own, so that shared ones may be among them."""
    path.write_bytes(save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read what :func:`write_tensors` wrote."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"the checkpoint cannot be read: {error}", path=path, remedy=_REMEDY) from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"the checkpoint cannot be read: {error}", path=path, remedy=_REMEDY) from error


def write_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, schedule: dict[str, Any]
) -> None:
    """Write weights, the optimizer's moments, and the plain numbers of ``schedule``."""
    write_tensors(folder / _WEIGHTS, model.state_dict())
    state = optimizer.state_dict()
    moments = {f"{i}.{name}": value for i, moment in state["state"].items() for name, value in moment.items()}
    write_tensors(folder / _OPTIMIZER, moments)
    rates = [group["lr"] for group in state["param_groups"]]
    write_json(folder / _SCHEDULE, {**schedule, "rates": rates})


def read_weights(folder: Path, model: torch.nn.Module) -> None:
    """Put the weights of a checkpoint into a model."""
    model.load_state_dict(read_tensors(folder / _WEIGHTS))


def read_optimizer(folder: Path, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put the moments of a checkpoint into an optimizer; returns the plain numbers."""
    schedule: dict[str, Any] = _read_json(folder / _SCHEDULE)
    groups = optimizer.state_dict()["param_groups"]
    for group, rate in zip(groups, schedule["rates"], strict=True):
        group["lr"] = rate
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in read_tensors(folder / _OPTIMIZER).items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return schedule


def write_neighbours(work: Path, number: int, neighbours: NDArray[np.int32]) -> None:
    """Write the lists of a round, once."""
    path = work / f"neighbours-{number}.npy"
    if not path.exists():
        beside = work / f"neighbours-{number}.writing.npy"
        np.save(beside, neighbours, allow_pickle=False)
        os.replace(beside, path)


def read_neighbours(work: Path, number: int) -> NDArray[np.int32]:
    """Read the lists of a round."""
    path = work / f"neighbours-{number}.npy"
    try:
        lists: NDArray[np.int32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise EncoderError(f"the checkpoint cannot be read: {error}", path=path, remedy=_REMEDY) from error
    return lists


def finish(work: Path, writing: Path, step: int) -> None:
    """Make a written checkpoint the newest and only one, together with the neighbours that it needs."""
    target = work / f"checkpoint-{step}"
    if target.exists():
        shutil.rmtree(target)
    os.replace(writing, target)
    for old in work.glob("checkpoint-*"):
        if old != target:
            shutil.rmtree(old)
    number = _read_json(target / _SCHEDULE)["found"]
    for old in work.glob("neighbours-*.npy"):
        if old.name != f"neighbours-{number}.npy":
            old.unlink()
