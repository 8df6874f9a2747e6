"""sentence-transformers' trainer, resumed to the same weights, and its run on batches of texts.

A run whose loss, weights or embeddings are NaN or infinite ends, and its last good checkpoint stays. Processes started
by ``accelerate launch`` share each batch: every process embeds its rows, and the loss is that of the whole batch, so
that the number of processes does not change what is learned.
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
from typing import TYPE_CHECKING, Any

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
from medlink.training.common.losses import EmbeddingLoss, features_of
from medlink.training.data.batches import Batch, Batches
from medlink.training.recipes import PhaseRecipe, Recipe

if TYPE_CHECKING:
    from medlink.training.common.run import Run

# in seconds: the first process may work alone while the others wait
_A_DAY = 86_400
_LOG_LINES = 100
_EMBEDDED_TO_CHECK = 64
# losses that are looked at together: a GPU is not made to wait for each of them
_LOSSES_AT_ONCE = {"cpu": 1, "cuda": 16}
STATE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last."""
# torch's unpickler, which runs no code, makes any of these of a damaged file
_DAMAGE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError)
_DAMAGED = (*_DAMAGE, UnpicklingError, StructError, SafetensorError)
Measure = Callable[[SentenceTransformer], float]
"""Development measure of a model, higher is better."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or missing file of a checkpoint leads to into one :class:`EncoderError` that names it."""
    try:
        yield
    except _DAMAGED as error:
        detail = f"no {error}" if isinstance(error, KeyError) else shorten(str(error), 200)
        remedy = "delete the folder of checkpoints and train from the start"
        raise EncoderError(f"the checkpoint cannot be read: {detail}", path=path, remedy=remedy) from error


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """Turn what a full disk leads to into one :class:`EncoderError`."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        # torch.save has no error of its own; a closed pipe is one of progress
        if isinstance(error, BrokenPipeError) or (type(error) is RuntimeError and "inline_container" not in str(error)):
            raise
        detail = getattr(error, "strerror", None) or shorten(str(error), 200)
        remedy = "make room, or mend the folder, and go on with resume=..."
        raise EncoderError(f"{what} cannot be written: {detail}", path=path, remedy=remedy) from error


def step_of(folder: Path) -> int:
    """The step after which a checkpoint was written, by its name."""
    return int(folder.name.removeprefix("checkpoint-"))


def newest(work: Path) -> Path | None:
    """The checkpoint of the latest step; one that a killed process left unfinished lacks its state, or part of it.

    An :class:`EncoderError` says that all that there are, are damaged.
    """
    found = [path for path in work.glob("checkpoint-*") if path.name[11:].isdigit() and (path / STATE).exists()]
    for folder in sorted(found, key=step_of, reverse=True):
        with reading(folder / STATE):
            try:
                state = read_json(folder / STATE)
            except ValueError:
                if folder != min(found, key=step_of):
                    continue
                raise
            if state["global_step"] != step_of(folder):
                raise ValueError(f"it is of step {state['global_step']}")
        count = processes_here().num_processes
        random = ["rng_state.pth"] if count == 1 else [f"rng_state_{process}.pth" for process in range(count)]
        # transformers goes on without a file that is missing
        for name in ("optimizer.pt", "scheduler.pt", *random):
            if not (folder / name).exists():
                with reading(folder / name):
                    raise FileNotFoundError("there is no such file")
        return folder
    return None


class ResumableTrainer(SentenceTransformerTrainer, ABC):
    """One run. What is special to a method is in the functions that a subclass gives.

    ``work`` is the folder of the checkpoints, ``steps`` are those of the whole run, ``batches`` says how large batches
    are in the words of sentence-transformers' arguments, and ``options`` are those of its trainer.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: torch.nn.Module,
        recipe: Recipe,
        run: Run,
        work: Path,
        *,
        steps: int,
        batches: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self._work, self._log, self._measure = work, run.progress, run.evaluate
        self._losses: list[Tensor] = []
        self._begun = False
        self._before = 0.0
        self._started = self._logged_at = time.perf_counter()
        precision = precision_here(recipe.precision)
        args = SentenceTransformerTrainingArguments(
            output_dir=str(work),
            max_steps=steps,
            learning_rate=recipe.learning_rate,
            learning_rate_mapping=recipe.rates,
            lr_scheduler_type=recipe.schedule,
            warmup_steps=round(recipe.warmup * steps),
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.max_grad_norm,
            optim="adamw_torch_fused",
            seed=recipe.seed,
            # the end; what comes before may be set anew by whoever resumes
            save_steps=steps,
            metric_for_best_model=None if run.evaluate is None else "measure",
            greater_is_better=True,
            logging_steps=max(1, steps // _LOG_LINES),
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=run.options.workers,
            dataloader_pin_memory=torch.cuda.is_available(),
            ddp_timeout=_A_DAY,
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bf16",
            fp16=precision == "fp16",
            **batches,
        )
        # Without 'accelerate launch' one GPU trains: torch's DataParallel would cut a batch, and its pairs, apart.
        args._n_gpu = min(1, args.n_gpu)
        calls = _Calls(self, run.options.checkpoint_steps)
        super().__init__(model=model, args=args, loss=loss, callbacks=[calls], **options)
        self.remove_callback(PrinterCallback)

    @abstractmethod
    def probe(self) -> dict[str, Tensor]:
        """Features of some texts, to see that their embeddings are finite."""

    @abstractmethod
    def begin_epoch(self) -> None:
        """Called before the batches of an epoch are drawn."""

    @abstractmethod
    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Figures of the seconds since the last line, and what the line says of them; ``{rate:.2e}`` is put in."""

    def end_step(self) -> None:
        """Called after each step, before it is logged and kept."""

    def name_batch(self, step: int) -> str:
        """Which batch a step, counted from 1, was made from; empty where the step says it all."""
        return ""

    def is_complete(self) -> bool:
        """Whether the state is that of the end of the run."""
        return self.state.global_step >= self.args.max_steps

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the card is written with the encoder, and sentence-transformers' own wants a column of text."""

    def run(self, found: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint, and take the best weights where there is a measure."""
        if found is not None:
            with reading(found / STATE):
                self.state = TrainerState.load_from_json(str(found / STATE))
                self._before = float(self.last("loss").get("seconds", 0.0))
        complete = found is not None and self.is_complete()
        try:
            if not complete:
                self.train(resume_from_checkpoint=str(found) if found else None)
        except MedlinkError:
            raise
        except Exception:
            with reading(found) if found and not self._begun else writing(self._work, "the checkpoint"):
                raise
        best = self.state.best_global_step
        if complete or best:
            last = self._work / f"checkpoint-{best or self.state.global_step}"
            with reading(last):
                self._load_from_checkpoint(str(last))
            self.check(self.state.global_step)

    def last(self, name: str) -> dict[str, Any]:
        """The last line of the log that holds a figure; empty if there is none."""
        return next((line for line in reversed(self.state.log_history) if name in line), {})

    def seconds(self) -> float:
        """Seconds of the run, with those before it was resumed."""
        return self._before + time.perf_counter() - self._started

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One batch; a loss that is NaN or infinite ends the run before anything is kept that came of it."""
        self._begun = True
        loss: Tensor = super().training_step(*args, **kwargs)
        self._losses.append(loss)
        if len(self._losses) >= _LOSSES_AT_ONCE[loss.device.type]:
            # the step is not yet counted
            self._check_losses(self.state.global_step + 1)
        return loss

    def _check_losses(self, step: int) -> None:
        losses = [float(loss) for loss in self._losses]
        self._losses.clear()
        for i, loss in enumerate(losses):
            if not abs(loss) < float("inf"):
                at = step - (len(losses) - 1 - i) // self.args.gradient_accumulation_steps
                raise self._diverged(f"the loss is {loss} at step {at}{self.name_batch(at)}")

    def _diverged(self, message: str) -> EncoderError:
        kept = newest(self._work)
        good = f" and train anew; {kept.name} holds the last good weights" if kept else ""
        return EncoderError(message, path=kept or self._work, remedy=f"lower the learning rate{good}")

    def check(self, step: int) -> None:
        """End the run before it keeps losses, weights or embeddings that are NaN or infinite, or embeddings all 0."""
        self._check_losses(step)
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            features = {name: value.to(self.args.device) for name, value in self.probe().items()}
            lengths = self.model(features)["sentence_embedding"].float().norm(dim=-1)
        self.model.train(was_training)
        # texts without a single n-gram or token have length 0, but not all of them
        sound = bool(torch.isfinite(lengths).all()) and bool(lengths.any())
        if sound and all(bool(torch.isfinite(tensor).all()) for tensor in self.model.state_dict().values()):
            return
        if not step:
            problem = "the embeddings of the encoder to start from are NaN or infinite"
            raise EncoderError(problem, remedy="start from another")
        raise self._diverged(f"weights or embeddings are NaN or infinite after step {step}")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The weights of a checkpoint, if they are sound; without the card that sentence-transformers would write."""
        self.check(self.state.global_step)
        if self.args.should_save:
            assert output_dir is not None
            with writing(Path(output_dir), "the checkpoint"):
                self.model.save_pretrained(output_dir, create_model_card=False)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note figures in the state, those of steps with a line of progress; the last go into the model card."""
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


class _Calls(TrainerCallback):
    """Calls the trainer back, has checkpoints written, and keeps the newest and the best."""

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
                if step_of(old) not in (state.global_step, state.best_global_step):
                    remove(old)


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
    """Turns this process's rows of a batch into ``column_I_*`` features, and gives the ``label`` of all rows."""

    model: SentenceTransformer
    process: int
    processes: int

    def __call__(self, batch: Batch) -> dict[str, Any]:
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
    """A run on batches of texts; see :meth:`medlink.training.common.run.Run.fit`. ``work`` is for the checkpoints."""

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
        self._every = len(self._sampler) if recipe.evaluate_steps == "epoch" else recipe.evaluate_steps
        self._patience = recipe.patience
        self._rows_at, self._rows = 0, recipe.batch_size
        self._probe: dict[str, Tensor] = {}
        steps = recipe.epochs * len(self._sampler)
        whole = EmbeddingLoss(model, loss, recipe.mini_batch, shared=True)
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
        """Measure the model; have it kept if it is the best, and stop if none was better for too long."""
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
        self.control.should_training_stop |= self._is_spent()
        self.control.should_save |= better or self.control.should_training_stop
        return {"eval_measure": measure}

    def _is_spent(self) -> bool:
        measures = [line["eval_measure"] for line in self.state.log_history if "eval_measure" in line]
        # of equal ones the first is the best
        return bool(self._patience and measures) and len(measures) - 1 - int(np.argmax(measures)) >= self._patience

    def is_complete(self) -> bool:
        """Whether it is the last step, or one at which the patience ran out."""
        return super().is_complete() or self._is_spent()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """No figures; the line says the learning rate and the rows per second."""
        rows = (self.state.global_step - self._rows_at) * self._rows
        self._rows_at = self.state.global_step
        return {}, f"learning rate {{rate:.2e}} {rows / seconds:,.0f} rows/s"

    def name_batch(self, step: int) -> str:
        """Batch and epoch of a step, both counted from 1, in brackets."""
        epoch, number = divmod(step - 1, len(self._sampler))
        return f" (batch {number + 1} of epoch {epoch + 1})"

    def reached(self) -> Figures:
        """What came of the run."""
        state = self.state
        loss = self.last("loss").get("loss")
        return Figures(state.global_step, round(self.seconds(), 1), loss, state.best_metric, state.best_global_step)


def processes_here() -> PartialState:
    """The processes that share the work, this one alone where no launcher started several.

    They are joined here, before the trainer would do so: with the time that they may wait for each other, and by way of
    the CPU where there is no GPU, which the library does not see by itself.
    """
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=_A_DAY))


def precision_here(name: str) -> str:
    """The precision that ``"auto"`` stands for on this machine; ConfigError: the machine does not have it."""
    gpu = torch.cuda.is_available()
    bf16 = not gpu or torch.cuda.is_bf16_supported()
    if name == "fp16" and not gpu:
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name == "bf16" and not bf16:
        raise ConfigError("this GPU has no bf16", remedy="give the precision 'auto', 'fp32' or 'fp16'")
    if name != "auto":
        return name
    return "fp32" if not gpu else "bf16" if bf16 else "fp16"
