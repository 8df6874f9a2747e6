"""Synonym retrieval: does a name find the other names of its concept (Fivez et al. 2021, section 5.1)?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from medlink.evaluation.names import invert
from medlink.evaluation.task import Report, Row, Run, Sampled
from medlink.settings import option
from medlink.training.grounding.synonyms import SetOptions, SynonymSets, read_sets, retrieve_synonyms, split


class SynonymsTask(Sampled, SetOptions):
    """How well names find the other names of their concept, for unseen names and unseen concepts (Fivez et al. 2021).

    KB is a knowledge base or a bundle, whose concepts are split as in section 5.1 of the paper. With --hold-out and the
    same options, 'medlink train grounding' leaves the same names out.
    """

    inputs: ClassVar = ("kb",)

    sample: int | None = option(None, "Number of queries of each kind, drawn at random.", ge=1)
    trained: bool = option(False, "Whether names to train on are queries too.")

    def measure(self, run: Run) -> Report:
        train, test, zero_shot = split(read_sets(run.paths[0], self), self)
        # names, and queries among them; None: each name is a query among the others
        parts = {"test": (train, test), "zero-shot": (zero_shot, None)}
        if self.trained:
            parts = {"train": (train, None), **parts}
        measured = [self._ranked(kind, *part, run) for kind, part in parts.items()]
        table, items = [row for row, _ in measured], [item for _, each in measured for item in each]
        names, apart = (sum(map(len, sets.values())) for sets in (train, zero_shot))
        head = f"{names} names of {len(train)} concepts, {len(test)} kept of these, {apart} of {len(zero_shot)} others"
        return Report(head, table, items, run.problems)

    def _ranked(
        self, kind: str, sets: SynonymSets, test: Sequence[tuple[str, str]] | None, run: Run
    ) -> tuple[Row, Sequence[Row]]:
        """Measure one kind; a name without a synonym is not a query, as the paper does not mention such names."""
        names = [(text, concept) for concept, texts in sets.items() for text in texts]
        rows = invert([concept] for _, concept in names)
        queries = names if test is None else test
        drawn = self.draw_sample([at for at, (_, concept) in enumerate(queries) if len(rows[concept]) > (test is None)])
        head: Row = {"kind": kind, "names": len(names), "queries": len(drawn)}
        if not drawn:
            return {**head, "mAP": None, "Acc": None, "MRR": None}, ()
        vectors = run.embed([text for text, _ in [*names, *(queries[at] for at in drawn)]])
        right = [np.array([row for row in rows[queries[at][1]] if test is not None or row != at]) for at in drawn]
        itself = np.array(drawn) if test is None else None
        precision, first = retrieve_synonyms(vectors[len(names) :], vectors[: len(names)], right, itself)
        means = map(float, (precision.mean(), (first == 1).mean(), (1 / first).mean()))
        each = zip((queries[at][1] for at in drawn), precision.tolist(), first.tolist(), strict=True)
        items = [{"kind": kind, "concept": concept, "precision": p, "first": rank} for concept, p, rank in each]
        return {**head, **dict(zip(("mAP", "Acc", "MRR"), means, strict=True))}, items
