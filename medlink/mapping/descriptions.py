"""What a description of a local code says beside its meaning: codes of other systems, a unit, a value.

Units stand as local lists write them, with the code that UCUM has for each (https://ucum.org).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib import resources

from medlink.kb.systems import SYSTEMS, named
from medlink.language.languages import guarded
from medlink.language.text import normalise

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
_POWER = re.compile(r"[x×]?\s*(?:10\s*(?:\^|\*\*|\*|[eE]\+?|[hH]och\s?)\s*(\d{1,2})|1[eE]\+?(\d{1,2}))\s*")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_RAISED_TEN = re.compile(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})")
_PLAIN = frozenset({"%", "‰", "mmHg", "mm Hg", "mmHG", "cmH2O", "kPa", "°C"})
"""What is a unit without a bar in it, wherever it ends a description; a lone letter is as often something else."""
_LONGEST = 40  # characters of a unit
_LAST = re.compile(r"(?:^|[\s,;:])(?:in\s+)?(mm Hg|\S+)$")
_UNIT_BRACKETS = re.compile(r"\s*[(\[{]([^()\[\]{}]{1,40})[)\]}]\s*$")


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


@cache
def _units() -> dict[str, str]:
    table = resources.files("medlink").joinpath("resources/mapping/units.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in table.splitlines()[1:])
    return {_same(written): code for written, code, _ in rows}


def _same(text: str) -> str:
    return text.replace("\u03bc", "\u00b5")


def unit_code(text: str) -> str | None:
    """The UCUM code of a unit, ``None`` for what is not known as one.

    >>> unit_code("g/dl"), unit_code("Mio/µl"), unit_code("10^9/l"), unit_code("mmHg"), unit_code("links")
    ('g/dL', '10*6/uL', '10*9/L', 'mm[Hg]', None)
    """
    text = _RAISED_TEN.sub(lambda found: f"10^{found[1].translate(_RAISED)}", text.strip())
    if not text or len(text) > _LONGEST:
        return None
    parts = [_factor(part.strip()) for part in _same(unicodedata.normalize("NFC", text)).split("/")]
    return None if None in parts else "/".join(part or "" for part in parts)


def _factor(text: str) -> str | None:
    power = _POWER.match(text)
    rest = text[power.end() :] if power else text
    known = _units().get(rest)
    if power is None:
        return known
    times = f"10*{power[1] or power[2]}"
    return times if not rest else None if known is None else f"{times}.{known}"


def without_unit(description: str) -> tuple[str, str]:
    """A description without the unit that ends it, and that unit as it is written; ``""`` where there is none.

    A unit without a bar counts in brackets alone, but for a few that are nothing else.

    >>> without_unit("Hb g/dl"), without_unit("Natrium (mmol/l)"), without_unit("CHA2DS2-VASc")
    (('Hb', 'g/dl'), ('Natrium', 'mmol/l'), ('CHA2DS2-VASc', ''))
    """
    for pattern, loose in ((_UNIT_BRACKETS, False), (_LAST, True)):
        found = pattern.search(description)
        if found is None:
            continue
        unit, before = found[1].strip(), description[: found.start()].rstrip(" ,;:")
        if before and unit_code(unit) and (not loose or "/" in unit or unit in _PLAIN):
            return before, unit
    return description, ""
