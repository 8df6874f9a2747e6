"""Language codes of terminology formats as BCP 47 tags in lower case."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from medlink.errors import ConfigError
from medlink.files.json import read_json
from medlink.files.resources import RESOURCES

_CODES = read_json(RESOURCES / "language_codes.json")
_ISO_639_1, _THREE_LETTERS = frozenset(_CODES["iso_639_1"]["value"]), _CODES["three_letters"]["value"]
OMOP_LANGUAGES: dict[str, str] = _CODES["omop"]["value"]
"""Tags by the concept id of a language in OMOP."""
_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*")


@lru_cache(maxsize=1024)
def language_tag(code: str) -> str | None:
    """Convert a language code of a release to a BCP 47 tag in lower case; ``None`` for an unknown language.

    A code is a tag in any case, with ``-`` or ``_``, or a three-letter code such as UMLS ``GER``.
    """
    tag = code.strip().lower().replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    base, _, rest = tag.partition("-")
    base = _THREE_LETTERS.get(base, base)
    if base not in _ISO_639_1:
        return None
    return f"{base}-{rest}" if rest else base


def named_tag(code: str) -> str:
    """Convert a language code that a user typed to a BCP 47 tag; raises ConfigError for an unknown language."""
    tag = language_tag(code)
    if tag is None:
        # the name of a language, in English or its own, mostly begins with its code of ISO 639-2
        likely = language_tag(code.strip()[:3]) if len(code.strip()) > 3 and code.strip().isalpha() else None
        remedy = f"write {likely}, its BCP 47 tag" if likely else "give a BCP 47 tag such as de, en or es"
        raise ConfigError(f"unknown language {code!r}", remedy=remedy)
    return tag


def language_filter(languages: Iterable[str] | None) -> frozenset[str] | None:
    """Return the tags of a filter, ``None`` for all; raises ConfigError if one is unknown or the filter is empty."""
    if languages is None:
        return None
    if isinstance(languages, str):
        languages = languages.split(",")
    tags = frozenset(map(named_tag, languages))
    if not tags:
        raise ConfigError("the language filter is empty", remedy="name at least one language, or leave it out")
    return tags


def base(language: str) -> str:
    """Return a tag without its region."""
    return language.partition("-")[0].lower()


def wanted(language: str, languages: Collection[str] | None) -> bool:
    """Return whether a name in ``language`` passes a filter; all filters by language use this rule.

    A language includes its regions, and a region its language: ``de`` passes ``de-at``, and ``de-at`` passes ``de``,
    but not ``de-ch``. A name without a language passes every filter. Without a filter, or with an empty filter,
    everything passes.
    """
    if not languages or not language or language in languages or base(language) in languages:
        return True
    return any(tag.startswith(f"{language}-") for tag in languages)
