"""Guards: what keeps two terms apart though their embeddings are close.

*Left* and *right*, *type 1* and *type 2*, *acute* and *chronic*, *hyper-* and *hypo-* stand in the same places of the
same phrases, which is what an embedding learns from. A guard reads such words as values that belong to no language,
``("laterality", "left")`` for *left*, *links* and *izquierdo*, and compares the values of two terms. The words stand in
``resources/language/guards.*.json`` with their source; how each kind is compared was measured (``docs/clustering.md``).

Negation is compared by pairs: it counts only where one term negates a word that the other one says ("afebrile" and
"febrile", "non-small cell" and "small cell"), since *a-*, *in-* and *un-* begin many words that negate nothing.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.text import LANGUAGES, match_words, normalise

OVERLAP, SAME, EQUAL = "overlap", "same", "equal"
"""Ways to compare the values of two terms. ``overlap`` parts terms that both name values and share none, ``same`` terms
that both name values and not the same ones, ``equal`` terms whose values differ, none being one of them."""

NUMBER, LETTER, NEGATION = "number", "letter", "negation"
COMPARED: dict[str, str] = {
    NUMBER: SAME,
    LETTER: SAME,
    "laterality": EQUAL,
    "sex": EQUAL,
    "age": OVERLAP,
    "amount": OVERLAP,
    "axis": OVERLAP,
    "course": OVERLAP,
    "depth": OVERLAP,
    "extent": OVERLAP,
    "inheritance": OVERLAP,
    "layer": OVERLAP,
    "malignancy": OVERLAP,
    "onset": OVERLAP,
    "order": OVERLAP,
    "rate": OVERLAP,
    "severity": OVERLAP,
    "side": OVERLAP,
    "size": OVERLAP,
    "vertical": OVERLAP,
}
KINDS = ("", *COMPARED, NEGATION)
"""Names of what :meth:`Guards.apart` returns: the place in this tuple, 0 for nothing."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STAGED = re.compile(r"(x{0,3}(?:ix|iv|v?i{1,3}|v))([a-d])")  # IIb, IVa
_SMALL_WORDS = frozenset("aeouy")  # letters that are words in Spanish, and a in English
_SHORTEST = 4  # letters of the shortest word that a prefix negates
_PAIRS = 1 << 18  # pairs compared at a time
_STEP = 4096  # terms between two calls of progress


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Guard words of one language, all in the exact form.

    ``patterns`` hold kind, value and the words; ``negators`` negate the word behind them, ``between`` not counted;
    ``prefixes`` negate the rest of a word; ``only_here`` lists what counts in terms of a stated language alone;
    ``small_words`` have no letter in an abbreviation.
    """

    language: str
    patterns: tuple[tuple[str, str, re.Pattern[str]], ...]
    negators: frozenset[str]
    between: frozenset[str]
    prefixes: tuple[str, ...]
    only_here: frozenset[str]
    small_words: frozenset[str]


@cache
def guard_rules(language: str) -> GuardRules:
    """Rules of one of the house's languages.

    >>> {kind for kind, value, pattern in guard_rules("de").patterns if pattern.fullmatch("linksseitig")}
    {'laterality'}
    """
    path = resources.files("medlink").joinpath(f"resources/language/guards.{language}.json")
    raw = json.loads(path.read_text("utf-8"))
    only, small, negation = (raw.pop(key)["value"] for key in ("only_here", "small_words", NEGATION))
    patterns = tuple((kind, value, re.compile(p)) for kind, entry in raw.items() for value, p in entry["value"].items())
    return GuardRules(
        language,
        patterns,
        frozenset(negation["before"]),
        frozenset(negation["between"]),
        tuple(negation["prefixes"]),
        frozenset(only),
        frozenset(small),
    )


def _tongues(language: str) -> tuple[str, ...]:
    """Languages whose rules a term is read by: its own, or all where it names none that the house knows."""
    base = language.partition("-")[0].lower()
    return (base,) if base in LANGUAGES else LANGUAGES


@lru_cache(maxsize=262_144)
def _of_word(word: str, language: str) -> frozenset[tuple[str, str]]:
    """Values of one word in its exact form."""
    tongues = _tongues(language)
    return frozenset(
        (kind, value)
        for tongue in tongues
        for kind, value, pattern in guard_rules(tongue).patterns
        if pattern.fullmatch(word) and (len(tongues) == 1 or word not in guard_rules(tongue).only_here)
    )


def _stands_out(letter: str, place: int, words: Sequence[str], term: str) -> bool:
    """Whether a letter that may be a word is none: "hepatitis A" has a letter, "edema a tensión" a preposition."""
    return place == len(words) - 1 or f"{letter.upper()} " in term


def guard_values(term: str, language: str = "") -> frozenset[tuple[str, str]]:
    """What a term says that guards compare.

    Args:
        term: the term.
        language: BCP 47; without one the rules of all languages count, but for words that mean something else in one.

    Returns:
        Pairs of kind and value; the values are the same in every language. Negation is compared by pairs and has none.

    >>> sorted(guard_values("Akute linksseitige Otitis media")) == sorted(guard_values("otitis media izquierda aguda"))
    True
    >>> sorted(guard_values("Bronchialkarzinom, Stadium IIb")), sorted(guard_values("diabetes tipo 2"))
    ([('letter', 'b'), ('number', '2')], [('number', '2')])
    """
    found: set[tuple[str, str]] = set()
    plain = normalise(term).split()
    for word in plain:
        found |= _of_word(word, language)
    for tongue in _tongues(language):
        words = match_words(term, tongue)
        for place, word in enumerate(words):
            staged = _STAGED.fullmatch(word) if len(word) > 2 else None
            if _NUMBER.fullmatch(word):
                found.add((NUMBER, word))
            elif staged:
                found |= {(NUMBER, match_words(f"type {staged[1]}", "en")[1]), (LETTER, staged[2])}
            elif (
                len(word) == 1
                and word.isalpha()
                and (word not in _SMALL_WORDS or _stands_out(word, place, words, term))
            ):
                found.add((LETTER, word))
    return frozenset(found)


def negated_words(term: str, language: str = "") -> tuple[frozenset[str], frozenset[str]]:
    """Words that a term may negate and words that it says, both in the inflected form.

    A word with a prefix of negation counts as said, and what is behind the prefix as negated: whether the prefix is one
    shows only in the other term.

    >>> negated, said = negated_words("non-small cell carcinoma", "en")
    >>> sorted(negated), sorted(said)
    (['small'], ['carcinoma', 'cell'])
    """
    negated: set[str] = set()
    said: set[str] = set()
    plain = normalise(term).split()
    for tongue in _tongues(language):
        rules = guard_rules(tongue)
        open_ = False
        for word in plain:
            if word in rules.negators:
                open_ = True
                continue
            if open_ and word in rules.between:
                continue
            whole, rests = _inflected(word, tongue)
            (negated if open_ else said).update(whole)
            negated.update(rests)
            open_ = False
    return frozenset(negated), frozenset(said - negated)


@lru_cache(maxsize=262_144)
def _inflected(word: str, tongue: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inflected form of a word, and of what is left of it behind each prefix of negation."""
    rests: list[str] = []
    for prefix in guard_rules(tongue).prefixes:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST:
            rests += match_words(rest, tongue)
    return tuple(match_words(word, tongue)), tuple(rests)


