"""The trainer of sentence-transformers, made resumable to the same weights, and its run on batches of texts.

A run ends when its loss, weights or embeddings are NaN or infinite; its last good checkpoint stays. Processes started
by ``accelerate launch`` share each batch: each embeds its own rows, and the loss is that of the whole batch. The number
of processes therefore does not change the result.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from pickle import UnpicklingError
from struct import error as StructError
from textwrap import shorten
from typing import Any, Protocol

import numpy as np
import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # ships no types
from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]  # ships no types
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, TrainerCallback, TrainerState

from medlink.errors import ConfigError, EncoderError, MedlinkError
from medlink.files.folders import remove
from medlink.files.json import read_json
from medlink.training.common.losses import EmbeddingLoss, preprocess_texts
from medlink.training.data.batches import Batch, Batches
from medlink.training.recipes import PhaseRecipe, Recipe, RunOptions

_TIMEOUT_SECONDS = 86_400  # the main process may work alone while the others wait
_LOG_LINES = 100
_PROBE_TEXTS = 64
# losses checked together: a GPU would have to wait for each check
_LOSSES_PER_CHECK = {"cpu": 1, "cuda": 16}
STATE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last."""
# errors of torch's unpickler, which runs no code, and of the other readers on a damaged file
_READ_ERRORS = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError,
    UnpicklingError, StructError, SafetensorError,
)  # fmt: skip
Measure = Callable[[SentenceTransformer], float]
"""Development measure of a model, higher is better."""


class TrainingRun(Protocol):
    """The part of a :class:`medlink.training.common.run.Run` that a trainer needs."""

    options: RunOptions
    progress: Callable[[str], None]
    evaluate: Measure | None


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
        remedy = "make room, or mend the folder, and go on with resume=..."
        raise EncoderError(f"{what} cannot be written: {detail}", path=path, remedy=remedy) from error


def checkpoint_step(folder: Path) -> int:
    """Return the step after which a checkpoint was written, from its name."""
    return int(folder.name.removeprefix("checkpoint-"))


def find_newest_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint of the latest step; those that a killed process left unfinished are skipped.

    An unfinished checkpoint lacks its state, or part of it. EncoderError: all checkpoints are damaged.
    """
    checkpoints = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit() and (path / STATE).exists()]
    for checkpoint in sorted(checkpoints, key=checkpoint_step, reverse=True):
        with read_errors(checkpoint / STATE):
            try:
                state = read_json(checkpoint / STATE)
            except ValueError:
                if checkpoint != min(checkpoints, key=checkpoint_step):
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


class ResumableTrainer(SentenceTransformerTrainer, ABC):
    """One run; a subclass supplies batches and progress.

    ``folder`` holds the checkpoints. The whole run has ``steps`` steps. ``batches`` are the arguments of
    sentence-transformers for the size of batches, and ``options`` are those of its trainer.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: torch.nn.Module,
        recipe: Recipe,
        run: TrainingRun,
        folder: Path,
        *,
        steps: int,
        batches: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self._folder, self._log, self._measure = folder, run.progress, run.evaluate
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
            # saves before the end are up to _CheckpointCallback: their interval may change on resume
            save_steps=steps,
            metric_for_best_model=None if run.evaluate is None else "measure",
            greater_is_better=True,
            logging_steps=max(1, steps // _LOG_LINES),
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=run.options.workers,
            dataloader_pin_memory=torch.cuda.is_available(),
            ddp_timeout=_TIMEOUT_SECONDS,
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bf16",
            fp16=precision == "fp16",
            **batches,
        )
        # Without 'accelerate launch' use one GPU: torch's DataParallel would split a batch, and its pairs.
        args._n_gpu = min(1, args.n_gpu)
        callback = _CheckpointCallback(self, run.options.checkpoint_steps)
        super().__init__(model=model, args=args, loss=loss, callbacks=[callback], **options)
        self.remove_callback(PrinterCallback)

    @abstractmethod
    def probe(self) -> dict[str, Tensor]:
        """Return the features of some texts, to check that their embeddings are finite."""

    @abstractmethod
    def begin_epoch(self) -> None:
        """Prepare an epoch, before its batches are drawn."""

    @abstractmethod
    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Return figures for the last ``seconds``, and their line of progress, with a field ``{rate:.2e}``."""

    def end_step(self) -> None:
        """Finish a step, before logging and saving."""

    def describe_batch(self, step: int) -> str:
        """Name the batch of a step, counted from 1; empty if step and batch have the same number."""
        return ""

    def is_complete(self) -> bool:
        """Return whether the state is the end of the run."""
        return self.state.global_step >= self.args.max_steps

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: the card of sentence-transformers needs a column of text."""

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
        losses = [float(loss) for loss in self._losses]
        self._losses.clear()
        for i, loss in enumerate(losses):
            if not abs(loss) < float("inf"):
                at = step - (len(losses) - 1 - i) // self.args.gradient_accumulation_steps
                raise self._diverged(f"the loss is {loss} at step {at}{self.describe_batch(at)}")

    def _diverged(self, message: str) -> EncoderError:
        checkpoint = find_newest_checkpoint(self._folder)
        remedy = "lower the learning rate"
        if checkpoint:
            remedy += f" and train anew; {checkpoint.name} holds the last good weights"
        return EncoderError(message, path=checkpoint or self._folder, remedy=remedy)

    def check(self, step: int) -> None:
        """Raise EncoderError if losses, weights or embeddings are NaN or infinite, or all embeddings are 0."""
        self._check_losses(step)
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            features = {name: value.to(self.args.device) for name, value in self.probe().items()}
            lengths = self.model(features)["sentence_embedding"].float().norm(dim=-1)
        self.model.train(was_training)
        # the embedding of a text without n-gram or token has length 0
        sound = bool(torch.isfinite(lengths).all()) and bool(lengths.any())
        if sound and all(bool(torch.isfinite(tensor).all()) for tensor in self.model.state_dict().values()):
            return
        if not step:
            problem = "the embeddings of the encoder to start from are NaN or infinite"
            raise EncoderError(problem, remedy="start from another")
        raise self._diverged(f"weights or embeddings are NaN or infinite after step {step}")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Check and save the weights of a checkpoint, without the card of sentence-transformers."""
        self.check(self.state.global_step)
        if self.args.should_save:
            assert output_dir is not None
            with write_errors(Path(output_dir), "the checkpoint"):
                self.model.save_pretrained(output_dir, create_model_card=False)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add figures to the state; those of a step also print a line of progress."""
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


