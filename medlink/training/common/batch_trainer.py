"""Training on batches of texts: a model, a loss of its embeddings and a recipe in, a trained model out.

Processes started by ``accelerate launch`` share each batch: every process embeds its rows, and the loss is that of the
whole batch, so that the number of processes does not change what is learned.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.data import DataLoader

from medlink.errors import EncoderError
from medlink.training.common import checkpoint
from medlink.training.common.cached_loss import WholeBatchLoss, features_of
from medlink.training.common.recipes import PhaseRecipe
from medlink.training.common.resumable import ResumableTrainer, processes_here
from medlink.training.data.batches import Batch, Batches

if TYPE_CHECKING:
    from medlink.training.common.run import Run

_EMBEDDED_TO_CHECK = 64
Measure = Callable[[SentenceTransformer], float]
"""Development measure of a model, higher is better."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of a run: ``loss`` of the last line of progress, ``measure`` (the best) and the step it is of."""

    steps: int
    seconds: float
    loss: float | None = None
    measure: float | None = None
    best_step: int | None = None

    def facts(self) -> dict[str, Any]:
        """What the card says of them."""
        return {
            "steps": self.steps,
            "hours": f"{self.seconds / 3600:.2f}",
            "loss over the last of them": None if self.loss is None else f"{self.loss:.3g}",
            "best development measure": self.measure,
            "step of the best": self.best_step,
        }


