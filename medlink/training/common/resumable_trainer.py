"""The trainer of sentence-transformers, made resumable, and the trainer of a phase.

A resumed run ends with the same weights. A run stops if its loss, weights or embeddings are NaN or infinite; its last
good checkpoint stays.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback, TrainerState

from medlink.errors import ConfigError, EncoderError, MedlinkError
from medlink.files.folders import remove
from medlink.training.common.checkpoints import (
    STATE,
    TIMEOUT_SECONDS,
    checkpoint_step,
    find_newest_checkpoint,
    read_errors,
    write_errors,
)
from medlink.training.common.inputs import Inputs
from medlink.training.common.loader import EpochLoader
from medlink.training.common.losses import EmbeddingLoss, embed
from medlink.training.data.batches import Batches
from medlink.training.recipes import PhaseRecipe, Recipe, RunOptions

_LOG_LINES = 100
# losses checked together: a GPU would have to wait for each check
_LOSSES_PER_CHECK = {"cpu": 1, "cuda": 16}
_PROBE_TEXTS = 64
Measure = Callable[[SentenceTransformer], float]
"""Development measure of a model, higher is better."""


class TrainingRun(Protocol):
    """The part of a :class:`medlink.training.common.run.Run` that a trainer needs."""

    options: RunOptions
    progress: Callable[[str], None]
    evaluate: Measure | None


class ResumableTrainer(SentenceTransformerTrainer, TrainerCallback, ABC):
    """A run, which is its own callback; a subclass supplies progress.

    ``folder`` holds the checkpoints. The run has ``steps`` steps of ``accumulation`` batches each; ``batch_size`` is
    only recorded.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loader: EpochLoader,
        loss: EmbeddingLoss,
        recipe: Recipe,
        run: TrainingRun,
        folder: Path,
        *,
        steps: int,
        batch_size: int,
        accumulation: int = 1,
    ) -> None:
        self.loader, self._epoch_steps = loader, len(loader) // accumulation
        self._folder, self._log, self._measure = folder, run.progress, run.evaluate
        self._checkpoint_steps = run.options.checkpoint_steps
        self._losses: list[Tensor] = []
        self._has_trained = False
        self._earlier_seconds = 0.0
        self._started = self._logged_at = time.perf_counter()
        precision = resolve_precision(recipe.precision)
        args = SentenceTransformerTrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            learning_rate=recipe.learning_rate,
            learning_rate_mapping=recipe.parameter_rates,
            lr_scheduler_type=recipe.schedule,
            warmup_steps=round(recipe.warmup * steps),
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.max_grad_norm,
            optim="adamw_torch_fused",
            seed=recipe.seed,
            # `on_step_end` schedules saves before the end: their interval may change on resume
            save_steps=steps,
            metric_for_best_model=None if run.evaluate is None else "measure",
            greater_is_better=True,
            logging_steps=max(1, steps // _LOG_LINES),
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            # the loader begins a resumed epoch where it stopped
            ignore_data_skip=True,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            ddp_timeout=TIMEOUT_SECONDS,
            # processes may have different numbers of parts, so a forward pass must not wait for the others
            ddp_broadcast_buffers=False,
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bf16",
            fp16=precision == "fp16",
        )
        # Without 'accelerate launch' use one GPU: torch's DataParallel would split a batch, and its pairs.
        args._n_gpu = min(1, args.n_gpu)
        super().__init__(model=model, args=args, loss=loss, callbacks=[self])
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> Any:
        return self.loader

    def collect_features(self, inputs: dict[str, Any]) -> tuple[Any, Tensor]:
        return inputs["texts"], inputs["label"]

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Set the loader to the current step; check the start before the first step."""
        if not self.state.global_step:
            self.check(0)
        self.loader.epoch, step = divmod(self.state.global_step, self._epoch_steps)
        self.loader.start = step * self.args.gradient_accumulation_steps
        self._logged_at = time.perf_counter()

    @abstractmethod
    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Return figures for the last ``seconds``, and a line of progress with the field ``{rate:.2e}``."""

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.control.should_save |= self.state.global_step % self._checkpoint_steps == 0

    def on_save(self, *_: Any, **__: Any) -> None:
        """Delete all checkpoints but the newest and the best."""
        if self.is_world_process_zero():
            for old in self._folder.glob("checkpoint-*"):
                if checkpoint_step(old) not in (self.state.global_step, self.state.best_global_step):
                    remove(old)

    def describe_batch(self, step: int) -> str:
        """Name the batch of a step, counted from 1; empty if step and batch have the same number."""
        return ""

    def is_complete(self) -> bool:
        return self.state.global_step >= self.args.max_steps

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing: the card of sentence-transformers needs a column of text."""

    def run(self, checkpoint: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint; with a measure, load the best weights."""
        if checkpoint is not None:
            with read_errors(checkpoint / STATE):
                self.state = TrainerState.load_from_json(str(checkpoint / STATE))
                self._earlier_seconds = float(self.last_log("loss").get("seconds", 0.0))
        complete = checkpoint is not None and self.is_complete()
        try:
            if not complete:
                self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except MedlinkError:
            raise
        except Exception:
            loading = checkpoint if not self._has_trained else None
            with read_errors(loading) if loading else write_errors(self._folder, "the checkpoint"):
                raise
        best = self.state.best_global_step
        if complete or best:
            last = self._folder / f"checkpoint-{best or self.state.global_step}"
            with read_errors(last):
                self._load_from_checkpoint(str(last))
            self.check(self.state.global_step)

    def last_log(self, name: str) -> dict[str, Any]:
        """Return the last entry of the log that has a value of this name; empty if there is none."""
        return next((entry for entry in reversed(self.state.log_history) if name in entry), {})

    def seconds(self) -> float:
        """Return the seconds of the run, including those before it was resumed."""
        return self._earlier_seconds + time.perf_counter() - self._started

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Train on one batch; a NaN or infinite loss ends the run before its weights are saved."""
        self._has_trained = True
        loss: Tensor = super().training_step(*args, **kwargs)
        self._losses.append(loss)
        if len(self._losses) >= _LOSSES_PER_CHECK[loss.device.type]:
            # the step is not yet counted
            self._check_losses(self.state.global_step + 1)
        return loss

    def _check_losses(self, step: int) -> None:
        losses, self._losses = [float(loss) for loss in self._losses], []
        for later, loss in zip(reversed(range(len(losses))), losses, strict=True):
            if not abs(loss) < float("inf"):
                at = step - later // self.args.gradient_accumulation_steps
                raise self._diverged(f"the loss is {loss} at step {at}{self.describe_batch(at)}")

    def _diverged(self, message: str) -> EncoderError:
        checkpoint = find_newest_checkpoint(self._folder)
        last = f" and train again; {checkpoint.name} holds the last good weights" if checkpoint else ""
        return EncoderError(message, path=checkpoint or self._folder, remedy=f"lower the learning rate{last}")

    def check(self, step: int) -> None:
        """Raise EncoderError if losses, weights or embeddings are NaN or infinite, or all embeddings are 0."""
        self._check_losses(step)
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            lengths = embed(self.model, self.loader.first(_PROBE_TEXTS)).float().norm(dim=-1)
        self.model.train(was_training)
        # the embedding of a text without n-gram or token has length 0
        sound = bool(lengths.any())
        if sound and all(bool(torch.isfinite(t).all()) for t in (lengths, *self.model.state_dict().values())):
            return
        if step:
            raise self._diverged(f"weights or embeddings are NaN or infinite after step {step}")
        problem = "the embeddings of the encoder to start from are NaN or infinite"
        raise EncoderError(problem, remedy="start from another")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Check and save the weights of a checkpoint, without the card of sentence-transformers."""
        self.check(self.state.global_step)
        if self.args.should_save:
            assert output_dir is not None
            with write_errors(Path(output_dir), "the checkpoint"):
                self.model.save_pretrained(output_dir, create_model_card=False)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add figures to the state; for the figures of a step, also print a line of progress."""
        if "loss" in logs:
            now = time.perf_counter()
            figures, line = self.progress(now - self._logged_at)
            self._logged_at = now
            logs |= {**figures, "seconds": self.seconds()}
            if self.is_world_process_zero():
                step = f"step {self.state.global_step}/{self.args.max_steps} loss {logs['loss']:.4f}"
                self._log(f"{step} {line.format(rate=logs['learning_rate'])}")
        if "train_loss" not in logs:
            super().log(logs, start_time)


class BatchTrainer(ResumableTrainer):
    """A run on shared batches; see :meth:`medlink.training.common.run.Run.fit`.

    Processes started by ``accelerate launch`` share each batch: each embeds its own rows, and the loss is that of the
    whole batch. The number of processes therefore does not change the result.
    """

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
        super().on_epoch_begin()
        self._last_logged_step = self.state.global_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
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
        # the first of equal measures is the best
        return bool(self._patience and measures) and len(measures) - 1 - int(np.argmax(measures)) >= self._patience

    def is_complete(self) -> bool:
        return super().is_complete() or self._out_of_patience()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        rows = (self.state.global_step - self._last_logged_step) * self._batch_size
        self._last_logged_step = self.state.global_step
        return {}, f"learning rate {{rate:.2e}} {rows / seconds:,.0f} rows/s"

    def describe_batch(self, step: int) -> str:
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


def resolve_precision(name: str) -> str:
    """Replace ``"auto"`` by the precision of this machine; raise ConfigError if the machine lacks the precision."""
    gpu = torch.cuda.is_available()
    bf16 = not gpu or torch.cuda.is_bf16_supported()
    if name == "fp16" and not gpu:
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name == "bf16" and not bf16:
        raise ConfigError("this GPU has no bf16", remedy="give the precision 'auto', 'fp32' or 'fp16'")
    automatic = "fp32" if not gpu else "bf16" if bf16 else "fp16"
    return automatic if name == "auto" else name
