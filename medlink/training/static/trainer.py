"""Training the static encoder on names of one concept against names of others.

The loss is InfoNCE with in-batch negatives (van den Oord et al. 2018, equation 4; in both directions, as BioLORD 2022,
section 3.2 uses it on names and definitions): of a batch of pairs ``(a_i, b_i)`` of names, each ``a_i`` must find its
``b_i`` among all ``b_j``. Names that share a concept are no negatives of each other, nor are names spelt like one that
does (:func:`medlink.language.text.normalise`), as CODER++ has it (Zeng et al. 2022).

Every batch touches some of the rows of the table. Gradients and steps are therefore of those rows alone, which is what
makes two cores enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import whole_folder
from medlink.language.lexicon.forms import Forms, shipped_forms
from medlink.language.lexicon.reading import with_own_words
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.models.encoders import check_folder
from medlink.models.static.encoder import Features, StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding, as_tensors
from medlink.records import Name
from medlink.training.common.card import write_card
from medlink.training.common.losses import info_nce
from medlink.training.recipes import StaticRecipe
from medlink.training.static.bags import Bags


class RowAdam:
    """The steps of torch's ``SparseAdam``: moments move only in rows that have a gradient.

    The rows are copied together, which is done by torch's dense kernel then, and copied back. On one core that takes
    a third of the time of ``SparseAdam``, for whom a sparse gradient is searched row by row.

    Args:
        table: ``(rows, d)`` weights, stepped in place.
    """

    def __init__(self, table: Tensor) -> None:
        self._whole = [table.detach(), torch.zeros_like(table), torch.zeros_like(table)]
        # taken once: fresh memory for each batch would cost as much as what is written there
        self._parts = [torch.empty_like(table) for _ in self._whole]
        self._index = torch.zeros(0, dtype=torch.int64)
        self._steps = torch.zeros(())

    def rows(self, index: Tensor) -> Tensor:
        """The rows of distinct numbers ``(n,)``, ``(n, d)``: a leaf whose gradient :meth:`step` uses up."""
        self._index = index
        return self._taken(0).requires_grad_()

    def step(self, gradient: Tensor, rate: float) -> None:
        """Move the rows that :meth:`rows` gave last by their gradient."""
        weights, mean, square = parts = self._parts[0][: len(gradient)], self._taken(1), self._taken(2)
        adam(
            [weights], [gradient], [mean], [square], [], [self._steps], fused=True, amsgrad=False, beta1=0.9,
            beta2=0.999, lr=rate, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip
        for whole, part in zip(self._whole, parts, strict=True):
            whole.index_copy_(0, self._index, part)

    def _taken(self, part: int) -> Tensor:
        return torch.index_select(self._whole[part], 0, self._index, out=self._parts[part][: len(self._index)])


class _Data:
    """Names as features, in the order of their concepts, those of one concept in the order of their languages."""

    def __init__(self, names: Sequence[Name], config: StaticConfig, families: Forms | None) -> None:
        from scipy.sparse import csr_matrix

        ordered = sorted({(n.concept_id, n.language, n.text) for n in names})
        ids = [concept for concept, _, _ in ordered]
        self.concept = np.unique(ids, return_inverse=True)[1]
        self.text = [text for _, _, text in ordered]
        # regions are no languages of their own
        self.language = np.unique([base(tag) for _, tag, _ in ordered], return_inverse=True)[1]
        self.bags = Bags(self.text, config, families)
        self.starts = np.searchsorted(self.concept, np.arange(self.concept.max() + 2))
        # A concept with one name has no positive of its own: its name only serves as a negative.
        self.sizes = np.diff(self.starts)
        # a run is all names of one concept in one language
        begins = (np.diff(self.concept, prepend=-1) != 0) | (np.diff(self.language, prepend=-1) != 0)
        self.run = np.cumsum(begins) - 1
        self.run_starts = np.flatnonzero(begins)
        self.run_sizes = np.diff(np.append(self.run_starts, len(ordered)))
        forms = np.unique([normalise(text) for text in self.text], return_inverse=True)[1]
        belongs = csr_matrix((np.ones(len(forms), np.int32), (forms, self.concept)))
        # a row for each name: the concepts of all names that are spelt alike
        self.concepts = belongs[forms]
        digest = hashlib.sha256("".join("\t".join(row) + "\n" for row in ordered).encode()).hexdigest()
        self.facts = {
            "names": len(ordered),
            "concepts": len(self.sizes),
            "SHA-256 of the names with their concepts and languages": f"`{digest}`",
        }

    def checked(self, what: str, remedy: str) -> Self:
        if int((self.sizes > 1).sum()) < 2:
            raise ConfigError(f"fewer than two {what} have two names", remedy=remedy)
        return self

    def partners(self, anchors: NDArray[np.int64], foreign: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """For each anchor another name of its concept: by a chance, one in another language; else any.

        An anchor whose concept has names in other languages draws one of the languages first, each as likely as the
        others, then a name in it: the many names in one language do not crowd out the few in another.
        """
        concept = self.concept[anchors]
        found = self.starts[concept] + rng.integers(0, self.sizes[concept] - 1)
        found += found >= anchors
        first = self.run[self.starts[concept]]
        others = self.run[self.starts[concept + 1] - 1] - first
        chosen = np.flatnonzero((others > 0) & (rng.random(len(anchors)) < foreign))
        run = first[chosen] + rng.integers(0, others[chosen])
        run += run >= self.run[anchors[chosen]]
        found[chosen] = self.run_starts[run] + rng.integers(0, self.run_sizes[run])
        return np.asarray(found)

    def same(self, ones: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether two names share a concept: ``(n, m)``. Names that are spelt alike have all concepts of each other."""
        return np.asarray((self.concepts[ones] @ self.concepts[others].T).toarray() > 0)


