"""Units of measurement as local lists write them, and the code that UCUM has for each (https://ucum.org)."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources

_POWER = re.compile(r"[x×]?\s*(?:10\s*(?:\^|\*\*|\*|[eE]\+?|[hH]och\s?)\s*(\d{1,2})|1[eE]\+?(\d{1,2}))\s*")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_RAISED_TEN = re.compile(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})")
_PLAIN = frozenset({"%", "‰", "mmHg", "mm Hg", "mmHG", "cmH2O", "kPa", "°C"})
"""What is a unit without a bar in it, wherever it ends a description; a lone letter is as often something else."""
_LONGEST = 40
_LAST = re.compile(r"(?:^|[\s,;:])(?:in\s+)?(mm Hg|\S+)$")
_BRACKETS = re.compile(r"\s*[(\[{]([^()\[\]{}]{1,40})[)\]}]\s*$")


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
    for pattern, loose in ((_BRACKETS, False), (_LAST, True)):
        found = pattern.search(description)
        if found is None:
            continue
        unit, before = found[1].strip(), description[: found.start()].rstrip(" ,;:")
        if before and unit_code(unit) and (not loose or "/" in unit or unit in _PLAIN):
            return before, unit
    return description, ""
