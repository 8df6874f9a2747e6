"""Decide between the ATC codes of one substance by the route or form in its description.

ATC has a code for each use of a substance: prednisolone alone has fifteen. Where a description names no route, the
codes of systemic use are meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES

_SUBSTANCE = re.compile(r"[A-V]\d{2}[A-Z]{2}\d{2}")
_CLASS = re.compile(r"ATC:[A-V](?:\d{2}(?:[A-Z]{1,2})?)?")
_UNIT = r"(?:mg|µg|mcg|ug|g|ml|l|%|‰|mmol|meq|I\.?E\.?|IU|UI|U|Mio|Mega|Mill)"
_STRENGTH = re.compile(rf"(?i:(?<![\w-])\d+(?:[.,/]\d+)*(?:\s?{_UNIT})?(?:/(?:\d*\s?{_UNIT}|h|d))?(?![\w-]))")
_EDGES = " ,;:-+/()"


@dataclass(frozen=True, slots=True)
class _Route:
    name: str
    codes: tuple[str, ...]
    cues: re.Pattern[str] | None


def is_substance(concept_id: str) -> bool:
    """Return whether a concept is an ATC code of a substance."""
    return _SUBSTANCE.fullmatch(concept_id.rpartition(":")[2]) is not None


def drug_name(description: str, language: str) -> str:
    """Return the name of a drug without routes, forms and strengths, its partner as a class; ``""`` if it is the same.

    >>> drug_name("Paracetamol 1000 mg i.v.", "de"), drug_name("Herzinfarkt", "de")
    ('Paracetamol', '')
    >>> drug_name("Amoxicillin/Clavulansäure 875/125 mg Filmtabl.", "de")
    'Amoxicillin und Beta-Lactamase-Inhibitoren'
    """
    left = " ".join(_STRENGTH.sub(" ", _forms().sub(" ", description)).split()).strip(_EDGES)
    for members, names in _classes():
        match = members.search(left)
        if match is not None and language in names:
            return f"{left[: match.start()].strip()} {names[language]}"
    return left if any(map(str.isalpha, left)) and left != description else ""


def base_name(name: str, language: str) -> str:
    """Return the name of a drug without its salt; ``""`` if it is the same.

    >>> base_name("Brimonidintartrat", "de"), base_name("atropina sulfato", "es"), base_name("Zinksulfat", "xx")
    ('Brimonidin', 'atropina', '')
    """
    salts = _raw()["salts"].get(language)
    left = name if salts is None else re.sub(salts, "", name).strip(_EDGES)
    return left if left != name else ""


def is_class(concept_id: str) -> bool:
    """Return whether a concept is an ATC code of a class of substances."""
    return _CLASS.fullmatch(concept_id) is not None


def codes_of_route(description: str, concept_ids: Collection[str]) -> tuple[set[str], str]:
    """Return the ids, among ATC codes of one substance, that fit the route of a description, and the route.

    Without a route in the description these are the codes of systemic use. The set is empty where an id is no ATC code.
    """
    codes = {concept_id: concept_id.rpartition(":")[2] for concept_id in concept_ids}
    if not all(map(_SUBSTANCE.fullmatch, codes.values())):
        return set(), ""
    routes, local = _routes()
    for route in routes:
        if route.cues is not None and route.cues.search(description):
            fitting = _starting(codes, route.codes)
            if fitting:
                return fitting, route.name
    return set(codes) - _starting(codes, local), "systemic"


@cache
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = read_json(RESOURCES / "mapping" / "routes.json")
    return raw


@cache
def _forms() -> re.Pattern[str]:
    """A pattern of the forms of drugs and of all routes."""
    cues = [route.cues.pattern for route in _routes()[0] if route.cues is not None]
    forms = "|".join(re.escape(form) for form in sorted(_raw()["forms"], key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?i:{forms})(?!\w)|" + "|".join(cues))


@cache
def _classes() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    """Patterns of a partner in a combination, with the text for its class in each language."""
    classes = []
    for entry in _raw()["classes"].values():
        members = "|".join(re.escape(name) for name in sorted(entry["members"], key=len, reverse=True))
        classes.append((re.compile(rf"(?i:\s*(?:[/+-]|\bund\b|\band\b|\by\b)\s*(?:{members})(?!\w))"), entry["text"]))
    return classes


def _starting(codes: Mapping[str, str], beginnings: tuple[str, ...]) -> set[str]:
    return {concept_id for concept_id, code in codes.items() if code.startswith(beginnings)}


@cache
def _routes() -> tuple[list[_Route], tuple[str, ...]]:
    raw, routes = _raw(), []
    for name, entry in raw["routes"].items():
        # AT and AS are eye drops and ointment, at and as are words
        cues = [re.escape(cue) if len(cue) <= 2 else f"(?i:{re.escape(cue)})" for cue in entry["cues"]]
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(cues)})(?!\w)") if cues else None
        routes.append(_Route(name, tuple(entry["codes"]), pattern))
    return routes, tuple(raw["local"])
