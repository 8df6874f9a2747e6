"""A heading with its subheading: *Malignant neoplasm of eye, Choroid* is a malignant neoplasm of the choroid."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.tags import base


class Subsite(NamedTuple):
    """A ``text`` for the part that a description names, that ``part``, and the ``whole`` of its heading."""

    text: str
    part: str
    whole: str


def find_subsite(description: str, language: str | None) -> Subsite | None:
    """Return the subsite of a description, which counts only if part and whole are organs.

    A word that is part of many organs keeps its organ.

    >>> find_subsite("Malignant neoplasm of eye, Choroid", "en")
    Subsite(text='Malignant neoplasm of Choroid', part='Choroid', whole='eye')
    >>> find_subsite("Fracture of femur, neck", "en").text
    'Fracture of neck of femur'
    """
    known = _joins().get(base(language or "en"))
    match = known and known.heading.fullmatch(description)
    if not known or not match:
        return None
    head, whole, part = match.groups()
    organ = f"{part}{known.of}{whole}" if part.casefold() in known.parts else part
    return Subsite(f"{head}{known.of}{organ}", part, whole)


class _Joins(NamedTuple):
    heading: re.Pattern[str]
    of: str
    parts: frozenset[str]


@cache
def _joins() -> dict[str, _Joins]:
    raw = read_json(RESOURCES / "mapping" / "subsites.json")["languages"]
    return {
        tag: _Joins(
            re.compile(rf"(.+?) (?:{own['before']}) ([^,;:()]+), ([^,;:()]+)"), own["of"], frozenset(own["parts"])
        )
        for tag, own in raw.items()
    }
