"""Forms: rows of a term list that are the same name in another typography or inflection are one node from the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.cut import components, numbered
from medlink.clustering.terms import Terms
from medlink.language.exact import normalise_all
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, same_letters

_STEP = 4096  # rows between two calls of progress


@dataclass(frozen=True, slots=True)
class Forms:
    """Nodes of a term list.

    ``node (n,)`` of each row; ``row (m,)`` is the row that represents each node. ``rank (n,)`` orders the rows: by the
    frequency of the exact form, then by letters with marks, since whoever writes *nausea* for *náusea* leaves something
    out, then by frequency, length and the order of characters.
    """

    node: NDArray[np.int64]
    row: NDArray[np.int64]
    rank: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def find_forms(terms: Terms, progress: Callable[[int], object] | None = None) -> Forms:
    """Group the rows of a term list by exact form, then by inflection.

    Two forms are joined as inflections where they are in one language (any that has a folder, where a row names none)
    and :func:`medlink.language.text.is_inflection` and :func:`medlink.language.text.same_letters` hold. Nodes are
    numbered by their first row; ``progress`` is called with the number of rows done.

    >>> find_forms(Terms.of([(t, 1, "", "") for t in ("Niere", "Zyste", "Zysten", "NIERE")])).node.tolist()
    [0, 1, 1, 0]
    """
    count = len(terms)
    rank, by_text = np.empty((2, count), dtype=np.int64)
    by_text[sorted(range(count), key=lambda row: terms.texts[row])] = np.arange(count)
    length = np.fromiter((len(text) for text in terms.texts), dtype=np.int64, count=count)
    marked = np.fromiter((sum(not one.isascii() for one in text) for text in terms.texts), dtype=np.int64, count=count)

    # 64 bits: two of ten million forms share a hash once in 370,000 lists
    keys = np.empty(count, dtype=np.int64)
    for start in range(0, count, _STEP):
        texts = terms.texts[start : start + _STEP]
        # what has no letter has no form: such terms are the same only to the letter
        keys[start : start + _STEP] = [
            hash(form or f"\x00{text}") for form, text in zip(normalise_all(texts), texts, strict=True)
        ]
        if progress:
            progress(min(start + _STEP, count))
    form = numbered(keys)
    frequency = np.bincount(form, weights=terms.frequency)[form] if count else np.zeros(0)
    rank[np.lexsort((by_text, length, -terms.frequency, -marked, -frequency))] = np.arange(count)
    row = _first_by_rank(form, rank)
    joined = components(len(row), *_inflections(terms, row))
    node = joined[form]
    return Forms(node, _first_by_rank(node, rank), rank)


def _first_by_rank(group: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.lexsort((rank, group))
    first = np.r_[True, np.diff(group[order]) > 0] if len(order) else np.zeros(0, dtype=bool)
    return np.asarray(order[first])


def _inflections(terms: Terms, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places: list[tuple[int, int]] = []
    for tongue in languages():
        inflector = Inflector(tongue)
        spoken = [base(tag) in ("", tongue) for tag in terms.languages]
        fits = np.flatnonzero(np.array(spoken, dtype=bool)[terms.language[rows]])
        shapes = (inflector.form(terms.texts[row]) for row in rows[fits].tolist())
        # two terms without a word are no inflections of each other
        keys = np.array([hash(shape or f"\x00{place}") for place, shape in enumerate(shapes)], dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        for one, other in zip(fits[order[same]].tolist(), fits[order[same + 1]].tolist(), strict=True):
            texts = terms.texts[int(rows[one])], terms.texts[int(rows[other])]
            if is_inflection(*texts, tongue) and same_letters(*texts, tongue):
                places.append((one, other))
    pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
