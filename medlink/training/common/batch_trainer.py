"""The trainer of a phase.

Processes started by ``accelerate launch`` share each batch: each embeds its own rows, and the loss is that of the whole
batch. The number of processes therefore does not change the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformer

from medlink.errors import EncoderError
from medlink.training.common.inputs import Inputs
from medlink.training.common.loader import EpochLoader
from medlink.training.common.losses import EmbeddingLoss
from medlink.training.common.resumable_trainer import ResumableTrainer, TrainingRun
from medlink.training.data.batches import Batches
from medlink.training.recipes import PhaseRecipe


class BatchTrainer(ResumableTrainer):
    """A run on shared batches; see :meth:`medlink.training.common.run.Run.fit`."""

    def __init__(
        self,
        model: SentenceTransformer,
        batches: Batches,
        inputs: Inputs,
        loss: torch.nn.Module,
        recipe: PhaseRecipe,
        run: TrainingRun,
        folder: Path,
    ) -> None:
        self._patience, self._batch_size, self._last_logged_step = recipe.patience, recipe.batch_size, 0
        super().__init__(
            model,
            EpochLoader(batches, inputs, is_whole=recipe.mini_batch > 0, is_shared=True),
            EmbeddingLoss(model, loss, recipe.mini_batch, shared=True),
            recipe,
            run,
            folder,
            steps=recipe.epochs * batches.batches_per_epoch(),
            batch_size=recipe.batch_size,
        )
        self._evaluate_steps = self._epoch_steps if recipe.evaluate_steps == "epoch" else recipe.evaluate_steps
        if self.args.world_size > 1:
            # another dropout in each process
            torch.manual_seed(recipe.seed * self.args.world_size + self.args.process_index)

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Set the loader to the current step; check the start before the first step."""
        super().on_epoch_begin()
        self._last_logged_step = self.state.global_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Schedule checkpoints, and an evaluation if it is due."""
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
        epoch, number = divmod(step - 1, self._epoch_steps)
        return f" (batch {number + 1} of epoch {epoch + 1})"

    def facts(self) -> dict[str, Any]:
        """Return the results of the run for the model card; the loss is that of the last line of progress."""
        loss = self.last_log("loss").get("loss")
        return {
            "steps": self.state.global_step,
            "hours": f"{self.seconds() / 3600:.2f}",
            "loss over the last of them": None if loss is None else f"{loss:.3g}",
            "best development measure": self.state.best_metric,
            "step of the best": self.state.best_global_step,
        }
