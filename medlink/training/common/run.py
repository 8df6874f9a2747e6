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

import torch
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import locked, made_folder, remove, scratch_folder
from medlink.files.json import read_json, write_json
from medlink.models import load_encoder
from medlink.models.encoders import check_folder
from medlink.models.transformer import TransformerEncoder
from medlink.training.common import checkpoint
from medlink.training.common.batch_trainer import BatchTrainer, Figures, Measure
from medlink.training.common.card import write_card
from medlink.training.common.recipes import PhaseRecipe, Recipe, RunOptions
from medlink.training.common.resumable import precision_here, processes_here
from medlink.training.common.trainable import Trainable, cut_at
from medlink.training.data.batches import Batches

RECORD, LOCK = "run.json", "lock"
# what training is not begun anew over
_KEPT = ("checkpoint-*", "*/checkpoint-*", "encoder-*", "targets")
_DATA = {"data": "other data", "names": "other names"}


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

        Args:
            recipe: how to train; numbers of another type would not lead to the same weights.
            facts: hashes of ``data`` and of encoders by name.

        Raises:
            ConfigError: the run began with something else.
            EncoderError: the record is damaged.
        """
        how = {**recipe.to_dict(), "precision": precision_here(recipe.precision)}
        how["measured"] = self.evaluate is not None
        now = {**facts, "recipe": how, "processes": processes_here().num_processes}
        record = self.folder / RECORD
        if self.first and _is_begun(self.folder):
            with checkpoint.reading(record):
                changed = _changes(read_json(record), json.loads(json.dumps(now)))
            if changed:
                remedy = "resume with the data, options and number of processes it began with, or delete the folder"
                raise ConfigError(f"the unfinished run has {', '.join(changed)}", path=self.folder, remedy=remedy)
        elif self.first:
            for left in checkpoint.companions(self.folder):
                remove(left)
            write_json(record, now, "the record of the run")
        self.wait()

    def newest(self, name: str = "") -> Path | None:
        """The checkpoint to go on from, in the folder of that name."""
        found = checkpoint.newest(self.folder / name)
        return None if found is None else checkpoint.check(found)

    def fit(
        self, model: SentenceTransformer, batches: Batches, loss: torch.nn.Module, recipe: PhaseRecipe, name: str = ""
    ) -> Figures:
        """Train a model in place, to the weights of the end or the best by the development measure.

        Same model, batches, recipe and number of threads give the same weights on a CPU, whether or not the run was cut
        short and resumed. A ``loss`` of sentence-transformers with ``compute_loss_from_embeddings`` may have weights of
        its own, which are trained and kept as well. The checkpoints lie in the folder ``name`` within that of the run.

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
        found, work = self.newest(name), self.folder / name
        self.wait()
        if self.first:
            work.mkdir(exist_ok=True)
        trainer = BatchTrainer(model, batches, loss, recipe, self, work)
        trainer.run(found)
        figures = trainer.finish()
        self.wait()
        return figures

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
        """Write an encoder with its card (see :func:`write_card`) to a folder that appears whole.

        Args:
            save: the trained transformer, or what writes the encoder into a folder.
            folder: where; the default is what the run makes.

        Raises:
            EncoderError: the disk is full.
        """
        if self.first:
            with checkpoint.new_folder(folder or self.out, "the encoder") as draft:
                if isinstance(save, SentenceTransformer):
                    save.save(str(draft), create_model_card=False, safe_serialization=True)
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


def transformer(name: str | Path) -> SentenceTransformer:
    """Open a transformer to be trained, its weights in 32 bits; an :class:`EncoderError` for a static encoder."""
    encoder = load_encoder(name)
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("a static encoder cannot be trained by this phase", path=name, remedy=remedy)
    return encoder.model.float()


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
        remedy = "resume it with --resume, or delete the folder"
        raise ConfigError("the folder holds an unfinished run", path=folder, remedy=remedy)


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; clear what a killed process left half written."""
    with made_folder(folder), locked(folder / LOCK, "the checkpoints"):
        for left in folder.rglob(".writing-*"):
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
    """Whether there is something to go on from."""
    return any(True for pattern in _KEPT for _ in folder.glob(pattern))


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What two runs differ in: data and encoders as such, the rest with both values."""
    facts = now.keys() - {"recipe", "processes"}
    changed = [_DATA.get(key, f"another {key}") for key in now if key in facts and before[key] != now[key]]
    old, new = ({**each["recipe"], "processes": each["processes"]} for each in (before, now))
    return changed + [
        f"{key} {old.get(key)} (now {new.get(key)})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
