"""The one road of every trainer: a folder to work in, a record of what made the run, an encoder with its card.

A trainer is data, a loss and a recipe. It opens :func:`training_run`, says with :meth:`Run.bind` what the run is made
of, trains with :meth:`Run.fit`, and writes with :meth:`Run.write`.
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
from medlink.files.atomic import whole_file
from medlink.files.folders import locked, made_folder, remove, scratch_folder, whole_folder
from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.models.encoders import check_folder
from medlink.models.sealed import seal
from medlink.training.common import fit
from medlink.training.common.card import write_card
from medlink.training.common.fit import BatchTrainer, Figures, Measure, precision_here, processes_here, reading, writing
from medlink.training.common.trainable import Trainable, cut_at
from medlink.training.data.batches import Batches
from medlink.training.recipes import PhaseRecipe, Recipe, RunOptions

RECORD, LOCK = "run.json", "lock"
# what training is not begun anew over
_KEPT = ("checkpoint-*", "*/checkpoint-*", "encoder-*", "targets")
_DATA = {"data": "other data", "names": "other names"}


@contextmanager
def new_folder(path: Path, what: str) -> Iterator[Path]:
    """:func:`medlink.files.folders.whole_folder`; what a full disk leads to says how to go on with the run."""
    with whole_folder(path, what) as draft, writing(path, what):
        yield draft


class Run:
    """A run of a trainer, from :func:`training_run`. Of several processes the first one writes, the others wait for it.

    ``folder`` holds what is kept until the run is complete, ``out`` is what it makes.
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
        self.first: bool = processes_here().is_main_process
        self.progress = progress if progress is not None and self.first else lambda _: None

    def wait(self) -> None:
        """Wait until all processes are here."""
        processes_here().wait_for_everyone()

    def bind(self, recipe: Recipe, **facts: Any) -> None:
        """Write down what the run is made of; one that is resumed must have begun with the same.

        ``facts`` are hashes of ``data`` and of encoders by name. Numbers of another precision would not lead to the
        same weights.

        Raises:
            ConfigError: the run began with something else.
            EncoderError: the record is damaged.
        """
        how = {**recipe.to_dict(), "precision": precision_here(recipe.precision)}
        how["measured"] = self.evaluate is not None
        now = {**facts, "recipe": how, "processes": processes_here().num_processes}
        record = self.folder / RECORD
        if self.first and _is_begun(self.folder):
            with reading(record):
                changed = _changes(read_json(record), json.loads(json.dumps(now)))
            if changed:
                remedy = "resume with the data, options and number of processes it began with, or delete the folder"
                raise ConfigError(f"the unfinished run has {', '.join(changed)}", path=self.folder, remedy=remedy)
        elif self.first:
            for left in self.folder.glob("neighbours-*"):
                remove(left)
            write_json(record, now, "the record of the run")
        self.wait()

    def fit(
        self, model: SentenceTransformer, batches: Batches, loss: torch.nn.Module, recipe: PhaseRecipe, name: str = ""
    ) -> Figures:
        """Train a model in place, to the weights of the end or the best by the development measure.

        Same model, batches, recipe and number of threads give the same weights on a CPU, whether or not the run was cut
        short and resumed. For ``loss`` see :mod:`medlink.training.common.losses`. The checkpoints lie in the folder
        ``name`` within that of the run.

        Raises:
            ConfigError: the data do not fill a batch.
            EncoderError: the loss, the weights or the measure are NaN or infinite, a checkpoint is damaged, or the disk
                is full.
        """
        if not batches.batches_per_epoch():
            remedy = "train on more data, or with a smaller batch_size"
            raise ConfigError("the data do not fill one batch", remedy=remedy)
        # weights kept in 16 bits would not feel small steps
        model.float()
        cut_at(model, recipe.max_tokens)
        work = self.folder / name
        found = fit.newest(work)
        self.wait()
        if self.first:
            work.mkdir(exist_ok=True)
        trainer = BatchTrainer(model, batches, loss, recipe, self, work)
        trainer.run(found)
        self.wait()
        return trainer.reached()

    def train(
        self,
        part: Trainable,
        batches: Batches,
        loss: torch.nn.Module,
        recipe: PhaseRecipe,
        data: Mapping[str, Any],
        **card: Any,
    ) -> None:
        """Train a model on batches from beginning to end: :meth:`bind`, :meth:`fit` and :meth:`write`.

        ``data`` is what the card says of the data.
        """
        self.bind(recipe, data=batches.digest, start=part.fingerprint)
        figures = self.fit(part.model, batches, loss, recipe).facts()
        data = {**data, "SHA-256 of the data and their settings": f"`{batches.digest}`"}
        self.write(part.save, **card, start=part.fingerprint, data=data, recipe=recipe, figures=figures)

    def write(
        self, save: SentenceTransformer | Callable[[Path], Any], folder: Path | None = None, /, **card: Any
    ) -> None:
        """Write an encoder with its card (see :func:`write_card`) to a folder that appears whole; the default is
        ``out``.

        ``save`` is the trained transformer, or what writes the encoder into a folder. EncoderError: the disk is full.
        """
        if self.first:
            with new_folder(folder or self.out, "the encoder") as draft:
                if isinstance(save, SentenceTransformer):
                    save.save(str(draft), create_model_card=False, safe_serialization=True)
                    seal(draft)
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
    holds: str = "modules.json",
    what: str = "encoder",
) -> Iterator[Run]:
    """A run that makes a folder; its own, with ``.checkpoints`` after the name, is deleted when the block ends well.

    Args:
        out, recipe, options: the folder to make, how to train, and how the run goes.
        progress: called with one line now and then, in the first process.
        evaluate: development measure, higher is better.
        holds, what: a file by which a folder is known that may be replaced, and what such a folder is.

    Raises:
        ConfigError: a folder is in use, there is an unfinished run that is not to be resumed, or this machine lacks the
            precision.
    """
    out = Path(out).resolve()
    check_folder(out, holds, what)
    precision_here(recipe.precision)
    folder = out.with_name(f"{out.name}.checkpoints")
    with work_folder(folder, options, progress, evaluate, out=out) as run:
        yield run
    if run.first:
        # in one step: a part of it would be no run to go on from
        with scratch_folder(folder, "the checkpoints") as gone:
            folder.rename(gone / folder.name)
    run.wait()


