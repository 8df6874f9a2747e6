"""Spans of words, and matches of cues in a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from medlink.language.cues import Cue


class WordSpan(NamedTuple):
    """The first word of a span and the word after its last word."""

    start: int
    end: int


class Match(NamedTuple):
    """Cues with the same span in a text; a two-part cue has two spans."""

    start: int
    end: int
    parts: tuple[WordSpan, ...]
    cues: Sequence[Cue]


def by_effect(matches: Sequence[Match]) -> dict[str, list[Match]]:
    """Group matches by the effect of their cues."""
    found: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        for reads in {cue.reads for cue in match.cues}:
            found[reads].append(match)
    return found
