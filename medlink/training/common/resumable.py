"""The trainer that every method stands on: sentence-transformers' own, resumed to the same weights.

It writes checkpoints without pickles, which appear whole; it ends a run whose loss, weights or embeddings are NaN or
infinite and keeps the last good checkpoint; and it joins the processes that a launcher started.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # ships no types
from accelerate.utils import gather_object  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback

from medlink.errors import ConfigError, EncoderError
from medlink.training.common import checkpoint
from medlink.training.common.recipes import Recipe, RunOptions

if TYPE_CHECKING:
    from medlink.training.common.run import Run

# in seconds: the first process may work alone while the others wait
_A_DAY = 86_400
_LOG_LINES = 100
# losses that are looked at together: a GPU is not made to wait for each of them
_LOSSES_AT_ONCE = {"cpu": 1, "cuda": 16}


class ResumableTrainer(SentenceTransformerTrainer, ABC):
    """One run. What is special to a method is in the functions that a subclass gives.

    ``work`` is the folder of the checkpoints, ``steps`` are those of the whole run, ``batches`` says how large batches
    are in the words of sentence-transformers' arguments, and ``options`` are those of its trainer.

    Raises:
        ConfigError: this machine has no such precision.
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
        batches: Mapping[str, int],
        **options: Any,
    ) -> None:
        self._work, self._log = work, run.progress
        self._losses: list[Tensor] = []
        self._logged_at = time.perf_counter()
        self.figures: dict[str, Any] = {}
        args = _arguments(recipe, run.options, work, steps, **batches)
        super().__init__(model=model, args=args, loss=loss, callbacks=[_Calls(self)], **options)
        self.remove_callback(PrinterCallback)

    @abstractmethod
    def probe(self) -> dict[str, Tensor]:
        """Features of some texts, to see that their embeddings are finite."""

    @abstractmethod
    def begin_epoch(self) -> None:
        """Called before the batches of an epoch are drawn."""

    def end_step(self) -> None:
        """Called after each step, before it is logged and kept."""

    def describe(self) -> dict[str, Any]:
        """Plain numbers that a checkpoint holds besides those of the trainer."""
        return {}

    def companions(self) -> Collection[str]:
        """Write what the checkpoint needs beside it, and name it."""
        return ()

    def restore(self, schedule: dict[str, Any]) -> None:
        """Take back what :meth:`describe` said of the checkpoint that is resumed."""

    def name_batch(self, step: int) -> str:
        """Which batch a step, counted from 1, was made from; empty where the step says it all."""
        return ""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the card is written with the encoder, and sentence-transformers' own wants a column of text."""

    def run(self, found: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint; to one of the last step nothing is added."""
        if found is None or not self.is_complete(found):
            self.train(resume_from_checkpoint=str(found) if found else None)
            return
        self._read(found)
        schedule = checkpoint.read_schedule(found)
        self.check(checkpoint.step_of(found))
        self.figures = schedule.get("figures", {})
        self.state.global_step = checkpoint.step_of(found)
        with checkpoint.reading(found / checkpoint.SCHEDULE):
            self.restore(schedule)

    def is_complete(self, found: Path) -> bool:
        """Whether a checkpoint is the end of the run."""
        return checkpoint.step_of(found) >= self.args.max_steps

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One batch; a loss that is NaN or infinite ends the run before anything is kept that came of it."""
        loss: Tensor = super().training_step(*args, **kwargs)
        self._losses.append(loss)
        if len(self._losses) >= _LOSSES_AT_ONCE[loss.device.type]:
            # the step is not yet counted
            self._check_losses(self.state.global_step + 1)
        return loss

    def _check_losses(self, step: int) -> None:
        """End the run if one of the losses up to a step is NaN or infinite."""
        losses = [float(loss) for loss in self._losses]
        self._losses.clear()
        for i, loss in enumerate(losses):
            if not abs(loss) < float("inf"):
                at = step - (len(losses) - 1 - i) // self.args.gradient_accumulation_steps
                raise self._diverged(f"the loss is {loss} at step {at}{self.name_batch(at)}")

    def _diverged(self, message: str) -> EncoderError:
        """The error of a run that diverged."""
        kept = checkpoint.newest(self._work)
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

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """One line of progress; the figures of the last line go into the model card."""
        if "loss" not in logs:
            return
        now = time.perf_counter()
        figures, line = self.progress(now - self._logged_at)
        self._logged_at = now
        self.figures = {"loss": logs["loss"], **figures}
        if self.is_world_process_zero():
            step = f"step {self.state.global_step}/{self.args.max_steps} loss {logs['loss']:.4f}"
            self._log(f"{step} {line.format(rate=logs['learning_rate'])}")

    @abstractmethod
    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Figures of the seconds since the last line, and what the line says of them; ``{rate:.2e}`` is put in."""

    def _own_weights(self) -> dict[str, Tensor]:
        """Weights of the loss that are not the model's."""
        assert isinstance(self.loss, torch.nn.Module)
        theirs = {id(parameter) for parameter in self.model.parameters()}
        return {name: p.detach() for name, p in self.loss.named_parameters() if id(p) not in theirs}

    def _read(self, folder: Path) -> None:
        """The weights of the model and of the loss, in full precision."""
        assert isinstance(self.loss, torch.nn.Module)
        checkpoint.read_weights(folder, self.model, self.loss, self._own_weights())

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        """Write a checkpoint without pickles; the trainer's own would round a static table to eight bits."""
        step = self.state.global_step
        self.check(step)
        states: list[dict[str, Tensor]] = gather_object([checkpoint.random_states()])
        if self.is_world_process_zero():
            with checkpoint.new_folder(self._work / f"checkpoint-{step}", "the checkpoint") as draft:
                checkpoint.write_random(draft, states)
                needed = self._write(draft)
            checkpoint.keep_only(self._work, step, needed)
        self.accelerator.wait_for_everyone()

    def _write(self, folder: Path) -> Collection[str]:
        """What a checkpoint holds besides the random numbers of each process; names what it needs beside it."""
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        scaler = self.accelerator.scaler
        schedule = {
            **self.describe(),
            "scheduler": self.lr_scheduler.state_dict(),
            "scaler": scaler.state_dict() if scaler is not None else None,
            "figures": self.figures,
        }
        checkpoint.write_weights(folder, self.model, self._own_weights())
        checkpoint.write_optimizer(folder, self.optimizer, schedule)
        # how often checkpoints are written is said anew by whoever resumes
        state = replace(self.state, save_steps=None)  # type: ignore[arg-type]  # or it would be compared
        state.save_to_json(str(folder / checkpoint.STATE))
        return self.companions()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        self._read(Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, resume: str | None) -> None:
        """Moments, learning rates, gradient scaler, and what the subclass kept."""
        if resume is None:
            return
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        self.state.compute_steps(self.args, self.args.max_steps)  # type: ignore[no-untyped-call]  # ships no types
        folder = Path(resume)
        schedule = checkpoint.read_optimizer(folder, self.optimizer)
        with checkpoint.reading(folder / checkpoint.SCHEDULE):
            self.lr_scheduler.load_state_dict(schedule["scheduler"])
            if schedule["scaler"] is not None:
                self.accelerator.scaler.load_state_dict(schedule["scaler"])
            self.figures = schedule.get("figures", {})
            self.restore(schedule)

    def _load_scaler(self, resume: str | None) -> None:
        """Nothing: it was read with the optimizer."""

    def _load_rng_state(self, resume: str | None) -> None:
        """State of torch's random numbers, which dropout draws from."""
        if resume is None:
            return
        random = checkpoint.read_random(Path(resume), self.args.process_index)
        torch.set_rng_state(random["cpu"])
        if "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"])


