"""Parse descriptions of local codes: codes of other systems, units, values.

Units are recognised in the spellings of local lists and have codes of UCUM (https://ucum.org).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from medlink.files.resources import RESOURCES
from medlink.kb.systems import SYSTEMS, system_by_name
from medlink.language.languages import guarded, rows
from medlink.language.text import normalise

_CODE = r"[A-Za-z]{0,2}\d[0-9A-Za-z]*(?:[.-][0-9A-Za-z]+)*"
_ICD = re.compile(r"[A-TV-Z]\d[0-9A-Z](?:\.[0-9A-Z]{1,4})?")
_LOINC = re.compile(r"\d{1,5}-\d")
_BRACKETS = re.compile(rf"\s*[(\[]\s*({_CODE})[*+!]?\s*[)\]]")
_BLANKS = re.compile(r"\s+")
_EDGES = " ,;:-–"
# abbreviations in any language
_RESULTS = {"pos": "positive", "neg": "negative", "pos.": "positive", "neg.": "negative"}
ICD_10 = tuple(system.name for system in SYSTEMS if system.name.startswith(("ICD-10", "CIE-10")))
"""The editions of ICD-10, which share the form of codes."""
_POWER = re.compile(r"[x×]?\s*(?:10\s*(?:\^|\*\*|\*|[eE]\+?|[hH]och\s?)\s*(\d{1,2})|1[eE]\+?(\d{1,2}))\s*")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_RAISED_TEN = re.compile(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})")
_PLAIN = frozenset({"%", "‰", "mmHg", "mm Hg", "mmHG", "cmH2O", "kPa", "°C"})
"""Units that need neither slash nor brackets at the end of a description; a single letter is often not a unit."""
_MAX_UNIT = 40  # characters
_LAST = re.compile(r"(?:^|[\s,;:])(?:in\s+)?(mm Hg|\S+)$")
_UNIT_BRACKETS = re.compile(r"\s*[(\[{]([^()\[\]{}]{1,40})[)\]}]\s*$")


@dataclass(frozen=True, slots=True)
class ParsedDescription:
    """The ``text`` to link, ``codes`` as pairs of system and code, and the ``unit`` as written."""

    text: str
    codes: tuple[tuple[str, str], ...] = ()
    unit: str = ""


@cache
def _with_system() -> re.Pattern[str]:
    words = {word for system in SYSTEMS for word in (system.name, system.prefix, *system.aliases) if len(word) > 2}
    either = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    return re.compile(rf"\s*([(\[])?\s*\b({either})(?:[:#]?\s+|[:#])({_CODE})[*+!]?(?![\w.])\s*(?(1)[)\]])")


def parse_description(text: str) -> ParsedDescription:
    """Split off codes of other systems and a unit at the end.

    A code is recognised after the name of its system, or in brackets if it has the form of a code of ICD-10 or LOINC.
    """
    codes: list[tuple[str, str]] = []

    def with_system(match: re.Match[str]) -> str:
        codes.append((system_by_name(match[2]).name, match[3]))
        return " "

    def alone(match: re.Match[str]) -> str:
        code = match[1]
        if _ICD.fullmatch(code):
            codes.extend((system, code) for system in ICD_10)
        elif _LOINC.fullmatch(code) and is_loinc(code):
            codes.append(("LOINC", code))
        else:
            return match[0]
        return " "

    has_number = any(map(str.isdecimal, text))
    left = _BRACKETS.sub(alone, _with_system().sub(with_system, text)) if has_number else text
    left = _BLANKS.sub(" ", left).strip(_EDGES)
    left, unit = split_unit(left)
    # a description that is nothing but a code has no words to link
    return ParsedDescription(left.strip(_EDGES), tuple(dict.fromkeys(codes)), unit)


def is_loinc(code: str) -> bool:
    """Return whether the last digit of a LOINC number is its check digit (LOINC Users' Guide, appendix C: Luhn)."""
    digits, _, check = code.partition("-")
    total = 0
    for position, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if position % 2 == 0 else 1)
        total += doubled - 9 * (doubled > 9)
    return check == str(-total % 10)


def split_value(text: str, language: str) -> tuple[str, str] | None:
    """Split off a result at the end, ``positive`` or ``negative``; ``None`` without one.

    The words are the ``result`` guards in ``guards.json`` of the language, or of all languages for an empty tag.
    """
    before, _, last = text.rpartition(" ")
    before, word = before.strip(_EDGES), last.strip("()[]")
    value = _result(word, language) if before else ""
    return (before, value) if value else None


@lru_cache(8_192)
def _result(word: str, language: str) -> str:
    if word.lower() in _RESULTS:
        return _RESULTS[word.lower()]
    form = normalise(word)
    for rules in guarded(language):
        for value, pattern in rules.guards.kinds.get("result", {}).items():
            if pattern.fullmatch(form):
                return value
    return ""


@cache
def _units() -> dict[str, str]:
    table = rows(RESOURCES / "mapping" / "units.tsv", "written", "ucum", "source")
    return {_unify_micro(row["written"]): row["ucum"] for row in table}


def _unify_micro(text: str) -> str:
    return text.replace("\u03bc", "\u00b5")


def ucum_code(text: str) -> str | None:
    """Return the UCUM code of a unit, ``None`` if unknown."""
    text = _RAISED_TEN.sub(lambda match: f"10^{match[1].translate(_RAISED)}", text.strip())
    if not text or len(text) > _MAX_UNIT:
        return None
    if text.startswith("/"):
        text = f"1{text}"  # a number of cells
    parts = [_factor(part.strip()) for part in _unify_micro(unicodedata.normalize("NFC", text)).split("/")]
    return None if None in parts else "/".join(part or "" for part in parts)


def _factor(text: str) -> str | None:
    power = _POWER.match(text)
    rest = text[power.end() :] if power else text
    known = "1" if rest == "1" else _units().get(rest)
    if power is None:
        return known
    times = f"10*{power[1] or power[2]}"
    return times if not rest else None if known is None else f"{times}.{known}"


def split_unit(description: str) -> tuple[str, str]:
    """Split off a unit at the end, as written; ``""`` without one.

    A unit without a slash counts only in brackets, apart from a few unambiguous ones.
    """
    for pattern, in_brackets in ((_UNIT_BRACKETS, True), (_LAST, False)):
        match = pattern.search(description)
        if match is None:
            continue
        unit, before = match[1].strip(), description[: match.start()].rstrip(" ,;:")
        if before and ucum_code(unit) and (in_brackets or "/" in unit or unit in _PLAIN):
            return before, unit
    return description, ""
