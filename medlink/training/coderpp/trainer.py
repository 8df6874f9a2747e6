"""CODER++ (Zeng et al. 2022): fine-grained term embeddings from hard positives and hard negatives.

Batches are terms with their nearest neighbours, which each round renews. Processes started by ``accelerate launch``
share a run: each trains on its own batches and embeds its part of the terms. The main process searches the neighbours
and writes. All map the files of embeddings and neighbours.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.errors import ConfigError
from medlink.files.folders import remove
from medlink.index.knn_graph import nearest
from medlink.models.encoders import BUILTIN, Encoder, load_encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.records import Name
from medlink.training.coderpp.loss import MultiSimilarityLoss
from medlink.training.coderpp.terms import Ids, Terms
from medlink.training.common.checkpoints import checkpoint_step, find_newest_checkpoint, process_state, write_errors
from medlink.training.common.inputs import paced
from medlink.training.common.loader import EpochLoader
from medlink.training.common.losses import EmbeddingLoss, embed
from medlink.training.common.resumable_trainer import ResumableTrainer
from medlink.training.common.run import Run, neighbours_path, read_neighbours, write_neighbours
from medlink.training.common.trainable import Trainable, limit_tokens, make_trainable
from medlink.training.common.trainer import Trainer
from medlink.training.data.batches import Batch, draw_cycles, shared_keys
from medlink.training.recipes import CoderPlusPlusRecipe

_EMBEDDINGS = ".writing-embeddings"  # a name that a resumed run removes
_QUERIES, _COMPARED = 4096, 1 << 18  # terms searched at a time on a GPU, and terms that they are compared with
_TERMS = 8192  # embedded at a time


class CoderPlusPlusTrainer(Trainer):
    """Train an encoder further by CODER++.

    Args:
        names: names of at least two concepts, one of them with two names that differ in more than case and accents.
        start: the encoder to start from: ``"builtin"``, a model folder, or ``hf:NAME``.
        recipe: the default is the paper's for a transformer and
            :meth:`~medlink.training.recipes.CoderPlusPlusRecipe.static` for a static encoder.

    Raises ConfigError if the names do not suffice, and EncoderError if there is no encoder to start from.
    """

    recipe: CoderPlusPlusRecipe

    def __init__(
        self, names: Iterable[Name], start: str | Path = BUILTIN, recipe: CoderPlusPlusRecipe | None = None
    ) -> None:
        self.terms, self._start, encoder = Terms(names), start, load_encoder(start)
        self._start_fingerprint = encoder.fingerprint
        is_static = isinstance(encoder, StaticEncoder)
        self.recipe = recipe or (CoderPlusPlusRecipe.static() if is_static else CoderPlusPlusRecipe())

    def _run(self, run: Run) -> None:
        if run.evaluate is not None:
            raise ConfigError("CODER++ is trained without a development measure", remedy="leave evaluate out")
        run.bind(self.recipe, names=self.terms.digest, start=self._start_fingerprint)
        loop = CoderPlusPlusLoop(load_encoder(self._start), self.terms, self.recipe, run)
        loop.run(find_newest_checkpoint(run.folder))
        last = loop.last_log("informative")
        run.write(
            loop.part.save,
            title="Encoder trained by CODER++",
            summary="hard positives and hard negatives under the multi-similarity loss (Zeng et al. 2022, "
            "section 4.2; Wang et al. 2019)",
            command="medlink train coderpp",
            start=self._start_fingerprint,
            data={
                "names": self.terms.names,
                "concepts": self.terms.concepts,
                "distinct terms": len(self.terms),
                "SHA-256 of the names with their concepts": f"`{self.terms.digest}`",
            },
            recipe=self.recipe,
            figures={
                "steps": loop.state.global_step,
                "loss over the last of them": f"{last['loss']:.4f}" if last else None,
                "informative pairs among them": f"{last['informative']:.2%}" if last else None,
            },
        )


class CoderPlusPlusLoop(ResumableTrainer):
    """A run of CODER++. An epoch of the trainer is a round: the training between two renewals of the neighbours.

    Raises ConfigError if this machine lacks the precision, or the recipe does not fit the kind of encoder.
    """

    def __init__(self, start: Encoder, terms: Terms, recipe: CoderPlusPlusRecipe, run: Run) -> None:
        per_step = recipe.accumulation * process_state().num_processes
        epoch_steps = math.ceil(len(terms) / (recipe.anchors * per_step))
        self.round_steps = recipe.refresh if isinstance(recipe.refresh, int) else epoch_steps
        self.part: Trainable = make_trainable(start, recipe.feature_dropout)
        self._recipe, self._dimension = recipe, start.dimension
        self.rounds = TermBatches(terms, recipe, self.round_steps * recipe.accumulation)
        self._loaded_lists: int | None = None
        model = self.part.model
        if not isinstance(start, StaticEncoder):
            limit_tokens(model, recipe.max_tokens)
        elif recipe.mini_batch:
            remedy = "leave it at 0; a static encoder embeds a whole batch"
            raise ConfigError("mini_batch is for a transformer", remedy=remedy)
        self._pair_loss = MultiSimilarityLoss(recipe.alpha, recipe.beta, recipe.threshold, recipe.epsilon)
        inputs = run.read_inputs(model, terms)
        super().__init__(
            model,
            EpochLoader(self.rounds, inputs, is_whole=recipe.mini_batch > 0, is_shared=False),
            EmbeddingLoss(model, self._pair_loss, recipe.mini_batch, shared=False),
            recipe,
            run,
            run.folder,
            steps=recipe.epochs * epoch_steps,
            batch_size=recipe.anchors,
            accumulation=recipe.accumulation,
        )

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Set the loader to the current step; renew the neighbours if they are due."""
        super().on_epoch_begin()
        step = self.state.global_step
        number = self._lists_at(step)
        if self._loaded_lists == number:
            return
        # a run that is resumed within a round uses the lists from its beginning
        if self._loaded_lists is not None or not step or self._lists_at(step - 1) != number:
            self._renew(number)
        self._loaded_lists = number
        self.rounds.neighbours = read_neighbours(self._folder, number, len(self.rounds.texts))
        if self.is_world_process_zero():
            checkpoint = find_newest_checkpoint(self._folder)
            needed = {number, self._lists_at(checkpoint_step(checkpoint)) if checkpoint else number}
            for path in set(self._folder.glob("neighbours-*")) - {neighbours_path(self._folder, n) for n in needed}:
                remove(path)

    def _lists_at(self, step: int) -> int:
        return 0 if self._recipe.refresh == "never" else step // self.round_steps

    def _renew(self, number: int) -> None:
        self.check(self.state.global_step)
        begin, path = time.perf_counter(), self._folder / _EMBEDDINGS
        shape = (len(self.rounds.texts), self._dimension)
        try:
            if self.is_world_process_zero():
                # allocate the space: a disk that fills up under a mapping kills the process
                with write_errors(path, "the file of embeddings"), open(path, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 2 * shape[0] * shape[1])
            self.accelerator.wait_for_everyone()
            vectors = np.memmap(path, np.float16, "r+", shape=shape)
            self._embed_terms(vectors, number)
            vectors.flush()
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                say = paced(self._log)

                def report(done: int, total: int) -> None:
                    say(f"round {number + 1}: neighbours of {done:,} of {total:,} different terms found")

                lists = nearest_terms(vectors.view(np.ndarray), self._recipe.neighbours, self.args.device, report)
                write_neighbours(self._folder, number, lists)
                seconds = time.perf_counter() - begin
                self._log(f"round {number + 1}: neighbours of {shape[0]} terms found in {seconds:.1f} s")
        finally:
            if self.is_world_process_zero():
                remove(path)
        self.accelerator.wait_for_everyone()
        self._logged_at = time.perf_counter()

    def _embed_terms(self, vectors: NDArray[np.float16], number: int) -> None:
        parts = np.linspace(0, len(vectors), self.args.world_size + 1).astype(int).tolist()
        start, stop = parts[self.args.process_index : self.args.process_index + 2]
        was_training, say = self.model.training, paced(self._log)
        self.model.eval()
        for at in range(start, stop, _TERMS):
            terms = np.arange(at, min(at + _TERMS, stop))
            with torch.no_grad(), self.compute_loss_context_manager():
                rows = embed(self.model, self.loader.take(terms))
            vectors[terms] = functional.normalize(rows.float(), dim=-1).cpu().numpy()
            say(f"round {number + 1}: {terms[-1] + 1 - start:,} of {stop - start:,} terms embedded")
        self.model.train(was_training)

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Return the share of informative pairs, and the terms a second."""
        share, terms = self._pair_loss.take_counts()
        line = f"informative pairs {100 * share:.2f}% learning rate {{rate:.2e}} {terms / seconds:,.0f} terms/s"
        return {"informative": share}, line


def nearest_terms(
    vectors: NDArray[Any], count: int, device: torch.device, report: Callable[[int, int], object] | None = None
) -> NDArray[np.int32]:
    """Find the other terms nearest to each of n terms: ``(n, min(count, n - 1))``, nearest first, -1 for none.

    Zeng et al. 2022, section 4.2, "possibly hard negative sampling": the top m of an inner-product Faiss index over all
    terms. A GPU compares all pairs, in 16 bits. A CPU does so for up to 50,000 terms; for more it searches enough cells
    for a recall of about .96 (:func:`medlink.index.knn_graph.nearest`). ``vectors (n, d)`` are unit vectors, possibly
    memory-mapped. ``report`` is called with the number of terms done and their total.
    """
    count = min(count, len(vectors) - 1)
    if device.type == "cpu":
        return nearest(vectors, count, progress=report)[0].astype(np.int32)
    found = nearest_in_blocks(torch.from_numpy(np.ascontiguousarray(vectors)).to(device), count, report)
    return np.asarray(found.cpu().numpy())


def nearest_in_blocks(vectors: Tensor, count: int, report: Callable[[int, int], object] | None = None) -> Tensor:
    """Find the ``count`` other rows nearest to each row of ``(n, d)`` by matrix products: ``(n, count)`` int32."""
    n, parts = len(vectors), list[Tensor]()
    for start in range(0, n, _QUERIES):
        queries = vectors[start : start + _QUERIES]
        own = torch.arange(start, start + len(queries), device=vectors.device)
        best, rows = queries.new_zeros(len(queries), 0), own.new_zeros(len(queries), 0)
        for first in range(0, n, _COMPARED):
            cosines = queries @ vectors[first : first + _COMPARED].T
            here = (own >= first) & (own < first + cosines.shape[1])
            cosines[here, own[here] - first] = -torch.inf
            close, near = cosines.topk(min(count, cosines.shape[1]), dim=1)
            best, order = torch.cat([best, close], dim=1).topk(min(count, best.shape[1] + close.shape[1]), dim=1)
            rows = torch.cat([rows, near + first], dim=1).gather(1, order)
        parts.append(rows.int())
        if report:
            report(min(start + _QUERIES, n), n)
    return torch.cat(parts)


class TermBatches:
    """Batches of distinct terms, fixed by seed, neighbours and batch number; an epoch ends when neighbours are renewed.

    The labels ``(n, n)`` tell which terms share a concept. Each process has its own ``count`` batches of a round.
    """

    def __init__(self, terms: Terms, recipe: CoderPlusPlusRecipe, count: int) -> None:
        state = process_state()
        self.texts, self.digest = terms, terms.digest
        self._recipe, self._count = recipe, count
        self._process, self._processes = state.process_index, state.num_processes
        self.neighbours: NDArray[np.int32] = np.zeros((len(terms), 0), np.int32)

    def batches_per_epoch(self) -> int:
        return self._count

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of a round from number ``start`` on."""
        for number in range(epoch * self._count + start, (epoch + 1) * self._count):
            terms = self.compose(number * self._processes + self._process)
            yield Batch((terms,), next(shared_keys(*self.texts.concepts_of(terms), len(terms), 1)))

    def anchors(self, number: int) -> Ids:
        """Return the anchors of a batch: the terms in a new random order each epoch."""
        positions = number * self._recipe.anchors + np.arange(self._recipe.anchors)
        return draw_cycles(self._recipe.seed, 0, positions, len(self.texts))[0].astype(np.int64)

    def compose(self, number: int) -> Ids:
        """Compose the distinct terms of a batch, ascending: anchors, their ``positives`` and their neighbours."""
        rng = np.random.default_rng([self._recipe.seed, 1, number])
        anchors = self.anchors(number)
        near = self.neighbours[anchors].reshape(-1)
        positives = self.texts.positives(anchors, self._recipe.positives, rng)
        batch: Ids = np.unique(np.concatenate([anchors, positives, near[near >= 0]]))
        return batch
