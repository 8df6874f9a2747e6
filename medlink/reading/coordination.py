"""Members of lists that share a word: *Leber- und Niereninsuffizienz*, *renal and hepatic failure*, *dolor abdominal y
torácico*.

Each member is read with the word that it lacks (:mod:`medlink.reading.paraphrases`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from medlink.language.scan import ScannedText, ScannedWord
from medlink.reading.candidates import Paraphrase

_MIN_HEAD = 5  # letters of the last part of a compound that members share
_BEFORE = 4  # most words of a member before the joining word
_BEHIND = 4  # most words after it
_CHAIN = 6  # most words of a list whose members end with a hyphen


def members(text: ScannedText, joins: Collection[str]) -> Iterator[Paraphrase]:
    """Yield the members of lists that lack a shared word, each completed by it; ``joins`` are the joining words."""
    yield from _hyphened(text, joins)
    yield from _joined(text, joins)


def _tails(text: ScannedText, word: ScannedWord) -> Iterator[str]:
    written, read, length = _written(text, word), word.entry.word, 0
    for piece in read.pieces[:0:-1] if len(read.text) == len(written) else ():
        length += len(piece)
        if length >= _MIN_HEAD:
            yield written[-length:]


def _hyphened(text: ScannedText, joins: Collection[str]) -> Iterator[Paraphrase]:
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


def _joined(text: ScannedText, joins: Collection[str]) -> Iterator[Paraphrase]:
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


def _first(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Paraphrase]:
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


def _second(text: str, words: Sequence[ScannedWord], end: int, start: int) -> Iterator[Paraphrase]:
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
