"""History, suspicion, absence and family in the descriptions of codes, read by the cues of notes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from medlink.language.cues import Text, has_cues, words
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.reading.qualifiers import QualifierReader
from medlink.records import Qualifiers

_LIST_MARK = 3  # most words and marks before the first word of an item, such as "(1)"
_reader = cache(QualifierReader)


@cache
def _readers(language: str) -> tuple[QualifierReader, ...]:
    tags = [base(language)] if language else languages()
    return tuple(_reader(tag) for tag in tags if has_cues(tag))


@cache
def _first_words(language: str) -> frozenset[str]:
    """The first words of the cues and headings of some languages."""
    tables = [table for r in _readers(language) for table in (r.cues.whole, r.cues.firsts, r.headings)]
    return frozenset(word for table in tables for word in table.first_words)


def _has_cue(reader: QualifierReader, text: Text) -> bool:
    """Whether a text has a cue, both parts of a frame, or a heading: before a colon, or first, perhaps after a mark."""
    cues, has_colon = reader.cues, ":" in text.places
    return bool(
        cues.whole.found(text)
        or (cues.firsts.found(text) and cues.seconds.found(text))
        or any(has_colon or match.start <= _LIST_MARK for match in reader.headings.found(text))
    )


def _readers_for(language: str, text: Text) -> list[QualifierReader]:
    """Return the readers that may find something in a text; for most descriptions none."""
    begins = not _first_words(language).isdisjoint(text.places)
    is_marked = any(low == "+" or (low[0].isdecimal() and len(low) > 3) for low in text.places)  # a sign, or a year
    written = " ".join(word.low for word in text.words)
    return [
        reader
        for reader in _readers(language)
        if is_marked
        or ", -" in written  # "- fever, - cough"
        or (begins and _has_cue(reader, text))
        or reader.scopes.tells_past.search(written)
        or reader.absences.found(text)
    ]


def has_any_cue(text: str, language: str) -> bool:
    """Return whether a description has words that may qualify its finding; an empty language has the cues of all."""
    return bool(_readers_for(language, Text(words(text))))


def without_suspicion(text: str, language: str) -> str:
    """Return a description behind the cue of a suspicion that it begins with; ``""`` without a cue or further words."""
    found = words(text)
    ends = [
        match.end
        for reader in _readers_for(language, Text(found))
        for match in reader.cues.whole.found(Text(found))
        if match.start == 0
        and match.end < len(found)
        and any((cue.reads, cue.side) == ("uncertain", "before") for cue in match.values)
    ]
    return text[found[max(ends)].start :] if ends else ""


def describe_finding(text: str, name: str, language: str) -> Qualifiers | None:
    """Return the qualifiers that a description gives its finding, ``None`` for nothing unusual.

    Words of the description that the ``name`` of its concept repeats are the finding, and no cues. Without such words
    the finding may be any word, and is not called absent. An empty language has the cues of all.
    """
    found = words(text)
    readers = _readers_for(language, Text(found))
    own = {word.low for word in words(name)} if readers else set()
    repeated = [word for word in found if word.low in own and not word.is_mark]
    spans = [(repeated[0].start, repeated[-1].end)] if repeated else [(word.start, word.end) for word in found]
    for reader in readers:
        note = reader.read(text, found)
        # each span alone: the words of a mention are not cues for another; a code of an allergy says so itself
        for qualifiers in (replace(note.qualifiers([span])[0], allergy=False) for span in spans):
            if qualifiers.unusual and (repeated or qualifiers.presence != "absent"):
                return qualifiers
    return None
