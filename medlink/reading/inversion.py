"""Names in inverted order: *Niereninsuffizienz, chronisch*, *Pneumonia, aspiration*, *insuficiencia renal, crónica*."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from medlink.language.scan import Place, ScannedText

_MAX_HEAD = 3  # words before the comma
_MAX_MODIFIER = 3  # words behind it
_COMMA = re.compile(r",\s")
_END = re.compile(r"\s*(?:[,.;)\n]|$)")


class Inversion(NamedTuple):
    """A head with a word of a finding, and the modifier behind it; ``finds`` if this may be a finding of its own."""

    place: Place
    head: str
    modifier: str
    finds: bool


def inversions(text: ScannedText) -> Iterator[Inversion]:
    """Yield the heads of a text with the modifier behind the comma, which ends its clause."""
    words, letters = text.words, text.text
    if ", " not in letters:
        return
    for at in range(1, len(words)):
        gap = letters[words[at - 1].end : words[at].start]
        if not _COMMA.fullmatch(gap) or words[at - 1].function:
            continue
        stop = at + 1
        while stop < len(words) and words[stop].clause == words[at].clause and stop - at <= _MAX_MODIFIER:
            stop += 1
        modifier = words[at:stop]
        if stop - at > _MAX_MODIFIER or modifier[0].function or modifier[-1].function:
            continue
        if not _END.match(letters, modifier[-1].end):
            continue
        finds = any(word.finds for word in modifier)
        for first in range(at - 1, max(at - _MAX_HEAD, 0) - 1, -1):
            if words[first].clause != words[at - 1].clause:
                break
            if not words[first].function and any(word.finds for word in words[first:at]):
                yield Inversion((first, stop), text.written((first, at)), text.written((at, stop)), finds)
