"""The training loop of CODER++: batches of terms with their nearest neighbours, which each round renews.

Processes started by ``accelerate launch`` share a run: each trains on its own batches and embeds its part of the terms.
The main process searches the neighbours and writes. All map the files of embeddings and neighbours.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from medlink.errors import ConfigError
from medlink.files.folders import remove
from medlink.index.knn_graph import nearest
from medlink.index.vectors.library import gpu_copy, gpu_count
from medlink.models.encoders import Encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.coderpp.loss import MultiSimilarityLoss
from medlink.training.coderpp.terms import Ids, Terms
from medlink.training.common.checkpoints import checkpoint_step, find_newest_checkpoint, process_state, write_errors
from medlink.training.common.losses import EmbeddingLoss, copy_without_weights, preprocess_texts
from medlink.training.common.resumable_trainer import ResumableTrainer
from medlink.training.common.run import Run, neighbours_path, read_neighbours, write_neighbours
from medlink.training.common.trainable import Trainable, limit_tokens, make_trainable
from medlink.training.data.batches import cycle_order
from medlink.training.recipes import CoderPlusPlusRecipe
from medlink.training.static.bags import Bags

_EMBEDDINGS = ".writing-embeddings"  # a name that a resumed run removes
_QUERIES = 8192  # searched at a time on GPUs
_PROBE_TERMS = 64
_TERMS = 65_536  # embedded at a time


@dataclass(frozen=True, slots=True)
class TermTokenizer:
    """Inputs of a transformer for terms; can be pickled for worker processes."""

    model: SentenceTransformer
    terms: Terms

    def __call__(self, terms: Ids) -> dict[str, Tensor]:
        return preprocess_texts(self.model, self.terms.texts(terms))


class CoderPlusPlusLoop(ResumableTrainer):
    """A run of CODER++. An epoch of the trainer is a round here: the training between two renewals of the neighbours.

    Raises:
        ConfigError: this machine lacks the precision, or the recipe does not fit the kind of encoder.
    """

    def __init__(self, start: Encoder, terms: Terms, recipe: CoderPlusPlusRecipe, run: Run) -> None:
        per_step = recipe.accumulation * process_state().num_processes
        epoch_steps = math.ceil(len(terms) / (recipe.anchors * per_step))
        self.round_steps = recipe.refresh if isinstance(recipe.refresh, int) else epoch_steps
        self.part: Trainable = make_trainable(start, recipe.feature_dropout)
        self._recipe, self._dimension = recipe, start.dimension
        self._rounds = RoundSampler(terms, recipe, self.round_steps * per_step)
        self._loaded_lists: int | None = None
        self._encode: Callable[[Ids], dict[str, Tensor]]
        self._embed: Callable[[Ids], NDArray[np.float32]]
        model = self.part.model
        if isinstance(start, StaticEncoder):
            if recipe.mini_batch:
                remedy = "leave it at 0; a static encoder embeds a whole batch"
                raise ConfigError("mini_batch is for a transformer", remedy=remedy)
            module, bags = model[0], Bags(terms.texts(np.arange(len(terms))), start.config, start.forms)
            assert isinstance(module, StaticEmbedding)
            self._encode, self._embed = bags, lambda rows: bags.embed(module, rows)
        else:
            limit_tokens(model, recipe.max_tokens)
            self._encode = TermTokenizer(copy_without_weights(model), terms)
            self._embed = lambda rows: start.encode(terms.texts(rows))
        self._pair_loss = MultiSimilarityLoss(recipe.alpha, recipe.beta, recipe.threshold, recipe.epsilon)
        super().__init__(
            model,
            EmbeddingLoss(model, self._pair_loss, recipe.mini_batch, shared=False),
            recipe,
            run,
            run.folder,
            steps=recipe.epochs * epoch_steps,
            batches={"per_device_train_batch_size": recipe.anchors, "gradient_accumulation_steps": recipe.accumulation},
            train_dataset=Dataset.from_dict({"term": range(len(terms))}),
            data_collator=Collator(terms, self._encode),
        )

    def get_batch_sampler(  # type: ignore[override]  # an iterable of batches is all that its caller needs
        self, dataset: Any, *_: Any, **__: Any
    ) -> RoundSampler:
        return self._rounds

    def probe(self) -> dict[str, Tensor]:
        """Return the features of the first terms."""
        return self._encode(np.arange(min(self._rounds.terms, _PROBE_TERMS)))

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Set the sampler to the round of the current step; renew the neighbours where they are due."""
        step = self.state.global_step
        self._rounds.round = step // self.round_steps
        number = self._lists_at(step)
        if self._loaded_lists == number:
            return
        # a run that is resumed within a round uses the lists from its beginning
        if self._loaded_lists is not None or not step or self._lists_at(step - 1) != number:
            self._renew(number)
        self._loaded_lists = number
        self._rounds.neighbours = read_neighbours(self._folder, number, self._rounds.terms)
        if self.is_world_process_zero():
            checkpoint = find_newest_checkpoint(self._folder)
            needed = {number, self._lists_at(checkpoint_step(checkpoint)) if checkpoint else number}
            for path in set(self._folder.glob("neighbours-*")) - {neighbours_path(self._folder, n) for n in needed}:
                remove(path)

    def _lists_at(self, step: int) -> int:
        """Number of the neighbour lists in use at a step."""
        return 0 if self._recipe.refresh == "never" else step // self.round_steps

    def _renew(self, number: int) -> None:
        self.check(self.state.global_step)
        begin, path = time.perf_counter(), self._folder / _EMBEDDINGS
        shape = (self._rounds.terms, self._dimension)
        try:
            if self.is_world_process_zero():
                # allocate the space: a disk that fills up under a mapping kills the process
                with write_errors(path, "the file of embeddings"), open(path, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 2 * shape[0] * shape[1])
            self.accelerator.wait_for_everyone()
            vectors = np.memmap(path, np.float16, "r+", shape=shape)
            parts = np.linspace(0, len(vectors), self.args.world_size + 1).astype(int).tolist()
            start, stop = parts[self.args.process_index : self.args.process_index + 2]
            for at in range(start, stop, _TERMS):
                end = min(at + _TERMS, stop)
                vectors[at:end] = self._embed(np.arange(at, end))
            vectors.flush()
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                lists = nearest_terms(vectors.view(np.ndarray), self._recipe.neighbours)
                write_neighbours(self._folder, number, lists)
                seconds = time.perf_counter() - begin
                self._log(f"round {number + 1}: neighbours of {shape[0]} terms found in {seconds:.1f} s")
        finally:
            if self.is_world_process_zero():
                remove(path)
        self.accelerator.wait_for_everyone()
        self._logged_at = time.perf_counter()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Return the share of informative pairs, and the terms a second."""
        share, terms = self._pair_loss.take_counts()
        line = f"informative pairs {100 * share:.2f}% learning rate {{rate:.2e}} {terms / seconds:,.0f} terms/s"
        return {"informative": share}, line


def nearest_terms(vectors: NDArray[Any], count: int) -> NDArray[np.int32]:
    """Find the other terms nearest to each of n terms: ``(n, min(m, n - 1))``, nearest first, -1 for none.

    Zeng et al. 2022, section 4.2, "possibly hard negative sampling": the top m of an inner-product Faiss index over all
    terms. GPUs compare all pairs, in 16 bits. A CPU does so for up to 50,000 terms; for more it searches enough cells
    for a recall of about .96 (:func:`medlink.index.knn_graph.nearest`). ``vectors (n, d)`` are unit vectors, float32 or
    float16, possibly memory-mapped; ``count`` is m.
    """
    count = min(count, len(vectors) - 1)
    if not gpu_count():
        return nearest(vectors, count)[0].astype(np.int32)
    index = gpu_copy(lambda start, stop: vectors[start:stop], len(vectors), vectors.shape[1])
    neighbours = np.empty((len(vectors), count), dtype=np.int32)
    for start in range(0, len(vectors), _QUERIES):
        rows = index.search(np.ascontiguousarray(vectors[start : start + _QUERIES], dtype=np.float32), count + 1)[1]
        # a stable sort moves the term itself to the end; if duplicates displaced it, the last one is cut off instead
        itself = rows == np.arange(start, start + len(rows))[:, None]
        order = np.argsort(itself, axis=1, kind="stable")
        neighbours[start : start + _QUERIES] = np.take_along_axis(rows, order, axis=1)[:, :count]
    return neighbours


class RoundSampler:
    """Batch sampler: lists of distinct terms, a pure function of seed, neighbours and number of the batch.

    The main process composes every batch, so workers do not change it. ``batches`` is the number of batches in a round,
    over all processes.
    """

    def __init__(self, terms: Terms, recipe: CoderPlusPlusRecipe, batches: int) -> None:
        self._terms, self._recipe, self._batches = terms, recipe, batches
        self.terms = len(terms)
        self.round = 0
        self.neighbours: NDArray[np.int32] = np.zeros((len(terms), 0), np.int32)

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        first = self.round * self._batches
        return (self.compose(number).tolist() for number in range(first, first + self._batches))

    def anchors(self, number: int) -> NDArray[np.int32]:
        """Return the anchors of a batch: the terms in a new random order each epoch."""
        positions = number * self._recipe.anchors + np.arange(self._recipe.anchors)
        epochs = positions // self.terms
        orders = {epoch: cycle_order(self._recipe.seed, 0, epoch, self.terms) for epoch in np.unique(epochs).tolist()}
        return np.concatenate([order[positions[epochs == epoch] % self.terms] for epoch, order in orders.items()])

    def compose(self, number: int) -> Ids:
        """Compose the distinct terms of a batch, ascending: its anchors, their ``positives`` and their
        neighbours.
        """
        rng = np.random.default_rng([self._recipe.seed, 1, number])
        anchors = self.anchors(number)
        positives = [self._terms.positives(int(anchor), self._recipe.positives, rng) for anchor in anchors]
        near = self.neighbours[anchors].reshape(-1)
        batch: Ids = np.unique(np.concatenate([anchors, *positives, near[near >= 0]]))
        return batch


class Collator:
    """Turn the terms of a batch into inputs of the model, by ``encode``; the label is which terms share a concept."""

    def __init__(self, terms: Terms, encode: Callable[[Ids], dict[str, Tensor]]) -> None:
        self._terms, self._encode = terms, encode
        # required by sentence-transformers
        self.valid_label_columns = ["label"]

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """``term_*`` features of n terms, and ``label (n, n)``."""
        terms = np.array([row["term"] for row in rows], dtype=np.int64)
        features = {f"term_{key}": value for key, value in self._encode(terms).items()}
        return {**features, "label": torch.from_numpy(self._terms.share_concept(terms))}
