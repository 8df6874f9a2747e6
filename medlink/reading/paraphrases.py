"""Spans that become a name of the index in another wording.

That is a member of a list with the word that it lacks (*Leber- und Niereninsuffizienz*, *renal and hepatic failure*), a
subject with its predicate (*RV mit 42 mm erweitert*), a name in inverted order (*Pneumonia, aspiration*), and an
abbreviation in full with its neighbours (*inkompletter RSB*). A span counts if its wording equals a name of the index
by word families.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise

from cachetools import LRUCache

from medlink.index import ConceptIndex
from medlink.index.family_match import entry_features
from medlink.index.names import Selections
from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner
from medlink.language.scope_rules import ScopeRules, scopes
from medlink.reading.candidates import Paraphrase, headword

_CACHE_SIZE = 1 << 14  # wordings
_USUAL = 0.5  # least share of uses of an abbreviation with the meaning that its neighbours complete
_BESIDE = 2  # most words on either side of an abbreviation
_MIN_HEAD = 5  # letters of the last part of a compound that members share
_MEMBER = 4  # most words of a member on either side of the joining word
_CHAIN = 6  # most words of a list whose members end with a hyphen
_INVERTED = 3  # most words of an inverted name before the comma, and behind it
_MAX_BETWEEN = 8  # words between subject and predicate
_MAX_SUBJECT = 5  # words of the subject
_COMMA, _END = re.compile(r",\s"), re.compile(r"\s*(?:[,.;)\n]|$)")
_NUMBER = re.compile(r"[<>~≤≥]?\d+(?:[.,]\d+)?\s?[^\W\d]{0,4}")
_ORGAN = re.compile(r"[A-ZÄÖÜ]{2,4}")  # LV, RA
_SUBJECT = frozenset(("body", "function"))


class ParaphraseReader:
    """Finds such spans in texts of the language of a scanner; without ``shorthand``, abbreviations stay as they are."""

    def __init__(
        self, scanner: Scanner, index: ConceptIndex, selection: Selections | None, shorthand: AbbreviationTable | None
    ) -> None:
        self._rules, self._shorthand, self._scanner = scopes(scanner.language), shorthand, scanner
        self._index, self._selection = index, selection
        self.is_name = lru_cache(_CACHE_SIZE)(lambda text: bool(index.lookup(text, scanner.language, selection)))
        self._headword = lru_cache(_CACHE_SIZE)(self._find_headword)
        # word features by wording, None if it is not a name
        self._known: LRUCache[str, tuple[int, ...] | None] = LRUCache(_CACHE_SIZE)

    def read(self, texts: Sequence[ScannedText]) -> list[list[Paraphrase]]:
        """Find the spans of n texts that are a name of the index in other words, each with those words."""
        found = [list(dict.fromkeys(self._candidates(text))) for text in texts]
        self._look_up({wording for own in found for _, wording in own})
        return [self._select(own) for own in found]

    def _candidates(self, text: ScannedText) -> Iterator[Paraphrase]:
        yield from _hyphened(text, self._rules.joins)
        yield from _joined(text, self._rules.joins)
        yield from _predicates(text, self._rules)
        for place, orders, sure, opening in _inversions(text):
            phrases = (
                self._headword(order)
                for order, (first, second) in zip(orders, opening, strict=True)
                if self._scanner.opens_phrase(first.entry, second.entry)
            )
            name = next(filter(self.is_name, chain(orders, filter(None, phrases))), None)
            # "Pneumonia, aspiration" is one finding, "seizures, fever" are two
            if name is not None or sure:
                yield place, name or orders[self._rules.head_first]
        if self._shorthand is not None:
            yield from _abbreviations(text, self._shorthand)

    def named(self, wording: str) -> bool:
        """Return whether a wording is a name of the index or a phrase of the lexicon."""
        return self.is_name(wording) or self._headword(wording) is not None

    def _find_headword(self, wording: str) -> str | None:
        text = self._scanner.scan(wording)
        return headword(text, (0, len(text.words)), self._index.forms, self._scanner.language)

    def _look_up(self, wordings: set[str]) -> None:
        new = sorted(wordings - self._known.keys())
        scanned = self._scanner.scan_all(new)
        unknown, names = len(self._index.forms.names), self._index.match_families(scanned, self._selection)
        for wording, text, whole in zip(new, scanned, names, strict=True):
            content = [at for at, word in enumerate(text.words) if not word.function]
            is_name = bool(content) and (content[0], content[-1] + 1) in whole
            features = (feature for at in content for feature in entry_features(text.words[at].entry, unknown))
            self._known[wording] = tuple(features) if is_name else None

    def _select(self, spans: Collection[Paraphrase]) -> list[Paraphrase]:
        longest: dict[tuple[Place, tuple[int, ...]], Paraphrase] = {}
        for span in spans:
            features = self._known.get(span[1])
            if features is not None:
                # the longest wording includes function words
                key = span[0], features
                longest[key] = max(longest.get(key, span), span, key=lambda candidate: len(candidate[1]))
        return list(longest.values())


def names_finding(words: Sequence[ScannedWord]) -> bool:
    """Return whether some word may name a finding."""
    return any(word.finds for word in words)


def _written(text: ScannedText, first: int, stop: int) -> str:
    return " ".join(text.written((first, stop)).split())


def _hyphened(text: ScannedText, joins: Collection[str]) -> Iterator[Paraphrase]:
    """Members that end or begin with a hyphen: *Leber- und Niereninsuffizienz*, *Herzfehler und -rasen*."""
    words, letters = text.words, text.text
    if "-" not in letters:
        return
    for at, word in enumerate(words):
        own, begins = word.entry.written, letters[max(word.start - 2, 0) : word.start]
        if letters[word.end : word.end + 1] == "-" and not letters[word.end + 1 : word.end + 2].isalnum():
            for following in words[at + 1 : at + _CHAIN]:
                if letters[following.end : following.end + 1] == "-" or following.entry.written in joins:
                    continue
                for tail in _tails(following):
                    yield (at, at + 1), f"{own}-{tail}" if own.isupper() else own + tail
                break
        elif at > 1 and begins[-1:] == "-" and not begins[0].isalnum() and words[at - 1].entry.written in joins:
            for tail in _tails(words[at - 2]):
                yield (at, at + 1), words[at - 2].entry.written[: -len(tail)] + own


def _tails(word: ScannedWord) -> Iterator[str]:
    written, read, length = word.entry.written, word.entry.word, 0
    for piece in read.pieces[:0:-1] if len(read.text) == len(written) else ():
        length += len(piece)
        if length >= _MIN_HEAD:
            yield written[-length:]


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
        if not end or start == len(words) or words[end - 1].clause != words[start].clause:
            continue
        begin, stop = end - 1, start
        while begin and end - begin < _MEMBER and words[begin - 1].clause == words[end - 1].clause:
            begin -= 1
        while stop < len(words) and stop - start < _MEMBER and words[stop].clause == words[start].clause:
            if words[stop].function and not all(word.function for word in words[start:stop]):
                break
            stop += 1
        yield from _first_members(text, range(begin, end), range(start, stop))
        yield from _second_member(text, range(begin, end), range(start, stop))


def _first_members(text: ScannedText, before: range, behind: range) -> Iterator[Paraphrase]:
    words, end, start = text.words, before.stop, behind.start
    for first in () if words[end - 1].finds or words[start].function else before:
        finds = names_finding(words[first:end])
        # "contractures of both knees and moderate contractures of both hips" is complete
        clause, further = words[first].clause, words[max(first - _MEMBER, 0) : first]
        if words[first].function or (not finds and any(word.finds for word in further if word.clause == clause)):
            continue
        last = behind.stop if finds else max((at + 1 for at in behind[1:] if words[at].finds), default=start)
        for tail in range(start + 1, last):
            # "Parese der oberen" lacks "Extremitäten", "renal" lacks "failure"
            if not words[tail].function and finds != names_finding(words[tail:last]):
                yield (first, end), f"{_written(text, first, end)} {_written(text, tail, last)}"


def _second_member(text: ScannedText, before: range, behind: range) -> Iterator[Paraphrase]:
    words, end, (start, stop) = text.words, before.stop, (behind.start, behind.stop)
    own = next((at for at in behind if not words[at].function), stop)
    if own == stop or names_finding(words[start:stop]):
        return
    for first in before:
        for last in range(first + 1, end) if words[first].finds else ():
            if not all(word.function for word in words[last:end]):
                yield (own, stop), f"{_written(text, first, last)} {_written(text, start, stop)}"


_Inversion = tuple[Place, tuple[str, str], bool, tuple[Sequence[ScannedWord], Sequence[ScannedWord]]]


def _inversions(text: ScannedText) -> Iterator[_Inversion]:
    """Heads with a word of a finding, and the modifier behind them, which a function word or a mark follows.

    The modifier stands behind a comma, or is a quality (*Niereninsuffizienz chronisch*). Yields their span, the
    wordings in both orders, whether the modifier is a quality that ends its clause behind a comma (other pairs may be
    two findings), and the first two words of each order.
    """
    words, letters = text.words, text.text
    qualities = text.table.column("qualities", lambda entry: "quality" in entry.kinds, bool)
    behind = {int(at) for at in text.where(qualities) if at and words[at - 1].clause == words[at].clause}
    commas = {
        at for at in range(1, len(words) if ", " in letters else 0)
        if words[at - 1].clause != words[at].clause and _COMMA.fullmatch(letters, words[at - 1].end, words[at].start)
    }  # fmt: skip
    for at in sorted(commas | behind):
        if words[at - 1].function or words[at].function:
            continue
        stop = at + 1
        while stop < len(words) and words[stop].clause == words[at].clause and not words[stop].function:
            stop += 1
        is_end = _END.match(letters, words[stop - 1].end) is not None
        is_name_only = not is_end and stop < len(words) and words[stop].function
        sure = is_end and all(word.function or ("quality" in word.kinds and not word.finds) for word in words[at:stop])
        if stop - at > _INVERTED or not (sure if at in behind else is_end or is_name_only):
            continue
        sure = sure and at in commas
        for first in range(at - 1, max(at - _INVERTED, 0) - 1, -1):
            if words[first].clause != words[at - 1].clause:
                break
            if not words[first].function and names_finding(words[first:at]):
                head, modifier = text.written((first, at)), text.written((at, stop))
                opening = [*words[at:stop], words[first]][:2], [*words[first:at], words[at]][:2]
                yield (first, stop), (f"{modifier} {head}", f"{head} {modifier}"), sure, opening


def _predicates(text: ScannedText, rules: ScopeRules) -> Iterator[Paraphrase]:
    """Subjects and predicates that stand apart, without the words between them: *the spleen was not visibly enlarged*.

    Words for amount, side, observation and negation may stand between a body part or function and its change.
    """
    words = text.words
    changes = text.table.column(
        "predicates", lambda entry: "change" in entry.kinds and bool(rules.predicate.fullmatch(entry.written)), bool
    )
    for at in text.where(changes):
        end = _with_size(words, at)
        for before in range(at - 1, max(at - _MAX_BETWEEN - _MAX_SUBJECT, 0) - 1, -1):
            if words[before].clause != words[at].clause:
                break
            if _is_subject(words[before]):
                for place in _subjects(words, before, at):
                    yield (place[0], end), f"{text.written(place)} {text.written((at, end))}"
            elif not _may_stand_between(text, before, rules):
                break


def _is_subject(word: ScannedWord) -> bool:
    is_organ = not _SUBJECT.isdisjoint(word.kinds) and "quality" not in word.kinds
    return not word.function and (is_organ or _ORGAN.fullmatch(word.entry.written) is not None)


def _may_stand_between(text: ScannedText, at: int, rules: ScopeRules) -> bool:
    word, low = text.words[at], text.words[at].entry.written.casefold()
    if low in rules.between or _NUMBER.fullmatch(word.entry.written):
        return True
    if low in rules.measured:
        return at + 1 < len(text.words) and text.text[text.words[at + 1].start].isdigit()
    return "quality" in word.kinds and not word.finds


def _subjects(words: Sequence[ScannedWord], start: int, at: int) -> Iterator[Place]:
    """Subjects with a word as first noun: *Hinterwand*, *Hinterwand des LV*, *left atrium*, *aurícula izquierda*."""
    begins = [start]
    if start and "quality" in words[start - 1].kinds and words[start - 1].clause == words[start].clause:
        begins.append(start - 1)
    for stop in range(start + 1, min(start + _MAX_SUBJECT, at - 1) + 1):
        word = words[stop - 1]
        if _is_subject(word) or (stop > start + 1 and "quality" in word.kinds):
            yield from ((begin, stop) for begin in begins)
        elif not word.function:
            return


def _with_size(words: Sequence[ScannedWord], at: int) -> int:
    """The end of a predicate: *aumentada de tamaño*, *increased in size* go beyond the word of the change."""
    for stop in range(at + 1, min(at + 3, len(words))):
        word = words[stop]
        if word.clause != words[at].clause or not (word.function or "quality" in word.kinds):
            break
        if not word.function:
            return stop + 1
    return at + 1


def _abbreviations(text: ScannedText, shorthand: AbbreviationTable) -> Iterator[Paraphrase]:
    """Abbreviations in full, with their neighbours: *inkompletter RSB*, *sek. HPT*, *RCA-Verschluss*."""
    words = text.words
    for at, usual, _ in shorthand.abbreviations(text):
        if usual.weight < _USUAL:
            continue
        for first in range(max(0, at - _BESIDE), at + 1):
            for stop in range(at + 1, min(len(words), at + _BESIDE + 1) + 1):
                own = words[first:stop]
                if stop - first < 2 or own[0].function or own[-1].function or own[0].clause != own[-1].clause:
                    continue
                before = text.written((first, at)) if first < at else ""
                behind = text.written((at + 1, stop)) if at + 1 < stop else ""
                yield (first, stop), " ".join([*before.split(), usual.long, *behind.split()])
