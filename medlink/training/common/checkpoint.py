"""Checkpoints of a training run: safetensors, NumPy and JSON, so that resuming unpickles nothing.

A folder of checkpoints holds ``checkpoint-STEP/``, which appears whole, and its companions: ``neighbours-ROUND.npy``,
the lists that the batches of a round of CODER++ are composed from, or ``best-STEP/``, the best weights so far by a
development measure. All processes of a run map these lists, and the embeddings that they are found with, into memory.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import TrainerState

from medlink.errors import EncoderError
from medlink.files.folders import remove, whole_folder
from medlink.files.json import read_json, write_json
from medlink.files.whole import whole_file

_WEIGHTS, _LOSS, _OPTIMIZER = "weights.safetensors", "loss.safetensors", "optimizer.safetensors"
EMBEDDINGS = ".writing-embeddings"  # what a killed process leaves of it is removed when the run goes on
SCHEDULE, STATE = "schedule.json", "trainer_state.json"
# what a checkpoint needs beside it
_COMPANIONS = ("neighbours-*.npy", "best-*")
_REMEDY = "delete the folder of checkpoints and train from the start"
_DAMAGE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
_ROOM = "make room, or mend the folder, and go on with --resume"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or missing file of a checkpoint leads to into one :class:`EncoderError` that names it."""
    try:
        yield
    except (*_DAMAGE, SafetensorError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else shorten(str(error), 200)
        raise EncoderError(f"the checkpoint cannot be read: {detail}", path=path, remedy=_REMEDY) from error


@contextmanager
def new_folder(path: Path, what: str) -> Iterator[Path]:
    """:func:`medlink.files.folders.whole_folder`; what a full disk leads to says how to go on with the run."""
    with whole_folder(path, what) as draft, _writing(path, what):
        yield draft


@contextmanager
def _writing(path: Path, what: str) -> Iterator[None]:
    """Turn what a full disk leads to into one :class:`EncoderError`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        detail = getattr(error, "strerror", None) or error
        raise EncoderError(f"{what} cannot be written: {detail}", path=path, remedy=_ROOM) from error


def companions(work: Path) -> list[Path]:
    """What lies beside the checkpoints."""
    return [path for pattern in _COMPANIONS for path in work.glob(pattern)]


def newest(work: Path) -> Path | None:
    """The checkpoint of the latest step."""
    found = [path for path in work.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(found, key=step_of, default=None)


def check(folder: Path) -> Path:
    """A checkpoint; an :class:`EncoderError` where it does not say that it is of the step of its name."""
    with reading(folder / STATE):
        step = TrainerState.load_from_json(str(folder / STATE)).global_step
        if step != step_of(folder):
            raise ValueError(f"it is of step {step}")
    return folder


def step_of(folder: Path) -> int:
    """The step after which a checkpoint was written, by its name."""
    return int(folder.name[11:])


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors, each a copy of its own, so that shared ones may be among them."""
    path.write_bytes(save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}))


def read_random(folder: Path, process: int) -> dict[str, Tensor]:
    """What :func:`random_states` gave in a process."""
    path = folder / f"random-{process}.safetensors"
    with reading(path):
        states = load_file(path)
        torch.Generator().set_state(states["cpu"])
    return states


def random_states() -> dict[str, Tensor]:
    """States of this process's random numbers: ``cpu``, and ``cuda`` where it has a GPU."""
    return {"cpu": torch.get_rng_state(), **({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})}


def write_random(folder: Path, states: Sequence[dict[str, Tensor]]) -> None:
    """Write the random states of all processes."""
    for process, one in enumerate(states):
        write_tensors(folder / f"random-{process}.safetensors", one)


def write_optimizer(folder: Path, optimizer: torch.optim.Optimizer, schedule: dict[str, Any]) -> None:
    """Write the optimizer's moments, and the plain numbers of ``schedule``."""
    state = optimizer.state_dict()
    moments = {f"{i}.{name}": value for i, moment in state["state"].items() for name, value in moment.items()}
    write_tensors(folder / _OPTIMIZER, moments)
    write_json(folder / SCHEDULE, {**schedule, "rates": [group["lr"] for group in state["param_groups"]]})


