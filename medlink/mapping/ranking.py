"""Rank the candidates of a description in a code list by its parts.

A description is longer than a mention in a note, and most of its words say how or where: *becaplermin; local oral*,
*Biopsy of bone of wrist; open*. So the ranker weighs the words that only one side has, by their kind. It also compares
the main part of the description: the part before the first semicolon, comma or bracket.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.index.arrays import row_products
from medlink.index.word_coverage import UNKNOWN_WORD, TextCoverage, WordKinds
from medlink.language.exact import normalise_all
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.text import normalise
from medlink.linking.arrays import Floats
from medlink.linking.candidates import Contexts, Mention
from medlink.linking.drugs import first_member
from medlink.linking.features import CandidateFeatures
from medlink.linking.lru import BatchCache
from medlink.linking.ranking import FittedRanker, LinearRanker, Ranker
from medlink.mapping.laboratory import analyte, is_carrier, is_full_name, is_ratio, may_be_ratio, traits
from medlink.mapping.procedure_words import have_other_sites, procedure_words, words_without_approach
from medlink.mapping.word_meanings import Words, read_words

KINDS = {
    "finding": ("finding", "change"), "body": ("body", "function"), "substance": ("substance", "organism"),
    "procedure": ("procedure",), "quality": ("quality", "general"),
    "setting": ("measure", "circumstance", "person"), UNKNOWN_WORD: (),
}  # fmt: skip
"""Kinds of words in a description, each with the kinds of the lexicon that it stands for."""
_SIDE = (
    "covered", "max_uncovered", "first_word", "last_word", "rarest_word", *(f"uncovered_{kind}" for kind in KINDS),
)  # fmt: skip
_PART = ("part_cosine", "part_is_name", "part_letters", "part_covered", "part_covers", "part_rarest", "part_both")
FEATURES = (
    "rank", *(f"mention_{name}" for name in _SIDE), *(f"name_{name}" for name in _SIDE), "both", *_PART,
)  # fmt: skip
"""Columns of :class:`DescriptionRanker`: the rank score of the linear ranker, the coverage of description and name
(:class:`medlink.index.word_coverage.TextCoverage`), and the coverage of the main part of the description. How much both
sides have words of a kind that the other one lacks was tried and gave nothing."""
POOL = 48
"""Names of each description that word overlap and dense search each return."""
_RAREST = 12.0  # weight of a very rare word
_WHOLE = 0.999
_SAME_PROCEDURE = 5.0  # log odds of the name of a procedure in other words
_ONLY_REST, _UNLIKE = 4.0, 0.25  # log odds against a name without the main part, and its squared cosine
_OTHER_SITE = 12.0  # log odds against a procedure on another site
_AHEAD = 0.5  # log odds of the name of a procedure without its approach, before the best other one
_ENGLISH = (None, "", "en")
_CUT_SHORT = 5.0  # log odds of a name whose words the description cuts short
_OTHER_TEST = 5.0  # log odds against a test that probably has another component
_OTHER_TRAIT = np.array([8.0, 8.0, 6.0, 0.7, 4.0])  # log odds against another property, specimen, time, method, class
_MAY_LACK = np.array([False, False, True, True, True])
_OTHER_COMPONENT = 50.0  # log odds against a test that certainly has another component
_NOTHING, _ALIKE = 0.05, 0.15  # covered share, and squared cosine, below which a component probably is another one
_LEAST_CUT = 4  # letters of a component that may be cut short without a full stop
_SUBSTANCE = "substance"
_BLOOD_GROUP = 3  # letters of the name of a blood group
_CACHED = 8192  # components
_SAME_COMPONENT = 0.7  # cosine from which components without a common word may be the same: chlorine, chloride
_MARK = re.compile(r"^\s*[(\[][^)\]]{1,20}[)\]]\s*")  # [U], (veterinary)
_WORD = re.compile(r"[^\W\d_]{4}")
_END = re.compile(r"\s*[;,\[:]|\s*\((?![^()]*\)\s\w)|\s[-–]\s|\s/")  # "iodine (131I) omburtamab" goes on


@lru_cache(1 << 14)
def main_part(description: str) -> str:
    """Return the part of a description before the first mark that separates parts."""
    text = _MARK.sub("", description)
    part = _END.split(text, maxsplit=1)[0].strip()
    return part if any(map(str.isalpha, part)) else description


def main_name(description: str) -> str:
    """Return the main part of a description, of a combination its first member.

    That of a laboratory test, with its property in square brackets, is empty: it is only a component.

    >>> main_name("prednisolone and antibiotics; otic"), main_name("Iron [Mass/volume] in Serum")
    ('prednisolone', '')
    """
    return "" if "[" in description[1:] else first_member(main_part(description))


def columns(candidates: CandidateFeatures, first: LinearRanker) -> NDArray[np.float32]:
    """Compute the columns :data:`FEATURES` ``(p, f)`` of pairs of description and name."""
    batch, index = candidates.batch, candidates.batch.index
    kinds = _word_kinds(index.forms)
    mention, names, name = candidates.mention, candidates.distinct_names, candidates.name_index
    sides = index.coverage(batch.word_features, mention, names, name, kinds)
    parts = [main_part(text) for text in batch.texts]
    is_part = np.array([part != text for part, text in zip(parts, batch.texts, strict=True)])
    part, of_part = _replace_coverage(sides, candidates, kinds, np.flatnonzero(is_part), parts)
    # a mention equal to a name has the stored vector of that name
    vectors, encoded = batch.vectors.copy(), np.flatnonzero(is_part | (batch.first_names >= 0))
    if len(encoded):
        vectors[encoded] = batch.encoder.encode([parts[at] for at in encoded.tolist()])
    cosine = row_products(index.vectors(names), name, vectors, mention)
    norms = normalise_all(parts)
    written = [norms[at] for at in mention.tolist()]
    letters = process.cpdist(written, candidates.norms, scorer=fuzz.ratio, dtype=np.float32) / 100
    rank = first.sums(candidates.features)
    both = [a.covered * b.covered for a, b in (sides, (part, of_part))]
    table: list[NDArray[Any]] = [
        rank, *(column for side in sides for column in _columns(side)), both[0], np.maximum(cosine, 0) ** 2,
        letters > _WHOLE, letters**2, part.covered, of_part.covered, part.rarest_word, both[1],
    ]  # fmt: skip
    return np.column_stack(table).astype(np.float32)


def _word_kinds(forms: LexiconForms) -> WordKinds:
    kinds: WordKinds = forms.memo.get("kinds of descriptions") or WordKinds(forms, KINDS)
    forms.memo["kinds of descriptions"] = kinds
    return kinds


def _replace_coverage(
    sides: tuple[TextCoverage, TextCoverage], candidates: CandidateFeatures, kinds: WordKinds,
    changed: NDArray[np.int64], texts: Sequence[str],
) -> tuple[TextCoverage, TextCoverage]:  # fmt: skip
    """Compute the coverage of pairs as ``sides`` has it, where the mentions ``changed`` have other ``texts``."""
    batch, number = candidates.batch, np.full(len(texts), -1)
    number[changed] = np.arange(len(changed))
    pairs = np.flatnonzero(number[candidates.mention] >= 0)
    names, name = np.unique(candidates.name_index[pairs], return_inverse=True)
    features = batch.index.read(*([column[at] for at in changed.tolist()] for column in (texts, batch.languages)))
    computed = batch.index.coverage(
        features, number[candidates.mention[pairs]], candidates.distinct_names[names], name, kinds
    )
    replaced = [TextCoverage(*map(np.copy, side)) for side in sides]
    for side, values in zip(replaced, computed, strict=True):
        for column, of_pairs in zip(side, values, strict=True):
            column[pairs] = of_pairs
    return replaced[0], replaced[1]


def _columns(side: TextCoverage) -> Sequence[NDArray[np.float32]]:
    return (
        side.covered, side.max_uncovered / _RAREST, side.first_word, side.last_word, side.rarest_word,
        *(side.uncovered_kinds / _RAREST).T,
    )  # fmt: skip


@cache
def default_description_ranker() -> FittedRanker:
    """Return the weights that ship with medlink (``benchmarks/fit_descriptions.py``)."""
    return FittedRanker.from_dict(_shipped(), FEATURES)


@cache
def _shipped() -> dict[str, Any]:
    raw: dict[str, Any] = read_json(RESOURCES / "mapping" / "descriptions.json")
    return raw


class DescriptionRanker:
    """Ranks the names of descriptions by :data:`FEATURES`, among them the rank score of ``first``, the ranker of
    mentions."""

    uses_context = False

    def __init__(self, first: LinearRanker) -> None:
        self._first, self._weights = first, default_description_ranker().ranker
        # of the components of names and descriptions
        self._components, self._vectors = BatchCache[str, Words](_CACHED), BatchCache[str, Floats](_CACHED)

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return rank scores ``(p,)``, independent of the context."""
        if not len(candidates.name):
            return np.zeros(0)
        table = columns(candidates, self._first)
        ranks = self._weights.sums(table) + _CUT_SHORT * _are_cut_short(candidates) - _other_tests(candidates, table)
        ranks = np.asarray(ranks - _OTHER_COMPONENT * self._other_components(candidates))
        ranks -= _ONLY_REST * _shares_only_the_rest(candidates, table)
        return _raise_same_procedures(candidates, ranks)

    def _other_components(self, candidates: CandidateFeatures) -> NDArray[np.bool_]:
        """Mark the pairs ``(p,)`` of the full name of a laboratory test and a name with another component.

        If the lexicon has all words of the component of the description, a name has another component if they share no
        meaning and their embeddings differ, or if the name has a further substance beside the only word: *Harnstoff* is
        not *Harnstoff-Stickstoff*. *IgM* alone is no antibody against something. The name of a ratio has another
        component than any name of no ratio.
        """
        batch, index = candidates.batch, candidates.batch.index
        is_full = np.array([is_full_name(text) for text in batch.texts], dtype=bool)
        pairs, other = np.flatnonzero(is_full[candidates.mention]), np.zeros(len(candidates.name), dtype=bool)
        if not len(pairs):
            return other
        mentions, mention = np.unique(candidates.mention[pairs], return_inverse=True)
        rows, row = np.unique(candidates.name_index[pairs], return_inverse=True)
        own_norms, norms = [batch.norms[at] for at in mentions.tolist()], index.norms(candidates.distinct_names[rows])
        wanted, languages = list(map(analyte, own_norms)), [batch.languages[at] for at in mentions.tolist()]
        # many names are tests of one component
        numbers = dict[str, int]()
        number = np.array([numbers.setdefault(analyte(norm), len(numbers)) for norm in norms])[row]
        named = list(numbers)
        ratio, of_ratio = (np.array(list(map(is_ratio, texts))) for texts in (norms, own_norms))
        of_ratio |= np.array([may_be_ratio(batch.texts[at]) for at in mentions.tolist()])
        components = self._components.get(named, lambda new: read_words(index, new, [None] * len(new)))
        of_wanted, of_named = read_words(index, wanted, languages), [components[text] for text in named]
        distinct, of_pair = np.unique(mention * len(named) + number, return_inverse=True)
        differ, doubtful = np.zeros(len(distinct), dtype=bool), list[int]()
        kinds, (ms, ns) = index.forms.kinds, np.divmod(distinct, len(named))
        for at, (m, n) in enumerate(zip(ms.tolist(), ns.tolist(), strict=True)):
            own, its = of_wanted[m], of_named[n]
            is_only_class = is_carrier(named[n]) and own.meanings.isdisjoint(its.meanings)
            if is_only_class or (len(named[n]) < _BLOOD_GROUP and named[n] != wanted[m]):
                differ[at] = True
            elif own.is_known and own.meanings.isdisjoint(its.meanings):
                doubtful.append(at)
            elif own.is_known and len(own.words) == 1:
                differ[at] = any(
                    own.meanings.isdisjoint(word) and all(kinds[meaning] == _SUBSTANCE for meaning in word)
                    for word in its.words
                )
        if doubtful:
            texts = [[wanted[m] for m in ms[doubtful].tolist()], [named[n] for n in ns[doubtful].tolist()]]
            vectors = self._vectors.get(dict.fromkeys([*texts[0], *texts[1]]), batch.encoder.encode)
            left, right = (np.array([vectors[text] for text in column]) for column in texts)
            differ[doubtful] = np.einsum("pd,pd->p", left, right) < _SAME_COMPONENT
        other[pairs] = differ[of_pair] | (ratio[row] & ~of_ratio[mention])
        return other


