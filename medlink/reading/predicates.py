"""Findings whose subject and predicate stand apart: *RV mit 42 mm erweitert*, *the spleen was not visibly enlarged*.

Words for amount, side, observation and negation may stand between a body part or function and the word for its change.
Without these words, the subject and the predicate together are a name, if the index has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from medlink.language.scan import Place, ScannedText, ScannedWord
from medlink.language.scope_rules import ScopeRules
from medlink.reading.candidates import Paraphrase

_MAX_BETWEEN = 8  # words between subject and predicate
_MAX_SUBJECT = 5  # words of the subject
_NUMBER = re.compile(r"[<>~≤≥]?\d+(?:[.,]\d+)?\s?[^\W\d]{0,4}")
_ORGAN = re.compile(r"[A-ZÄÖÜ]{2,4}")  # LV, RA

_SUBJECT = frozenset(("body", "function"))


def predicates(text: ScannedText, rules: ScopeRules) -> Iterator[Paraphrase]:
    """Yield the spans of a subject and a predicate with other words between, each without these words."""
    words = text.words
    changes = text.table.column(
        "predicates",
        lambda entry: "change" in entry.kinds and bool(rules.predicate.fullmatch(entry.written)),
        bool,
    )
    for at in text.where(changes):
        end = _with_size(text, at)
        for before in range(at - 1, max(at - _MAX_BETWEEN - _MAX_SUBJECT, 0) - 1, -1):
            word = words[before]
            if word.clause != words[at].clause:
                break
            if _is_subject(text, word):
                for place in _subjects(text, before, at):
                    yield (place[0], end), f"{text.written(place)} {text.written((at, end))}"
            elif not _may_stand_between(text, before, rules):
                break


def _is_subject(text: ScannedText, word: ScannedWord) -> bool:
    if word.function:
        return False
    is_organ = _SUBJECT & word.kinds and "quality" not in word.kinds
    return bool(is_organ or _ORGAN.fullmatch(text.text, word.start, word.end))


def _may_stand_between(text: ScannedText, at: int, rules: ScopeRules) -> bool:
    word, low = text.words[at], text.words[at].entry.written.casefold()
    if low in rules.between or _NUMBER.fullmatch(text.text, word.start, word.end):
        return True
    if low in rules.measured:
        return at + 1 < len(text.words) and text.text[text.words[at + 1].start].isdigit()
    return "quality" in word.kinds and not word.finds


def _subjects(text: ScannedText, start: int, at: int) -> Iterator[Place]:
    """Subjects whose first noun is a word: *Hinterwand*, *Hinterwand des LV*, *left atrium*, *aurícula izquierda*."""
    words, begins = text.words, [start]
    if start and "quality" in words[start - 1].kinds and words[start - 1].clause == words[start].clause:
        begins.append(start - 1)
    for stop in range(start + 1, min(start + _MAX_SUBJECT, at - 1) + 1):
        word = words[stop - 1]
        if _is_subject(text, word) or (stop > start + 1 and "quality" in word.kinds):
            yield from ((begin, stop) for begin in begins)
        elif not word.function:
            return


def _with_size(text: ScannedText, at: int) -> int:
    """The end of a predicate: *aumentada de tamaño*, *increased in size* go beyond the word of the change."""
    for stop in range(at + 1, min(at + 3, len(text.words))):
        word = text.words[stop]
        if word.clause != text.words[at].clause or not (word.function or "quality" in word.kinds):
            break
        if not word.function:
            return stop + 1
    return at + 1