@contextmanager
def work_folder(
    folder: Path,
    options: RunOptions,
    progress: Callable[[str], None] | None = None,
    evaluate: Measure | None = None,
    *,
    out: Path | None = None,
) -> Iterator[Run]:
    """The folder of a run, this run's alone as long as it lasts; see :func:`training_run`."""
    run = Run(folder, out or folder, options, progress, evaluate)
    if run.first:
        _check(folder, resume=options.resume)
    run.wait()
    with _own(folder) if run.first else nullcontext():
        run.wait()
        yield run
        run.wait()


def _check(folder: Path, *, resume: bool) -> None:
    """Refuse a folder in which a run may not begin or go on."""
    remedy = "name another folder"
    if not folder.is_dir():
        if folder.exists():
            raise ConfigError("there is a file of that name", path=folder, remedy=remedy)
        return
    others = [path for path in folder.iterdir() if path.name != LOCK and not path.name.startswith(".writing-")]
    if others and not (folder / RECORD).exists() and not _is_begun(folder):
        raise ConfigError("the folder is not empty and holds no run", path=folder, remedy=remedy)
    if not resume and _is_begun(folder):
        remedy = "resume it with resume=..., or delete the folder"
        raise ConfigError("the folder holds an unfinished run", path=folder, remedy=remedy)


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    with made_folder(folder), locked(folder / LOCK, "the checkpoints"):
        unfinished = [path for path in folder.rglob("checkpoint-*") if not (path / fit.STATE).exists()]
        for left in (*folder.rglob(".writing-*"), *unfinished):
            remove(left)
        if not (folder / RECORD).exists() and not _is_begun(folder):
            write_json(folder / RECORD, {}, "the record of the run")
        try:
            yield
        except BaseException:
            # nothing is lost that a run could go on from
            if not _is_begun(folder):
                remove(folder)
            raise


def _is_begun(folder: Path) -> bool:
    return any(True for pattern in _KEPT for _ in folder.glob(pattern))


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    facts = now.keys() - {"recipe", "processes"}
    changed = [_DATA.get(key, f"another {key}") for key in now if key in facts and before[key] != now[key]]
    old, new = ({**each["recipe"], "processes": each["processes"]} for each in (before, now))
    return changed + [
        f"{key} {old.get(key)} (now {new.get(key)})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def neighbours(work: Path, number: int) -> Path:
    """The file of the lists of neighbours of a round, which all processes map."""
    return work / f"neighbours-{number}.npy"


def write_neighbours(work: Path, number: int, lists: NDArray[np.int32]) -> None:
    """Write the lists of a round; an :class:`EncoderError` says that there is no room for them."""
    path = neighbours(work, number)
    with whole_file(path, "the neighbours") as file, writing(path, "the neighbours"):
        np.save(file, lists, allow_pickle=False)


def read_neighbours(work: Path, number: int, terms: int) -> NDArray[np.int32]:
    """Map the lists of a round: a row of numbers of terms, or -1, for each of so many terms."""
    path = neighbours(work, number)
    with reading(path):
        lists: NDArray[np.int32] = np.load(path, mmap_mode="r", allow_pickle=False)
        if lists.ndim != 2 or len(lists) != terms or lists.dtype != np.int32:
            raise ValueError(f"{lists.shape} {lists.dtype}, lists of {terms} terms expected")
        if lists.size and not -1 <= lists.min() <= lists.max() < terms:
            raise ValueError(f"a term of number {lists.max()}, below {terms} expected")
    # NumPy's memmap class makes every slice slower
    return lists.view(np.ndarray)