class _Calls(TrainerCallback):
    """Calls the trainer back before the batches of an epoch are drawn and after each step."""

    def __init__(self, trainer: ResumableTrainer) -> None:
        self._trainer = trainer

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Have the trainer begin an epoch."""
        self._trainer.begin_epoch()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Have the trainer end a step."""
        self._trainer.end_step()


def _arguments(
    recipe: Recipe, options: RunOptions, work: Path, steps: int, **more: Any
) -> SentenceTransformerTrainingArguments:
    """Arguments of sentence-transformers' trainer that are the same for every method, and ``more``."""
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
        save_strategy="steps",
        save_steps=options.checkpoint_steps,
        logging_steps=max(1, steps // _LOG_LINES),
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=options.workers,
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_timeout=_A_DAY,
        use_cpu=not torch.cuda.is_available(),
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        **more,
    )
    # Without 'accelerate launch' one GPU trains: torch's DataParallel would cut a batch, and its pairs, apart.
    args._n_gpu = min(1, args.n_gpu)
    return args


def processes_here() -> PartialState:
    """The processes that share the work, this one alone where no launcher started several.

    They are joined here, before the trainer would do so: with the time that they may wait for each other, and by way of
    the CPU where there is no GPU, which the library does not see by itself.
    """
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=_A_DAY))


def precision_here(name: str) -> str:
    """The precision that ``"auto"`` stands for on this machine; any other stands for itself.

    Raises:
        ConfigError: this machine does not have it.
    """
    gpu = torch.cuda.is_available()
    bf16 = not gpu or torch.cuda.is_bf16_supported()
    if name == "fp16" and not gpu:
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name == "bf16" and not bf16:
        raise ConfigError("this GPU has no bf16", remedy="give the precision 'auto', 'fp32' or 'fp16'")
    if name != "auto":
        return name
    return "fp32" if not gpu else "bf16" if bf16 else "fp16"
