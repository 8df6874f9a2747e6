"""The training loop of CODER++: sentence-transformers' trainer with our batches, rounds and checkpoints.

Processes started by ``accelerate launch`` share the work: each trains on batches of its own; the first one finds the
neighbours and writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # ships no types
from accelerate.utils import broadcast  # type: ignore[import-untyped]  # ships no types
from datasets import Dataset  # type: ignore[import-untyped]  # ships no types
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback

from medlink.errors import ConfigError, EncoderError
from medlink.models import coderpp_checkpoint as checkpoint
from medlink.models.coderpp_batches import Collator, RoundSampler, nearest_terms
from medlink.models.coderpp_recipe import CoderPlusPlusRecipe
from medlink.models.coderpp_terms import Terms
from medlink.models.coderpp_trainable import Trainable
from medlink.models.multi_similarity import MultiSimilarityLoss

# in seconds: the first process finds the neighbours while the others wait
_A_DAY = 86_400
_LOG_LINES = 100
_EMBEDDED_TO_CHECK = 64


class CoderPlusPlusLoop(SentenceTransformerTrainer):
    """One run: what is an epoch to the trainer is a round here, the training between two renewals of the neighbours.

    Args:
        part: the model and what is done with it.
        terms: what to train on.
        recipe: how.
        work: folder of the checkpoints.
        checkpoint_steps: steps between two of them.
        workers: processes that turn batches into tensors; 0 does so between the steps.
        log: called with one line now and then, in the first process.

    Raises:
        ConfigError: this machine has no such precision.
    """

    def __init__(
        self,
        part: Trainable,
        terms: Terms,
        recipe: CoderPlusPlusRecipe,
        *,
        work: Path,
        checkpoint_steps: int,
        workers: int,
        log: Callable[[str], None],
    ) -> None:
        precision = precision_here(recipe.precision)
        args = SentenceTransformerTrainingArguments(
            output_dir=str(work),
            per_device_train_batch_size=recipe.anchors,
            gradient_accumulation_steps=recipe.accumulation,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="linear",
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.max_grad_norm,
            optim="adamw_torch_fused",
            seed=recipe.seed,
            save_strategy="steps",
            save_steps=checkpoint_steps,
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=workers,
            dataloader_pin_memory=torch.cuda.is_available(),
            ddp_timeout=_A_DAY,
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bf16",
            fp16=precision == "fp16",
        )
        # Without 'accelerate launch' one GPU trains: torch's DataParallel would cut a batch, and its pairs, apart.
        args._n_gpu = min(1, args.n_gpu)
        per_step = recipe.accumulation * args.world_size
        epoch_steps = math.ceil(len(terms) / (recipe.anchors * per_step))
        self.round_steps = recipe.refresh if isinstance(recipe.refresh, int) else epoch_steps
        args.max_steps = recipe.epochs * epoch_steps
        args.warmup_steps = round(recipe.warmup * args.max_steps)
        args.logging_steps = max(1, args.max_steps // _LOG_LINES)
        self.recipe, self._part, self._work, self._log = recipe, part, work, log
        self._rounds = RoundSampler(terms, recipe, self.round_steps * per_step)
        self._found: int | None = None
        self._logged_at = time.perf_counter()
        self.figures: dict[str, float] = {}
        self._ms_loss = MultiSimilarityLoss(part.model, recipe.alpha, recipe.beta, recipe.threshold, recipe.epsilon)
        super().__init__(
            model=part.model,
            args=args,
            train_dataset=Dataset.from_dict({"term": range(len(terms))}),
            loss=self._ms_loss,
            data_collator=Collator(terms, part.encode),  # type: ignore[arg-type]  # called in the same way
            callbacks=[_Renewal(self)],
        )
        self.remove_callback(PrinterCallback)

    def get_batch_sampler(  # type: ignore[override]  # an iterable of batches is all that its caller needs
        self, dataset: Any, *_: Any, **__: Any
    ) -> RoundSampler:
        """Our batches."""
        return self._rounds

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the card is written with the encoder, and sentence-transformers' own wants a column of text."""

    def run(self, found: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint; to one of the last step nothing is added."""
        if found is None or checkpoint.step_of(found) < self.args.max_steps:
            self.train(resume_from_checkpoint=str(found) if found else None)
            return
        checkpoint.read_weights(found, self.model)
        self._check_weights(checkpoint.step_of(found))
        self.figures = checkpoint.read_schedule(found).get("figures", {})
        self.state.global_step = self.args.max_steps

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One batch; a loss that is no number ends the run before it reaches the weights."""
        loss: Tensor = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            raise self._diverged(f"the loss is {loss.item()} at step {self.state.global_step + 1}")
        return loss

    def _diverged(self, message: str) -> EncoderError:
        """What to tell of a run that has come to no good."""
        kept = checkpoint.newest(self._work)
        return EncoderError(
            message,
            path=kept or self._work,
            remedy="lower the learning rate"
            + (f" and train anew; {kept.name} holds the last good weights" if kept else ""),
        )

    def _check_weights(self, step: int) -> None:
        """End the run if its weights are no numbers, or embed terms by none, before they are kept or searched."""
        some = self._part.encode(np.arange(min(self._rounds.terms, _EMBEDDED_TO_CHECK)))
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            features = {name: value.to(self.args.device) for name, value in some.items()}
            lengths = self.model(features)["sentence_embedding"].float().norm(dim=-1)
        self.model.train(was_training)
        # terms without a single n-gram or token have length 0, but not all of them
        sound = bool(torch.isfinite(lengths).all()) and bool(lengths.any())
        if sound and all(bool(torch.isfinite(tensor).all()) for tensor in self.model.state_dict().values()):
            return
        if not step:
            raise EncoderError("the encoder to start from embeds by no numbers", remedy="start from another")
        raise self._diverged(f"weights or embeddings are no numbers after step {step}")

    def begin_round(self) -> None:
        """Set the sampler to the round of the present step, with new neighbours where they are due."""
        self._rounds.round = self.state.global_step // self.round_steps
        if self._found is None or (self.recipe.refresh != "never" and self._found != self._rounds.round):
            self._renew()

    def _renew(self) -> None:
        """Find the neighbours anew from the model as it stands."""
        self._check_weights(self.state.global_step)
        self._found = self._rounds.round
        if self.is_world_process_zero():
            begin = time.perf_counter()
            vectors = self._part.embed()
            self._rounds.neighbours = nearest_terms(vectors, self.recipe.neighbours, self.recipe.seed)
            taken = time.perf_counter() - begin
            self._log(f"round {self._found + 1}: neighbours of {len(vectors)} terms found in {taken:.1f} s")
        if self.args.world_size > 1:
            shape = (self._rounds.terms, min(self.recipe.neighbours, self._rounds.terms - 1))
            lists = torch.from_numpy(self._rounds.neighbours) if self.is_world_process_zero() else torch.empty(shape)
            shared: Tensor = broadcast(lists.to(self.args.device, torch.int32))
            self._rounds.neighbours = shared.cpu().numpy()
        self._logged_at = time.perf_counter()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """One line of progress; the figures of the last line go into the model card."""
        if "loss" not in logs:
            return
        share, terms = self._ms_loss.take_counts()
        now = time.perf_counter()
        rate, self._logged_at = terms / (now - self._logged_at), now
        self.figures = {"loss": logs["loss"], "informative": share}
        if self.is_world_process_zero():
            self._log(
                f"step {self.state.global_step}/{self.args.max_steps} loss {logs['loss']:.4f} "
                f"informative pairs {100 * share:.2f}% learning rate {logs['learning_rate']:.2e} {rate:,.0f} terms/s"
            )

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        """Write beside and rename, without pickles; the trainer's own would round a static table to eight bits."""
        self._check_weights(self.state.global_step)
        writing = self._work / f"{self.state.global_step}.writing"
        with checkpoint.writing(writing, "the checkpoint"):
            if self.is_world_process_zero():
                checkpoint.remove(writing)
                writing.mkdir()
            self.accelerator.wait_for_everyone()
            checkpoint.write_random(writing, self.args.process_index)
            if self.is_world_process_zero():
                self._write(writing)
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                checkpoint.finish(self._work, writing, self.state.global_step)
        self.accelerator.wait_for_everyone()

    def _write(self, folder: Path) -> None:
        """What a checkpoint holds besides the random numbers of each process."""
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        assert self._found is not None
        scaler = self.accelerator.scaler
        schedule = {
            "found": self._found,
            "scheduler": self.lr_scheduler.state_dict(),
            "scaler": scaler.state_dict() if scaler is not None else None,
            "figures": self.figures,
        }
        checkpoint.write_state(folder, self.model, self.optimizer, schedule)
        self.state.save_to_json(str(folder / checkpoint.STATE))
        checkpoint.write_neighbours(self._work, self._found, self._rounds.neighbours)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """The weights, in full precision."""
        checkpoint.read_weights(Path(resume_from_checkpoint), self.model)

    def _load_optimizer_and_scheduler(self, resume: str | None) -> None:
        """Moments, learning rates, gradient scaler, and the neighbours that the batches of the round come from."""
        if resume is None:
            return
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        folder = Path(resume)
        schedule = checkpoint.read_optimizer(folder, self.optimizer)
        with checkpoint.reading(folder / checkpoint.SCHEDULE):
            self.lr_scheduler.load_state_dict(schedule["scheduler"])
            if schedule["scaler"] is not None:
                self.accelerator.scaler.load_state_dict(schedule["scaler"])
        self.figures = schedule.get("figures", {})
        self._found = schedule["found"]
        self._rounds.neighbours = checkpoint.read_neighbours(self._work, schedule["found"], self._rounds.terms)

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


class _Renewal(TrainerCallback):
    """Calls the loop back before the batches of a round are drawn."""

    def __init__(self, loop: CoderPlusPlusLoop) -> None:
        self._loop = loop

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """What is an epoch to the trainer is a round here."""
        self._loop.begin_round()


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
    if name == "fp16" and not gpu:
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name == "bf16" and gpu and not torch.cuda.is_bf16_supported():
        raise ConfigError("this GPU has no bf16", remedy="give the precision 'auto', 'fp32' or 'fp16'")
    if name != "auto":
        return name
    if not gpu:
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
