"""Notes that come again, letter by letter: what was found in them is kept as numbers and concepts, without their words.

Reports without findings, forms and notes that were copied on make up much of what a hospital holds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from medlink.linking.lately import Lately
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention

_MOST = 1024  # notes that are remembered
_LONGEST = 100  # mentions of a note that is: so the memory that all take is bounded


class _Kept(NamedTuple):
    """A mention without the words of its note, and where its long form stands there, if it does."""

    mention: LinkedMention
    place: tuple[int, int] | None = None


class Again:
    """The mentions of the notes that were linked last, by keyed hashes of their texts.

    The key is drawn anew for each object, so that nobody who guesses a text can tell from a hash whether it was among
    them.
    """

    def __init__(self) -> None:
        self._kept = Lately[tuple[str, tuple[_Kept, ...]]](_MOST)
        self._key = os.urandom(32)

    def recall(self, note: Note) -> tuple[str, tuple[LinkedMention, ...]] | None:
        """The language and the mentions of a note whose text came before; ``None`` where it did not."""
        digest = self._digest(note)
        found = self._kept.get(digest)
        if found is None:
            return None
        self._kept.meet({digest: found})
        language, mentions = found
        return language, tuple([_whole(*one, note.text) for one in mentions])

    def keep(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Keep what was found in a note, unless it is much or has words of the note which cannot be cut out again."""
        if len(mentions) > _LONGEST:
            return
        kept = [_bare(one, note.text) for one in mentions]
        if None not in kept:
            whole = tuple([one for one in kept if one is not None])
            self._kept.meet({self._digest(note): (language, whole)})

    def _digest(self, note: Note) -> bytes:
        """What stands for all of a note that its links depend on."""
        told = f"{note.language or ''}\0{note.text}".encode("utf-8", "surrogatepass")
        return blake2b(told, digest_size=16, key=self._key).digest()


def _bare(mention: LinkedMention, text: str) -> _Kept | None:
    """A mention without the words of its note; ``None`` where they do not stand in it letter by letter.

    A long form that the note does not have is of the bundle, and stays.
    """
    link, attributes, expanded = mention.link, mention.attributes or (), mention.link.expanded
    cut = [(link.mention, mention.start, mention.end), *((one.text, one.start, one.end) for one in attributes)]
    if any(words != text[start:end] for words, start, end in cut):
        return None
    at = text.find(expanded) if expanded else -1
    if expanded and at < 0 and " ".join(expanded.split()) in " ".join(text.split()):
        return None
    link = replace(link, mention="", expanded=expanded if at < 0 else None)
    if attributes:
        mention = replace(mention, attributes=tuple([replace(one, text="") for one in attributes]))
    return _Kept(replace(mention, link=link), (at, at + len(expanded)) if expanded and at >= 0 else None)


def _whole(mention: LinkedMention, place: tuple[int, int] | None, text: str) -> LinkedMention:
    """A mention with the words of its note."""
    link, attributes = mention.link, mention.attributes
    expanded = text[slice(*place)] if place else link.expanded
    if attributes:
        attributes = tuple([replace(one, text=text[one.start : one.end]) for one in attributes])
    link = replace(link, mention=text[mention.start : mention.end], expanded=expanded)
    return replace(mention, link=link, attributes=attributes)
