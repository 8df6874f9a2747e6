"""Language codes of the foreign formats as BCP 47 tags in lower case."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from medlink.errors import ConfigError

# ISO 639-1, the two-letter primary subtags of BCP 47.
_ISO_639_1 = frozenset(
    re.findall(
        "[a-z]{2}",
        "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de "
        "dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id "
        "ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu "
        "lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu "
        "rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr "
        "ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu",
    )
)
# Three-letter codes met in releases: the UMLS language table (LAT) and their ISO 639-2 terminology forms.
_THREE_LETTERS = {
    "ara": "ar", "baq": "eu", "eus": "eu", "chi": "zh", "zho": "zh", "cze": "cs", "ces": "cs", "dan": "da",
    "dut": "nl", "nld": "nl", "eng": "en", "est": "et", "fin": "fi", "fre": "fr", "fra": "fr", "ger": "de",
    "deu": "de", "gre": "el", "ell": "el", "heb": "he", "hun": "hu", "ita": "it", "jpn": "ja", "kor": "ko",
    "lav": "lv", "nor": "no", "pol": "pl", "por": "pt", "rus": "ru", "scr": "hr", "hrv": "hr", "spa": "es",
    "swe": "sv", "tur": "tr", "ukr": "uk",
}  # fmt: skip
_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*")


@lru_cache(maxsize=1024)
def language_tag(code: str) -> str | None:
    """The BCP 47 tag, in lower case, of a language code as releases write it.

    Args:
        code: a BCP 47 tag in any case, with ``-`` or ``_``, or a three-letter code such as UMLS ``GER``.

    Returns:
        The tag, or ``None`` where the code names no known language.

    >>> language_tag("GER"), language_tag("es_MX"), language_tag("xx"), language_tag("")
    ('de', 'es-mx', None, None)
    """
    tag = code.strip().lower().replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    base, _, rest = tag.partition("-")
    base = _THREE_LETTERS.get(base, base)
    if base not in _ISO_639_1:
        return None
    return f"{base}-{rest}" if rest else base


def language_filter(languages: Iterable[str] | None) -> frozenset[str] | None:
    """Tags of a language filter; ``None`` lets every language through.

    Raises:
        ConfigError: a code names no known language, or the filter is empty.

    >>> sorted(language_filter(["EN", "ger"]))
    ['de', 'en']
    """
    if languages is None:
        return None
    if isinstance(languages, str):
        languages = languages.split(",")
    tags: set[str] = set()
    for code in languages:
        tag = language_tag(code)
        if tag is None:
            raise ConfigError(f"unknown language {code!r}", remedy="give BCP 47 tags, such as en,de,es")
        tags.add(tag)
    if not tags:
        raise ConfigError("the language filter is empty", remedy="name at least one language, or leave it out")
    return frozenset(tags)


def base(language: str) -> str:
    """A tag without its region.

    >>> base("de-AT"), base("")
    ('de', '')
    """
    return language.partition("-")[0].lower()


def wanted(language: str, languages: Collection[str] | None) -> bool:
    """Whether a name of ``language`` passes a filter: the one rule of all filters by language.

    A language stands for its regions and a region for its language: ``de`` lets ``de-at`` through, and ``de-at`` lets
    ``de`` through, but not ``de-ch``. A name without a language passes every filter, for nothing says that it belongs
    to another one. No filter, or an empty one, lets everything through.

    >>> wanted("de-at", {"de"}), wanted("de", {"de-at"}), wanted("de-ch", {"de-at"}), wanted("", {"de"})
    (True, True, False, True)
    """
    if not languages or not language or language in languages or base(language) in languages:
        return True
    return any(tag.startswith(f"{language}-") for tag in languages)
