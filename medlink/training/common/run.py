"""A run of a trainer: its folder of checkpoints, a record of its inputs, and the encoder with its card.

A trainer supplies data, a loss and a recipe. It opens :func:`training_run`, states the inputs of the run with
:meth:`Run.bind`, trains with :meth:`Run.fit`, and writes with :meth:`Run.write`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError
from medlink.files.atomic import atomic_writer
from medlink.files.folders import atomic_folder, ensure_folder, locked, remove, scratch_folder
from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.models.encoders import check_folder
from medlink.models.file_hashes import write_hashes
from medlink.training.common.card import write_card
from medlink.training.common.checkpoints import STATE, find_newest_checkpoint, process_state, read_errors, write_errors
from medlink.training.common.inputs import Inputs, PlainInputs, open_inputs, write_inputs
from medlink.training.common.resumable_trainer import BatchTrainer, Measure, resolve_precision
from medlink.training.common.trainable import Trainable, limit_tokens
from medlink.training.data.batches import Batches, Texts
from medlink.training.recipes import PhaseRecipe, Recipe, RunOptions

RECORD, LOCK = "run.json", "lock"
# results that a new run may not overwrite
_PROGRESS = ("checkpoint-*", "*/checkpoint-*", "encoder-*", "targets")
_CHANGED_DATA = {"data": "other data", "names": "other names"}


@contextmanager
def new_folder(path: Path, what: str) -> Iterator[Path]:
    """Like :func:`~medlink.files.folders.atomic_folder`, but errors tell how to resume the run."""
    with atomic_folder(path, what) as draft, write_errors(path, what):
        yield draft


class Run:
    """A run of a trainer, from :func:`training_run`. Only the main process writes.

    ``folder`` holds checkpoints until the run is complete, ``out`` is the result.
    """

    def __init__(
        self,
        folder: Path,
        out: Path,
        options: RunOptions,
        progress: Callable[[str], None] | None = None,
        evaluate: Measure | None = None,
    ) -> None:
        self.folder, self.out, self.options, self.evaluate = folder, out, options, evaluate
        self.is_main: bool = process_state().is_main_process
        self.progress = progress if progress is not None and self.is_main else lambda _: None

    def wait(self) -> None:
        process_state().wait_for_everyone()

    def bind(self, recipe: Recipe, **facts: Any) -> None:
        """Record the inputs of the run, which a resumed run must share: recipe, and hashes by name.

        Raises ConfigError if the run began with other inputs, EncoderError if the record is damaged.
        """
        settings = {**recipe.to_dict(), "precision": resolve_precision(recipe.precision)}
        settings["measured"] = self.evaluate is not None
        now = {**facts, "recipe": settings, "processes": process_state().num_processes}
        record = self.folder / RECORD
        if self.is_main and _has_progress(self.folder):
            with read_errors(record):
                changed = _changes(read_json(record), json.loads(json.dumps(now)))
            if changed:
                remedy = "resume with the data, options and number of processes it began with, or delete the folder"
                raise ConfigError(f"the unfinished run has {', '.join(changed)}", path=self.folder, remedy=remedy)
        elif self.is_main:
            for old in self.folder.glob("neighbours-*"):
                remove(old)
            write_json(record, now, "the record of the run")
        self.wait()

    def read_inputs(self, model: SentenceTransformer, texts: Texts | None) -> Inputs:
        """Compute the inputs of a model for texts, unless the run did so before, and map them."""
        if texts is None:
            count = len(model[0].vectors)  # type: ignore[arg-type]  # a tensor
            return PlainInputs(count, lambda rows: {"input_ids": torch.from_numpy(rows.reshape(-1).astype(np.int64))})
        folder = self.folder / "inputs"
        if self.is_main:
            write_inputs(model, texts, folder, self.progress)
        self.wait()
        return open_inputs(model, folder)

    def fit(
        self, model: SentenceTransformer, batches: Batches, loss: torch.nn.Module, recipe: PhaseRecipe, name: str = ""
    ) -> dict[str, Any]:
        """Train a model in place, to the last or best weights; return facts for the card.

        For ``loss`` see :mod:`medlink.training.common.losses`; the checkpoints are in the subfolder ``name``. For
        reproducibility and errors see :meth:`medlink.training.common.trainer.Trainer.train`; raises ConfigError also
        if the data do not fill a batch.
        """
        if not batches.batches_per_epoch():
            remedy = "train on more data, or with a smaller batch_size"
            raise ConfigError("the data do not fill one batch", remedy=remedy)
        # small steps would round to nothing in 16 bits
        model.float()
        limit_tokens(model, recipe.max_tokens)
        folder = self.folder / name
        checkpoint = find_newest_checkpoint(folder)
        self.wait()
        if self.is_main:
            folder.mkdir(exist_ok=True)
        trainer = BatchTrainer(model, batches, self.read_inputs(model, batches.texts), loss, recipe, self, folder)
        trainer.run(checkpoint)
        self.wait()
        return trainer.facts()

    def train(
        self,
        part: Trainable,
        batches: Batches,
        loss: torch.nn.Module,
        recipe: PhaseRecipe,
        data: Mapping[str, Any],
        **card: Any,
    ) -> None:
        """Do a whole run: :meth:`bind`, :meth:`fit` and :meth:`write`; ``data`` are facts for the card."""
        self.bind(recipe, data=batches.digest, start=part.fingerprint)
        figures = self.fit(part.model, batches, loss, recipe)
        data = {**data, "SHA-256 of the data and their settings": f"`{batches.digest}`"}
        self.write(part.save, **card, start=part.fingerprint, data=data, recipe=recipe, figures=figures)

    def write(
        self, save: SentenceTransformer | Callable[[Path], Any], folder: Path | None = None, /, **card: Any
    ) -> None:
        """Write an encoder with its card (see :func:`write_card`), atomically, to ``folder`` or ``out``.

        ``save`` is the trained transformer, or a function that writes the encoder into a folder.
        """
        if self.is_main:
            with new_folder(folder or self.out, "the encoder") as draft:
                if isinstance(save, SentenceTransformer):
                    save.save(str(draft), create_model_card=False, safe_serialization=True)
                    write_hashes(draft)
                else:
                    save(draft)
                write_card(draft, load_encoder(draft, device="cpu"), **card)
        self.wait()


@contextmanager
def training_run(
    out: str | Path,
    recipe: Recipe,
    options: RunOptions,
    progress: Callable[[str], None] | None = None,
    evaluate: Measure | None = None,
    *,
    marker: str = "modules.json",
    kind: str = "encoder",
) -> Iterator[Run]:
    """Open a run that writes the folder ``out``, with checkpoints in ``OUT.checkpoints`` until the block succeeds.

    ``marker`` is the file that marks a folder as a replaceable output, called ``kind`` in errors. Raises ConfigError
    if a folder is in use, there is an unfinished run and ``resume`` is off, or this machine lacks the precision.
    """
    out = Path(out).resolve()
    check_folder(out, marker, kind)
    resolve_precision(recipe.precision)
    folder = out.with_name(f"{out.name}.checkpoints")
    with open_run_folder(folder, options, progress, evaluate, out=out) as run:
        yield run
    if run.is_main:
        # by a rename: half a folder could not be resumed
        with scratch_folder(folder, "the checkpoints") as scratch:
            folder.rename(scratch / folder.name)
    run.wait()


@contextmanager
def open_run_folder(
    folder: Path,
    options: RunOptions,
    progress: Callable[[str], None] | None = None,
    evaluate: Measure | None = None,
    *,
    out: Path | None = None,
) -> Iterator[Run]:
    """Lock the folder of a run; see :func:`training_run`."""
    run = Run(folder, out or folder, options, progress, evaluate)
    if run.is_main:
        remedy = "name another folder"
        if folder.exists() and not folder.is_dir():
            raise ConfigError("there is a file of that name", path=folder, remedy=remedy)
        others = {path.name for path in folder.glob("*") if not path.name.startswith(".writing-")} - {LOCK}
        if others and RECORD not in others and not _has_progress(folder):
            raise ConfigError("the folder is not empty and holds no run", path=folder, remedy=remedy)
        if not options.resume and _has_progress(folder):
            remedy = "resume it with resume=..., or delete the folder"
            raise ConfigError("the folder holds an unfinished run", path=folder, remedy=remedy)
    run.wait()
    with _locked_folder(folder) if run.is_main else nullcontext():
        run.wait()
        yield run
        run.wait()


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    with ensure_folder(folder), locked(folder / LOCK, "the checkpoints"):
        unfinished = [path for path in folder.rglob("checkpoint-*") if not (path / STATE).exists()]
        for path in (*folder.rglob(".writing-*"), *unfinished):
            remove(path)
        if not (folder / RECORD).exists() and not _has_progress(folder):
            write_json(folder / RECORD, {}, "the record of the run")
        try:
            yield
        except BaseException:
            if not _has_progress(folder):
                remove(folder)
            raise


def _has_progress(folder: Path) -> bool:
    return any(True for pattern in _PROGRESS for _ in folder.glob(pattern))


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    facts = [key for key in now if key not in ("recipe", "processes") and before[key] != now[key]]
    old, new = ({**each["recipe"], "processes": each["processes"]} for each in (before, now))
    settings = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    changed = [_CHANGED_DATA.get(key, f"another {key}") for key in facts]
    return changed + [f"{key} {old.get(key)} (now {new.get(key)})" for key in settings]


def neighbours_path(folder: Path, number: int) -> Path:
    """Return the file with the neighbour lists of a round, which all processes map."""
    return folder / f"neighbours-{number}.npy"


def write_neighbours(folder: Path, number: int, lists: NDArray[np.int32]) -> None:
    """Write the neighbour lists of a round; raises EncoderError if the disk is full."""
    path = neighbours_path(folder, number)
    with atomic_writer(path, "the neighbours") as file, write_errors(path, "the neighbours"):
        np.save(file, lists, allow_pickle=False)


def read_neighbours(folder: Path, number: int, terms: int) -> NDArray[np.int32]:
    """Map the neighbour lists of a round: ``(terms, k)`` numbers of terms, or -1."""
    path = neighbours_path(folder, number)
    with read_errors(path):
        lists: NDArray[np.int32] = np.load(path, mmap_mode="r", allow_pickle=False)
        if lists.ndim != 2 or len(lists) != terms or lists.dtype != np.int32:
            raise ValueError(f"{lists.shape} {lists.dtype}, lists of {terms} terms expected")
        if lists.size and not -1 <= lists.min() <= lists.max() < terms:
            raise ValueError(f"a term of number {lists.max()}, below {terms} expected")
    # NumPy's memmap class makes every slice slower
    return lists.view(np.ndarray)
