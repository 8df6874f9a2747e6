"""The training loop of CODER++: the common trainer with batches of near terms, found anew each round.

Processes started by ``accelerate launch`` share the work: each trains on batches of its own and embeds its part of the
terms; the first one finds the neighbours and writes. Embeddings and neighbours lie in files that all of them map.
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
from medlink.training.common.fit import ResumableTrainer, newest, processes_here, step_of, writing
from medlink.training.common.losses import EmbeddingLoss, features_of, reader
from medlink.training.common.run import Run, neighbours, read_neighbours, write_neighbours
from medlink.training.common.trainable import Trainable, cut_at, trainable
from medlink.training.data.batches import order
from medlink.training.recipes import CoderPlusPlusRecipe
from medlink.training.static.bags import Bags

_EMBEDDINGS = ".writing-embeddings"  # what a killed process leaves of it is removed when the run goes on
_AT_ONCE = 8192
_EMBEDDED_TO_CHECK = 64
_EMBEDDED_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Tokens:
    """Terms as a transformer reads them, in processes of their own too, however these are started."""

    model: SentenceTransformer
    terms: Terms

    def __call__(self, terms: Ids) -> dict[str, Tensor]:
        return features_of(self.model, self.terms.texts(terms))


class CoderPlusPlusLoop(ResumableTrainer):
    """One run: what is an epoch to the trainer is a round here, the training between two renewals of the neighbours.

    ``part`` is what is trained and saved.

    Raises:
        ConfigError: this machine has no such precision, or the recipe does not fit the kind of encoder.
    """

    def __init__(self, start: Encoder, terms: Terms, recipe: CoderPlusPlusRecipe, run: Run) -> None:
        per_step = recipe.accumulation * processes_here().num_processes
        epoch_steps = math.ceil(len(terms) / (recipe.anchors * per_step))
        self.round_steps = recipe.refresh if isinstance(recipe.refresh, int) else epoch_steps
        self.part: Trainable = trainable(start, recipe.feature_dropout)
        self._recipe, self._dimension = recipe, start.dimension
        self._rounds = RoundSampler(terms, recipe, self.round_steps * per_step)
        self._found: int | None = None
        self._encode: Callable[[Ids], dict[str, Tensor]]
        self._embed: Callable[[Ids], NDArray[np.float32]]
        model = self.part.model
        if isinstance(start, StaticEncoder):
            if recipe.mini_batch:
                remedy = "leave it at 0; a static encoder embeds a whole batch"
                raise ConfigError("mini_batch is for a transformer", remedy=remedy)
            module, bags = model[0], Bags(terms.texts(np.arange(len(terms))), start.config, start.forms)
            assert isinstance(module, StaticEmbedding)
            self._encode, self._embed = bags, lambda some: bags.embedded(module, some)
        else:
            cut_at(model, recipe.max_tokens)
            self._encode = Tokens(reader(model), terms)
            self._embed = lambda some: start.encode(terms.texts(some))
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
        """Our batches."""
        return self._rounds

    def probe(self) -> dict[str, Tensor]:
        """Features of the first terms."""
        return self._encode(np.arange(min(self._rounds.terms, _EMBEDDED_TO_CHECK)))

    def begin_epoch(self) -> None:
        """Set the sampler to the round of the present step, with new neighbours where they are due."""
        step = self.state.global_step
        self._rounds.round = step // self.round_steps
        number = self._lists_at(step)
        if self._found == number:
            return
        # a run that is resumed within a round goes on with the lists of its beginning
        if self._found is not None or not step or self._lists_at(step - 1) != number:
            self._renew(number)
        self._found = number
        self._rounds.neighbours = read_neighbours(self._work, number, self._rounds.terms)
        if self.is_world_process_zero():
            kept = newest(self._work)
            needed = {number, self._lists_at(step_of(kept)) if kept else number}
            for old in set(self._work.glob("neighbours-*")) - {neighbours(self._work, one) for one in needed}:
                remove(old)

    def _lists_at(self, step: int) -> int:
        return 0 if self._recipe.refresh == "never" else step // self.round_steps

    def _renew(self, number: int) -> None:
        self.check(self.state.global_step)
        begin, path = time.perf_counter(), self._work / _EMBEDDINGS
        shape = (self._rounds.terms, self._dimension)
        try:
            if self.is_world_process_zero():
                # or a full disk would end a process that writes to the map, without an error
                with writing(path, "the file of embeddings"), open(path, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 2 * shape[0] * shape[1])
            self.accelerator.wait_for_everyone()
            vectors = np.memmap(path, np.float16, "r+", shape=shape)
            parts = np.linspace(0, len(vectors), self.args.world_size + 1).astype(int).tolist()
            start, stop = parts[self.args.process_index : self.args.process_index + 2]
            for at in range(start, stop, _EMBEDDED_AT_ONCE):
                end = min(at + _EMBEDDED_AT_ONCE, stop)
                vectors[at:end] = self._embed(np.arange(at, end))
            vectors.flush()
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                lists = nearest_terms(vectors.view(np.ndarray), self._recipe.neighbours)
                write_neighbours(self._work, number, lists)
                taken = time.perf_counter() - begin
                self._log(f"round {number + 1}: neighbours of {shape[0]} terms found in {taken:.1f} s")
        finally:
            if self.is_world_process_zero():
                remove(path)
        self.accelerator.wait_for_everyone()
        self._logged_at = time.perf_counter()

    def progress(self, seconds: float) -> tuple[dict[str, Any], str]:
        """Share of informative pairs, and terms a second."""
        share, terms = self._pair_loss.take_counts()
        line = f"informative pairs {100 * share:.2f}% learning rate {{rate:.2e}} {terms / seconds:,.0f} terms/s"
        return {"informative": share}, line


def nearest_terms(vectors: NDArray[Any], count: int) -> NDArray[np.int32]:
    """The terms nearest to each of n terms, itself left out: ``(n, min(m, n - 1))``, nearest first, -1 for none.

    Zeng et al. 2022, section 4.2, "possibly hard negative sampling": the top m of an inner-product Faiss index over all
    terms. GPUs compare all pairs, in 16 bits. A CPU does so up to 50,000 terms and searches near cells above, as many
    as hold some .96 of the nearest or more (:func:`medlink.index.knn_graph.nearest`). ``vectors (n, d)`` are unit
    vectors, float32 or float16; they may be memory-mapped. ``count`` is m.
    """
    count = min(count, len(vectors) - 1)
    if not gpu_count():
        return nearest(vectors, count)[0].astype(np.int32)
    index = gpu_copy(lambda start, stop: vectors[start:stop], len(vectors), vectors.shape[1])
    found = np.empty((len(vectors), count), dtype=np.int32)
    for start in range(0, len(vectors), _AT_ONCE):
        rows = index.search(np.ascontiguousarray(vectors[start : start + _AT_ONCE], dtype=np.float32), count + 1)[1]
        # a stable sort moves the term itself to the end, or the last one if a twin took its place
        itself = rows == np.arange(start, start + len(rows))[:, None]
        order = np.argsort(itself, axis=1, kind="stable")
        found[start : start + _AT_ONCE] = np.take_along_axis(rows, order, axis=1)[:, :count]
    return found


class RoundSampler:
    """Batch sampler: lists of distinct terms, a pure function of seed, neighbours and number of the batch.

    A round is what is trained between two renewals of the neighbours. As every batch is composed here, in the main
    process, it does not depend on how many workers turn it into tensors. ``batches`` counts those of a round, over all
    processes.
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
        """Anchors of a batch: the terms in a new random order each epoch, one epoch after the other."""
        places = number * self._recipe.anchors + np.arange(self._recipe.anchors)
        epochs = places // self.terms
        orders = {epoch: order(self._recipe.seed, 0, epoch, self.terms) for epoch in np.unique(epochs).tolist()}
        return np.concatenate([order[places[epochs == epoch] % self.terms] for epoch, order in orders.items()])

    def compose(self, number: int) -> Ids:
        """Terms of a batch, ascending: its anchors, ``positives`` of each, and their nearest, each once."""
        rng = np.random.default_rng([self._recipe.seed, 1, number])
        anchors = self.anchors(number)
        positives = [self._terms.positives(int(anchor), self._recipe.positives, rng) for anchor in anchors]
        near = self.neighbours[anchors].reshape(-1)
        batch: Ids = np.unique(np.concatenate([anchors, *positives, near[near >= 0]]))
        return batch


class Collator:
    """Rows of a batch to tensors: what the model reads, from ``encode``, and as label which terms share a concept."""

    def __init__(self, terms: Terms, encode: Callable[[Ids], dict[str, Tensor]]) -> None:
        self._terms, self._encode = terms, encode
        # sentence-transformers asks a collator for this
        self.valid_label_columns = ["label"]

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """``term_*`` features of n terms, and ``label (n, n)``."""
        terms = np.array([row["term"] for row in rows], dtype=np.int64)
        features = {f"term_{key}": value for key, value in self._encode(terms).items()}
        return {**features, "label": torch.from_numpy(self._terms.same(terms))}
