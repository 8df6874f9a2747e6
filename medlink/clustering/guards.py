"""Guards: keep two terms apart although their embeddings are close.

*Left* and *right*, *type 1* and *type 2*, *acute* and *chronic* occur in the same contexts, from which embeddings
learn. A guard reads such words as values independent of the language, ``("laterality", "left")`` for *left*, *links*
and *izquierdo*, and compares the values of two terms. ``guards.json`` of each language lists the words. Measurements
chose the way to compare each kind (``docs/explanation/measured-clusters.md``).

Negation counts only if one term negates a word of the other ("afebrile" and "febrile", "non-small cell" and "small
cell"), because many words that begin with *a-*, *in-* and *un-* negate nothing. Acts are compared in pairs too
(:class:`medlink.language.guard_words.Acts`), and so are a term and its parts: *nausea and vomiting* is not nausea, and
*Tumoranämie* not every anaemia.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import RaggedArray
from medlink.index.word_features import any_of_group
from medlink.language import guard_words
from medlink.language.exact import normalise_all
from medlink.language.guard_words import ACT, LETTER, NEGATION, NUMBER, GuardReader, Values
from medlink.language.languages import languages as every_language

OVERLAP, NESTED, SAME, EQUAL = "overlap", "nested", "same", "equal"
"""Ways to compare the values of two terms: ``overlap`` separates terms that both have values and share none, ``nested``
those whose sets do not contain each other, ``same`` those with values that differ, ``equal`` also those where one has
none."""

LATERALITY, SEX, SPREAD, COMBINATION, COMPOUND = "laterality", "sex", "spread", "combination", "compound"
NARROWING = frozenset({LATERALITY, SEX, SPREAD, COMPOUND})
"""Kinds of values that may also make one term narrower than another: *left leg pain*."""
_OVERLAPPING = (
    "age amount anaesthesia axis beat breath course depth extent inheritance layer malignancy motion onset order "
    "origin phase rank rate response result severity side size"
)
COMPARED: dict[str, str] = {
    NUMBER: NESTED, LETTER: SAME, LATERALITY: EQUAL, SEX: EQUAL, SPREAD: EQUAL, COMBINATION: EQUAL,
    **dict.fromkeys(_OVERLAPPING.split(), OVERLAP), "sperm": SAME, "vertical": OVERLAP, "vessel": OVERLAP,
}  # fmt: skip
"""The way to compare the values of each kind."""
KINDS = ("", NEGATION, *COMPARED, ACT, COMPOUND)
"""Names of the results of :meth:`Guards.apart`, which are indices of this tuple, the first that separates a pair; 0 for
no guard."""

_Rows = NDArray[np.int64]
_Profile = tuple[dict[str, frozenset[str]], frozenset[str]]  # values by kind, and named acts
_HASH = (1 << 48) - 1  # so that sums of hashes fit in 64 bits


def separating_kinds(
    one: str, other: str, language: str = "", second: str = "", reader: GuardReader | None = None
) -> frozenset[str]:
    """Return all kinds of guards that separate two terms of two languages; :class:`Guards` compares millions of pairs.

    A shared ``reader`` reads each term once.
    """
    reader = reader or GuardReader()
    here, there = reader.read(one, language), reader.read(other, second)
    kinds = _differing((here.values, here.acts.named), (there.values, there.acts.named))
    kinds |= {NEGATION} if here.negated & there.asserted or there.negated & here.asserted else set()
    for kind in (COMBINATION, COMPOUND):
        mine, theirs = (getattr(reading.parts, kind) for reading in (here, there))
        kinds |= {kind} if here.whole in theirs or there.whole in mine else set()
    return frozenset(kinds | ({ACT} if here.acts.differ(there.acts) else set()))


def _differing(one: _Profile, other: _Profile) -> set[str]:
    kinds = {ACT} if one[1] and other[1] and not one[1] & other[1] else set()
    for kind in one[0].keys() | other[0].keys():
        mine, theirs = (values.get(kind, frozenset()) for values, _ in (one, other))
        way = COMPARED[kind]
        if (way == OVERLAP and mine & theirs) or (way == NESTED and (mine <= theirs or theirs <= mine)):
            continue
        if mine != theirs and (way == EQUAL or (mine and theirs)):
            kinds.add(kind)
    return kinds


class Guards:
    """The guard words of n terms, prepared to compare millions of pairs.

    Each distinct word is read once. A term is read as a whole only if one of its words has a value, may negate another,
    or may be part of an act. Only pairs of the few distinct sets of values are compared. ``languages`` are BCP 47 or
    ``""``. ``denied (n,)`` tells whether a term denies something (*no fever*).
    """

    def __init__(self, terms: Sequence[str], languages: Sequence[str]) -> None:
        self._reader, self._terms, self._languages = GuardReader(), terms, languages
        forms, numbers = normalise_all(terms), dict[tuple[str, str], int]()
        tokens = ((word, tag) for form, tag in zip(forms, languages, strict=True) for word in form.split())
        self._token = np.fromiter((numbers.setdefault(token, len(numbers)) for token in tokens), np.int64)
        self._owner = np.repeat(np.arange(len(terms)), [len(form.split()) for form in forms])
        self._words = [self._reader.word(*token) for token in numbers]
        unread = np.fromiter(map(self._reader.is_read_otherwise, terms, languages), bool, len(terms))
        self.denied = np.fromiter(map(self._reader.denies, forms), bool, len(forms))
        self._find_rests([tag for _, tag in numbers])
        self._find_profiles(unread)
        self._find_parts(forms)
        self._negated, self._asserted = self._find_negations()
        del self._reader, self._terms, self._languages, self._token, self._owner, self._words

    def _any_word(self, name: str) -> NDArray[np.bool_]:
        flag = np.fromiter((bool(getattr(word, name)) for word in self._words), bool, len(self._words))
        return any_of_group(self._owner, flag[self._token], len(self._terms))

    def _find_rests(self, languages: Sequence[str]) -> None:
        # sums of the hashes of the stems of each term without acts, by language; 0 if all stems are short
        tags = {tag: number for number, tag in enumerate(every_language())}
        sums, long = np.zeros((len(tags), len(self._words)), np.int64), np.zeros((len(tags), len(self._words)), bool)
        for number, (word, language) in enumerate(zip(self._words, languages, strict=True)):
            for data, stems in zip(self._reader.languages(language), word.stems, strict=True):
                sums[tags[data.tag], number] = _sum_of_hashes(stems)
                long[tags[data.tag], number] = any(len(stem) >= guard_words.SHORTEST_REST for stem in stems)
        self._rests = np.zeros((len(tags), len(self._terms)), np.int64)
        for number, rests in enumerate(self._rests):
            np.add.at(rests, self._owner, sums[number, self._token])
            rests[~any_of_group(self._owner, long[number, self._token], len(rests))] = 0

    def _find_profiles(self, unread: NDArray[np.bool_]) -> None:
        has_values, has_numbers = self._any_word("values"), unread | self._any_word("may_be_number")
        has_acts, tags = unread | self._any_word("may_be_act"), list(every_language())
        starts = np.searchsorted(self._owner, np.arange(len(unread) + 1)).tolist()
        profiles: dict[tuple[Values, frozenset[str]], int] = {(frozenset(), frozenset()): 0}
        numbers: dict[str, int] = {}
        cells: list[tuple[int, int]] = []
        self._profile, self._acting = np.zeros(len(unread), np.int64), np.zeros(len(unread), bool)
        for row in np.flatnonzero(has_values | has_numbers | has_acts).tolist():
            term, values, named = (self._terms[row], self._languages[row]), Values(), frozenset[str]()
            if has_numbers[row]:
                values = self._reader.values(*term)
            elif has_values[row]:
                tokens = self._token[starts[row] : starts[row + 1]].tolist()
                values = guard_words.values_of_words(
                    [self._words[token] for token in tokens], self._reader.languages(term[1])
                )
            if has_acts[row]:
                named, self._acting[row], rests = self._reader.acts(*term)
                self._rests[:, row] = 0
                for tag, *stems in map(str.split, rests):
                    self._rests[tags.index(tag), row] = _sum_of_hashes(stems)
            rest = frozenset(value for value in values if value[0] != NUMBER)
            self._profile[row] = profiles.setdefault((rest, named), len(profiles))
            cells += [(row, numbers.setdefault(value, len(numbers))) for kind, value in values if kind == NUMBER]
        self._profiles: list[_Profile] = [(guard_words.by_kind(values), named) for values, named in profiles]
        self._numbers = _incidence(np.array(cells, np.int64).reshape(-1, 2), (len(unread), len(numbers)))

    def _find_parts(self, forms: Sequence[str]) -> None:
        # sparse matrices (n, distinct forms): the form of each term, and for each kind those that are parts of the term
        numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
        cells: tuple[list[tuple[int, int]], ...] = ([], [])
        for row, (term, form, tag) in enumerate(zip(self._terms, forms, self._languages, strict=True)):
            for own, parts in zip(cells, self._reader.parts(term, form, tag), strict=True):
                own += [(row, numbers[part]) for part in parts if part in numbers]
        shape = (len(forms), len(numbers))
        whole = np.stack([np.arange(len(forms)), [numbers[form] for form in forms]], axis=1).astype(np.int64)
        self._form = _incidence(whole, shape)
        self._parts = [_incidence(np.array(own, np.int64).reshape(-1, 2), shape) for own in cells]

    def _find_negations(self) -> tuple[Any, Any]:
        # sparse matrices (n, v): words that each term may negate, and words that it asserts
        by_term = self._any_word("is_negator") | self._any_word("ends_negated")
        rows = np.flatnonzero(by_term).tolist()
        of_terms = [self._reader.negated(self._terms[row], self._languages[row]) for row in rows]
        sides = [
            ([set(chain(*getattr(word, name))) for word in self._words], [pair[side] for pair in of_terms])
            for side, name in enumerate(("negated", "asserted"))
        ]
        common = set[str].intersection(*(set().union(*of_words, *terms) for of_words, terms in sides))
        numbers = {word: number for number, word in enumerate(sorted(common))}
        matrices, plain = [], ~by_term[self._owner]
        for of_words, terms in sides:
            lists = [[numbers[form] for form in forms & common] for forms in (*of_words, *terms)]
            flat = RaggedArray(np.cumsum([0, *map(len, lists)]), np.array(list(chain(*lists)), np.int64))
            at = np.concatenate([self._token[plain], len(of_words) + np.arange(len(terms))])
            position, column = flat.take(at)
            row = np.concatenate([self._owner[plain], np.array(rows, np.int64)])[position]
            matrices.append(_incidence(np.stack([row, column], axis=1), (len(self._terms), len(numbers))))
        negated, asserted = matrices
        return negated, asserted - asserted.multiply(negated)

    def kinds(self, rows: _Rows, cols: _Rows) -> NDArray[np.bool_]:
        """Tell which :data:`KINDS` separate each pair, ``(p, len(KINDS))``."""
        numbers = {kind: number for number, kind in enumerate(KINDS)}
        count = len(self._profiles)
        keys, at = np.unique(self._profile[rows] * count + self._profile[cols], return_inverse=True)
        differing = np.zeros((len(keys), len(KINDS)), bool)
        for number, key in enumerate(keys.tolist()):
            for kind in _differing(self._profiles[key // count], self._profiles[key % count]):
                differing[number, numbers[kind]] = True
        found, counts = differing[at], np.diff(self._numbers.indptr)
        found[:, numbers[NUMBER]] = self.numbers(rows, cols)[0] < np.minimum(counts[rows], counts[cols])
        for one, other in ((rows, cols), (cols, rows)):
            found[:, numbers[NEGATION]] |= _count_common(self._negated, self._asserted, one, other) > 0
            for kind, parts in zip((COMBINATION, COMPOUND), self._parts, strict=True):
                found[:, numbers[kind]] |= _count_common(parts, self._form, one, other) > 0
        for rests in self._rests:
            equal = (rests[rows] == rests[cols]) & (rests[rows] != 0)
            found[:, numbers[ACT]] |= equal & (self._acting[rows] != self._acting[cols])
        return found

    def apart(self, rows: _Rows, cols: _Rows) -> NDArray[np.uint8]:
        """Return the index in :data:`KINDS` of the first guard that separates each pair ``(p,)``, 0 for none."""
        return np.asarray(self.kinds(rows, cols).argmax(axis=1), dtype=np.uint8)

    def numbers(self, rows: _Rows, cols: _Rows) -> tuple[_Rows, _Rows]:
        """Count for each pair the shared numbers, and the numbers of the term that has more, ``(p,)`` each."""
        counts = np.diff(self._numbers.indptr)
        return _count_common(self._numbers, self._numbers, rows, cols), np.maximum(counts[rows], counts[cols])


def _incidence(cells: _Rows, shape: tuple[int, int]) -> Any:
    # a sparse matrix with 1 at each cell (row, column)
    from scipy.sparse import csr_array

    matrix = csr_array((np.ones(len(cells), np.int32), (cells[:, 0], cells[:, 1])), shape=shape)
    matrix.data[:] = 1
    return matrix


def _count_common(left: Any, right: Any, rows: _Rows, cols: _Rows) -> _Rows:
    # (p,) columns that a row of the left matrix and a row of the right share
    common = np.zeros(len(rows), dtype=np.int64)
    some = np.flatnonzero(np.diff(left.indptr)[rows] * np.diff(right.indptr)[cols])
    if len(some):
        common[some] = left[rows[some]].multiply(right[cols[some]]).sum(axis=1)
    return common


def _sum_of_hashes(words: Iterable[str]) -> int:
    return sum(hash(word) & _HASH for word in words)
