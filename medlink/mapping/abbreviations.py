"""Write the abbreviations of a description in full: *ALAT*, *Ramipril/HCT*."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from medlink.language.lexicon.abbreviation_table import most_frequent
from medlink.language.lexicon.tables import Abbreviation, shortened

TEST, DRUG = "test", "drug"
_FIELDS = {TEST: "laboratory"}  # fields in which meanings of other kinds count as well
_ENGLISH = "en"
_LEAST = 0.3  # share of the uses of an abbreviation with such a meaning
_BRACKETS = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_BETWEEN = re.compile(r"[\s/]+")
_EDGES = " ,;:-/"


def expand(text: str, language: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield a text with its abbreviations of a kind written in full, in its language and in English; nothing if it has
    none.

    Text in brackets is left out, because it repeats the name in other words.

    >>> list(expand("Ramipril/HCT", "de", DRUG))
    [('Ramipril/Hydrochlorothiazid', 'de'), ('Ramipril/hydrochlorothiazide', 'en')]
    >>> list(expand("ALT (SGPT)", "en", TEST))[0]
    ('alanine aminotransferase', 'en')
    """
    known = most_frequent(language, kind, _FIELDS.get(kind))
    bare = _BRACKETS.sub("", text).strip(_EDGES) or text

    def find(form: str) -> Abbreviation | None:
        short = known.get(shortened(form))
        return None if short is None or short.weight < _LEAST else short

    whole = find(text) or find(bare)
    if whole is not None:
        yield whole.long, language
        yield whole.english or whole.long, _ENGLISH
        return
    ends = [0, *(end for match in _BETWEEN.finditer(bare) for end in match.span()), len(bare)]
    pieces = [bare[start:stop] for start, stop in pairwise(ends)]
    found = [find(piece) for piece in pieces]
    if any(found):
        for own in (language, _ENGLISH):
            longs = (
                piece if short is None else short.long if own == language else short.english or short.long
                for piece, short in zip(pieces, found, strict=True)
            )
            yield "".join(longs), own
