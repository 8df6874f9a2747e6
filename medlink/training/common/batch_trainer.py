"""The trainer of the phases, on batches of texts.

Processes started by ``accelerate launch`` share each batch: each embeds its own rows, and the loss is that of the whole
batch. The number of processes therefore does not change the result.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.data import DataLoader

from medlink.errors import EncoderError
from medlink.training.common.checkpoints import process_state
from medlink.training.common.losses import EmbeddingLoss, preprocess_texts
from medlink.training.common.resumable_trainer import ResumableTrainer, TrainingRun
from medlink.training.data.batches import Batch, Batches
from medlink.training.recipes import PhaseRecipe

_PROBE_TEXTS = 64


class _EpochSampler:
    """Sampler and dataset of a data loader that skips the first ``done`` batches of the epoch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._count = batches.batches_per_epoch()
        self.epoch = self.done = 0

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, batch: Batch) -> Batch:
        return batch

    def __iter__(self) -> Iterator[Batch]:
        count = self.done
        # the trainer skips these itself: they may be empty
        yield from itertools.repeat(Batch(()), self.done)
        for batch in itertools.islice(self._batches.epoch(self.epoch, self.done), self._count - self.done):
            yield batch
            count += 1
        if count < self._count:
            raise ValueError(f"epoch {self.epoch} had {count} batches, {self._count} announced")


@dataclass(frozen=True, slots=True)
class _Collator:
    """Turn this process's rows of a batch into ``column_I_*`` features; ``label`` is of all rows."""

    model: SentenceTransformer
    process: int
    processes: int

    def __call__(self, batch: Batch) -> dict[str, Any]:
        n = len(batch.columns[0])
        per_process = -(-n // self.processes)
        # each process needs the same number of rows: the loss cuts off those that wrap around
        own = [i % n for i in range(self.process * per_process, (self.process + 1) * per_process)]
        features = {
            f"column_{i}_{name}": value
            for i, column in enumerate(batch.columns)
            for name, value in preprocess_texts(self.model, [column[row] for row in own]).items()
        }
        labels = np.zeros(n, np.float32) if batch.labels is None else batch.labels
        return {**features, "label": torch.from_numpy(labels)}


class BatchTrainer(ResumableTrainer):
    """A run on batches of texts; see :meth:`medlink.training.common.run.Run.fit`."""

    def __init__(
        self,
        model: SentenceTransformer,
        batches: Batches,
        loss: torch.nn.Module,
        recipe: PhaseRecipe,
        run: TrainingRun,
        folder: Path,
    ) -> None:
        processes = process_state()
        self._batches, self._sampler = batches, _EpochSampler(batches)
        self._collator = _Collator(model, processes.process_index, processes.num_processes)
        self._evaluate_steps = len(self._sampler) if recipe.evaluate_steps == "epoch" else recipe.evaluate_steps
        self._patience = recipe.patience
        self._last_logged_step, self._batch_size = 0, recipe.batch_size
        self._probe: dict[str, Tensor] = {}
        steps = recipe.epochs * len(self._sampler)
        sizes = {"per_device_train_batch_size": recipe.batch_size}
        super().__init__(
            model,
            EmbeddingLoss(model, loss, recipe.mini_batch, shared=True),
            recipe,
            run,
            folder,
            steps=steps,
            batches=sizes,
            data_collator=self._collator,
        )
        if processes.num_processes > 1:
            # another dropout in each process
            torch.manual_seed(recipe.seed * processes.num_processes + processes.process_index)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader of our batches, which every process gets in full."""
        workers = self.args.dataloader_num_workers
        return DataLoader(
            self._sampler,  # type: ignore[arg-type]  # a dataset by its one method that is called
            batch_sampler=self._sampler,  # type: ignore[arg-type]  # gives batches, not numbers
            collate_fn=self._collator,  # type: ignore[arg-type]  # takes a batch
            num_workers=workers,
            # other start methods would copy the model to each worker
            multiprocessing_context="fork" if workers else None,
            pin_memory=self.args.dataloader_pin_memory,
        )

    def probe(self) -> dict[str, Tensor]:
        """Return the features of texts of the first batch, the same in each call."""
        if not self._probe:
            first = next(self._batches.epoch(0))
            self._probe = preprocess_texts(self._collator.model, first.columns[0][:_PROBE_TEXTS])
        return dict(self._probe)

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Set the sampler to the epoch of the current step; check the start before the first step."""
        if not self.state.global_step:
            self.check(0)
        self._sampler.epoch, self._sampler.done = divmod(self.state.global_step, len(self._sampler))
        self._logged_at, self._last_logged_step = time.perf_counter(), self.state.global_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Schedule checkpoints, and an evaluation where it is due."""
        super().on_step_end()
        step = self.state.global_step
        if self._measure and (step % self._evaluate_steps == 0 or step == self.args.max_steps):
            self.control.should_evaluate = True

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Measure the model; save it if it is the best, and stop when the patience runs out."""
        assert self._measure is not None
        step = self.state.global_step
        self.check(step)
        was_training = self.model.training
        self.model.eval()
        value = [float(self._measure(self.model)) if self.is_world_process_zero() else 0.0]
        self.model.train(was_training)
        measure: float = broadcast_object_list(value)[0]
        if not np.isfinite(measure):
            remedy = "measure on data whose scores differ, or train without a measure"
            raise EncoderError(f"the development measure is {measure} at step {step}", remedy=remedy)
        better = self.state.best_metric is None or measure > self.state.best_metric
        self.log({"eval_measure": measure})
        if self.is_world_process_zero():
            self._log(f"step {step}/{self.args.max_steps} measure {measure:.4f}{' (best)' if better else ''}")
        self.control.should_evaluate = False
        self.control.should_training_stop |= self._out_of_patience()
        self.control.should_save |= better or self.control.should_training_stop
        return {"eval_measure": measure}

    def _out_of_patience(self) -> bool:
        measures = [entry["eval_measure"] for entry in self.state.log_history if "eval_measure" in entry]
        # of equal measures the first is the best
        return bool(self._patience and measures) and len(measures) - 1 - int(np.argmax(measures)) >= self._patience

    def is_complete(self) -> bool:
        """Return whether the last step is made or the patience has run out."""
        return super().is_complete() or self._out_of_patience()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Return no figures, and a line with the learning rate and the rows per second."""
        rows = (self.state.global_step - self._last_logged_step) * self._batch_size
        self._last_logged_step = self.state.global_step
        return {}, f"learning rate {{rate:.2e}} {rows / seconds:,.0f} rows/s"

    def describe_batch(self, step: int) -> str:
        """Name the batch and the epoch of a step, both counted from 1, in brackets."""
        epoch, number = divmod(step - 1, len(self._sampler))
        return f" (batch {number + 1} of epoch {epoch + 1})"

    def facts(self) -> dict[str, Any]:
        """Return the results of the run for a card; the loss is that of the last line of progress."""
        loss = self.last_log("loss").get("loss")
        return {
            "steps": self.state.global_step,
            "hours": f"{self.seconds() / 3600:.2f}",
            "loss over the last of them": None if loss is None else f"{loss:.3g}",
            "best development measure": self.state.best_metric,
            "step of the best": self.state.best_global_step,
        }
