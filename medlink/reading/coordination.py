"""Members of a list that share a word: *Leber- und Niereninsuffizienz*, *renal and hepatic failure*, *dolor abdominal y
torácico*.

Each member that lacks the word is read with it. Only what then says a name of the bundle in whole is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from medlink.index import ConceptIndex
from medlink.index.heard import Heard, HeardWord, Place, hear
from medlink.index.names import Selections
from medlink.language.lexicon.reading import FamilyReader
from medlink.language.text import normalise

_HEAD = 5  # letters of the shortest last part of a compound that members share
_BEFORE = 4  # words of a member before the one that joins
_BEHIND = 4  # words behind it
_CHAIN = 6  # words of a list whose members end with a hyphen
_APART = " | "


class Member(NamedTuple):
    """A member of a list by its words, and what it says together with the word that it lacks."""

    place: Place
    says: str


def members(
    text: str,
    heard: Heard,
    joins: Collection[str],
    language: str,
    reader: FamilyReader,
    index: ConceptIndex,
    selection: Selections | None,
) -> list[Member]:
    """The members of lists that lack a word and say a name of the index with it."""
    found = list(dict.fromkeys([*_hyphened(text, heard, joins, language, reader), *_joined(text, heard, joins)]))
    if not found:
        return []
    said = hear(_APART.join(one.says for one in found), language, reader)
    whole = index.places_of_names(said, selection)
    ends = [0]
    for one in found:
        ends.append(ends[-1] + len(one.says) + len(_APART))
    kept: dict[tuple[Place, tuple[int, ...]], Member] = {}
    for one, (start, end) in zip(found, pairwise(ends), strict=True):
        own = range(bisect_left(said.starts, start), bisect_left(said.starts, end))
        content = [n for n in own if not said.words[n].function]
        if content and (content[0], content[-1] + 1) in whole:
            meant = tuple(feature for n in content for feature in said.words[n].features)
            # the longest has the words of the grammar too
            kept[one.place, meant] = max(kept.get((one.place, meant), one), one, key=lambda member: len(member.says))
    return list(kept.values())


def _hyphened(text: str, heard: Heard, joins: Collection[str], language: str, reader: FamilyReader) -> Iterator[Member]:
    """Members that end with a hyphen, or begin with one: *Leber- und Niereninsuffizienz*, *Herzfehler und -rasen*."""
    words = heard.words
    for at, word in enumerate(words):
        if text[word.end : word.end + 1] == "-" and not text[word.end + 1 : word.end + 2].isalnum():
            for other in words[at + 1 : at + _CHAIN]:
                if text[other.end : other.end + 1] == "-" or _written(text, other) in joins:
                    continue
                own = _written(text, word)
                for tail in _tails(text, other, language, reader):
                    yield Member((at, at + 1), f"{own}-{tail}" if own.isupper() else own + tail)
                break
        elif at > 1 and text[word.start - 1] == "-" and not text[word.start - 2].isalnum():
            if _written(text, words[at - 1]) not in joins:
                continue
            before = words[at - 2]
            for tail in _tails(text, before, language, reader):
                stem = _written(text, before)[: -len(tail)]
                yield Member((at, at + 1), stem + _written(text, word))


def _tails(text: str, word: HeardWord, language: str, reader: FamilyReader) -> Iterator[str]:
    """The last parts of a compound, as it is written."""
    written = _written(text, word)
    (exact,) = reader.read_words([normalise(written)], language).words or (None,)
    length = 0
    for piece in exact.pieces[:0:-1] if exact is not None and len(exact.text) == len(written) else ():
        length += len(piece)
        if length >= _HEAD:
            yield written[-length:]


def _joined(text: str, heard: Heard, joins: Collection[str]) -> Iterator[Member]:
    """Members that share a word before or behind them: *renal and hepatic failure*, *Schmerzen in Arm und Bein*."""
    for end, start in _gaps(text, heard.words, joins):
        if end and start < len(heard.words) and heard.words[end - 1].clause == heard.words[start].clause:
            yield from _first(text, heard.words, end, start)
            yield from _second(text, heard.words, end, start)


def _gaps(text: str, words: Sequence[HeardWord], joins: Collection[str]) -> Iterator[Place]:
    """Where two members meet: behind the last word of the one, and the first of the other."""
    for at, word in enumerate(words):
        if word.function and _written(text, word).casefold() in joins:
            yield at, at + 1
        elif at and text[words[at - 1].end : word.start] == "/":
            yield at, at


def _first(text: str, words: Sequence[HeardWord], end: int, start: int) -> Iterator[Member]:
    """Readings of the first member with the last words of the second one."""
    stop = _stop(words, start, _BEHIND)
    for first in () if words[end - 1].finds or words[start].function else _firsts(words, end):
        finds = any(word.finds for word in words[first:end])
        # "contractures of both knees and moderate contractures of both hips" lacks nothing
        said = any(word.finds for word in words[max(first - _BEFORE, 0) : first] if word.clause == words[first].clause)
        if words[first].function or (said and not finds):
            continue
        for tail in range(start + 1, stop):
            shared = words[tail:stop] if finds else words[tail : 1 + _last_find(words, tail, stop)]
            # "Parese der oberen" lacks "Extremitäten", "renal" lacks "failure"
            if shared and not shared[0].function and finds != any(word.finds for word in shared):
                yield Member((first, end), f"{_between(text, words[first:end])} {_between(text, shared)}")


def _second(text: str, words: Sequence[HeardWord], end: int, start: int) -> Iterator[Member]:
    """Readings of the second member with the first words of the first one."""
    stop = _stop(words, start, _BEHIND)
    own = next((at for at in range(start, stop) if not words[at].function), stop)
    if own == stop or any(word.finds for word in words[start:stop]):
        return
    for first in _firsts(words, end):
        if words[first].finds:
            for behind in range(first + 1, end):
                if not all(word.function for word in words[behind:end]):
                    says = f"{_between(text, words[first:behind])} {_between(text, words[start:stop])}"
                    yield Member((own, stop), says)


def _firsts(words: Sequence[HeardWord], end: int) -> range:
    """Where a member may begin that ends there."""
    first = end - 1
    while first > 0 and end - first < _BEFORE and words[first - 1].clause == words[end - 1].clause:
        first -= 1
    return range(first, end)


def _stop(words: Sequence[HeardWord], start: int, most: int) -> int:
    """Where the words of content end that begin there, behind words of the grammar."""
    stop = start
    while stop < len(words) and stop - start < most and words[stop].clause == words[start].clause:
        if words[stop].function and not all(word.function for word in words[start:stop]):
            break
        stop += 1
    return stop


def _last_find(words: Sequence[HeardWord], start: int, stop: int) -> int:
    """The last word of a finding in some words; none is before them."""
    return max((at for at in range(start, stop) if words[at].finds), default=start - 1)


def _written(text: str, word: HeardWord) -> str:
    return text[word.start : word.end]


def _between(text: str, words: Sequence[HeardWord]) -> str:
    return " ".join(text[words[0].start : words[-1].end].split())
