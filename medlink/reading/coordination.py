"""Members of lists that share a word: *Leber- und Niereninsuffizienz*, *renal and hepatic failure*, *dolor abdominal y
torácico*.

The reader adds the shared word to each member, and keeps it if the result equals a name of the bundle by word families.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from cachetools import LRUCache

from medlink.index import ConceptIndex
from medlink.index.family_match import entry_features
from medlink.index.names import Selections
from medlink.language.cues import ScopeRules
from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner
from medlink.reading.predicates import predicates

_MIN_HEAD = 5  # letters of the last part of a compound that members share
_BEFORE = 4  # most words of a member before the joining word
_BEHIND = 4  # most words after it
_CHAIN = 6  # most words of a list whose members end with a hyphen
_CACHE_SIZE = 1 << 14  # completed members
_USUAL = 0.5  # share of the uses of an abbreviation with the meaning that its neighbours complete
_BESIDE = 2  # most words on either side of an abbreviation


Member = tuple[Place, str]
"""A member of a list: its words, and its text with the word that it lacks."""


class CoordinationReader:
    """Completes the members of lists in texts of one language, whose joining words ``rules`` have."""

    def __init__(
        self,
        rules: ScopeRules,
        scanner: Scanner,
        index: ConceptIndex,
        selection: Selections | None,
        shorthand: AbbreviationTable | None = None,
    ) -> None:
        self._shorthand = shorthand
        self._rules, self._joins, self._scanner = rules, rules.joins, scanner
        self._index, self._selection = index, selection
        # word features by completed text, None if it is no name
        self._known: LRUCache[str, tuple[int, ...] | None] = LRUCache(_CACHE_SIZE)

    def read(self, texts: Sequence[ScannedText]) -> list[list[Member]]:
        """Find the spans of n texts that paraphrase a name of the index, each with its full wording.

        They are members of lists that lack a word, subjects with a predicate, and abbreviations with their neighbours.
        """
        found = [
            dict.fromkeys(
                [
                    *_hyphened(text, self._joins),
                    *_joined(text, self._joins),
                    *predicates(text, self._rules),
                    *(() if self._shorthand is None else _in_full(text, self._shorthand)),
                ]
            )
            for text in texts
        ]
        self._look_up({completed for members in found for _, completed in members})
        return [self._select(members) for members in found]

    def _look_up(self, readings: set[str]) -> None:
        new = sorted(readings - self._known.keys())
        scanned = self._scanner.scan_all(new)
        unknown, names = len(self._index.forms.names), self._index.match_families(scanned, self._selection)
        for reading, text, whole in zip(new, scanned, names, strict=True):
            content = [at for at, word in enumerate(text.words) if not word.function]
            is_name = bool(content) and (content[0], content[-1] + 1) in whole
            features = (feature for at in content for feature in entry_features(text.words[at].entry, unknown))
            self._known[reading] = tuple(features) if is_name else None

    def _select(self, members: Collection[Member]) -> list[Member]:
        longest: dict[tuple[Place, tuple[int, ...]], Member] = {}
        for member in members:
            features = self._known.get(member[1])
            if features is not None:
                # the longest text includes function words
                key = member[0], features
                longest[key] = max(longest.get(key, member), member, key=lambda candidate: len(candidate[1]))
        return list(longest.values())


def _in_full(text: ScannedText, shorthand: AbbreviationTable) -> Iterator[Member]:
    """Abbreviations with their neighbours: *inkompletter RSB*, *sek. HPT*, *RCA-Verschluss*."""
    words = text.words
    for at, usual in shorthand.abbreviations(text):
        if usual.weight < _USUAL:
            continue
        for first in range(max(0, at - _BESIDE), at + 1):
            for stop in range(at + 1, min(len(words), at + _BESIDE + 1) + 1):
                own = words[first:stop]
                if stop - first < 2 or own[0].function or own[-1].function or own[0].clause != own[-1].clause:
                    continue
                parts = [_between(text.text, own[: at - first]) if first < at else "", usual.long]
                parts.append(_between(text.text, words[at + 1 : stop]) if at + 1 < stop else "")
                yield (first, stop), " ".join(filter(None, parts))


def _tails(text: ScannedText, word: ScannedWord) -> Iterator[str]:
    written, read, length = _written(text, word), word.entry.word, 0
    for piece in read.pieces[:0:-1] if len(read.text) == len(written) else ():
        length += len(piece)
        if length >= _MIN_HEAD:
            yield written[-length:]


def _hyphened(text: ScannedText, joins: Collection[str]) -> Iterator[Member]:
    """Members that end or begin with a hyphen: *Leber- und Niereninsuffizienz*, *Herzfehler und -rasen*."""
    words, letters = text.words, text.text
    if "-" not in letters:
        return
    for at, word in enumerate(words):
        own, begins = _written(text, word), letters[max(word.start - 2, 0) : word.start]
        if letters[word.end : word.end + 1] == "-" and not letters[word.end + 1 : word.end + 2].isalnum():
            for following in words[at + 1 : at + _CHAIN]:
                if letters[following.end : following.end + 1] == "-" or _written(text, following) in joins:
                    continue
                for tail in _tails(text, following):
                    yield (at, at + 1), f"{own}-{tail}" if own.isupper() else own + tail
                break
        elif at > 1 and begins[-1:] == "-" and not begins[0].isalnum() and _written(text, words[at - 1]) in joins:
            for tail in _tails(text, words[at - 2]):
                yield (at, at + 1), _written(text, words[at - 2])[: -len(tail)] + own


def _joined(text: ScannedText, joins: Collection[str]) -> Iterator[Member]:
    """Members that share a word before or after them: *renal and hepatic failure*, *Schmerzen in Arm und Bein*."""
    words, letters = text.words, text.text
    joining = text.table.column(
        "coordination", lambda entry: entry.word.function and entry.written.casefold() in joins, bool
    )
    gaps = {at: at + 1 for at in text.where(joining)}  # from the end of the first member to the start of the second
    if "/" in letters:
        for at, (left, right) in enumerate(pairwise(words), 1):
            if letters[left.end : right.start] == "/":
                gaps.setdefault(at, at)
    for end, start in sorted(gaps.items()):
        if end and start < len(words) and words[end - 1].clause == words[start].clause:
            yield from _first(text.text, words, end, start)
            yield from _second(text.text, words, end, start)


def _first(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Member]:
    stop = _stop(words, start)
    for first in () if words[end - 1].finds or words[start].function else _firsts(words, end):
        finds = names_finding(words[first:end])
        # "contractures of both knees and moderate contractures of both hips" is complete
        named_before = any(
            word.finds for word in words[max(first - _BEFORE, 0) : first] if word.clause == words[first].clause
        )
        if words[first].function or (named_before and not finds):
            continue
        last = stop if finds else max((at + 1 for at in range(start + 1, stop) if words[at].finds), default=start)
        for tail in range(start + 1, last):
            # "Parese der oberen" lacks "Extremitäten", "renal" lacks "failure"
            shared = words[tail:last]
            if not shared[0].function and finds != names_finding(shared):
                yield (first, end), f"{_between(text, words[first:end])} {_between(text, shared)}"


def _second(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Member]:
    stop = _stop(words, start)
    own = next((at for at in range(start, stop) if not words[at].function), stop)
    if own == stop or names_finding(words[start:stop]):
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


def names_finding(words: Sequence[ScannedWord]) -> bool:
    """Return whether some word may name a finding."""
    return any(word.finds for word in words)


def _written(text: ScannedText, word: ScannedWord) -> str:
    return text.text[word.start : word.end]


def _between(text: str, words: Sequence[ScannedWord]) -> str:
    return " ".join(text[words[0].start : words[-1].end].split())