class _Batches:
    """Sampler and dataset of a data loader, which passes over the first ``done`` batches of the epoch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._count = batches.batches_per_epoch()
        self.epoch = self.done = 0

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, batch: Batch) -> Batch:
        return batch

    def __iter__(self) -> Iterator[Batch]:
        made = self.done
        # the trainer passes over these again, and need not have them made for it
        yield from itertools.repeat(Batch(()), self.done)
        for batch in itertools.islice(self._batches.epoch(self.epoch, self.done), self._count - self.done):
            yield batch
            made += 1
        if made < self._count:
            raise ValueError(f"epoch {self.epoch} had {made} batches, {self._count} announced")


@dataclass(frozen=True, slots=True)
class _Collator:
    """Turns this process's rows of a batch into tensors, and the labels of all rows."""

    model: SentenceTransformer
    process: int
    processes: int

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """``column_I_*`` features and ``label``."""
        n = len(batch.columns[0])
        each = -(-n // self.processes)
        # every process needs as many rows: those past the end are counted from the first again, and cut off in the loss
        mine = [i % n for i in range(self.process * each, (self.process + 1) * each)]
        features = {
            f"column_{i}_{name}": value
            for i, column in enumerate(batch.columns)
            for name, value in features_of(self.model, [column[row] for row in mine]).items()
        }
        labels = np.zeros(n, np.float32) if batch.labels is None else batch.labels
        return {**features, "label": torch.from_numpy(labels)}


class BatchTrainer(ResumableTrainer):
    """A run on batches of texts; see :meth:`medlink.training.common.run.Run.fit`. ``work`` is for the checkpoints.

    Raises:
        ConfigError: this machine has no such precision.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        batches: Batches,
        loss: torch.nn.Module,
        recipe: PhaseRecipe,
        run: Run,
        work: Path,
    ) -> None:
        processes = processes_here()
        self._batches, self._sampler = batches, _Batches(batches)
        self._collator = _Collator(model, processes.process_index, processes.num_processes)
        self._measure = run.evaluate
        self._every = len(self._sampler) if recipe.evaluate_steps == "epoch" else recipe.evaluate_steps
        self._patience = recipe.patience
        self._best: tuple[float, int] | None = None
        self._since = 0
        self._stopped = False
        self._seconds, self._begun = 0.0, time.perf_counter()
        self._rows_at, self._rows = 0, recipe.batch_size
        self._probe: dict[str, Tensor] = {}
        steps = recipe.epochs * len(self._sampler)
        whole = WholeBatchLoss(model, loss, recipe.mini_batch)
        sizes = {"per_device_train_batch_size": recipe.batch_size}
        super().__init__(model, whole, recipe, run, work, steps=steps, batches=sizes, data_collator=self._collator)
        if processes.num_processes > 1:
            # or the rows of each process would be dropped out alike
            torch.manual_seed(recipe.seed * processes.num_processes + processes.process_index)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Our batches, whole to every process."""
        workers = self.args.dataloader_num_workers
        return DataLoader(
            self._sampler,  # type: ignore[arg-type]  # a dataset by the one method that is called
            batch_sampler=self._sampler,  # type: ignore[arg-type]  # what it gives is handed on as it is
            collate_fn=self._collator,  # type: ignore[arg-type]  # so that this takes a batch
            num_workers=workers,
            # another way to start them would hand each a copy of the model
            multiprocessing_context="fork" if workers else None,
            pin_memory=self.args.dataloader_pin_memory,
        )

    def num_examples(self, dataloader: DataLoader[Any]) -> int:
        """Rows of an epoch, each batch counted as full."""
        return len(self._sampler) * self._rows

    def probe(self) -> dict[str, Tensor]:
        """Features of some texts of the first batch, always the same."""
        if not self._probe:
            first = next(self._batches.epoch(0))
            self._probe = features_of(self._collator.model, first.columns[0][:_EMBEDDED_TO_CHECK])
        return dict(self._probe)

    def begin_epoch(self) -> None:
        """Set the sampler to the epoch of the present step; look at the start before anything is learned."""
        if not self.state.global_step:
            self.check(0)
        self._sampler.epoch, self._sampler.done = divmod(self.state.global_step, len(self._sampler))
        self._logged_at, self._rows_at = time.perf_counter(), self.state.global_step

    def end_step(self) -> None:
        """Have the model measured where it is due."""
        step = self.state.global_step
        if self._measure and (step % self._every == 0 or step == self.args.max_steps):
            self.control.should_evaluate = True

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Measure the model; keep its weights if they are the best, and stop if none were better for too long."""
        assert self._measure is not None
        step = self.state.global_step
        self.control.should_evaluate = False
        self.check(step)
        was_training = self.model.training
        self.model.eval()
        value = [float(self._measure(self.model)) if self.is_world_process_zero() else 0.0]
        self.model.train(was_training)
        measure: float = broadcast_object_list(value)[0]
        if not np.isfinite(measure):
            remedy = "measure on data whose scores differ, or train without a measure"
            raise EncoderError(f"the development measure is {measure} at step {step}", remedy=remedy)
        better = self._best is None or measure > self._best[0]
        self._since = 0 if better else self._since + 1
        if better:
            self._best = (measure, step)
            self._keep_best()
        if self.is_world_process_zero():
            self._log(f"step {step}/{self.args.max_steps} measure {measure:.4f}{' (best)' if better else ''}")
        self._stopped = bool(self._patience) and self._since >= self._patience
        if self._stopped:
            self.control.should_training_stop = self.control.should_save = True
        return {"eval_measure": measure}

    def _keep_best(self) -> None:
        """Write the weights of this step where the checkpoints are."""
        if not self.is_world_process_zero():
            return
        target = self._work / f"best-{self.state.global_step}"
        with checkpoint.new_folder(target, "the best weights") as draft:
            checkpoint.write_weights(draft, self.model, self._own_weights())
        checkpoint.clear_best(self._work, target.name)

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """No figures; the line says the learning rate and the rows per second."""
        rows = (self.state.global_step - self._rows_at) * self._rows
        self._rows_at = self.state.global_step
        return {}, f"learning rate {{rate:.2e}} {rows / seconds:,.0f} rows/s"

    def describe(self) -> dict[str, Any]:
        """The best measure and its step, how many were no better since, if it has stopped, and seconds so far."""
        return {"best": self._best, "since": self._since, "stopped": self._stopped, "seconds": self._time()}

    def _time(self) -> float:
        """Seconds of the run, with those before it was resumed."""
        return self._seconds + time.perf_counter() - self._begun

    def companions(self) -> Collection[str]:
        """Name the folder of the best weights, where there are some; it is written already."""
        return [f"best-{self._best[1]}"] if self._best else ()

    def restore(self, schedule: dict[str, Any]) -> None:
        """Take back the best measure, the patience that is left and the time; the clock starts anew."""
        best = schedule["best"]
        self._best = (float(best[0]), int(best[1])) if best else None
        self._since, self._stopped = int(schedule["since"]), bool(schedule["stopped"])
        self._seconds, self._begun = float(schedule["seconds"]), time.perf_counter()

    def is_complete(self, found: Path) -> bool:
        """Whether it is of the last step, or of one at which the patience ran out."""
        return super().is_complete(found) or bool(checkpoint.read_schedule(found).get("stopped"))

    def name_batch(self, step: int) -> str:
        """Batch and epoch of a step, both counted from 1, in brackets."""
        epoch, number = divmod(step - 1, len(self._sampler))
        return f" (batch {number + 1} of epoch {epoch + 1})"

    def finish(self) -> Figures:
        """Take the best weights where there was a measure."""
        if self._best:
            self._read(self._work / f"best-{self._best[1]}")
        measure, step = self._best or (None, None)
        return Figures(self.state.global_step, round(self._time(), 1), self.figures.get("loss"), measure, step)
