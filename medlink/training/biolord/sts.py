"""The STS phase of BioLORD: fine-tuning on rated sentence pairs, several tables at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, CosineSimilarityLoss

from medlink.errors import ConfigError
from medlink.models.transformer import compute_fingerprint
from medlink.training.common.run import Run
from medlink.training.common.trainable import Trainable, load_transformer
from medlink.training.data.batches import Batch, TextList
from medlink.training.data.rated_pairs import RatedPair
from medlink.training.recipes import StsRecipe

CARD = {
    "title": "Encoder trained by BioLORD: STS adaptation",
    "summary": "rated sentence pairs (Remy et al. 2024, section Contrastive phase; 2022, appendix A.4)",
    "command": "medlink train biolord sts",
}


class StsBatches:
    """Batches of rated pairs, each of one table: two columns, and ratings from 0 to 1 as labels.

    BioLORD 2023, section "Contrastive phase", trains on all of its tables "in a multi-task setup" without details. Here
    an epoch has each row of each table once, and the batches of all tables in random order. Ratings are scaled by the
    minimum and maximum of their table. Raises ConfigError if there is no table, or all ratings of a table are equal.
    """

    def __init__(self, tables: Mapping[str, Sequence[RatedPair]], size: int, seed: int) -> None:
        if not tables:
            raise ConfigError("no table of rated sentences to train on", remedy="name one or more")
        digest = hashlib.sha256(json.dumps([size, seed]).encode())
        self._size, self._seed = size, seed
        self._ratings = []
        for name, rows in tables.items():
            ratings = np.array([row.rating for row in rows], dtype=np.float64)
            if len(rows) < 2 or ratings.min() == ratings.max():
                remedy = "train on tables of pairs with different ratings"
                raise ConfigError(f"the ratings of {name} do not differ", remedy=remedy)
            self._ratings.append(((ratings - ratings.min()) / (ratings.max() - ratings.min())).astype(np.float32))
            digest.update(json.dumps([[row.text_1, row.text_2, row.rating] for row in rows]).encode())
        self.digest = digest.hexdigest()
        # two texts for each row, of one table after the other
        texts = [text for rows in tables.values() for row in rows for text in (row.text_1, row.text_2)]
        self.texts = TextList(texts, self.digest)
        self._first_rows = np.cumsum([0, *map(len, self._ratings)])

    def batches_per_epoch(self) -> int:
        """Return the number of batches; the last of each table may be smaller."""
        return sum(-(-len(ratings) // self._size) for ratings in self._ratings)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number ``start`` on."""
        rng = np.random.default_rng([self._seed, epoch])
        orders = [rng.permutation(len(ratings)) for ratings in self._ratings]
        batches = [(table, i) for table, order in enumerate(orders) for i in range(0, len(order), self._size)]
        for number in rng.permutation(len(batches))[start:]:
            table, first = batches[number]
            rows = orders[table][first : first + self._size]
            texts = 2 * (self._first_rows[table] + rows)
            yield Batch((texts, texts + 1), self._ratings[table][rows])


def train_sts(run: Run, tables: Mapping[str, Sequence[RatedPair]], start: str | Path, recipe: StsRecipe) -> None:
    """Fine-tune on rated sentence pairs, before the contrastive phase and, as in the 2023 paper, after it."""
    batches = StsBatches(tables, recipe.batch_size, recipe.seed)
    data = {name: f"{len(rows):,} rated pairs" for name, rows in tables.items()}
    model = load_transformer(start)
    loss = CoSENTLoss(model) if recipe.loss == "cosent" else CosineSimilarityLoss(model)
    run.train(Trainable(model, compute_fingerprint(model), model), batches, loss, recipe, data, **CARD)
