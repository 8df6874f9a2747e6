"""Latin words in descriptions of pathology: *adenoma tubulovillosum* as *adenoma tubulovillous*."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows

_WORD = re.compile(r"[^\W\d_]{7,}")


def in_english(description: str) -> Iterator[str]:
    """Yield a description whose Latin words have English endings; nothing if it has no such words.

    >>> list(in_english("adenoma tubulovillosum")), list(in_english("adenoma"))
    (['adenoma tubulovillous'], [])
    """
    changed = _WORD.sub(lambda word: _endings().sub(lambda ending: _english()[ending[0]], word[0]), description)
    if changed != description:
        yield changed


@cache
def _english() -> dict[str, str]:
    table = rows(RESOURCES / "mapping" / "latin.tsv", "latin", "english", "source")
    return {ending: row["english"] for row in table for ending in row["latin"].split("|")}


@cache
def _endings() -> re.Pattern[str]:
    longest_first = sorted(_english(), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(longest_first)})$")
