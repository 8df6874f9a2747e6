"""The newest checkpoint of a run, errors of damaged checkpoints and full disks, and the state of the processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from pickle import UnpicklingError
from struct import error as StructError
from textwrap import shorten

import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # ships no types
from safetensors import SafetensorError

from medlink.errors import EncoderError
from medlink.files.json import read_json

TIMEOUT_SECONDS = 86_400
"""Time that processes wait for each other: the main process may work alone."""
STATE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last."""
# errors of torch's unpickler, which runs no code, and of the other readers on a damaged file
_READ_ERRORS = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError,
    UnpicklingError, StructError, SafetensorError,
)  # fmt: skip


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn errors of a damaged or missing checkpoint file in the block into :class:`EncoderError`."""
    try:
        yield
    except _READ_ERRORS as error:
        detail = f"no {error}" if isinstance(error, KeyError) else shorten(str(error), 200)
        remedy = "delete the folder of checkpoints and train from the start"
        raise EncoderError(f"the checkpoint cannot be read: {detail}", path=path, remedy=remedy) from error


@contextmanager
def write_errors(path: Path, what: str) -> Iterator[None]:
    """Turn errors of a full disk in the block into :class:`EncoderError`."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        # torch.save raises RuntimeError; a closed pipe comes from writing progress
        if isinstance(error, BrokenPipeError) or (type(error) is RuntimeError and "inline_container" not in str(error)):
            raise
        detail = getattr(error, "strerror", None) or shorten(str(error), 200)
        remedy = "make room, or repair the folder, and continue with resume=..."
        raise EncoderError(f"{what} cannot be written: {detail}", path=path, remedy=remedy) from error


def checkpoint_step(folder: Path) -> int:
    """Return the step after which a checkpoint was written, from its name."""
    return int(folder.name.removeprefix("checkpoint-"))


def find_newest_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint of the latest step, without checkpoints that a killed process left unfinished.

    An unfinished checkpoint lacks its state, or part of it. Raises EncoderError if all checkpoints are damaged.
    """
    checkpoints = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit() and (path / STATE).exists()]
    checkpoints.sort(key=checkpoint_step)
    for checkpoint in reversed(checkpoints):
        with read_errors(checkpoint / STATE):
            try:
                state = read_json(checkpoint / STATE)
            except ValueError:
                if checkpoint != checkpoints[0]:
                    continue
                raise
            if state["global_step"] != checkpoint_step(checkpoint):
                raise ValueError(f"it is of step {state['global_step']}")
        count = process_state().num_processes
        random = ["rng_state.pth"] if count == 1 else [f"rng_state_{process}.pth" for process in range(count)]
        # transformers ignores a missing file
        for name in ("optimizer.pt", "scheduler.pt", *random):
            if not (checkpoint / name).exists():
                with read_errors(checkpoint / name):
                    raise FileNotFoundError("there is no such file")
        return checkpoint
    return None


def process_state() -> PartialState:
    """Return the state of the processes that share the run; without a launcher there is one process.

    Sets the timeout before the trainer does; accelerate does not notice a missing GPU.
    """
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=TIMEOUT_SECONDS))