def write_weights(folder: Path, model: torch.nn.Module, own: dict[str, Tensor]) -> None:
    """Write the weights of a model, and those that its loss has of its own, such as a head."""
    write_tensors(folder / _WEIGHTS, model.state_dict())
    if own:
        write_tensors(folder / _LOSS, own)


def read_weights(folder: Path, model: torch.nn.Module, loss: torch.nn.Module, own: dict[str, Tensor]) -> None:
    """Put what :func:`write_weights` wrote back into a model and its loss, whose own weights now are ``own``."""
    with reading(folder / _WEIGHTS):
        model.load_state_dict(load_file(folder / _WEIGHTS))
    if own:
        with reading(folder / _LOSS):
            found = load_file(folder / _LOSS)
            if found.keys() != own.keys():
                raise ValueError(f"weights {sorted(found)}, {sorted(own)} expected")
            loss.load_state_dict(found, strict=False)


def read_schedule(folder: Path) -> dict[str, Any]:
    """The plain numbers of a checkpoint."""
    with reading(folder / SCHEDULE):
        schedule: dict[str, Any] = read_json(folder / SCHEDULE)
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


def new_embeddings(path: Path, terms: int, dimension: int) -> None:
    """Make a file with room for embeddings of 16 bits ``(terms, dimension)``, to be mapped into memory.

    Raises:
        EncoderError: there is no room for it.
    """
    with _writing(path, "the file of embeddings"), open(path, "wb") as file:
        # or a full disk would end a process that writes to the map, without an error
        os.posix_fallocate(file.fileno(), 0, 2 * terms * dimension)


def neighbours(number: int) -> str:
    """The name of the file of the lists of a round."""
    return f"neighbours-{number}.npy"


def write_neighbours(work: Path, number: int, lists: NDArray[np.int32]) -> None:
    """Write the lists of a round.

    Raises:
        EncoderError: there is no room for them.
    """
    path = work / neighbours(number)
    with whole_file(path, "the neighbours") as file, _writing(path, "the neighbours"):
        np.save(file, lists, allow_pickle=False)


def read_neighbours(work: Path, number: int, terms: int) -> NDArray[np.int32]:
    """Map the lists of a round: a row of numbers of terms, or -1, for each of so many terms."""
    path = work / neighbours(number)
    with reading(path):
        lists: NDArray[np.int32] = np.load(path, mmap_mode="r", allow_pickle=False)
        if lists.ndim != 2 or len(lists) != terms or lists.dtype != np.int32:
            raise ValueError(f"{lists.shape} {lists.dtype}, lists of {terms} terms expected")
        if lists.size and not -1 <= lists.min() <= lists.max() < terms:
            raise ValueError(f"a term of number {lists.max()}, below {terms} expected")
    # NumPy's memmap class makes every slice slower
    return lists.view(np.ndarray)


def clear_neighbours(work: Path, number: int) -> None:
    """Delete the lists of all rounds but those of this one and those that the newest checkpoint needs."""
    found = newest(work)
    needed = {number, read_schedule(found).get("found") if found else None}
    for old in work.glob("neighbours-*.npy"):
        if old.name not in {neighbours(one) for one in needed if one is not None}:
            remove(old)


def clear_best(work: Path, name: str) -> None:
    """Delete the best weights but those in the folder ``name`` and those that the newest checkpoint needs."""
    found = newest(work)
    best = read_schedule(found).get("best") if found else None
    for old in work.glob("best-*"):
        if old.name not in (name, f"best-{best[1]}" if best else ""):
            remove(old)


def keep_only(work: Path, step: int, needed: Collection[str]) -> None:
    """Delete all checkpoints but that of a step, and all companions but those that it needs."""
    for old in work.glob("checkpoint-*"):
        if old.name != f"checkpoint-{step}":
            remove(old)
    for old in companions(work):
        if old.name not in needed:
            remove(old)
