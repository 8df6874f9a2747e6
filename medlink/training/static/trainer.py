"""Training the static encoder on names of one concept against names of others.

The loss is InfoNCE with in-batch negatives (van den Oord et al. 2018, equation 4; in both directions, as BioLORD 2022,
section 3.2 uses it on names and definitions): of a batch of pairs ``(a_i, b_i)`` of names, each ``a_i`` must find its
``b_i`` among all ``b_j``. Names of the same concept are no negatives of each other.

Every batch touches a few thousand rows of the table. Gradients and steps are therefore of those rows alone (torch's
``SparseAdam``), which is what makes two cores enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import whole_folder
from medlink.models.encoders import check_folder
from medlink.models.static.encoder import StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding, as_tensors
from medlink.records import Name
from medlink.training.common.card import write_card
from medlink.training.common.losses import info_nce
from medlink.training.static.bags import Bags
from medlink.training.static.recipes import StaticRecipe


class _Data:
    """Names as features, grouped by concept."""

    def __init__(self, names: Sequence[Name], config: StaticConfig) -> None:
        ordered = sorted({(n.concept_id, n.language, n.text) for n in names})
        ids = [concept for concept, _, _ in ordered]
        self.concept = np.unique(ids, return_inverse=True)[1]
        self.text = [text for _, _, text in ordered]
        self.language = np.unique([language for _, language, _ in ordered], return_inverse=True)[1]
        self.bags = Bags(self.text, config)
        self.starts = np.searchsorted(self.concept, np.arange(self.concept.max() + 2))
        # A concept with one name has no positive of its own: its name only serves as a negative.
        self.sizes = np.diff(self.starts)
        digest = hashlib.sha256("".join("\t".join(row) + "\n" for row in ordered).encode()).hexdigest()
        self.facts = {
            "names": len(ordered),
            "concepts": len(self.sizes),
            "SHA-256 of the names with their concepts and languages": f"`{digest}`",
        }


class StaticTrainer:
    """Train a :class:`StaticEncoder` from nothing; a run takes minutes and keeps no checkpoints.

    Args:
        names: names with their concepts; at least two concepts with two different names each.
        start: shape of the encoder.
        recipe: how to train.

    Raises:
        ConfigError: the names do not suffice.
    """

    def __init__(
        self, names: Sequence[Name], start: StaticConfig | None = None, recipe: StaticRecipe | None = None
    ) -> None:
        self.config = config = start or StaticConfig()
        self.recipe = recipe or StaticRecipe()
        if not names:
            raise ConfigError("no names to train on")
        self.data = _Data(names, config)
        if int((self.data.sizes > 1).sum()) < 2:
            remedy = "train on a source that has synonyms or translations"
            raise ConfigError("fewer than two concepts have two names", remedy=remedy)
        generator = torch.Generator().manual_seed(self.recipe.seed)
        self.module = module = StaticEmbedding(config)
        with torch.no_grad():
            module.table.weight.copy_(torch.randn(config.rows, config.dimension, generator=generator) * 0.1)
            up = torch.randn(config.hidden, config.dimension, generator=generator)
            module.up.weight.copy_(up * config.dimension**-0.5)
            for zero in (module.down.weight, module.up.bias, module.down.bias):
                zero.zero_()

    def _embed(self, names: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings ``(n, d)``, the table rows that they were made of, as a leaf, and the numbers of these rows."""
        found = self.data.bags.take(names)
        used, local = np.unique(np.concatenate([found.rows, found.marker_rows]), return_inverse=True)
        index = torch.from_numpy(used.astype(np.int64))
        vectors = self.module.table.weight.detach()[index].requires_grad_()
        rows, marker_rows = np.split(local.astype(np.int64), [len(found.rows)])
        dropout = self.recipe.feature_dropout
        # a name has but one or two markers: they drop out half as often
        weights = [self._kept(len(part), share, rng) for part, share in ((rows, dropout), (marker_rows, dropout / 2))]
        read = as_tensors(found._replace(rows=rows, marker_rows=marker_rows))
        return self.module.compose(vectors, read, *weights), vectors, index

    def _kept(self, count: int, dropout: float, rng: np.random.Generator) -> Tensor:
        """Weight of each of so many rows; the probes of an n-gram drop out together, as a name is known by any part."""
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

    def _epoch(self, epoch: int, rng: np.random.Generator) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Batches of pairs of names: each name of a concept with several is an anchor once per epoch."""
        data, size = self.data, self.recipe.batch_size
        anchors = self._anchors()
        if epoch >= self.recipe.epochs - self.recipe.hard_epochs:
            order = self._neighbour_order(anchors, rng)
        else:
            order = rng.permutation(anchors)
        first, count = data.starts[data.concept[order]], data.sizes[data.concept[order]]
        partner = first + rng.integers(0, count - 1)
        partner += partner >= order  # any other name of the concept
        # Half of the anchors that have a name in another language meet that one.
        other = first + rng.integers(0, count)
        swap = (data.language[other] != data.language[order]) & (rng.random(len(order)) < 0.5)
        partner = np.where(swap, other, partner)
        batches = [(order[i : i + size], partner[i : i + size]) for i in range(0, len(order) - 1, size)]
        for i in rng.permutation(len(batches)):
            yield batches[i]

    def _neighbour_order(self, anchors: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Anchors in runs of near neighbours, so that a batch holds hard negatives (ANCE, Xiong et al. 2021).

        Anchors are taken at random; each takes its nearest names of other concepts, found by Faiss in the embeddings
        of the moment, along with it.
        """
        import faiss

        vectors = self.module.encoder().encode([self.data.text[i] for i in anchors])
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
        with whole_folder(out, "the encoder") as draft:
            encoder.save(draft)
            write_card(
                draft,
                encoder,
                title="Static encoder trained from names",
                summary="names of one concept against names of others, InfoNCE with in-batch negatives (van den Oord "
                "et al. 2018)",
                command="medlink train static",
                data=self.data.facts,
                recipe=self.recipe,
                figures=figures,
            )
        return StaticEncoder.load(out)

    def _run(self, log: Callable[[str], None]) -> dict[str, object]:
        """All epochs; returns what goes into the card."""
        recipe = self.recipe
        rng = np.random.default_rng(recipe.seed)
        per_epoch = -(-len(self._anchors()) // recipe.batch_size)
        total = max(1, per_epoch * recipe.epochs)
        table = self.module.table.weight
        layers = [weight for weight in self.module.parameters() if weight is not table]
        optimisers = [torch.optim.AdamW(layers, weight_decay=0.01), torch.optim.SparseAdam([table])]
        step, running = 0, 0.0
        for epoch in range(recipe.epochs):
            for anchors, partners in self._epoch(epoch, rng):
                progress = step / total
                rate = recipe.learning_rate * min(progress / recipe.warmup, (1 - progress) / (1 - recipe.warmup))
                vectors, leaf, index = self._embed(np.concatenate([anchors, partners]), rng)
                n = len(anchors)
                concepts = torch.from_numpy(self.data.concept[anchors])
                same = concepts[:, None] == concepts[None, :]
                loss = info_nce(vectors[:n], vectors[n:], same, recipe.temperature, both_ways=True)
                if not torch.isfinite(loss):
                    remedy = "lower the learning rate or raise the temperature"
                    raise EncoderError(f"the loss is {loss.item()} at step {step} of epoch {epoch + 1}", remedy=remedy)
                self.module.zero_grad()
                torch.autograd.backward(loss)
                if leaf.grad is not None:
                    table.grad = torch.sparse_coo_tensor(
                        index[None], leaf.grad, table.shape, is_coalesced=True, check_invariants=False
                    )
                for optimiser in optimisers:
                    optimiser.param_groups[0]["lr"] = max(rate, 1e-6)
                    optimiser.step()
                value = loss.item()
                running = 0.98 * running + 0.02 * value if step else value
                step += 1
                if step % 100 == 0 or step == total:
                    log(f"epoch {epoch + 1}/{recipe.epochs} step {step}/{total} loss {running:.4f}")
        return {"steps": step, "loss over the last of them": f"{running:.4f}"}
