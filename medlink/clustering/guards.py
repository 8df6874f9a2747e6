"""Guards: what keeps two terms apart though their embeddings are close.

*Left* and *right*, *type 1* and *type 2*, *acute* and *chronic*, *hyper-* and *hypo-* stand in the same places of the
same phrases, which is what an embedding learns from. A guard reads such words as values that belong to no language,
``("laterality", "left")`` for *left*, *links* and *izquierdo*, and compares the values of two terms. The words stand in
``guards.json`` of each language with their source; how each kind is compared was measured (``docs/clustering.md``).

Negation is compared by pairs: it counts only where one term negates a word that the other one says ("afebrile" and
"febrile", "non-small cell" and "small cell"), since *a-*, *in-* and *un-* begin many words that negate nothing. Acts
are compared by pairs too (:mod:`medlink.language.acts`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.language.acts import ACT, acts_part
from medlink.language.guard_words import LETTER, NEGATION, NUMBER, GuardReader
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
    **dict.fromkeys(("age", "amount", "anaesthesia", "axis", "beat", "breath", "course", "depth", "extent"), OVERLAP),
    **dict.fromkeys(("inheritance", "layer", "malignancy", "motion", "onset", "order", "origin", "phase"), OVERLAP),
    **dict.fromkeys(("rank", "rate", "response", "result", "severity", "side", "size"), OVERLAP),
    "sperm": SAME,
    **dict.fromkeys(("vertical", "vessel"), OVERLAP),
}
"""How the values of each kind are compared, in the order in which kinds are named."""
CONCEPT = "concept"
KINDS = ("", *COMPARED, NEGATION, ACT, CONCEPT)
"""Names of what :meth:`Guards.apart` returns: the place in this tuple, 0 for nothing."""

_PAIRS = 1 << 18  # pairs compared at a time
_STEP = 4096  # terms between two calls of progress
_WORDS = 262_144  # words whose codes are remembered at a time


def _code(text: str) -> int:
    """63 bits of a text, above 0."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1 | 1


def _bits() -> dict[tuple[str, str], int]:
    """A bit for each value of each kind, acts included."""
    data = language_data(REFERENCE)
    kinds = {**data.guards.kinds, ACT: data.acts.acts}
    return {(kind, value): 1 << place for kind, values in kinds.items() for place, value in enumerate(values)}


