"""The training loop of CODER++: sentence-transformers' trainer with our batches, rounds and checkpoints.

Processes started by ``accelerate launch`` share the work: each trains on batches of its own; the first one finds the
neighbours and writes.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
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

_A_DAY = 86_400
_LOG_LINES = 100


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
        precision = _precision(recipe.precision)
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
            # the first process finds the neighbours while the others wait
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

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One batch; a loss that is no number ends the run before it reaches the weights."""
        loss: Tensor = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            kept = checkpoint.newest(self._work)
            raise EncoderError(
                f"the loss is {loss.item()} at step {self.state.global_step + 1}",
                path=kept or self._work,
                remedy="lower the learning rate"
                + (f" and train anew; {kept.name} holds the last good weights" if kept else ""),
            )
        return loss

    def begin_round(self) -> None:
        """Set the sampler to the round of the present step, with new neighbours where they are due."""
        self._rounds.round = self.state.global_step // self.round_steps
        if self._found is None or (self.recipe.refresh != "never" and self._found != self._rounds.round):
            self._renew()

    def _renew(self) -> None:
        """Find the neighbours anew from the model as it stands."""
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
        writing = self._work / f"{self.state.global_step}.writing"
        if self.is_world_process_zero():
            shutil.rmtree(writing, ignore_errors=True)
            writing.mkdir()
        self.accelerator.wait_for_everyone()
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        checkpoint.write_tensors(writing / f"random-{self.args.process_index}.safetensors", random)
        if self.is_world_process_zero():
            assert self.optimizer is not None
            assert self.lr_scheduler is not None
            assert self._found is not None
            scaler = self.accelerator.scaler
            schedule = {
                "found": self._found,
                "scheduler": self.lr_scheduler.state_dict(),
                "scaler": scaler.state_dict() if scaler is not None else None,
            }
            checkpoint.write_state(writing, self.model, self.optimizer, schedule)
            self.state.save_to_json(str(writing / "trainer_state.json"))
            checkpoint.write_neighbours(self._work, self._found, self._rounds.neighbours)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            checkpoint.finish(self._work, writing, self.state.global_step)
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """The weights, in full precision."""
        checkpoint.read_weights(Path(resume_from_checkpoint), self.model)

    def _load_optimizer_and_scheduler(self, resume: str | None) -> None:
        """Moments, learning rates, gradient scaler, and the neighbours that the batches of the round come from."""
        if resume is None:
            return
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        schedule = checkpoint.read_optimizer(Path(resume), self.optimizer)
        self.lr_scheduler.load_state_dict(schedule["scheduler"])
        if schedule["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(schedule["scaler"])
        self._found = schedule["found"]
        self._rounds.neighbours = checkpoint.read_neighbours(self._work, schedule["found"])

    def _load_scaler(self, resume: str | None) -> None:
        """Nothing: it was read with the optimizer."""

    def _load_rng_state(self, resume: str | None) -> None:
        """State of torch's random numbers, which dropout draws from."""
        if resume is None:
            return
        random = checkpoint.read_tensors(Path(resume) / f"random-{self.args.process_index}.safetensors")
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


def _precision(name: str) -> str:
    """The precision that ``"auto"`` stands for on this machine; any other stands for itself."""
    if name == "fp16" and not torch.cuda.is_available():
        raise ConfigError("fp16 needs a GPU", remedy="give the precision 'auto', 'fp32' or 'bf16'")
    if name != "auto":
        return name
    if not torch.cuda.is_available():
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
