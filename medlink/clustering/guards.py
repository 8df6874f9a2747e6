"""Guards: keep two terms apart although their embeddings are close.

*Left* and *right*, *type 1* and *type 2*, *acute* and *chronic*, *hyper-* and *hypo-* occur in the same contexts, from
which embeddings learn. A guard reads such words as values independent of the language, ``("laterality", "left")`` for
*left*, *links* and *izquierdo*, and compares the values of two terms. ``guards.json`` of each language lists the words
with their source. Measurements chose the way to compare each kind (``docs/explanation/measured-clusters.md``).

Negation counts only if one term negates a word of the other ("afebrile" and "febrile", "non-small cell" and "small
cell"), because many words that begin with *a-*, *in-* and *un-* negate nothing. Acts are compared in pairs too
(:class:`medlink.language.guard_words.Acts`).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.language.guard_words import ACT, LETTER, NEGATION, NUMBER, GuardReader
from medlink.language.languages import REFERENCE, language_data

OVERLAP, NESTED, SAME, EQUAL = "overlap", "nested", "same", "equal"
"""Ways to compare the values of two terms, A and B. ``overlap`` separates terms if both have values and share none,
``nested`` if neither set contains the other, ``same`` if both have values and A differs from B, ``equal`` if A differs
from B, even if one of them is empty."""

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
"""The way to compare the values of each kind; the first kind that differs is reported."""
KINDS = ("", *COMPARED, NEGATION, ACT)
"""Names of the results of :meth:`Guards.apart`, which are indices of this tuple; 0 for no guard."""

_Rows = NDArray[np.int64]
_PAIRS = 1 << 18  # in memory at a time


def separating_kinds(
    one: str, other: str, language: str = "", second: str = "", reader: GuardReader | None = None
) -> frozenset[str]:
    """Return all kinds of guards that separate two terms; :class:`Guards` finds the first one for millions of pairs.

    ``language`` and ``second`` are their languages, BCP 47 or ``""``. A shared ``reader`` reads each term once.

    >>> sorted(separating_kinds("no acute pain", "chronic pain", "en", "en"))
    ['course', 'negation']
    >>> sorted(separating_kinds("acute left pain", "chronic pain")), sorted(separating_kinds("pain", "dolor"))
    (['course', 'laterality'], [])
    """
    reader = reader or GuardReader()
    here, there = reader.read(one, language), reader.read(other, second)
    kinds = {NEGATION} if here.negated & there.asserted or there.negated & here.asserted else set()
    for kind in here.values.keys() | there.values.keys():
        mine, theirs = (values.get(kind, frozenset()) for values in (here.values, there.values))
        way = COMPARED[kind]
        if (way == OVERLAP and mine & theirs) or (way == NESTED and (mine <= theirs or theirs <= mine)):
            continue
        if mine != theirs and (way == EQUAL or (mine and theirs)):
            kinds.add(kind)
    if here.acts.differ(there.acts):
        kinds.add(ACT)
    return frozenset(kinds)


class Guards:
    """Guard values of n terms as numbers, to compare millions of pairs.

    ``languages`` are BCP 47 or ``""``. ``denied`` tells for each term whether it denies something (*no fever*).

    >>> guards = Guards(["left arm", "brazo izquierdo", "rechter Arm"], ["en", "es", "de"])
    >>> [KINDS[k] for k in guards.apart(np.array([0, 0]), np.array([1, 2]))]
    ['', 'laterality']
    """

    def __init__(self, terms: Sequence[str], languages: Sequence[str]) -> None:
        numbers_of = {kind: number for number, kind in enumerate(COMPARED)}
        data = language_data(REFERENCE)
        kinds = {**data.guards.kinds, ACT: data.acts.acts}
        bits = {(kind, value): 1 << bit for kind, values in kinds.items() for bit, value in enumerate(values)}
        self._codes = np.zeros((len(COMPARED), len(terms)), dtype=np.int32)
        letters: dict[frozenset[str], int] = {}
        self._acts = np.zeros(len(terms), dtype=np.int64)
        reader = GuardReader()
        self.denied = np.zeros(len(terms), dtype=bool)
        negated, positive, acting, plain, numbers = (_WordRows() for _ in range(5))
        for row, (term, language) in enumerate(zip(terms, languages, strict=True)):
            read = reader.read(term, language)
            for kind, values in read.values.items():
                if kind == NUMBER:
                    numbers.add(row, values)
                elif kind == LETTER:
                    self._codes[numbers_of[kind], row] = letters.setdefault(values, 1 + len(letters))
                else:
                    self._codes[numbers_of[kind], row] = sum(bits[kind, value] for value in values)
            negated.add(row, read.negated)
            positive.add(row, read.asserted)
            self.denied[row] = reader.denies(term)
            self._acts[row] = sum(bits[ACT, act] for act in read.acts.named)
            (acting if read.acts.any else plain).add(row, read.acts.rests)
        self._negated, self._positive = _incidence_matrices(negated, positive, len(terms))
        self._acting, self._plain = _incidence_matrices(acting, plain, len(terms))
        self._numbers = _incidence_matrices(numbers, numbers, len(terms))[0]

    def apart(self, rows: _Rows, cols: _Rows) -> NDArray[np.uint8]:
        """Return the index in :data:`KINDS` of the first guard that separates each pair ``(p,)``, 0 for none."""
        result = np.zeros(len(rows), dtype=np.uint8)
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            # reversed, so that the first kind overwrites the others
            for number, kind in reversed(list(enumerate(KINDS))):
                if kind:
                    result[part][self.separated_by(kind, rows[part], cols[part])] = number
        return result

    def numbers(self, rows: _Rows, cols: _Rows) -> tuple[_Rows, _Rows]:
        """Count for each pair the shared numbers, and the numbers of the term that has more, ``(p,)`` each."""
        count = np.diff(self._numbers.indptr)
        common, _ = _count_common(self._numbers, self._numbers, rows, cols)
        return common, np.maximum(count[rows], count[cols])

    def separated_by(self, kind: str, rows: _Rows, cols: _Rows) -> NDArray[np.bool_]:
        """Tell whether one kind of guard separates each pair ``(p,)``."""
        if kind == NEGATION:
            return _have_common_column(self._negated, self._positive, rows, cols)
        if kind == ACT:
            left, right = self._acts[rows], self._acts[cols]
            apart = (left != 0) & (right != 0) & (left & right == 0)
            return np.asarray(apart | _have_common_column(self._acting, self._plain, rows, cols))
        if COMPARED[kind] == NESTED:
            common, fewer = _count_common(self._numbers, self._numbers, rows, cols)
            return np.asarray(common < fewer)
        codes, way = self._codes[list(COMPARED).index(kind)], COMPARED[kind]
        left, right = codes[rows], codes[cols]
        differ = left != right
        if way != EQUAL:
            differ &= (left != 0) & (right != 0)
        if way == OVERLAP:
            differ &= (left & right) == 0
        return np.asarray(differ)


def _have_common_column(left: Any, right: Any, rows: _Rows, cols: _Rows) -> NDArray[np.bool_]:
    # (p,) whether either term has a column in the left matrix that the other has in the right
    return (_count_common(left, right, rows, cols)[0] > 0) | (_count_common(left, right, cols, rows)[0] > 0)


def _count_common(left: Any, right: Any, rows: _Rows, cols: _Rows) -> tuple[_Rows, _Rows]:
    # (p,) numbers of columns: common to a row of each sparse matrix, and of the row with fewer
    fewer: _Rows = np.minimum(np.diff(left.indptr)[rows], np.diff(right.indptr)[cols])
    common = np.zeros(len(rows), dtype=np.int64)
    if len(some := np.flatnonzero(fewer)):
        common[some] = left[rows[some]].multiply(right[cols[some]]).sum(axis=1)
    return common, fewer


class _WordRows:
    """Hashes of the words of each row, as two flat arrays; valid within this process only."""

    def __init__(self) -> None:
        self.rows, self.words = array("q"), array("q")

    def add(self, row: int, words: Collection[str]) -> None:
        self.words.extend(map(hash, words))
        self.rows.extend([row] * len(words))


def _incidence_matrices(first: _WordRows, second: _WordRows, count: int) -> tuple[Any, Any]:
    # sparse matrices (n, v) of the words that occur in both
    from scipy.sparse import csr_array

    tables = [(np.asarray(e.rows, dtype=np.int64), np.asarray(e.words, dtype=np.int64)) for e in (first, second)]
    words = np.intersect1d(tables[0][1], tables[1][1])
    matrices = []
    for rows, codes in tables:
        common = np.isin(codes, words)
        cells = rows[common], np.searchsorted(words, codes[common])
        matrices.append(csr_array((np.ones(len(cells[0]), dtype=np.int32), cells), shape=(count, len(words))))
    return matrices[0], matrices[1]