def parting_kinds(
    one: str, other: str, language: str = "", second: str = "", reader: GuardReader | None = None
) -> frozenset[str]:
    """Kinds of guards that part two terms; :class:`Guards` gives the first of them for millions of pairs.

    Args:
        one, other: the terms.
        language, second: their languages, BCP 47 or ``""``.
        reader: what reads them; with one for many pairs each term is read once.

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
    if acts_part(here.acts, there.acts):
        kinds.add(ACT)
    return frozenset(kinds)


class Guards:
    """Guard values of n terms as numbers, to compare millions of pairs.

    Args:
        terms: n terms.
        languages: n languages, BCP 47 or ``""``.
        progress: called with the number of terms done.
        concepts: n sets of the known concepts that each term is a name of; two terms with sets that share nothing are
            parted by ``concept``. Without them that kind parts nothing.

    >>> guards = Guards(["left arm", "brazo izquierdo", "rechter Arm"], ["en", "es", "de"])
    >>> [KINDS[k] for k in guards.apart(np.array([0, 0]), np.array([1, 2]))]
    ['', 'laterality']
    """

    def __init__(
        self,
        terms: Sequence[str],
        languages: Sequence[str],
        progress: Callable[[int], object] | None = None,
        concepts: Sequence[frozenset[str]] = (),
    ) -> None:
        places = {kind: place for place, kind in enumerate(COMPARED)}
        bits = _bits()
        self._codes = np.zeros((len(places), len(terms)), dtype=np.int64)
        self._acts = np.zeros(len(terms), dtype=np.int64)
        reader, code = GuardReader(), lru_cache(_WORDS)(_code)
        negated, said, named, acting, plain, numbers = (_Entries(code) for _ in range(6))
        for row, (term, language) in enumerate(zip(terms, languages, strict=True)):
            read = reader.read(term, language)
            for kind, values in read.values.items():
                if kind == NUMBER:
                    numbers.add(row, values)
                elif kind == LETTER:
                    self._codes[places[kind], row] = code("".join(sorted(values)))
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
        for row, ids in enumerate(concepts):
            named.add(row, ids)
        self._named = _shared(named, named, len(terms))[0]
        self._numbers = _shared(numbers, numbers, len(terms))[0]

    def apart(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Which guard parts the terms of each pair.

        Args:
            rows, cols: ``(p,)`` places of the terms of each pair.

        Returns:
            ``(p,)`` place in :data:`KINDS` of the first guard that parts them, 0 for none.
        """
        found = np.zeros(len(rows), dtype=np.uint8)
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            found[part] = self._apart(rows[part], cols[part])
        return found

    def _apart(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.uint8]:
        found = np.zeros(len(rows), dtype=np.uint8)
        # the first kind is written last and stays
        for place, kind in reversed(list(enumerate(KINDS))):
            if kind:
                found[self.parted_by(kind, rows, cols)] = place
        return found

    def parted_by(self, kind: str, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """``(p,)`` whether one kind of guard parts the terms of each pair."""
        if kind == CONCEPT:
            return self._two_concepts(rows, cols)
        if kind == NEGATION:
            return _meet(self._negated, self._said, rows, cols) | _meet(self._negated, self._said, cols, rows)
        if kind == ACT:
            one_acts = _meet(self._acting, self._plain, rows, cols) | _meet(self._acting, self._plain, cols, rows)
            one, other = self._acts[rows], self._acts[cols]
            return np.asarray(one_acts | ((one != 0) & (other != 0) & (one & other == 0)))
        if COMPARED[kind] == NESTED:
            return self._crossed(rows, cols)
        codes, way = self._codes[list(COMPARED).index(kind)], COMPARED[kind]
        one, other = codes[rows], codes[cols]
        differ = one != other
        if way != EQUAL:
            differ &= (one != 0) & (other != 0)
        if way == OVERLAP:
            differ &= (one & other) == 0
        return np.asarray(differ)

    def _crossed(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """``(p,)`` whether each of both terms names a number that the other does not."""
        counts = np.diff(self._numbers.indptr)
        fewer = np.minimum(counts[rows], counts[cols])
        crossed = np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero(fewer)
        crossed[some] = _in_common(self._numbers, self._numbers, rows[some], cols[some]) < fewer[some]
        return crossed

    def _two_concepts(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether both terms of each pair are names of known concepts, and of none in common."""
        counts = np.diff(self._named.indptr)
        clash = np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero((counts[rows] > 0) & (counts[cols] > 0))
        clash[some] = _in_common(self._named, self._named, rows[some], cols[some]) == 0
        return clash


def _meet(one: Any, other: Any, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
    """``(p,)`` whether rows of two sparse matrices have a column in common."""
    met = np.zeros(len(rows), dtype=bool)
    some = np.flatnonzero((np.diff(one.indptr)[rows] > 0) & (np.diff(other.indptr)[cols] > 0))
    met[some] = _in_common(one, other, rows[some], cols[some]) > 0
    return met


def _in_common(one: Any, other: Any, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(p,)`` how many columns rows of two sparse matrices have in common."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(one[rows].multiply(other[cols]).sum(axis=1), dtype=np.int64).ravel()


class _Entries:
    """Words (or concept ids) of rows as two flat arrays, by the codes of the words."""

    def __init__(self, code: Callable[[str], int]) -> None:
        self._code = code
        self.rows, self.words = array("q"), array("q")

    def add(self, row: int, words: Iterable[str]) -> None:
        """Add the words of a row."""
        for word in sorted(words):
            self.rows.append(row)
            self.words.append(self._code(word))


def _shared(negated: _Entries, said: _Entries, count: int) -> tuple[Any, Any]:
    """Sparse matrices ``(n, v)`` of the words that some term negates and another says."""
    from scipy.sparse import csr_array

    tables = [(np.asarray(e.rows, dtype=np.int64), np.asarray(e.words, dtype=np.int64)) for e in (negated, said)]
    words = np.intersect1d(tables[0][1], tables[1][1])
    matrices = []
    for rows, codes in tables:
        kept = np.isin(codes, words)
        places = np.searchsorted(words, codes[kept])
        ones = np.ones(int(kept.sum()), dtype=np.int32)
        matrices.append(csr_array((ones, (rows[kept], places)), shape=(count, len(words))))
    return matrices[0], matrices[1]
