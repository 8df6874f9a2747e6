"""The STS phase of BioLORD: fine-tuning on rated sentence pairs, several tables at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, CosineSimilarityLoss

from medlink.errors import ConfigError
from medlink.models.transformer import fingerprint_of
from medlink.training.common.run import Run
from medlink.training.common.trainable import Trainable, transformer
from medlink.training.data.batches import Batch
from medlink.training.data.rated import RatedPair
from medlink.training.recipes import StsRecipe

CARD = {
    "title": "Encoder trained by BioLORD: STS adaptation",
    "summary": "rated sentence pairs (Remy et al. 2024, section Contrastive phase; 2022, appendix A.4)",
    "command": "medlink train biolord sts",
}


class StsBatches:
    """Batches of rated pairs, each of one table: two columns of texts, and ratings from 0 to 1 as labels.

    BioLORD 2023, section "Contrastive phase", trains on all of its tables in a multi-task setup and says no more of it.
    Here each row of each table comes once in an epoch, the batches of all tables in one random order; ratings are
    scaled by the least and the greatest of their table.

    Raises:
        ConfigError: there is no table, or the ratings of one are all equal.
    """

    def __init__(self, tables: Mapping[str, Sequence[RatedPair]], size: int, seed: int) -> None:
        if not tables:
            raise ConfigError("no table of rated sentences to train on", remedy="name one or more")
        digest = hashlib.sha256(json.dumps([size, seed]).encode())
        self._size, self._seed, self._tables = size, seed, list(tables.values())
        self._ratings = []
        for name, rows in tables.items():
            ratings = np.array([row.rating for row in rows], dtype=np.float64)
            if len(rows) < 2 or ratings.min() == ratings.max():
                remedy = "train on tables of pairs with different ratings"
                raise ConfigError(f"the ratings of {name} do not differ", remedy=remedy)
            self._ratings.append(((ratings - ratings.min()) / (ratings.max() - ratings.min())).astype(np.float32))
            digest.update(json.dumps([[row.one, row.other, row.rating] for row in rows]).encode())
        self.digest = digest.hexdigest()

    def batches_per_epoch(self) -> int:
        """How many there are; the last of each table may be a small one."""
        return sum(-(-len(ratings) // self._size) for ratings in self._ratings)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one on."""
        rng = np.random.default_rng([self._seed, epoch])
        orders = [rng.permutation(len(ratings)) for ratings in self._ratings]
        places = [(table, i) for table, order in enumerate(orders) for i in range(0, len(order), self._size)]
        for number in rng.permutation(len(places))[start:]:
            table, first = places[number]
            rows = orders[table][first : first + self._size]
            pairs = [self._tables[table][row] for row in rows]
            yield Batch(([pair.one for pair in pairs], [pair.other for pair in pairs]), self._ratings[table][rows])


def train_sts(run: Run, tables: Mapping[str, Sequence[RatedPair]], start: str | Path, recipe: StsRecipe) -> None:
    """Fine-tune on rated sentence pairs, before the contrastive phase and, as in 2023, after it."""
    batches = StsBatches(tables, recipe.batch_size, recipe.seed)
    data = {name: f"{len(rows):,} rated pairs" for name, rows in tables.items()}
    model = transformer(start)
    loss = CoSENTLoss(model) if recipe.loss == "cosent" else CosineSimilarityLoss(model)
    run.train(Trainable(model, fingerprint_of(model), model), batches, loss, recipe, data, **CARD)
