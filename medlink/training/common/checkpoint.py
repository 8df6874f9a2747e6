"""Checkpoints of a training run: safetensors, NumPy and JSON, so that resuming unpickles nothing.

A work folder holds ``checkpoint-STEP/``, written beside and renamed when complete, and its companions:
``neighbours-ROUND.npy``, the lists that the batches of a round of CODER++ are composed from, or ``best-STEP/``, the
best weights so far by a development measure. ``run.json`` says which data and which recipe they belong to; ``lock`` is
held by the process that writes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import TrainerState

from medlink.errors import ConfigError, EncoderError
from medlink.models.static.encoder import write_json

_WEIGHTS, _LOSS, _OPTIMIZER = "weights.safetensors", "loss.safetensors", "optimizer.safetensors"
SCHEDULE, STATE = "schedule.json", "trainer_state.json"
_RUN, _LOCK = "run.json", "lock"
# what a killed process leaves beside complete files
_LEFT = re.compile(rf"(\d+|run)\.writing|{_LOCK}")
# what a checkpoint needs beside it
_COMPANIONS = ("neighbours-*.npy", "best-*")
_DIGESTS = {"names": "other names", "data": "other data", "start": "another start"}
_REMEDY = "delete the folder of checkpoints and train from the start"
_ROOM = "make room, or mend the folder, and go on with --resume"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file of a checkpoint leads to into one error that names it.

    Raises:
        EncoderError: the file is missing, cut short, or holds something else.
    """
    try:
        yield
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else shorten(str(error), 200)
        raise EncoderError(f"the checkpoint cannot be read: {detail}", path=path, remedy=_REMEDY) from error
    except SafetensorError as error:
        raise EncoderError(f"the checkpoint cannot be read: {error}", path=path, remedy=_REMEDY) from error


@contextmanager
def writing(folder: Path, what: str) -> Iterator[None]:
    """Turn a full or broken disk into one error, and leave nothing that is half written.

    Raises:
        EncoderError: ``what``, in ``folder``, cannot be written.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        detail = getattr(error, "strerror", None) or error
        raise EncoderError(f"{what} cannot be written: {detail}", path=folder, remedy=_ROOM) from error


def check_work_folder(work: Path, run: dict[str, Any], *, resume: bool) -> Path | None:
    """Look whether a run may begin, or go on, in a folder.

    Args:
        work: folder of the checkpoints.
        run: what must not change between the parts of one run.
        resume: go on from the newest checkpoint. Without a checkpoint any run may begin: nothing is lost.

    Returns:
        The newest checkpoint.

    Raises:
        ConfigError: the folder is in use, or holds a run of other data, start, recipe or number of processes.
        EncoderError: a file that says how far the run got is damaged.
    """
    if work.exists() and not work.is_dir():
        raise ConfigError("there is a file of that name", path=work, remedy="name another folder")
    if not work.exists() or never_begun(work):
        return None
    found = newest(work)
    if found is None and not (work / _RUN).exists():
        raise ConfigError(
            "the folder is not empty and holds no checkpoints of a run", path=work, remedy="name another folder"
        )
    if found is None:
        return None
    if not resume:
        raise ConfigError(
            "the folder holds an unfinished run", path=work, remedy="resume it with --resume, or delete the folder"
        )
    with reading(work / _RUN):
        before = json.loads((work / _RUN).read_text("utf-8"))
        changed = _changes(before, run)
    if changed:
        raise ConfigError(
            f"the unfinished run has {', '.join(changed)}",
            path=work,
            remedy="resume with the data, options and number of processes it began with, or delete the folder",
        )
    with reading(found / STATE):
        step = TrainerState.load_from_json(str(found / STATE)).global_step
        if step != step_of(found):
            raise ValueError(f"it is of step {step}")
    return found


def never_begun(work: Path) -> bool:
    """Whether a folder is empty, or holds only what a run leaves that was ended before it began."""
    return all(_LEFT.fullmatch(path.name) for path in work.iterdir())


def _changes(before: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """What two runs differ in: data and start as such, the rest with both values."""
    changed = [text for key, text in _DIGESTS.items() if key in run and before[key] != run[key]]
    old, new = ({**each["recipe"], "processes": each["processes"]} for each in (before, run))
    return changed + [
        f"{key} {old.get(key)} (now {new.get(key)})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


@contextmanager
def work_folder(work: Path, run: dict[str, Any]) -> Iterator[None]:
    """The folder of a run, this run's alone as long as it lasts, without what a killed process left half written.

    Raises:
        ConfigError: it cannot be written to, or a run that goes on writes to it.
    """
    lock = FileLock(work / _LOCK, timeout=0)
    try:
        try:
            work.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            _begin(work, run)
        except Timeout as error:
            raise ConfigError(
                "another process is training into the folder", path=work, remedy="wait for it, or name another folder"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", path=work, remedy="name a folder in one you can write to"
            ) from error
        yield
    finally:
        lock.release()


def _begin(work: Path, run: dict[str, Any]) -> None:
    """Clear what was left half written, all of it where there is no checkpoint, and say whose folder this is."""
    begun = newest(work) is not None
    for left in work.glob("*.writing"):
        remove(left)
    if not begun:
        for left in _companions(work):
            remove(left)
        beside = work / "run.writing"
        write_json(beside, run)
        os.replace(beside, work / _RUN)


def _companions(work: Path) -> list[Path]:
    """What lies in a work folder beside the checkpoints."""
    return [path for pattern in _COMPANIONS for path in work.glob(pattern)]


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace_folder(new: Path, target: Path) -> None:
    """Put a complete folder in the place of another.

    At every moment one of the two is whole; what a kill between the renames left is cleared by the next call.
    """
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        remove(old)
        os.replace(target, old)
    os.replace(new, target)
    remove(old)


@contextmanager
def replacing(target: Path, what: str) -> Iterator[Path]:
    """A folder to write to, which takes the place of ``target`` when the block ends without an error.

    Args:
        target: the folder to make, or to replace.
        what: what it is, for the error.

    Raises:
        EncoderError: it cannot be written.
    """
    beside = target.with_name(f".{target.name}.writing")
    remove(beside)
    with writing(beside, what):
        yield beside
    replace_folder(beside, target)


def newest(work: Path) -> Path | None:
    """The complete checkpoint of the latest step."""
    found = [path for path in work.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(found, key=step_of, default=None)


def step_of(folder: Path) -> int:
    """The step after which a checkpoint was written, by its name."""
    return int(folder.name[11:])


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors, each a copy of its own, so that shared ones may be among them."""
    path.write_bytes(save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}))


