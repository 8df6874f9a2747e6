"""Latin words in descriptions of pathology: *adenoma tubulovillosum* as *adenoma tubulovillous*."""

from __future__ import annotations

import re
from functools import cache

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows

_WORD = re.compile(r"[^\W\d_]{7,}")


def in_english(description: str) -> str:
    """Return a description whose Latin words have English endings; ``""`` if it has no such words.

    >>> in_english("adenoma tubulovillosum"), in_english("adenoma")
    ('adenoma tubulovillous', '')
    """
    changed = _WORD.sub(lambda word: _endings().sub(lambda ending: _english()[ending[0]], word[0]), description)
    return changed if changed != description else ""


@cache
def _english() -> dict[str, str]:
    table = rows(RESOURCES / "mapping" / "latin.tsv", "latin", "english", "source")
    return {ending: row["english"] for row in table for ending in row["latin"].split("|")}


@cache
def _endings() -> re.Pattern[str]:
    longest_first = sorted(_english(), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(longest_first)})$")