def _code(values: Iterable[str]) -> int:
    """63 bits of a set of values, above 0; 0 for no value."""
    ordered = sorted(values)
    if not ordered:
        return 0
    return int.from_bytes(blake2b("\n".join(ordered).encode(), digest_size=8).digest(), "little") >> 1 | 1


@cache
def _bits() -> dict[tuple[str, str], int]:
    """A bit for each value of each kind."""
    bits: dict[tuple[str, str], int] = {}
    for kind in COMPARED:
        rules = (pattern for language in LANGUAGES for pattern in guard_rules(language).patterns)
        values = sorted({value for found, value, _ in rules if found == kind})
        bits |= {(kind, value): 1 << place for place, value in enumerate(values)}
    return bits


class Guards:
    """Guard values of n terms as numbers, to compare millions of pairs.

    Args:
        terms: n terms.
        languages: n languages, BCP 47 or ``""``.
        progress: called with the number of terms done.

    >>> guards = Guards(["left arm", "brazo izquierdo", "rechter Arm"], ["en", "es", "de"])
    >>> [KINDS[k] for k in guards.apart(np.array([0, 0]), np.array([1, 2]))]
    ['', 'laterality']
    """

    def __init__(
        self, terms: Sequence[str], languages: Sequence[str], progress: Callable[[int], object] | None = None
    ) -> None:
        bits = _bits()
        places = {kind: place for place, kind in enumerate(COMPARED)}
        self._codes = np.zeros((len(places), len(terms)), dtype=np.int64)
        negated, said = _Entries(), _Entries()
        for row, (term, language) in enumerate(zip(terms, languages, strict=True)):
            by_kind: dict[str, list[str]] = {}
            for kind, value in guard_values(term, language):
                by_kind.setdefault(kind, []).append(value)
            for kind, values in by_kind.items():
                code = sum(bits[kind, v] for v in values) if COMPARED[kind] == OVERLAP else _code(values)
                self._codes[places[kind], row] = code
            not_said, plain = negated_words(term, language)
            negated.add(row, not_said)
            said.add(row, plain)
            if progress and (row + 1) % _STEP == 0:
                progress(row + 1)
        self._negated, self._said = _shared(negated, said, len(terms))

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
        if kind == NEGATION:
            return self._clash(rows, cols) | self._clash(cols, rows)
        codes, way = self._codes[list(COMPARED).index(kind)], COMPARED[kind]
        one, other = codes[rows], codes[cols]
        differ = one != other
        if way != EQUAL:
            differ &= (one != 0) & (other != 0)
        if way == OVERLAP:
            differ &= (one & other) == 0
        return np.asarray(differ)

    def one_sided(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """``(p,)`` whether one term of each pair names numbers and the other none."""
        numbers = self._codes[list(COMPARED).index(NUMBER)] != 0
        return np.asarray(numbers[rows] != numbers[cols])

    def _clash(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the first term of each pair negates a word that the second says."""
        clash = np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero((np.diff(self._negated.indptr)[rows] > 0) & (np.diff(self._said.indptr)[cols] > 0))
        if len(some):
            both = self._negated[rows[some]].multiply(self._said[cols[some]])
            clash[some] = np.asarray(both.sum(axis=1)).ravel() > 0
        return clash


class _Entries:
    """Words of rows as two flat arrays."""

    def __init__(self) -> None:
        self.rows, self.words = array("q"), array("q")

    def add(self, row: int, words: Iterable[str]) -> None:
        """Add the words of a row."""
        for word in sorted(words):
            self.rows.append(row)
            self.words.append(_word_code(word))


@lru_cache(maxsize=262_144)
def _word_code(word: str) -> int:
    return _code((word,))


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
