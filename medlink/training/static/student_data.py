"""Names kept from training, and how often an encoder finds their concept by the names it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.text import normalise
from medlink.records import Name


@dataclass(frozen=True, slots=True)
class Synonym:
    """A name of a concept; all names of one exact form (:func:`medlink.language.text.normalise`) are one."""

    concept_id: str
    text: str


def synonyms(names: Iterable[Name]) -> Iterator[list[Synonym]]:
    """The different names of one concept after the other, the first spelling of each.

    >>> [[s.text for s in one] for one in synonyms([Name("A", "Cold"), Name("A", "cold"), Name("A", "coryza")])]
    [['Cold', 'coryza']]
    """
    for concept_id, of_concept in groupby(names, key=lambda name: name.concept_id):
        forms: dict[str, str] = {}
        for name in of_concept:
            forms.setdefault(normalise(name.text), name.text)
        yield [Synonym(concept_id, text) for form, text in forms.items() if form]


def hold_out(names: Callable[[], Iterable[Name]], count: int, seed: int) -> list[Synonym]:
    """Draw names that another name of their concept remains for, at most one of a concept.

    One pass over the concepts with several names (Vitter 1985, algorithm R): memory grows with ``count`` alone. There
    are fewer than ``count`` where there are fewer such concepts.

    Raises:
        ConfigError: no concept has two names.

    >>> hold_out(lambda: [Name("A", "cold"), Name("A", "coryza"), Name("B", "rash")], 5, seed=1)
    [Synonym(concept_id='A', text='cold')]
    """
    rng = np.random.default_rng(seed)
    held: list[Synonym] = []
    for seen, of_concept in enumerate(one for one in synonyms(names()) if len(one) > 1):
        drawn = of_concept[int(rng.integers(len(of_concept)))]
        place = int(rng.integers(seen + 1))
        if len(held) < count:
            held.append(drawn)
        elif place < count:
            held[place] = drawn
    if not held:
        raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")
    return held


def accuracy_at_1(
    queries: NDArray[np.float32],
    gold: NDArray[np.int64],
    dictionary: Iterable[tuple[NDArray[Any], NDArray[Any]]],
) -> float:
    """Share of queries whose nearest name belongs to their concept.

    Acc@1 as in BioLORD-2023, section "Biomedical named entity linking", with the names of all concepts as dictionary.
    Of names equally near the first counts. The dictionary is read once, a part at a time.

    Args:
        queries: ``(q, d)`` unit vectors, at least one.
        gold: ``(q,)`` concept of each.
        dictionary: parts of it: ``(n, d)`` unit vectors and the concept of each, ``(n,)``.

    >>> eye = np.eye(2, dtype=np.float32)
    >>> accuracy_at_1(eye, np.array([0, 7]), [(eye[:1], np.array([0])), (eye[1:], np.array([1]))])
    0.5
    """
    nearest = np.full(len(queries), -np.inf, dtype=np.float32)
    found = np.full(len(queries), -1, dtype=np.int64)
    for vectors, concepts in dictionary:
        cosines = queries @ np.asarray(vectors, dtype=np.float32).T
        best = cosines.argmax(axis=1)
        values = cosines[np.arange(len(queries)), best]
        nearer = values > nearest
        nearest[nearer], found[nearer] = values[nearer], concepts[best[nearer]]
    return float((found == gold).mean())
