"""Training of the static encoder from random weights, on names of one concept against names of others.

The loss is :func:`~medlink.training.common.losses.info_nce` in both directions, on pairs of names. Names that share a
concept are not negatives of each other, as in CODER++ (Zeng et al. 2022); nor are names whose exact forms
(:func:`medlink.language.text.normalise`) share a concept. A batch uses few rows of the table. Gradients and steps are
restricted to these rows, so that two cores suffice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import atomic_folder
from medlink.index.vectors.library import faiss as library
from medlink.language.lexicon.forms import LexiconForms, shipped_forms
from medlink.language.lexicon.name_analysis import with_own_words
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.models.encoders import check_folder
from medlink.models.static.encoder import Features, StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding, as_tensors
from medlink.records import Name
from medlink.training.common.card import write_card
from medlink.training.common.inputs import Bags
from medlink.training.common.losses import info_nce
from medlink.training.recipes import StaticRecipe

CARD = {
    "title": "Static encoder trained from names",
    "summary": "names of one concept against names of others, InfoNCE with in-batch negatives (van den Oord et al. "
    "2018)",
    "command": "medlink train static",
}


class RowAdam:
    """The steps of torch's ``SparseAdam`` on the rows of a table that have a gradient.

    Torch's dense kernel updates the gathered rows of the ``table`` ``(rows, d)``. On one core, this takes a third of
    the time of ``SparseAdam``, which searches a sparse gradient row by row.
    """

    def __init__(self, table: Tensor) -> None:
        self._full = [table.detach(), torch.zeros_like(table), torch.zeros_like(table)]  # weights and moments
        # allocated once: fresh memory for each batch would cost as much as filling it
        self._buffers = [torch.empty_like(table) for _ in self._full]
        self._index = torch.zeros(0, dtype=torch.int64)
        self._steps = torch.zeros(())

    def rows(self, index: Tensor) -> Tensor:
        """Return rows ``(n, d)`` with distinct numbers ``(n,)``, as a leaf tensor; :meth:`step` needs its gradient."""
        self._index = index
        return self._gather(0).requires_grad_()

    def step(self, gradient: Tensor, rate: float) -> None:
        """Update the rows of the last call of :meth:`rows` by their gradient."""
        weights, mean, square = parts = self._buffers[0][: len(gradient)], self._gather(1), self._gather(2)
        adam(
            [weights], [gradient], [mean], [square], [], [self._steps], fused=True, amsgrad=False, beta1=0.9,
            beta2=0.999, lr=rate, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip
        for full, part in zip(self._full, parts, strict=True):
            full.index_copy_(0, self._index, part)

    def _gather(self, number: int) -> Tensor:
        return torch.index_select(self._full[number], 0, self._index, out=self._buffers[number][: len(self._index)])


class _NameData:
    """Features of names, ordered by concept and language."""

    def __init__(
        self, names: Sequence[Name], config: StaticConfig, forms: LexiconForms | None, what: str, remedy: str
    ) -> None:
        from scipy.sparse import csr_matrix

        ordered = sorted({(n.concept_id, n.language, n.text) for n in names})
        ids = [concept for concept, _, _ in ordered]
        self.concept = np.unique(ids, return_inverse=True)[1]
        self.text = [text for _, _, text in ordered]
        self.language = np.unique([base(tag) for _, tag, _ in ordered], return_inverse=True)[1]
        self.bags = Bags.of(self.text, config, forms)
        self.starts = np.searchsorted(self.concept, np.arange(self.concept.max() + 2))
        # the name of a concept with one name has no positive: it only serves as a negative
        self.sizes = np.diff(self.starts)
        if int((self.sizes > 1).sum()) < 2:
            raise ConfigError(f"fewer than two {what} have two names", remedy=remedy)
        # a run is all names of one concept in one language
        is_first = (np.diff(self.concept, prepend=-1) != 0) | (np.diff(self.language, prepend=-1) != 0)
        self.run = np.cumsum(is_first) - 1
        self.run_starts = np.flatnonzero(is_first)
        self.run_sizes = np.diff(np.append(self.run_starts, len(ordered)))
        form = np.unique([normalise(text) for text in self.text], return_inverse=True)[1]
        concepts_of_form = csr_matrix((np.ones(len(form), np.int32), (form, self.concept)))
        # a row for each name: the concepts of all names of its form
        self.concepts = concepts_of_form[form]
        digest = hashlib.sha256("".join("\t".join(row) + "\n" for row in ordered).encode()).hexdigest()
        self.facts = {
            "names": len(ordered),
            "concepts": len(self.sizes),
            "SHA-256 of the names with their concepts and languages": f"`{digest}`",
        }

    def draw_positives(self, anchors: NDArray[np.int64], foreign: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw another name of its concept for each anchor, with probability ``foreign`` in another language, if any.

        A uniform draw chooses the language, so that large languages do not crowd out small languages.
        """
        concept = self.concept[anchors]
        positives = self.starts[concept] + rng.integers(0, self.sizes[concept] - 1)
        positives += positives >= anchors
        first_run = self.run[self.starts[concept]]
        other_runs = self.run[self.starts[concept + 1] - 1] - first_run
        chosen = np.flatnonzero((other_runs > 0) & (rng.random(len(anchors)) < foreign))
        run = first_run[chosen] + rng.integers(0, other_runs[chosen])
        run += run >= self.run[anchors[chosen]]
        positives[chosen] = self.run_starts[run] + rng.integers(0, self.run_sizes[run])
        return np.asarray(positives)

    def share_concept(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether two names, or names of their forms, share a concept: ``(n, m)``."""
        return np.asarray((self.concepts[rows] @ self.concepts[columns].T).toarray() > 0)


class StaticTrainer:
    """Train a :class:`StaticEncoder` from random weights; a run takes minutes and has no checkpoints.

    Args:
        names: names of at least two concepts with two different names each.
        coarse: names of similar meaning, such as all terms under one code, with the code as their concept. They attract
            each other less than synonyms do, and are not negatives of each other.
        forms: lexicon forms, for a shape with word families; by default those of the shipped lexicon.

    Raises:
        ConfigError: the names do not suffice.
    """

    def __init__(
        self,
        names: Sequence[Name],
        start: StaticConfig | None = None,
        recipe: StaticRecipe | None = None,
        coarse: Sequence[Name] = (),
        forms: LexiconForms | None = None,
    ) -> None:
        self.config = config = start or StaticConfig()
        self.recipe = recipe or StaticRecipe()
        if not names:
            raise ConfigError("no names to train on", remedy="give a knowledge base with names, or a wider filter")
        if config.families:
            forms = with_own_words(forms or shipped_forms(), sorted({name.text for name in (*names, *coarse)}))
        remedy = "train on a source that has synonyms or translations"
        self.data = _NameData(names, config, forms, "concepts", remedy)
        remedy = "give each name the code that it shares with others as its concept, or leave coarse out"
        self.coarse = _NameData(coarse, config, forms, "coarse concepts", remedy) if coarse else None
        generator = torch.Generator().manual_seed(self.recipe.seed)
        self.module = module = StaticEmbedding(config, forms=forms)
        with torch.no_grad():
            module.table.weight.normal_(generator=generator).mul_(0.1)
            module.up.weight.normal_(generator=generator).mul_(config.dimension**-0.5)
            for zero in (module.down.weight, module.up.bias, module.down.bias):
                zero.zero_()

    def _embed(self, features: Features, table: RowAdam, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Embeddings ``(n, d)``, and the table rows from which they were computed, as a leaf tensor."""
        # by flags: to sort the numbers takes seven times as long
        position = np.zeros(self.config.rows, dtype=np.int64)
        for bags in features:
            position[bags.values] = 1
        used = np.flatnonzero(position)
        position[used] = np.arange(len(used))
        vectors = table.rows(torch.from_numpy(used))
        inputs = as_tensors(Features(*(bags._replace(values=position[bags.values]) for bags in features)))
        dropout = self.recipe.feature_dropout
        weights = self.module.dropout_weights(inputs, dropout, lambda count: torch.from_numpy(rng.random(count)))
        return self.module.compose(vectors, inputs, weights), vectors

    def _anchors(self) -> NDArray[np.int64]:
        """Names of concepts with several names; names in small languages repeat."""
        data = self.data
        anchors = np.flatnonzero(data.sizes[data.concept] > 1)
        counts = np.bincount(data.language[anchors])
        repeats = np.sqrt(counts.max() / np.maximum(counts, 1)).round().clip(1, self.recipe.language_boost)
        return np.asarray(np.repeat(anchors, repeats.astype(np.int64)[data.language[anchors]]))

    def _coarse_batches(self, fine: int) -> int:
        return round(fine * self.recipe.coarse_share / (1 - self.recipe.coarse_share)) if self.coarse else 0

    def _epoch(
        self, epoch: int, rng: np.random.Generator
    ) -> Iterator[tuple[_NameData, NDArray[np.int64], NDArray[np.int64]]]:
        size = self.recipe.batch_size
        anchors = self._anchors()
        is_hard = epoch >= self.recipe.epochs - self.recipe.hard_epochs
        order = self._neighbour_order(anchors, rng) if is_hard else rng.permutation(anchors)
        positives = self.data.draw_positives(order, self.recipe.foreign, rng)
        batches = [(self.data, order[i : i + size], positives[i : i + size]) for i in range(0, len(order) - 1, size)]
        if self.coarse:
            candidates = np.flatnonzero(self.coarse.sizes[self.coarse.concept] > 1)
            for drawn in rng.choice(candidates, (self._coarse_batches(len(batches)), size)):
                batches.append((self.coarse, drawn, self.coarse.draw_positives(drawn, self.recipe.foreign, rng)))
        for i in rng.permutation(len(batches)):
            yield batches[i]

    def _neighbour_order(self, anchors: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Order anchors at random, each followed by its nearest names of other concepts in the current embeddings: the
        hard negatives of its batch (ANCE, Xiong et al. 2021).
        """
        faiss = library()
        vectors = self.data.bags.embed(self.module)[anchors]
        cells = max(1, int(len(anchors) ** 0.5))
        quantiser = faiss.IndexFlatIP(self.config.dimension)
        index = faiss.IndexIVFFlat(quantiser, self.config.dimension, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.niter, index.nprobe = self.recipe.seed, 4, 4
        index.cp.max_points_per_centroid = 64
        index.train(vectors)
        index.add(vectors)
        k = self.recipe.hard_neighbours
        near = np.concatenate([index.search(vectors[i : i + 8192], 4 * k)[1] for i in range(0, len(vectors), 8192)])
        concept = self.data.concept[anchors]
        placed = np.zeros(len(anchors), dtype=bool)
        order: list[int] = []
        for start in rng.permutation(len(anchors)):
            concepts: set[int] = set()
            for j in (start, *near[start]) if not placed[start] else ():
                if j >= 0 and not placed[j] and concept[j] not in concepts:
                    placed[j] = True
                    concepts.add(concept[j])
                    order.append(j)
                    if len(concepts) > k:
                        break
        return np.asarray(anchors[np.array(order)])

    def train(self, out: str | Path, *, progress: Callable[[str], None] | None = None) -> StaticEncoder:
        """Run the recipe and write the encoder with its card into the folder ``out``; report lines to ``progress``.

        The same names, recipe and number of threads give the same weights.

        Raises:
            ConfigError: the folder cannot be written, or holds something else.
            EncoderError: the loss is NaN or infinite.
        """
        out = Path(out)
        check_folder(out)
        figures = self._run(progress or (lambda _: None))
        encoder = self.module.encoder()
        coarse = {f"coarse {name}": fact for name, fact in self.coarse.facts.items()} if self.coarse else {}
        with atomic_folder(out, "the encoder") as draft:
            encoder.save(draft)
            data = {**self.data.facts, **coarse}
            write_card(draft, encoder, **CARD, data=data, recipe=self.recipe, figures=figures)
        return StaticEncoder.load(out)

    def _run(self, log: Callable[[str], None]) -> dict[str, object]:
        recipe = self.recipe
        rng = np.random.default_rng(recipe.seed)
        fine = len(range(0, len(self._anchors()) - 1, recipe.batch_size))
        total = (fine + self._coarse_batches(fine)) * recipe.epochs
        table = RowAdam(self.module.table.weight)
        layers = [weight for weight in self.module.parameters() if weight is not self.module.table.weight]
        optimiser = torch.optim.AdamW(layers, weight_decay=0.01)
        step, running = 0, 0.0
        for epoch in range(recipe.epochs):
            for data, anchors, positives in self._epoch(epoch, rng):
                progress = step / total
                rate = recipe.learning_rate * min(progress / recipe.warmup, (1 - progress) / (1 - recipe.warmup))
                vectors, leaf = self._embed(data.bags.take(np.concatenate([anchors, positives])), table, rng)
                n = len(anchors)
                same = torch.from_numpy(data.share_concept(anchors, positives))
                temperature = recipe.temperature if data is self.data else recipe.coarse_temperature
                loss = info_nce(vectors[:n], vectors[n:], same, temperature, both_ways=True)
                if not torch.isfinite(loss):
                    remedy = "lower the learning rate or raise the temperature"
                    raise EncoderError(f"the loss is {loss.item()} at step {step} of epoch {epoch + 1}", remedy=remedy)
                self.module.zero_grad()
                torch.autograd.backward(loss)
                optimiser.param_groups[0]["lr"] = rate = max(rate, 1e-6)
                optimiser.step()
                if leaf.grad is not None:
                    table.step(leaf.grad, rate)
                value = loss.item()
                running = 0.98 * running + 0.02 * value if step else value
                step += 1
                if step % 100 == 0 or step == total:
                    log(f"epoch {epoch + 1}/{recipe.epochs} step {step}/{total} loss {running:.4f}")
        return {"steps": step, "loss over the last of them": f"{running:.4f}"}
