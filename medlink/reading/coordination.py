"""Members of a list that share a word: *Leber- und Niereninsuffizienz*, *renal and hepatic failure*, *dolor abdominal y
torácico*.

Each member that lacks the word is read with it. Only what then says a name of the bundle in whole is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from cachetools import LRUCache

from medlink.index import ConceptIndex
from medlink.index.family_match import entry_features
from medlink.index.names import Selections
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner

_HEAD = 5  # letters of the shortest last part of a compound that members share
_BEFORE = 4  # words of a member before the one that joins
_BEHIND = 4  # words behind it
_CHAIN = 6  # words of a list whose members end with a hyphen
_KEPT = 1 << 14  # readings of members of which is kept whether they are a name


Member = tuple[Place, str]
"""A member of a list by its words, and what it says together with the word that it lacks."""


class ListReader:
    """Reads the members of lists that lack a word, in texts of one language, whose words ``joins`` join members."""

    def __init__(
        self, joins: Collection[str], scanner: Scanner, index: ConceptIndex, selection: Selections | None
    ) -> None:
        self._joins, self._scanner = joins, scanner
        self._index, self._selection = index, selection
        # the features of what is a name in whole, of other readings None
        self._known: LRUCache[str, tuple[int, ...] | None] = LRUCache(_KEPT)

    def read(self, texts: Sequence[ScannedText]) -> list[list[Member]]:
        """The members of lists in n texts that lack a word and are a name of the index with it."""
        found = [dict.fromkeys([*_hyphened(text, self._joins), *_joined(text, self._joins)]) for text in texts]
        self._learn({says for members in found for _, says in members})
        return [self._kept(members) for members in found]

    def _learn(self, readings: set[str]) -> None:
        new = sorted(readings - self._known.keys())
        scanned = self._scanner.scan_all(new)
        unknown, names = len(self._index.forms.names), self._index.match_families(scanned, self._selection)
        for reading, text, whole in zip(new, scanned, names, strict=True):
            content = [at for at, word in enumerate(text.words) if not word.function]
            is_name = bool(content) and (content[0], content[-1] + 1) in whole
            features = (feature for at in content for feature in entry_features(text.words[at].entry, unknown))
            self._known[reading] = tuple(features) if is_name else None

    def _kept(self, members: Collection[Member]) -> list[Member]:
        kept: dict[tuple[Place, tuple[int, ...]], Member] = {}
        for one in members:
            features = self._known.get(one[1])
            if features is not None:
                # the longest has the words of the grammar too
                key = one[0], features
                kept[key] = max(kept.get(key, one), one, key=lambda member: len(member[1]))
        return list(kept.values())


def _tails(text: ScannedText, word: ScannedWord) -> Iterator[str]:
    written, read, length = _written(text, word), word.entry.word, 0
    for piece in read.pieces[:0:-1] if len(read.text) == len(written) else ():
        length += len(piece)
        if length >= _HEAD:
            yield written[-length:]


def _hyphened(text: ScannedText, joins: Collection[str]) -> Iterator[Member]:
    """Members that end with a hyphen, or begin with one: *Leber- und Niereninsuffizienz*, *Herzfehler und -rasen*."""
    words, letters = text.words, text.text
    if "-" not in letters:
        return
    for at, word in enumerate(words):
        own, begins = _written(text, word), letters[max(word.start - 2, 0) : word.start]
        if letters[word.end : word.end + 1] == "-" and not letters[word.end + 1 : word.end + 2].isalnum():
            for other in words[at + 1 : at + _CHAIN]:
                if letters[other.end : other.end + 1] == "-" or _written(text, other) in joins:
                    continue
                for tail in _tails(text, other):
                    yield (at, at + 1), f"{own}-{tail}" if own.isupper() else own + tail
                break
        elif at > 1 and begins[-1:] == "-" and not begins[0].isalnum() and _written(text, words[at - 1]) in joins:
            for tail in _tails(text, words[at - 2]):
                yield (at, at + 1), _written(text, words[at - 2])[: -len(tail)] + own


def _joined(text: ScannedText, joins: Collection[str]) -> Iterator[Member]:
    """Members that share a word before or behind them: *renal and hepatic failure*, *Schmerzen in Arm und Bein*."""
    words, letters = text.words, text.text
    joining = text.table.column(
        "coordination", lambda entry: entry.word.function and entry.written.casefold() in joins, bool
    )
    gaps = {at: at + 1 for at in text.where(joining)}  # from behind the first member to the second
    if "/" in letters:
        for at, (one, other) in enumerate(pairwise(words), 1):
            if letters[one.end : other.start] == "/":
                gaps.setdefault(at, at)
    for end, start in sorted(gaps.items()):
        if end and start < len(words) and words[end - 1].clause == words[start].clause:
            yield from _first(text.text, words, end, start)
            yield from _second(text.text, words, end, start)


def _first(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Member]:
    stop = _stop(words, start)
    for first in () if words[end - 1].finds or words[start].function else _firsts(words, end):
        finds = find(words[first:end])
        # "contractures of both knees and moderate contractures of both hips" lacks nothing
        said = any(word.finds for word in words[max(first - _BEFORE, 0) : first] if word.clause == words[first].clause)
        if words[first].function or (said and not finds):
            continue
        last = stop if finds else max((at + 1 for at in range(start + 1, stop) if words[at].finds), default=start)
        for tail in range(start + 1, last):
            # "Parese der oberen" lacks "Extremitäten", "renal" lacks "failure"
            shared = words[tail:last]
            if not shared[0].function and finds != find(shared):
                yield (first, end), f"{_between(text, words[first:end])} {_between(text, shared)}"


def _second(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Member]:
    stop = _stop(words, start)
    own = next((at for at in range(start, stop) if not words[at].function), stop)
    if own == stop or find(words[start:stop]):
        return
    for first in _firsts(words, end):
        if words[first].finds:
            for behind in range(first + 1, end):
                if not all(word.function for word in words[behind:end]):
                    yield (own, stop), f"{_between(text, words[first:behind])} {_between(text, words[start:stop])}"


def _firsts(words: Sequence[ScannedWord], end: int) -> range:
    first = end - 1
    while first > 0 and end - first < _BEFORE and words[first - 1].clause == words[end - 1].clause:
        first -= 1
    return range(first, end)


def _stop(words: Sequence[ScannedWord], start: int) -> int:
    stop = start
    while stop < len(words) and stop - start < _BEHIND and words[stop].clause == words[start].clause:
        if words[stop].function and not all(word.function for word in words[start:stop]):
            break
        stop += 1
    return stop


def find(words: Sequence[ScannedWord]) -> bool:
    """Whether one of some words may name a finding."""
    return any(word.finds for word in words)


def _written(text: ScannedText, word: ScannedWord) -> str:
    return text.text[word.start : word.end]


def _between(text: str, words: Sequence[ScannedWord]) -> str:
    return " ".join(text[words[0].start : words[-1].end].split())
