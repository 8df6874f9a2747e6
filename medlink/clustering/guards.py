"""Guards: what keeps two terms apart though their embeddings are close.

*Left* and *right*, *type 1* and *type 2*, *acute* and *chronic*, *hyper-* and *hypo-* stand in the same places of the
same phrases, which is what an embedding learns from. A guard reads such words as values that belong to no language,
``("laterality", "left")`` for *left*, *links* and *izquierdo*, and compares the values of two terms. The words stand in
``guards.json`` of each language with their source; how each kind is compared was measured
(``docs/explanation/measured-clusters.md``).

Negation is compared by pairs: it counts only where one term negates a word that the other one says ("afebrile" and
"febrile", "non-small cell" and "small cell"), since *a-*, *in-* and *un-* begin many words that negate nothing. Acts
are compared by pairs too (:class:`medlink.language.guard_words.Acts`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.language.guard_words import ACT, LETTER, NEGATION, NUMBER, GuardReader
from medlink.language.languages import REFERENCE, language_data

OVERLAP, NESTED, SAME, EQUAL = "overlap", "nested", "same", "equal"
"""Ways to compare the values of two terms. ``overlap`` parts terms that both name values and share none, ``nested``
terms that each name a value which the other does not, ``same`` terms that both name values and not the same ones,
``equal`` terms whose values differ, none being one of them."""

LATERALITY = "laterality"
COMPARED: dict[str, str] = {
    NUMBER: NESTED,
    LETTER: SAME,
    LATERALITY: EQUAL,
    "sex": EQUAL,
    "combination": EQUAL,
    **dict.fromkeys(("age", "amount", "anaesthesia", "axis", "beat", "breath", "course", "depth", "extent"), OVERLAP),
    **dict.fromkeys(("inheritance", "layer", "malignancy", "motion", "onset", "order", "origin", "phase"), OVERLAP),
    **dict.fromkeys(("rank", "rate", "response", "result", "severity", "side", "size"), OVERLAP),
    "sperm": SAME,
    **dict.fromkeys(("vertical", "vessel"), OVERLAP),
}
"""How the values of each kind are compared, in the order in which kinds are named."""
KINDS = ("", *COMPARED, NEGATION, ACT)
"""Names of what :meth:`Guards.apart` returns: the place in this tuple, 0 for nothing."""

_Places = NDArray[np.int64]
_PAIRS = 1 << 18  # pairs compared at a time
_STEP = 4096  # terms between two calls of progress


def parting_kinds(
    one: str, other: str, language: str = "", second: str = "", reader: GuardReader | None = None
) -> frozenset[str]:
    """Kinds of guards that part two terms; :class:`Guards` gives the first of them for millions of pairs.

    ``language`` and ``second`` are theirs, BCP 47 or ``""``; with one ``reader`` for many pairs each term is read once.

    >>> sorted(parting_kinds("no acute pain", "chronic pain", "en", "en"))
    ['course', 'negation']
    >>> sorted(parting_kinds("acute left pain", "chronic pain")), sorted(parting_kinds("pain", "dolor"))
    (['course', 'laterality'], [])
    """
    reader = reader or GuardReader()
    here, there = reader.read(one, language), reader.read(other, second)
    kinds = {NEGATION} if here.negated & there.said or there.negated & here.said else set()
    for kind in here.values.keys() | there.values.keys():
        mine, theirs = (values.get(kind, frozenset()) for values in (here.values, there.values))
        way = COMPARED[kind]
        if (way == OVERLAP and mine & theirs) or (way == NESTED and (mine <= theirs or theirs <= mine)):
            continue
        if mine != theirs and (way == EQUAL or (mine and theirs)):
            kinds.add(kind)
    if here.acts.part(there.acts):
        kinds.add(ACT)
    return frozenset(kinds)


class Guards:
    """Guard values of n terms as numbers, to compare millions of pairs.

    ``languages`` are BCP 47 or ``""``; ``progress`` is called with the number of terms done.

    >>> guards = Guards(["left arm", "brazo izquierdo", "rechter Arm"], ["en", "es", "de"])
    >>> [KINDS[k] for k in guards.apart(np.array([0, 0]), np.array([1, 2]))]
    ['', 'laterality']
    """

    def __init__(
        self, terms: Sequence[str], languages: Sequence[str], progress: Callable[[int], object] | None = None
    ) -> None:
        places = {kind: place for place, kind in enumerate(COMPARED)}
        data = language_data(REFERENCE)
        kinds = {**data.guards.kinds, ACT: data.acts.acts}
        bits = {(kind, value): 1 << place for kind, values in kinds.items() for place, value in enumerate(values)}
        self._codes = np.zeros((len(places), len(terms)), dtype=np.int64)
        self._acts = np.zeros(len(terms), dtype=np.int64)
        reader = GuardReader()
        negated, said, acting, plain, numbers = (_Entries() for _ in range(5))
        for row, (term, language) in enumerate(zip(terms, languages, strict=True)):
            read = reader.read(term, language)
            for kind, values in read.values.items():
                if kind == NUMBER:
                    numbers.add(row, values)
                elif kind == LETTER:
                    self._codes[places[kind], row] = hash("".join(sorted(values)))
                else:
                    self._codes[places[kind], row] = sum(bits[kind, value] for value in values)
            negated.add(row, read.negated)
            said.add(row, read.said)
            self._acts[row] = sum(bits[ACT, act] for act in read.acts.named)
            (acting if read.acts.any else plain).add(row, read.acts.rests)
            if progress and (row + 1) % _STEP == 0:
                progress(row + 1)
        self._negated, self._said = _shared(negated, said, len(terms))
        self._acting, self._plain = _shared(acting, plain, len(terms))
        self._numbers = _shared(numbers, numbers, len(terms))[0]

    def apart(self, rows: _Places, cols: _Places) -> NDArray[np.uint8]:
        """``(p,)`` place in :data:`KINDS` of the first guard that parts the terms of each pair, 0 for none."""
        found = np.zeros(len(rows), dtype=np.uint8)
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            # the first kind is written last and stays
            for place, kind in reversed(list(enumerate(KINDS))):
                if kind:
                    found[part][self.parted_by(kind, rows[part], cols[part])] = place
        return found

    def numbers(self, rows: _Places, cols: _Places) -> tuple[_Places, _Places]:
        """``(p,)`` how many numbers the terms of each pair share, and how many the one with more of them has."""
        count = np.diff(self._numbers.indptr)
        common, _ = _in_common(self._numbers, self._numbers, rows, cols)
        return common, np.maximum(count[rows], count[cols])

    def parted_by(self, kind: str, rows: _Places, cols: _Places) -> NDArray[np.bool_]:
        """``(p,)`` whether one kind of guard parts the terms of each pair."""
        if kind == NEGATION:
            return _meet(self._negated, self._said, rows, cols)
        if kind == ACT:
            one, other = self._acts[rows], self._acts[cols]
            apart = (one != 0) & (other != 0) & (one & other == 0)
            return np.asarray(apart | _meet(self._acting, self._plain, rows, cols))
        if COMPARED[kind] == NESTED:
            common, fewer = _in_common(self._numbers, self._numbers, rows, cols)
            return np.asarray(common < fewer)
        codes, way = self._codes[list(COMPARED).index(kind)], COMPARED[kind]
        one, other = codes[rows], codes[cols]
        differ = one != other
        if way != EQUAL:
            differ &= (one != 0) & (other != 0)
        if way == OVERLAP:
            differ &= (one & other) == 0
        return np.asarray(differ)


def _meet(one: Any, other: Any, rows: _Places, cols: _Places) -> NDArray[np.bool_]:
    """``(p,)`` whether one of two terms has a column of one matrix that the other term has in the other matrix."""
    return (_in_common(one, other, rows, cols)[0] > 0) | (_in_common(one, other, cols, rows)[0] > 0)


def _in_common(one: Any, other: Any, rows: _Places, cols: _Places) -> tuple[_Places, _Places]:
    """``(p,)`` how many columns rows of two sparse matrices have in common, and how many the one with fewer has."""
    fewer: _Places = np.minimum(np.diff(one.indptr)[rows], np.diff(other.indptr)[cols])
    common = np.zeros(len(rows), dtype=np.int64)
    if len(some := np.flatnonzero(fewer)):
        common[some] = one[rows[some]].multiply(other[cols[some]]).sum(axis=1)
    return common, fewer


class _Entries:
    """Words of rows as two flat arrays, words by their hashes, which are compared within one process alone."""

    def __init__(self) -> None:
        self.rows, self.words = array("q"), array("q")

    def add(self, row: int, words: Collection[str]) -> None:
        self.words.extend(map(hash, words))
        self.rows.extend([row] * len(words))


def _shared(negated: _Entries, said: _Entries, count: int) -> tuple[Any, Any]:
    """Sparse matrices ``(n, v)`` of the words that some term negates and another says."""
    from scipy.sparse import csr_array

    tables = [(np.asarray(e.rows, dtype=np.int64), np.asarray(e.words, dtype=np.int64)) for e in (negated, said)]
    words = np.intersect1d(tables[0][1], tables[1][1])
    matrices = []
    for rows, codes in tables:
        kept = np.isin(codes, words)
        places = rows[kept], np.searchsorted(words, codes[kept])
        matrices.append(csr_array((np.ones(len(places[0]), dtype=np.int32), places), shape=(count, len(words))))
    return matrices[0], matrices[1]
