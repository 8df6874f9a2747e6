"""Stretches of a note that may be mentions: what says a name of the index, and what is near a word of a finding.

Most are no mention; :mod:`medlink.reading.choice` says which are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from medlink.index.heard import FINDS, Heard, HeardWord, Place

# Kinds of the words that a finding begins and ends with; a word that is not known may be any.
_OF_FINDINGS = FINDS | {"body", "function", "substance", "organism", "quality", ""}
_MOST = 5  # words of a stretch, those of the grammar apart


def open_windows(heard: Heard, named: Collection[Place]) -> set[Place]:
    """Stretches around words of findings that lie in no place of a name: up to five words of one clause.

    They begin or end with a word of a finding, and at the other end stands what findings are named by.
    """
    covered = bytearray(len(heard.words))
    for first, stop in named:
        covered[first:stop] = b"\1" * (stop - first)
    found: set[Place] = set()
    for at, word in enumerate(heard.words):
        if not covered[at] and not word.function and word.finds:
            found.update(_around(at, heard.words))
    return found


def _around(at: int, words: list[HeardWord]) -> Iterator[Place]:
    """Stretches that hold one word."""
    before = list(_ends(at, words, -1))
    after = list(_ends(at, words, 1))
    for first, more in before:
        for last, further in after:
            if more + further < _MOST and (words[first].finds or words[last].finds):
                yield first, last + 1


def _ends(at: int, words: list[HeardWord], step: int) -> Iterator[tuple[int, int]]:
    """Words from one on, in one direction, that may be an end, with the words of content between."""
    content, clause = 0, words[at].clause
    while 0 <= at < len(words) and words[at].clause == clause and content < _MOST:
        word = words[at]
        if not word.function:
            if not word.kinds or word.kinds & _OF_FINDINGS:
                yield at, content
            content += 1
        at += step
