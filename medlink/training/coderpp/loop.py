"""The training loop of CODER++: the common trainer with batches of near terms, found anew each round.

Processes started by ``accelerate launch`` share the work: each trains on batches of its own and embeds its part of the
terms; the first one finds the neighbours and writes. Embeddings and neighbours lie in files that all of them map.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from typing import Any

import numpy as np
from datasets import Dataset  # type: ignore[import-untyped]  # ships no types
from torch import Tensor

from medlink.files.folders import remove
from medlink.training.coderpp.batches import Collator, RoundSampler, nearest_terms
from medlink.training.coderpp.loss import MultiSimilarityLoss
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Terms
from medlink.training.coderpp.trainable import TermModel
from medlink.training.common import checkpoint
from medlink.training.common.resumable import ResumableTrainer, processes_here
from medlink.training.common.run import Run

_EMBEDDED_TO_CHECK = 64
_EMBEDDED_AT_ONCE = 65_536


class CoderPlusPlusLoop(ResumableTrainer):
    """One run: what is an epoch to the trainer is a round here, the training between two renewals of the neighbours.

    Raises:
        ConfigError: this machine has no such precision.
    """

    def __init__(self, part: TermModel, terms: Terms, recipe: CoderPlusPlusRecipe, run: Run) -> None:
        per_step = recipe.accumulation * processes_here().num_processes
        epoch_steps = math.ceil(len(terms) / (recipe.anchors * per_step))
        self.round_steps = recipe.refresh if isinstance(recipe.refresh, int) else epoch_steps
        self.recipe, self._part = recipe, part
        self._rounds = RoundSampler(terms, recipe, self.round_steps * per_step)
        self._found: int | None = None
        self._ms_loss = MultiSimilarityLoss(
            part.model,
            recipe.mini_batch,
            alpha=recipe.alpha,
            beta=recipe.beta,
            threshold=recipe.threshold,
            epsilon=recipe.epsilon,
        )
        super().__init__(
            part.model,
            self._ms_loss,
            recipe,
            run,
            run.folder,
            steps=recipe.epochs * epoch_steps,
            batches={
                "per_device_train_batch_size": recipe.anchors,
                "gradient_accumulation_steps": recipe.accumulation,
            },
            train_dataset=Dataset.from_dict({"term": range(len(terms))}),
            data_collator=Collator(terms, part.encode),
        )

    def get_batch_sampler(  # type: ignore[override]  # an iterable of batches is all that its caller needs
        self, dataset: Any, *_: Any, **__: Any
    ) -> RoundSampler:
        """Our batches."""
        return self._rounds

    def probe(self) -> dict[str, Tensor]:
        """Features of the first terms."""
        return self._part.encode(np.arange(min(self._rounds.terms, _EMBEDDED_TO_CHECK)))

    def begin_epoch(self) -> None:
        """Set the sampler to the round of the present step, with new neighbours where they are due."""
        self._rounds.round = self.state.global_step // self.round_steps
        if self._found is None or (self.recipe.refresh != "never" and self._found != self._rounds.round):
            self._renew()

    def _renew(self) -> None:
        """Find the neighbours anew from the model as it stands."""
        self.check(self.state.global_step)
        self._found = self._rounds.round
        begin, path = time.perf_counter(), self._work / checkpoint.EMBEDDINGS
        shape = (self._rounds.terms, self._part.dimension)
        try:
            if self.is_world_process_zero():
                checkpoint.new_embeddings(path, *shape)
            self.accelerator.wait_for_everyone()
            vectors = np.memmap(path, np.float16, "r+", shape=shape)
            self._embed(vectors)
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                lists = nearest_terms(vectors.view(np.ndarray), self.recipe.neighbours)
                checkpoint.write_neighbours(self._work, self._found, lists)
                taken = time.perf_counter() - begin
                self._log(f"round {self._found + 1}: neighbours of {shape[0]} terms found in {taken:.1f} s")
        finally:
            if self.is_world_process_zero():
                remove(path)
        self.accelerator.wait_for_everyone()
        self._rounds.neighbours = checkpoint.read_neighbours(self._work, self._found, self._rounds.terms)
        if self.is_world_process_zero():
            checkpoint.clear_neighbours(self._work, self._found)
        self._logged_at = time.perf_counter()

    def _embed(self, vectors: np.memmap[Any, np.dtype[np.float16]]) -> None:
        """Embed this process's part of the terms."""
        parts = np.linspace(0, len(vectors), self.args.world_size + 1).astype(int).tolist()
        start, stop = parts[self.args.process_index : self.args.process_index + 2]
        for at in range(start, stop, _EMBEDDED_AT_ONCE):
            end = min(at + _EMBEDDED_AT_ONCE, stop)
            vectors[at:end] = self._part.embed(np.arange(at, end))
        vectors.flush()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Share of informative pairs, and terms a second."""
        share, terms = self._ms_loss.take_counts()
        line = f"informative pairs {100 * share:.2f}% learning rate {{rate:.2e}} {terms / seconds:,.0f} terms/s"
        return {"informative": share}, line

    def describe(self) -> dict[str, Any]:
        """The round that the neighbours are of."""
        return {"found": self._found}

    def companions(self) -> Collection[str]:
        """The neighbours that the batches of the round come from."""
        assert self._found is not None
        return [checkpoint.neighbours(self._found)]

    def restore(self, schedule: dict[str, Any]) -> None:
        """The neighbours of the round that the checkpoint is in."""
        self._found = int(schedule["found"])
        self._rounds.neighbours = checkpoint.read_neighbours(self._work, self._found, self._rounds.terms)