def read_random(folder: Path, process: int) -> dict[str, Tensor]:
    """States of a process's random numbers: ``cpu``, and ``cuda`` where it had a GPU."""
    path = folder / f"random-{process}.safetensors"
    with reading(path):
        states = load_file(path)
        torch.Generator().set_state(states["cpu"])
    return states


def write_random(folder: Path, process: int) -> None:
    """Write the states that :func:`read_random` reads."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    write_tensors(folder / f"random-{process}.safetensors", states)


def write_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, schedule: dict[str, Any]
) -> None:
    """Write weights, the optimizer's moments, and the plain numbers of ``schedule``."""
    write_weights(folder, model)
    state = optimizer.state_dict()
    moments = {f"{i}.{name}": value for i, moment in state["state"].items() for name, value in moment.items()}
    write_tensors(folder / _OPTIMIZER, moments)
    rates = [group["lr"] for group in state["param_groups"]]
    write_json(folder / SCHEDULE, {**schedule, "rates": rates})


def write_weights(folder: Path, model: torch.nn.Module) -> None:
    """Write the weights that :func:`read_weights` reads."""
    write_tensors(folder / _WEIGHTS, model.state_dict())


def read_weights(folder: Path, model: torch.nn.Module) -> None:
    """Put the weights of a checkpoint into a model."""
    path = folder / _WEIGHTS
    with reading(path):
        model.load_state_dict(load_file(path))


def write_loss(folder: Path, own: dict[str, Tensor]) -> None:
    """Write the weights that a loss has of its own, such as a head; a loss without any needs no file."""
    if own:
        write_tensors(folder / _LOSS, own)


def read_loss(folder: Path, loss: torch.nn.Module, own: dict[str, Tensor]) -> None:
    """Put the weights that :func:`write_loss` wrote back into a loss, whose own now are ``own``."""
    if not own:
        return
    path = folder / _LOSS
    with reading(path):
        found = load_file(path)
        if found.keys() != own.keys():
            raise ValueError(f"weights {sorted(found)}, {sorted(own)} expected")
        loss.load_state_dict(found, strict=False)


def read_schedule(folder: Path) -> dict[str, Any]:
    """The plain numbers of a checkpoint."""
    path = folder / SCHEDULE
    with reading(path):
        schedule: dict[str, Any] = json.loads(path.read_text("utf-8"))
        numbers = [*schedule["rates"], schedule["scheduler"]["last_epoch"]]
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("a number is missing")
        return schedule


def read_optimizer(folder: Path, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put the moments of a checkpoint into an optimizer; returns the plain numbers."""
    schedule = read_schedule(folder)
    groups = optimizer.state_dict()["param_groups"]
    with reading(folder / SCHEDULE):
        for group, rate in zip(groups, schedule["rates"], strict=True):
            group["lr"] = rate
    with reading(folder / _OPTIMIZER):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in load_file(folder / _OPTIMIZER).items():
            i, name = key.split(".", 1)
            state.setdefault(int(i), {})[name] = value
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    return schedule


def write_neighbours(work: Path, number: int, neighbours: NDArray[np.int32]) -> str:
    """Write the lists of a round, once; returns the name of their file."""
    path = work / f"neighbours-{number}.npy"
    if not path.exists():
        beside = work / f"neighbours-{number}.writing.npy"
        np.save(beside, neighbours, allow_pickle=False)
        os.replace(beside, path)
    return path.name


def read_neighbours(work: Path, number: int, terms: int) -> NDArray[np.int32]:
    """Read the lists of a round: a row of numbers of terms, or -1, for each of so many terms."""
    path = work / f"neighbours-{number}.npy"
    with reading(path):
        lists: NDArray[np.int32] = np.load(path, allow_pickle=False)
        if lists.ndim != 2 or len(lists) != terms or lists.dtype != np.int32:
            raise ValueError(f"{lists.shape} {lists.dtype}, lists of {terms} terms expected")
        if lists.size and not -1 <= lists.min() <= lists.max() < terms:
            raise ValueError(f"a term of number {lists.max()}, below {terms} expected")
    return lists


def clear_best(work: Path, name: str) -> None:
    """Delete the best weights of earlier steps, except those that the newest checkpoint needs.

    Args:
        work: folder of the checkpoints.
        name: the folder of the best weights so far.
    """
    found = newest(work)
    best = read_schedule(found).get("best") if found else None
    for old in work.glob("best-*"):
        if old.name not in (name, f"best-{best[1]}" if best else ""):
            remove(old)


def finish(work: Path, writing: Path, step: int, needed: Collection[str]) -> None:
    """Make a written checkpoint the newest and only one, together with the companions that it needs."""
    target = work / f"checkpoint-{step}"
    if target.exists():
        shutil.rmtree(target)
    os.replace(writing, target)
    for old in work.glob("checkpoint-*"):
        if old != target:
            shutil.rmtree(old)
    for old in _companions(work):
        if old.name not in needed:
            remove(old)
