"""What a description of a local code says beside its meaning: codes of other systems, a unit, a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from medlink.kb.systems import SYSTEMS, named
from medlink.language.languages import guarded
from medlink.language.text import normalise
from medlink.mapping.units import without_unit

_CODE = r"[A-Za-z]{0,2}\d[0-9A-Za-z]*(?:[.-][0-9A-Za-z]+)*"
_ICD = re.compile(r"[A-TV-Z]\d[0-9A-Z](?:\.[0-9A-Z]{1,4})?")
_LOINC = re.compile(r"\d{1,5}-\d")
_BRACKETS = re.compile(rf"\s*[(\[]\s*({_CODE})[*+!]?\s*[)\]]")
_BLANKS = re.compile(r"\s+")
_EDGES = " ,;:-–"
# what a list of results writes for positive and negative in all languages
_SHORT = {"pos": "positive", "neg": "negative", "pos.": "positive", "neg.": "negative"}
ICD_10 = tuple(one.name for one in SYSTEMS if one.name.startswith(("ICD-10", "CIE-10")))
"""The editions of ICD-10, of which a code alone does not say which one it is of."""


@dataclass(frozen=True, slots=True)
class Description:
    """A description that was taken apart.

    ``text`` is what is left to link, ``codes`` are pairs of system and code, ``unit`` is as it is written.
    """

    text: str
    codes: tuple[tuple[str, str], ...] = ()
    unit: str = ""


@cache
def _with_system() -> re.Pattern[str]:
    words = {word for one in SYSTEMS for word in (one.name, one.prefix, *one.called) if len(word) > 2}
    either = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    return re.compile(rf"\s*([(\[])?\s*\b({either})(?:[:#]?\s+|[:#])({_CODE})[*+!]?(?![\w.])\s*(?(1)[)\]])")


def read_description(text: str) -> Description:
    """Take a description apart.

    A code counts behind the name of its system, or alone in brackets where it has the form of a code of ICD-10 or of
    LOINC; it is taken off, and so is a unit at the end.

    >>> read_description("Myokardinfarkt (I21.9)").codes[0], read_description("Glucose [LOINC 2345-7] mg/dl").unit
    (('ICD-10-GM', 'I21.9'), 'mg/dl')
    >>> read_description("Glucose [LOINC 2345-7] mg/dl").text, read_description("Trisomie 21 (Stadium 2)").codes
    ('Glucose', ())
    """
    codes: list[tuple[str, str]] = []

    def with_system(found: re.Match[str]) -> str:
        codes.append((named(found[2]).name, found[3]))
        return " "

    def alone(found: re.Match[str]) -> str:
        code = found[1]
        if _ICD.fullmatch(code):
            codes.extend((system, code) for system in ICD_10)
        elif _LOINC.fullmatch(code) and is_loinc(code):
            codes.append(("LOINC", code))
        else:
            return found[0]
        return " "

    left = _BRACKETS.sub(alone, _with_system().sub(with_system, text))
    left = _BLANKS.sub(" ", left).strip(_EDGES)
    left, unit = without_unit(left)
    # a description that is nothing but a code has no words to link
    return Description(left.strip(_EDGES), tuple(dict.fromkeys(codes)), unit)


def is_loinc(code: str) -> bool:
    """Whether the last digit of a LOINC number is its check digit (LOINC Users' Guide, appendix C; Luhn's).

    >>> is_loinc("2345-7"), is_loinc("2345-8"), is_loinc("718-7")
    (True, False, True)
    """
    digits, _, check = code.partition("-")
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 * (doubled > 9)
    return check == str(-total % 10)


def stated_value(text: str, language: str) -> tuple[str, str] | None:
    """A description without the result that ends it, and that result: ``positive`` or ``negative``; ``None`` without.

    The words are those that part terms in a language (``result`` of ``guards.json``), of all languages where none is
    named.

    >>> stated_value("MRSA-Abstrich negativ", "de"), stated_value("HIV: pos.", ""), stated_value("negativ", "de")
    (('MRSA-Abstrich', 'negative'), ('HIV', 'positive'), None)
    """
    before, _, last = text.rpartition(" ")
    before, word = before.strip(_EDGES), last.strip("()[]")
    if not before:
        return None
    if word.lower() in _SHORT:
        return before, _SHORT[word.lower()]
    form = normalise(word)
    for rules in guarded(language):
        for value, pattern in rules.guards.kinds.get("result", {}).items():
            if pattern.fullmatch(form):
                return before, value
    return None