class _CheckpointCallback(TrainerCallback):
    """Call the trainer back, schedule checkpoints, and delete all but the newest and the best."""

    def __init__(self, trainer: ResumableTrainer, checkpoint_steps: int) -> None:
        self._trainer, self._checkpoint_steps = trainer, checkpoint_steps

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self._trainer.begin_epoch()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        control.should_save |= state.global_step % self._checkpoint_steps == 0
        self._trainer.end_step()

    def on_save(self, args: Any, state: TrainerState, *_: Any, **__: Any) -> None:
        if state.is_world_process_zero:
            for old in Path(args.output_dir).glob("checkpoint-*"):
                if checkpoint_step(old) not in (state.global_step, state.best_global_step):
                    remove(old)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Results of a run: ``loss`` in the last line of progress, the best development ``measure`` and its step."""

    steps: int
    seconds: float
    loss: float | None = None
    measure: float | None = None
    best_step: int | None = None

    def facts(self) -> dict[str, Any]:
        """Return the facts for the card."""
        return {
            "steps": self.steps,
            "hours": f"{self.seconds / 3600:.2f}",
            "loss over the last of them": None if self.loss is None else f"{self.loss:.3g}",
            "best development measure": self.measure,
            "step of the best": self.best_step,
        }


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

    def begin_epoch(self) -> None:
        """Set the sampler to the epoch of the current step; check the start before the first step."""
        if not self.state.global_step:
            self.check(0)
        self._sampler.epoch, self._sampler.done = divmod(self.state.global_step, len(self._sampler))
        self._logged_at, self._last_logged_step = time.perf_counter(), self.state.global_step

    def end_step(self) -> None:
        """Schedule an evaluation where it is due."""
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

    def summary(self) -> RunSummary:
        """Return the results of the run."""
        state = self.state
        loss = self.last_log("loss").get("loss")
        return RunSummary(state.global_step, round(self.seconds(), 1), loss, state.best_metric, state.best_global_step)


def process_state() -> PartialState:
    """Return the state of the processes that share the run; without a launcher there is one process.

    Initialise the state before the trainer does, to set the timeout and because accelerate does not notice a missing
    GPU.
    """
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=_TIMEOUT_SECONDS))


def resolve_precision(name: str) -> str:
    """Replace ``"auto"`` by the precision of this machine; raise ConfigError if the machine lacks the precision."""
    gpu = torch.cuda.is_available()
    bf16 = not gpu or torch.cuda.is_bf16_supported()
    if name == "fp16" and not gpu:
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name == "bf16" and not bf16:
        raise ConfigError("this GPU has no bf16", remedy="give the precision 'auto', 'fp32' or 'fp16'")
    if name != "auto":
        return name
    return "fp32" if not gpu else "bf16" if bf16 else "fp16"
