"""Synonym retrieval: does a name find the other names of its concept (Fivez et al. 2021, section 5.1)?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from medlink.evaluation.task import Report, Row, Run, Sampled
from medlink.training.grounding.synonyms import SetOptions, Sets, read_sets, retrieve_synonyms, split


class SynonymsTask(Sampled, SetOptions):
    """How well a name finds the other names of its concept, of unseen names and of unseen concepts (Fivez et al. 2021).

    KB is a knowledge base or a bundle. Its concepts are split as section 5.1 of the paper does; the trainers of
    grounding leave the same names out where they are told to hold them out by the same options.
    """

    inputs: ClassVar = ("kb",)

    sample: Annotated[int | None, Field(ge=1, description="Only so many queries of each kind, drawn at random.")] = None
    trained: Annotated[bool, Field(description="Whether names to train on are queries too.")] = False

    def measure(self, run: Run) -> Report:
        train, test, zero_shot = split(read_sets(run.paths[0], self), self)
        # a training name is a query among the other ones; None: each name is
        asked = {"train": (train, None), "test": (train, test), "zero-shot": (zero_shot, None)}
        table, items = list[Row](), list[Row]()
        for kind, (sets, queries) in asked.items():
            if kind != "train" or self.trained:
                row, each = self._ranked(kind, sets, queries, run)
                table.append(row)
                items += each
        names, apart = (sum(map(len, sets.values())) for sets in (train, zero_shot))
        head = f"{names} names of {len(train)} concepts, {len(test)} kept of these, {apart} of {len(zero_shot)} others"
        return Report(head, table, items, run.problems)

    def _ranked(
        self, kind: str, sets: Sets, test: Sequence[tuple[str, str]] | None, run: Run
    ) -> tuple[Row, Sequence[Row]]:
        """The measures of one kind, and each query by its concept, without its text.

        A name without a synonym among the names is no query; the paper does not say what it does with such.
        """
        names = [(text, concept) for concept, texts in sets.items() for text in texts]
        rows: dict[str, list[int]] = defaultdict(list)
        for row, (_, concept) in enumerate(names):
            rows[concept].append(row)
        asked = names if test is None else test
        drawn = self.drawn([at for at, (_, concept) in enumerate(asked) if len(rows[concept]) > (test is None)])
        head: Row = {"kind": kind, "names": len(names), "queries": len(drawn)}
        if not drawn:
            return {**head, "mAP": None, "Acc": None, "MRR": None}, ()
        vectors = run.embed([text for text, _ in [*names, *(asked[at] for at in drawn)]])
        right = [np.array([row for row in rows[asked[at][1]] if test is not None or row != at]) for at in drawn]
        itself = np.array(drawn) if test is None else None
        precision, first = retrieve_synonyms(vectors[len(names) :], vectors[: len(names)], right, itself)
        means = map(float, (precision.mean(), (first == 1).mean(), (1 / first).mean()))
        each = zip((asked[at][1] for at in drawn), precision.tolist(), first.tolist(), strict=True)
        items = [{"kind": kind, "concept": concept, "precision": p, "first": rank} for concept, p, rank in each]
        return {**head, **dict(zip(("mAP", "Acc", "MRR"), means, strict=True))}, items
