"""History, suspicion, absence and family in the descriptions of codes, read by the cues of notes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from medlink.language.cues import has_cues, words
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.reading.qualifiers import QualifierReader
from medlink.records import Qualifiers

_reader = cache(QualifierReader)


@cache
def _readers(language: str) -> tuple[QualifierReader, ...]:
    tags = [base(language)] if language else languages()
    return tuple(_reader(tag) for tag in tags if has_cues(tag))


def describe_finding(text: str, name: str, language: str) -> Qualifiers | None:
    """Return what a description says of its finding, ``None`` for nothing unusual.

    Args:
        text: the description.
        name: the name of its concept. Words of the description that it repeats are the finding, and no cues. Without
            such words the finding may be any word, and is not called absent.
        language: that of the description; ``""`` for cues of all languages.

    >>> describe_finding("Z.n. Myokardinfarkt", "Myokardinfarkt", "de").temporality
    'historical'
    >>> describe_finding("Zustand nach Myokardinfarkt", "Zustand nach Myokardinfarkt", "de") is None
    True
    """
    own = {word.low for word in words(name)}
    found = words(text)
    repeated = [word for word in found if word.low in own and not word.is_mark]
    spans = [(repeated[0].start, repeated[-1].end)] if repeated else [(word.start, word.end) for word in found]
    for reader in _readers(language):
        note = reader.read(text, found)
        # each span alone: the words of a mention are no cues for another one; a code of an allergy says so itself
        for qualifiers in (replace(note.qualifiers([span])[0], allergy=False) for span in spans):
            if qualifiers.unusual and (repeated or qualifiers.presence != "absent"):
                return qualifiers
    return None
