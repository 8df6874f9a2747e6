"""What the words of a description and of a name mean: their kinds, and the words that only one of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from rapidfuzz import fuzz

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.index import ConceptIndex
from medlink.language.text import normalise
from medlink.mapping.laboratory import analyte

_ANALYTES = frozenset({"substance", "body", "organism"})
_FINDINGS, _BODY, _ACTS = frozenset({"finding", "change"}), frozenset({"body", "function"}), frozenset({"procedure"})
_QUALITIES = frozenset({"quality", "general"})
_SAME_LETTERS = 90.0  # similarity of two spellings of a text
_WHOLE = 0.99  # sum of the shares of all parts of a word


class Words(NamedTuple):
    """The meanings of all words of a text and their parts, those of each whole word, the shares of the features of each
    word, and whether the lexicon knows all words and at least one is an analyte."""

    meanings: set[int]
    words: list[set[int]]
    shares: list[dict[int, float]]
    is_known: bool


def read_words(index: ConceptIndex, texts: Sequence[str], languages: Sequence[str | None]) -> list[Words]:
    """Read texts with the lexicon."""
    features, kinds = index.read(texts, languages), index.forms.kinds
    shares = [dict[int, dict[int, float]]() for _ in texts]
    owner = features.text[features.word].tolist()
    columns = (features.word.tolist(), features.feature.tolist(), features.share.tolist())
    for text, word, meaning, share in zip(owner, *columns, strict=True):
        shares[text].setdefault(word, {})[meaning] = share
    found = []
    for of_text in shares:
        wholes = [{m for m, share in own.items() if m < len(kinds) and share == 1} for own in of_text.values()]
        known = all(wholes) and any(kinds[one] in _ANALYTES for whole in wholes for one in whole)
        meanings = {meaning for own in of_text.values() for meaning in own}
        found.append(Words(meanings, list(filter(None, wholes)), list(of_text.values()), known))
    return found


def have_same_component(index: ConceptIndex, one: str, other: str) -> bool:
    """Return whether the components of two names of laboratory tests are equal: in their letters, nearly so (as in two
    languages), or in the lexicon's meanings of their words.
    """
    texts = [analyte(normalise(name)) for name in (one, other)]
    own, its = read_words(index, texts, [None, None])
    return fuzz.ratio(*texts) >= _SAME_LETTERS or (
        own.is_known and len(own.words) == len(its.words)
        and all(any(word & other for other in its.words) for word in own.words)
    )  # fmt: skip


def has_kind(index: ConceptIndex, text: str, kind: str) -> bool:
    """Return whether the lexicon knows a word of a text as one of a kind."""
    (read,) = read_words(index, [text], [None])
    return any(index.forms.kinds[meaning] == kind for word in read.words for meaning in word)


class Additions(NamedTuple):
    """Whether a name has a word that the description lacks, and whether it has all words of the description."""

    adds: bool
    has_all: bool


def additions(
    index: ConceptIndex, description: str, language: str | None, name: str, name_language: str | None
) -> Additions:
    """Compare the words of a name to those of a description, by their families; a compound has all its parts.

    Words such as *disease* add nothing. Nearly equal texts have the same words, as the lexicon may lack them.
    """
    if fuzz.ratio(normalise(description), normalise(name)) >= _SAME_LETTERS:
        return Additions(adds=False, has_all=True)
    own, its = read_words(index, [description, name], [language, name_language])
    return compare_words(index, own, its)


def compare_words(index: ConceptIndex, own: Words, its: Words) -> Additions:
    """Compare the words of a description to those of a name; see :func:`additions`."""
    general = _general(index)
    return Additions(
        adds=any(general.isdisjoint(word) for word in _missing(its, own)),
        has_all=not any(general.isdisjoint(word) for word in _missing(own, its)),
    )


def _missing(words: Words, other: Words) -> Iterator[dict[int, float]]:
    """Yield the words whose meaning the other text lacks, and not all of whose parts it has."""
    for word in words.shares:
        shared = [share for meaning, share in word.items() if meaning in other.meanings]
        if max(shared, default=0.0) < 1 and sum(shared) < _WHOLE:
            yield word


def _general(index: ConceptIndex) -> frozenset[int]:
    known: frozenset[int] | None = index.forms.memo.get("general words")
    if known is None:
        raw: dict[str, list[str]] = read_json(RESOURCES / "mapping" / "residual.json")["general"]
        texts = [(word, tag) for tag, words in raw.items() for word in words]
        read = read_words(index, *map(list, zip(*texts, strict=True)))
        known = frozenset(meaning for words in read for whole in words.words for meaning in whole)
        index.forms.memo["general words"] = known
    return known


def mean_other_kinds(index: ConceptIndex, description: Words, name: Words, kinds: frozenset[str]) -> bool:
    """Return whether a name is of another kind than a description; ``kinds`` are those of its concept, if known.

    An operation is no body part and no finding, a finding no body part and no operation. A word that the lexicon lacks
    may be anything.
    """
    own, its = (_kinds_of_words(index, words) for words in (description, name))
    acts, finds = (any(word and word <= wanted for word in own) for wanted in (_ACTS, _FINDINGS))
    if acts:
        is_thing = any(word & (_BODY | _FINDINGS) for word in its)
        return is_thing and all(word and word.isdisjoint(_ACTS) for word in its) and kinds.isdisjoint(_ACTS)
    if not finds or not kinds.isdisjoint(_FINDINGS):
        return False
    is_part = any(word & _BODY for word in its) and all(word and word <= _BODY | _QUALITIES for word in its)
    is_only_finding = all(word and word <= _FINDINGS | _BODY | _QUALITIES for word in own)
    return is_part or (is_only_finding and any(word and word <= _ACTS for word in its))


def _kinds_of_words(index: ConceptIndex, words: Words) -> list[set[str]]:
    kinds = index.forms.kinds
    return [{kinds[m] for m, share in word.items() if m < len(kinds) and share == 1} for word in words.shares]


def relates_to(name: str) -> bool:
    """Return whether a name says what a thing does to a finding: *ameliorated by*, *triggered by*.

    >>> relates_to("Ameliorated by lumbar puncture"), relates_to("Mejoría con la punción lumbar")
    (True, True)
    """
    return _relations().search(name) is not None


@cache
def _relations() -> re.Pattern[str]:
    raw: dict[str, list[str]] = read_json(RESOURCES / "mapping" / "residual.json")["relations"]
    return re.compile(rf"(?i:{'|'.join(pattern for patterns in raw.values() for pattern in patterns)})")
