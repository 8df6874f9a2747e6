"""Operations in other words: *tracheotomy* as *incision of trachea*, and *excision of mandible* as *mandibulectomy*."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows

_LOOKING = "endoscopy"  # is also an approach: arthroscopy of the shoulder


class _Words(NamedTuple):
    compound: re.Pattern[str]  # root and ending
    phrase: re.Pattern[str]  # act and site
    sites: dict[str, str]  # by root
    acts: dict[str, tuple[str, ...]]  # by ending
    roots: dict[str, str]  # by site
    endings: dict[str, str]  # by act
    english: frozenset[str]  # endings


def in_other_words(description: str) -> Iterator[str]:
    """Yield a description with one operation as an English phrase instead of a Greek compound, or the other way; a
    German or Spanish compound also as an English one.

    >>> list(in_other_words("Partial tracheotomy")), list(in_other_words("Incision of lacrimal sac"))
    (['Partial incision of trachea'], ['dacryocystotomy'])
    >>> list(in_other_words("Traqueostomía"))
    ['construction of tracheostomy', 'tracheostomy']
    """
    words = _words()
    if match := words.compound.search(description):
        site, acts = words.sites[match[1].lower()], words.acts[match[2].lower()]
        root, english = words.roots[site], words.roots[site] + words.endings[acts[0]]
        phrases = [act.format(root) if "{" in act else f"{act} {site}" for act in acts]
        phrases += [english] if match[2].lower() not in words.english else []
    elif match := words.phrase.search(description):
        phrases = [words.roots[match[2].lower()] + words.endings[match[1].lower()]]
    else:
        return
    yield from (description[: match.start()] + phrase + description[match.end() :] for phrase in phrases)


def act_and_site(word: str) -> str:
    """Write a Greek compound as its act and site in English; other words stay as they are.

    >>> act_and_site("urethrectomy"), act_and_site("kidney"), act_and_site("colostomy")
    ('excision urethra', 'kidney', 'colostomy')
    """
    match = _words().compound.fullmatch(word)
    act = "" if match is None else _words().acts[match[2].lower()][0]
    if match is None or "{" in act or act.startswith(_LOOKING):
        return word
    return f"{act.removesuffix(' of')} {_words().sites[match[1].lower()]}"


def act_endings() -> list[str]:
    """Return the endings of Greek compounds of operations."""
    return sorted(_words().acts)


@cache
def site_words() -> frozenset[str]:
    """Return the English words of all sites that Greek roots name."""
    return frozenset(word for site in _words().roots for word in site.split())


@cache
def _words() -> _Words:
    table = list(rows(RESOURCES / "mapping" / "operations.tsv", "kind", "parts", "english", "source"))
    pairs = {
        kind: [(row["parts"].split("|"), tuple(row["english"].split("|"))) for row in table if row["kind"] == kind]
        for kind in ("site", "act")
    }
    sites = {root: english for roots, (english,) in pairs["site"] for root in roots}
    acts = {ending: english for endings, english in pairs["act"] for ending in endings}
    first_root = {english: roots[0] for roots, (english,) in pairs["site"]}
    first_ending = {act: endings[0] for endings, english in pairs["act"] for act in english}

    def either(words: dict[str, object]) -> str:
        return "|".join(sorted(words, key=len, reverse=True))

    compound = re.compile(rf"(?i)\b({either({**sites})})({either({**acts})})\b")
    phrase = re.compile(rf"(?i)\b({either({**first_ending})}) (?:the )?({either({**first_root})})\b")
    english = frozenset(ending for ending in acts if ending.endswith(("y", "is")))
    return _Words(compound, phrase, sites, acts, first_root, first_ending, english)
