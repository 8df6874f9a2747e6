"""Synonym retrieval: does a name find the other names of its concept (Fivez et al. 2021, section 5.1)?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.evaluation.task import Report, Row, Run, Sampled
from medlink.language.tags import language_filter
from medlink.training.grounding.synonyms import Sets, Split, SplitOptions, read_sets, retrieve_synonyms, split

_KINDS = ("train", "test", "zero-shot")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Names that are ranked, and queries among them: ``itself`` is -1 for a query that is none of the names.

    ``synonyms`` holds the rows of the names of each query's concept, the query left out.
    """

    kind: str
    names: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    synonyms: tuple[NDArray[np.int64], ...]
    itself: tuple[int, ...]


def rankings(found: Split) -> Iterator[Ranking]:
    """The three tables of section 5.1: names trained on, names kept of their concepts, and concepts kept from training.

    A test name is ranked among all training names. A training name is a query among the others, and a zero-shot name
    among those of zero-shot concepts alone. A name without a synonym there is no query; the paper does not say what it
    does with such.

    >>> found = Split({"A": ("a", "b"), "B": ("c",)}, (("d", "B"),), {"C": ("e", "f"), "D": ("g",)})
    >>> [(one.kind, len(one.names), [text for text, _ in one.queries]) for one in rankings(found)]
    [('train', 3, ['a', 'b']), ('test', 3, ['d']), ('zero-shot', 3, ['e', 'f'])]
    """
    for kind, sets in zip(_KINDS, (found.train, found.train, found.zero_shot), strict=True):
        names = [(text, concept) for concept, texts in sets.items() for text in texts]
        rows = dict(zip(sets, _rows(sets), strict=True))
        asked = found.test if kind == "test" else names
        itself = [-1] * len(asked) if kind == "test" else range(len(names))
        others = [rows[concept][rows[concept] != row] for (_, concept), row in zip(asked, itself, strict=True)]
        kept = [at for at, right in enumerate(others) if len(right)]
        yield Ranking(
            kind,
            tuple(text for text, _ in names),
            tuple(asked[at] for at in kept),
            tuple(others[at] for at in kept),
            tuple(itself[at] for at in kept),
        )


def _rows(sets: Sets) -> list[NDArray[np.int64]]:
    """Rows of the names of each concept, where names lie one concept after the other."""
    sizes = [len(texts) for texts in sets.values()]
    return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


class SynonymsTask(Sampled, SplitOptions):
    """How well a name finds the other names of its concept, of unseen names and of unseen concepts (Fivez et al. 2021).

    KB is a knowledge base or a bundle. Its concepts are split as section 5.1 of the paper does; 'medlink train
    grounding' and 'map' leave the same names out with --hold-out and the same options.
    """

    inputs: ClassVar = ("kb",)

    sample: Annotated[int | None, Field(ge=1, description="Only so many queries of each kind, drawn at random.")] = None
    languages: Annotated[str | None, Field(description="Names of these languages only, such as en or en,de.")] = None
    fuse: Annotated[
        str | None, Field(description="Names under one code of this system are one set, such as ICD-10.")
    ] = None
    trained: Annotated[bool, Field(description="Whether names to train on are queries too.")] = False

    def measure(self, run: Run) -> Report:
        """Rank names for queries of each kind."""
        languages = language_filter(self.languages)
        found = split(read_sets(run.paths[0], languages, self.fuse), self)
        table, items = list[Row](), list[Row]()
        for one in rankings(found):
            if one.kind != "train" or self.trained:
                row, each = self._ranked(one, run)
                table.append(row)
                items += each
        trained, apart = (sum(map(len, sets.values())) for sets in (found.train, found.zero_shot))
        head = (
            f"{trained} names of {len(found.train)} concepts, {len(found.test)} names kept of these, "
            f"{apart} names of {len(found.zero_shot)} concepts kept"
        )
        return Report(head, table, items, run.problems)

    def _ranked(self, one: Ranking, run: Run) -> tuple[Row, Sequence[Row]]:
        """The measures of one kind, and each query by its concept, without its text."""
        places = self.drawn(range(len(one.queries)))
        head: Row = {"kind": one.kind, "names": len(one.names), "queries": len(places)}
        if not places:
            return {**head, "mAP": None, "Acc": None, "MRR": None}, ()
        vectors = run.embed([*one.names, *(one.queries[at][0] for at in places)])
        names, queries = vectors[: len(one.names)], vectors[len(one.names) :]
        itself = None if one.kind == "test" else np.array([one.itself[at] for at in places])
        found = retrieve_synonyms(queries, names, [one.synonyms[at] for at in places], itself)
        rows = zip(places, found.precision.tolist(), found.first.tolist(), strict=True)
        items = [{"kind": one.kind, "concept": one.queries[at][1], "precision": p, "first": r} for at, p, r in rows]
        return {**head, **found.measures()}, items
