"""What pairs are drawn from: a knowledge base by numbers, and which of it can be put into words."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.training.data.draws import Numbers, Runs, counts_of
from medlink.training.data.relations import LANGUAGE, relation_phrase, relation_words


class ConceptGraph(Protocol):
    """Concepts by number with what belongs to them: :class:`medlink.training.data.view.TrainingView` is one."""

    path: Path
    digest: str
    concepts: int
    kept: NDArray[np.bool_]
    names: Runs
    name_languages: NDArray[np.int16]
    name_forms: Numbers
    languages: tuple[str, ...]
    definitions: Runs
    relations: Runs
    relation_types: Numbers
    types: tuple[str, ...]
    parents: Runs
    semantic_types: Runs
    semantic_type_texts: tuple[str, ...]

    def concept_ids(self, numbers: Numbers) -> list[str]:
        """Ids of concepts by number."""
        ...

    def name_texts(self, rows: Numbers) -> dict[int, tuple[str, str]]:
        """Text and exact form of names, by row number."""
        ...

    def definition_texts(self, numbers: Numbers) -> dict[int, str]:
        """Texts of definitions, by number."""
        ...


class Material:
    """What of a concept graph makes pairs.

    Args:
        graph: the concepts.

    Attributes:
        related_names: names in the language of descriptions, by concept.
        related: concepts at the other end of a relation that can be put into words, by concept; ``related_types`` holds
            for each the place of its type.
        phrases: words of each type, ``None`` where there are none to be said.
        upward: ``(types,)`` whether a type leads from a concept to one above it.
        defined: ``(definitions,)`` owner of each definition that has a name to go with it; ``definition_places`` says
            where it stands among all.
        described: concepts with a name and a relation.
        several: concepts with names of two forms.
        shared: numbers of the forms that a concept has in common with another, by concept.
    """

    def __init__(self, graph: ConceptGraph) -> None:
        tags = [not tag or tag.partition("-")[0] == LANGUAGE for tag in graph.languages]
        spoken = np.array(tags, dtype=np.bool_)[graph.name_languages]
        self.related_names = _only(graph.names, spoken)
        self.phrases = tuple(relation_phrase(name) for name in graph.types)
        self.upward = np.array([name in relation_words().hierarchy for name in graph.types], dtype=np.bool_)
        said = np.array([phrase is not None for phrase in self.phrases], dtype=np.bool_)
        every = np.arange(graph.concepts, dtype=np.int32)
        named = counts_of(graph.names, every) > 0
        can_be_named = counts_of(self.related_names, every) > 0
        fits = said[graph.relation_types] & can_be_named[graph.relations[1]]
        self.related, self.related_types = _only(graph.relations, fits), graph.relation_types[fits]
        self.described = every[named & (counts_of(self.related, every) > 0)]
        owners = _owners(graph.definitions)
        self.definition_places = np.flatnonzero(named[owners]).astype(np.int32)
        self.defined = owners[self.definition_places]
        self.shared = _shared_forms(graph.names, graph.name_forms)
        self.several = _several(graph.names, graph.name_forms)


def _owners(runs: Runs) -> Numbers:
    """The owner of each value."""
    return np.repeat(np.arange(len(runs[0]) - 1, dtype=np.int32), np.diff(runs[0]))


def _only(runs: Runs, keep: NDArray[np.bool_]) -> Runs:
    """The values that are kept, by owner."""
    before = np.concatenate([[0], np.cumsum(keep)])
    return before[runs[0]].astype(np.int64), runs[1][keep]


def _distinct(runs: Runs, forms: Numbers) -> tuple[Numbers, Numbers]:
    """Owners and the forms of their names, each form of an owner once, by form and owner."""
    count = max(1, len(runs[0]) - 1)
    form, owner = np.divmod(np.unique(forms.astype(np.int64) * count + _owners(runs)), count)
    return owner.astype(np.int32), form.astype(np.int32)


def _shared_forms(runs: Runs, forms: Numbers) -> Runs:
    """Forms that belong to several owners, by owner."""
    owners, distinct = _distinct(runs, forms)
    numbers, counts = np.unique(distinct, return_counts=True)
    several = np.isin(distinct, numbers[counts > 1])
    owners, distinct = owners[several], distinct[several]
    order = np.lexsort((distinct, owners))
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(runs[0]) - 1))])
    return ends.astype(np.int64), distinct[order]


def _several(runs: Runs, forms: Numbers) -> Numbers:
    """Owners of at least two forms, ascending."""
    owners, _ = _distinct(runs, forms)
    return np.flatnonzero(np.bincount(owners, minlength=len(runs[0]) - 1) > 1).astype(np.int32)