class MainPartRanker:
    """Raises the best name of a description, as another ranker ranks it, if it equals the main part.

    The rest of such a description is a route, a form or a combination, so that the name is right more often than others
    with the same rank and margin.
    """

    def __init__(self, first: Ranker) -> None:
        self._first, self.uses_context = first, first.uses_context
        self._raise = float(_shipped()["main_part"])

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return rank scores ``(p,)``; the order of the names is that of the other ranker."""
        ranks = np.array(self._first.rank(mentions, contexts, candidates))
        best = best_names(candidates.mention, ranks, candidates.is_equal)
        ranks[best[equals_main_part(candidates, best)]] += self._raise
        return ranks


def equals_main_part(candidates: CandidateFeatures, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the ``pairs (m,)`` whose name equals the main name of the description, and not all of it."""
    parts = normalise_all(list(map(main_name, candidates.batch.texts)))
    equal = [
        parts[at] == norm
        for at, norm in zip(candidates.mention[pairs].tolist(), candidates.norms_of(pairs), strict=True)
    ]
    return np.array(equal, dtype=bool) & ~candidates.is_equal[pairs]


def best_names(mention: NDArray[np.int64], ranks: Floats, first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the highest ranked pair of each mention; pairs that are marked in ``first (p,)`` precede all others."""
    order = np.lexsort((-ranks, ~first, mention))
    best: NDArray[np.int64] = order[np.diff(mention[order], prepend=-1) != 0]
    return best


def _are_cut_short(candidates: CandidateFeatures) -> NDArray[np.bool_]:
    """Mark the pairs ``(p,)`` whose description is the name with words cut short: *E. coli*, *Prot. mirabilis*."""
    batch = candidates.batch
    words = [_words_cut_short(text) for text in batch.texts]
    cut = np.zeros(len(candidates.name), dtype=bool)
    some = np.flatnonzero(np.array([bool(own) for own in words])[candidates.mention])
    lengths = np.array([len(own) for own in words])[candidates.mention[some]]
    is_test = np.array(list(map(is_full_name, batch.texts)), dtype=bool)[candidates.mention[some]]
    count = candidates.sizes[1, some, 1] + 1
    some = some[(count == lengths) | (is_test & (count > lengths))]  # only the component of the name of a test
    for pair, norm in zip(some.tolist(), candidates.norms_of(some), strict=True):
        own = words[candidates.mention[pair]]
        cut[pair] = all(
            full.startswith(word) and (may_be_cut or full == word)
            for (word, may_be_cut), full in zip(own, norm.split(), strict=False)
        )
    return cut


def _shares_only_the_rest(candidates: CandidateFeatures, table: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Mark the pairs ``(p,)`` without anything of the main part of a description: *x; nasal spray*, esketamine nasal
    spray.
    """
    has_rest = np.array(list(map(_has_rest, candidates.batch.texts)), dtype=bool)[candidates.mention]
    covered, cosine = (table[:, FEATURES.index(name)] for name in ("part_covered", "part_cosine"))
    return np.asarray(has_rest & (covered < _NOTHING) & (cosine < _UNLIKE))


def _has_rest(description: str) -> bool:
    """Return whether a description goes on behind a main part that is no abbreviation."""
    part = main_part(description)
    return part != description and _WORD.search(part) is not None and not is_full_name(description)


def _raise_same_procedures(candidates: CandidateFeatures, ranks: Floats) -> Floats:
    """Raise the names of the described procedure in other words, else its names without the approach, and lower those
    of another site.

    The latter come first only if the best name is not that of the procedure with some approach.
    """
    batch, raised = candidates.batch, ranks.copy()
    ends = np.searchsorted(candidates.mention, np.arange(len(batch.texts) + 1))
    for at, (start, end) in enumerate(pairwise(ends.tolist())):
        own = _wordings(batch.norms[at], normalise(main_part(batch.texts[at]))) if end > start else None
        if own is None or batch.languages[at] not in _ENGLISH:
            continue
        named = [procedure_words(norm) for norm in candidates.norms[start:end]]
        wrong = [all(have_other_sites(wording, words) for wording in own.whole) for words in named]
        raised[start:end] -= _OTHER_SITE * np.array(wrong)
        same = np.array([words in own.whole for words in named])
        if same.any():
            raised[start:end] += _SAME_PROCEDURE * same
            continue
        best = int(np.argmax(raised[start:end]))
        if words_without_approach(candidates.norms[start + best]) not in own.bare:
            wider = start + np.flatnonzero([words in own.bare for words in named])
            raised[wider] = np.maximum(raised[wider], raised[start + best] + _AHEAD)
    return raised


class _Wordings(NamedTuple):
    whole: frozenset[frozenset[str]]
    bare: frozenset[frozenset[str]]  # without the approach


def _wordings(*norms: str) -> _Wordings | None:
    """Return the words of a procedure and of its main part; ``None`` if neither names an act."""
    whole, bare = (frozenset(filter(None, map(of, norms))) for of in (procedure_words, words_without_approach))
    return _Wordings(whole, bare) if whole else None


def _words_cut_short(description: str) -> list[tuple[str, bool]]:
    """The words of the main part of a description, each with whether it may be cut short; empty if none may be."""
    is_test, words = is_full_name(description), main_part(description).split()
    may_be_cut = [word.endswith(".") or len(word) == 1 or (is_test and len(word) >= _LEAST_CUT) for word in words]
    if not any(may_be_cut) or not (is_test or len(words) > 1):
        return []
    return list(zip(map(normalise, words), may_be_cut, strict=True))


def _other_tests(candidates: CandidateFeatures, table: NDArray[np.float32]) -> Floats:
    """Return log odds ``(p,)`` against names of other laboratory tests than the described one.

    Such a test shares only property and specimen, or has other traits. A name without a property or specimen may have
    any; a name without a time, method or class has none.
    """
    batch, odds = candidates.batch, np.zeros(len(candidates.name))
    pairs = np.flatnonzero(np.array([is_full_name(text) for text in batch.texts], dtype=bool)[candidates.mention])
    if not len(pairs):
        return odds
    covered, cosine = (table[pairs, FEATURES.index(name)] for name in ("part_covered", "part_cosine"))
    mentions, mention = np.unique(candidates.mention[pairs], return_inverse=True)
    names, name = np.unique(candidates.name_index[pairs], return_inverse=True)
    own = np.array([traits(batch.norms[at]) for at in mentions.tolist()])[mention]
    named = np.array([traits(norm) for norm in batch.index.norms(candidates.distinct_names[names])])[name]
    differ = (own != named) & (_MAY_LACK | ((own >= 0) & (named >= 0))) & (named[:, :1] >= 0)
    odds[pairs] = differ @ _OTHER_TRAIT + _OTHER_TEST * ((covered < _NOTHING) & (cosine < _ALIKE))
    return odds
