"""Names in inverted order: *Niereninsuffizienz, chronisch*, *Pneumonia, aspiration*, *insuficiencia renal, crónica*."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from medlink.language.scan import Place, ScannedText, ScannedWord

_MAX_HEAD = 3  # words before the comma
_MAX_MODIFIER = 3  # words behind it
_COMMA = re.compile(r",\s")
_END = re.compile(r"\s*(?:[,.;)\n]|$)")


class Inversion(NamedTuple):
    """A head with a word of a finding, and the modifier behind it, in both orders.

    ``sure`` if the modifier is a quality, and ends its clause: other pairs may be two findings. ``opening`` are the
    first two words of each order.
    """

    place: Place
    orders: tuple[str, str]
    sure: bool
    opening: tuple[Sequence[ScannedWord], Sequence[ScannedWord]]


def inversions(text: ScannedText) -> Iterator[Inversion]:
    """Yield the heads of a text with the modifier behind the comma, which a function word or a mark follows."""
    words, letters = text.words, text.text
    if ", " not in letters:
        return
    for at in range(1, len(words)):
        if words[at - 1].function or words[at].function or words[at - 1].clause == words[at].clause:
            continue
        if not _COMMA.fullmatch(letters, words[at - 1].end, words[at].start):
            continue
        stop = at + 1
        while stop < len(words) and words[stop].clause == words[at].clause and not words[stop].function:
            stop += 1
        is_end = _END.match(letters, words[stop - 1].end) is not None
        is_name_only = not is_end and stop < len(words) and words[stop].function
        if stop - at > _MAX_MODIFIER or not (is_end or is_name_only):
            continue
        sure = is_end and all(word.function or ("quality" in word.kinds and not word.finds) for word in words[at:stop])
        for first in range(at - 1, max(at - _MAX_HEAD, 0) - 1, -1):
            if words[first].clause != words[at - 1].clause:
                break
            if not words[first].function and any(word.finds for word in words[first:at]):
                head, modifier = text.written((first, at)), text.written((at, stop))
                opening = [*words[at:stop], words[first]][:2], [*words[first:at], words[at]][:2]
                yield Inversion((first, stop), (f"{modifier} {head}", f"{head} {modifier}"), sure, opening)
