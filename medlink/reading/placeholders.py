"""Placeholders in a note for a name, a date or a place that was taken out of it. They are never mentions.

De-identified notes have ``[**Hospital1 18**]`` (MIMIC-III), ``___`` (MIMIC-IV), ``<NAME>`` or ``XXX``. The first holds
words, which may be names of diseases. Behind a comma ``XXX`` is a karyotype (``47,XXX``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

_PLACEHOLDER = re.compile(
    r"\[\*\*.{0,200}?\*\*\]|<[A-ZÄÖÜÑÁÉÍÓÚ][A-ZÄÖÜÑÁÉÍÓÚ0-9_ -]{1,40}>|(?<![\w,])(?:X{3,}|x{3,}|_{3,})(?!\w)", re.DOTALL
)


def in_placeholder(text: str) -> Callable[[int, int], bool]:
    """Says of two character offsets of a text whether what is between them has a part of a placeholder.

    >>> inside = in_placeholder("Pt [**Marfan**] denies fever")
    >>> inside(6, 12), inside(23, 28)
    (True, False)
    """
    found = [one.span() for one in _PLACEHOLDER.finditer(text)]
    ends = [end for _, end in found]

    def inside(start: int, end: int) -> bool:
        """Whether the first placeholder that ends behind ``start`` begins before ``end``."""
        at = bisect_right(ends, start)
        return at < len(found) and found[at][0] < end

    return inside