class StaticTrainer:
    """Train a :class:`StaticEncoder` from nothing; a run takes minutes and keeps no checkpoints.

    Args:
        names: names with their concepts; at least two concepts with two different names each.
        start: shape of the encoder.
        recipe: how to train.
        coarse: names of near meaning instead of one, such as all terms under one code, with the code as their concept.
            They are drawn near each other, more weakly than synonyms. They are no negatives of each other: many of them
            are synonyms, and what tells the rest apart is learned from ``names``.
        forms: of the lexicon, where the shape has word families; those of the lexicon that ships when left out.

    Raises:
        ConfigError: the names do not suffice.
    """

    def __init__(
        self,
        names: Sequence[Name],
        start: StaticConfig | None = None,
        recipe: StaticRecipe | None = None,
        coarse: Sequence[Name] = (),
        forms: Forms | None = None,
    ) -> None:
        self.config = config = start or StaticConfig()
        self.recipe = recipe or StaticRecipe()
        if not names:
            raise ConfigError("no names to train on", remedy="give a knowledge base with names, or a wider filter")
        if config.families:
            forms = with_own_words(forms or shipped_forms(), sorted({name.text for name in (*names, *coarse)}))
        remedy = "train on a source that has synonyms or translations"
        self.data = _Data(names, config, forms).checked("concepts", remedy)
        remedy = "give each name the code that it shares with others as its concept, or leave coarse out"
        self.coarse = _Data(coarse, config, forms).checked("coarse concepts", remedy) if coarse else None
        generator = torch.Generator().manual_seed(self.recipe.seed)
        self.module = module = StaticEmbedding(config, forms=forms)
        with torch.no_grad():
            module.table.weight.normal_(generator=generator).mul_(0.1)
            module.up.weight.normal_(generator=generator).mul_(config.dimension**-0.5)
            for zero in (module.down.weight, module.up.bias, module.down.bias):
                zero.zero_()

    def _embed(self, found: Features, table: RowAdam, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Embeddings ``(n, d)``, and the table rows that they were made of, as a leaf."""
        # by flags: a sort of the numbers takes seven times as long
        place = np.zeros(self.config.rows, dtype=np.int64)
        place[found.rows] = place[found.marker_rows] = place[found.family_rows] = 1
        used = np.flatnonzero(place)
        place[used] = np.arange(len(used))
        vectors = table.rows(torch.from_numpy(used))
        rows, marker_rows, family_rows = place[found.rows], place[found.marker_rows], place[found.family_rows]
        dropout = self.recipe.feature_dropout
        # a name has but one or two markers: they drop out half as often
        shares = ((rows, dropout), (marker_rows, dropout / 2), (family_rows, dropout))
        weights = [self._kept(len(part), share, rng) for part, share in shares]
        read = as_tensors(found._replace(rows=rows, marker_rows=marker_rows, family_rows=family_rows))
        return self.module.compose(vectors, read, *weights), vectors

    def _kept(self, count: int, dropout: float, rng: np.random.Generator) -> Tensor:
        if not dropout:
            return torch.ones(count)
        kept = rng.random(count // self.config.probes) >= dropout
        return torch.from_numpy(np.repeat(kept, self.config.probes) / np.float32(1 - dropout))

    def _anchors(self) -> NDArray[np.int64]:
        """Names of concepts with several, those of small languages more than once."""
        data = self.data
        anchors = np.flatnonzero(data.sizes[data.concept] > 1)
        counts = np.bincount(data.language[anchors])
        times = np.sqrt(counts.max() / np.maximum(counts, 1)).round().clip(1, self.recipe.language_boost)
        return np.asarray(np.repeat(anchors, times.astype(np.int64)[data.language[anchors]]))

    def _coarse_batches(self, fine: int) -> int:
        return round(fine * self.recipe.coarse_share / (1 - self.recipe.coarse_share)) if self.coarse else 0

    def _epoch(
        self, epoch: int, rng: np.random.Generator
    ) -> Iterator[tuple[_Data, NDArray[np.int64], NDArray[np.int64]]]:
        """Batches of pairs of names: each name of a concept with several is an anchor once per epoch, unless coarse."""
        size = self.recipe.batch_size
        anchors = self._anchors()
        if epoch >= self.recipe.epochs - self.recipe.hard_epochs:
            order = self._neighbour_order(anchors, rng)
        else:
            order = rng.permutation(anchors)
        partner = self.data.partners(order, self.recipe.foreign, rng)
        batches = [(self.data, order[i : i + size], partner[i : i + size]) for i in range(0, len(order) - 1, size)]
        if self.coarse:
            siblings = np.flatnonzero(self.coarse.sizes[self.coarse.concept] > 1)
            for drawn in rng.choice(siblings, (self._coarse_batches(len(batches)), size)):
                batches.append((self.coarse, drawn, self.coarse.partners(drawn, self.recipe.foreign, rng)))
        for i in rng.permutation(len(batches)):
            yield batches[i]

    def _neighbour_order(self, anchors: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Anchors in runs of near neighbours, so that a batch holds hard negatives (ANCE, Xiong et al. 2021).

        Anchors are taken at random; each takes its nearest names of other concepts, found by Faiss in the embeddings
        of the moment, along with it.
        """
        import faiss

        vectors = self.data.bags.embedded(self.module)[anchors]
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
        taken = np.zeros(len(anchors), dtype=bool)
        order: list[int] = []
        for start in rng.permutation(len(anchors)):
            seen: set[int] = set()
            for j in (start, *near[start]) if not taken[start] else ():
                if j >= 0 and not taken[j] and concept[j] not in seen:
                    taken[j] = True
                    seen.add(concept[j])
                    order.append(j)
                    if len(seen) > k:
                        break
        return np.asarray(anchors[np.array(order)])

    def train(self, out: str | Path, *, progress: Callable[[str], None] | None = None) -> StaticEncoder:
        """Run the recipe and write the encoder with its card into the folder ``out``.

        Same names, recipe and number of threads give the same weights. ``progress`` is called with a line now and then.

        Raises:
            ConfigError: the folder cannot be written, or holds something else.
            EncoderError: the loss is NaN or infinite.
        """
        out = Path(out)
        check_folder(out)
        figures = self._run(progress or (lambda _: None))
        encoder = self.module.encoder()
        coarse = self.coarse.facts if self.coarse else {}
        with whole_folder(out, "the encoder") as draft:
            encoder.save(draft)
            write_card(
                draft,
                encoder,
                title="Static encoder trained from names",
                summary="names of one concept against names of others, InfoNCE with in-batch negatives (van den Oord "
                "et al. 2018)",
                command="medlink train static",
                data={**self.data.facts, **{f"coarse {name}": fact for name, fact in coarse.items()}},
                recipe=self.recipe,
                figures=figures,
            )
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
            for data, anchors, partners in self._epoch(epoch, rng):
                progress = step / total
                rate = recipe.learning_rate * min(progress / recipe.warmup, (1 - progress) / (1 - recipe.warmup))
                vectors, leaf = self._embed(data.bags.take(np.concatenate([anchors, partners])), table, rng)
                n = len(anchors)
                same = torch.from_numpy(data.same(anchors, partners))
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
