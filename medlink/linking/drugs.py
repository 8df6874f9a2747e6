"""Decide between the ATC codes of one substance by the route or form in its description, or behind its mention.

ATC has a code for each use of a substance: prednisolone alone has fifteen. Where a description names no route, the
codes of systemic use are meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.records import LINKED, Candidate, Link

_SUBSTANCE = re.compile(r"[A-V]\d{2}[A-Z]{2}\d{2}")
_CLASS = re.compile(r"ATC:[A-V](?:\d{2}(?:[A-Z]{1,2})?)?")
_UNIT = r"(?:mg|µg|mcg|ug|g|ml|l|%|‰|mmol|meq|I\.?E\.?|IU|UI|U|Mio|Mega|Mill)"
_STRENGTH = re.compile(rf"(?i:(?<![\w-])\d+(?:[.,/]\d+)*(?:\s?{_UNIT})?(?:/(?:\d*\s?{_UNIT}|h|d))?(?![\w-]))")
_AMOUNT = re.compile(
    r"(?<![\w.,/-])(\d+(?:[.,]\d+)?)(?:\s?(mg|g|µg|mcg|ug)\b)?(?![\w%]|[.,/-]\d|\s?(?:ml|%))", re.IGNORECASE
)
_MILLIGRAMS = {"": 1.0, "mg": 1.0, "g": 1000.0, "µg": 0.001, "mcg": 0.001, "ug": 0.001}
_BRACKETS = re.compile(r"\S\s*\(([^()]*[^\W\d_]{4}[^()]*)\)")
_EDGES = " ,;:-+/()"
_PHRASE_END, _BEHIND = re.compile(r",(?!\d)|[;\n]"), 60  # characters
_DIAGNOSTIC = "ATC:V04"
_NEAR = 0.05  # difference of the scores of equal names


def is_substance(concept_id: str) -> bool:
    """Return whether a concept is an ATC code of a substance."""
    return _SUBSTANCE.fullmatch(concept_id.rpartition(":")[2]) is not None


def is_class(concept_id: str) -> bool:
    """Return whether a concept is an ATC code of a class of substances."""
    return _CLASS.fullmatch(concept_id) is not None


def drug_name(description: str, language: str) -> str:
    """Return the name of a drug without route, form and strength, and with its partner as a class; ``""`` if unchanged.

    >>> drug_name("Paracetamol 1000 mg i.v.", "de"), drug_name("Herzinfarkt", "de")
    ('Paracetamol', '')
    >>> drug_name("Amoxicillin/Clavulansäure 875/125 mg Filmtabl.", "de")
    'Amoxicillin und Beta-Lactamase-Inhibitoren'
    """
    left = " ".join(_STRENGTH.sub(" ", _forms().sub(" ", description)).split()).strip(_EDGES)
    for short, full in _raw()["endings"].get(language, {}).items():
        left = re.sub(rf"(?<=\w){re.escape(short)}(?!\w)", full, left)
    combined = combination_name(left, language)
    return combined or (left if any(map(str.isalpha, left)) and left != description else "")


def combination_name(name: str, language: str) -> str:
    """Return the name of a drug with its partner as a class; ``""`` without a partner that has one.

    >>> combination_name("amoxicilina-clavulánico 875", "es")
    'amoxicilina e inhibidores de la betalactamasa'
    """
    for members, names in _classes():
        match = members.search(name)
        if match is not None and language in names:
            return f"{name[: match.start()].strip()} {names[language]}"
    return ""


def phrases_behind(mention: str, context: str) -> set[str]:
    """Return a mention with the dose, form and partner behind it, up to a comma, a semicolon or the end of the line.

    There are several if the context repeats the mention.

    >>> phrases_behind("Prednisolon", "Fieber. Prednisolon 2,5 mg Creme, Aspirin")
    {'Prednisolon 2,5 mg Creme'}
    """
    places = (match.start() for match in re.finditer(rf"(?<!\w){re.escape(mention)}(?!\w)", context))
    return {_PHRASE_END.split(context[at : at + len(mention) + _BEHIND], maxsplit=1)[0] for at in places} or {mention}


def is_same_drug(first: Candidate, other: Candidate) -> bool:
    """Return whether two candidates are one substance of ATC, which adds an explanation or a salt to some names:
    *Retinol (Vitamin A)*, *Levothyroxin-Natrium*.
    """
    if not (is_substance(first.concept_id) and is_substance(other.concept_id)):
        return False
    plain, name = other.name.partition(" (")[0], normalise(first.name)
    return name in (normalise(other.name), normalise(plain), normalise(base_name(plain, base(other.language))))


def prefer_substance(link: Link) -> Link:
    """Put the substance before a class with the same name: *Lithium* is N05AN and N05AN01."""
    first, *others = link.candidates or (None,)
    if first is None or not is_class(first.concept_id):
        return link
    named = [one for one in others if is_substance(one.concept_id) and normalise(one.name) == normalise(first.name)]
    if len(named) != 1 or first.score > named[0].score + _NEAR:
        return link
    best = replace(named[0], score=round(min(first.score + named[0].score, 1.0), 6))
    rest = (*(one for one in others if one is not named[0]), replace(first, score=0.0))
    return replace(link, candidates=(best, *rest), status=LINKED)


def prefer_drug(link: Link) -> Link:
    """Put the drug before the diagnostic of the same substance: levothyroxine is also a test of the thyroid."""
    if not link.candidates or not link.candidates[0].concept_id.startswith(_DIAGNOSTIC):
        return link
    first, *others = link.candidates
    same = next((one for one in others if is_same_drug(first, one)), None)
    if same is None:
        return link
    rest = (replace(first, score=same.score) if one is same else one for one in others)
    return replace(link, candidates=(replace(same, score=first.score), *rest))


def base_name(name: str, language: str) -> str:
    """Return the name of a drug without its salt; ``""`` if unchanged.

    >>> base_name("Brimonidintartrat", "de"), base_name("atropina sulfato", "es"), base_name("Zinksulfat", "xx")
    ('Brimonidin', 'atropina', '')
    """
    salts = _raw()["salts"].get(language)
    left = name if salts is None else re.sub(salts, "", name).strip(_EDGES)
    return left if left != name else ""


def international_name(name: str, language: str) -> str:
    """Return the name of a drug without its national endings; ``""`` if unchanged.

    >>> international_name("Sacubitrilo/valsartán", "es"), international_name("Paracetamol", "es")
    ('Sacubitril/valsartán', '')
    """
    endings = _raw()["international"].get(language)
    left = name if endings is None else re.sub(endings, "", name)
    return left if left != name else ""


def substance_in_brackets(description: str) -> str:
    """Return what a description has in brackets behind a name; ``""`` if that is no word.

    >>> substance_in_brackets("Kontrastmittel (Iohexol)"), substance_in_brackets("Prednisolon (5 mg)")
    ('Iohexol', '')
    """
    match = _BRACKETS.search(description)
    return match[1].strip() if match else ""


def without_cation(name: str) -> str:
    """Return the English name of a salt without its cation.

    >>> without_cation("calcium dobesilate"), without_cation("calcium")
    ('dobesilate', 'calcium')
    """
    return re.sub(rf"{_raw()['cations']}\s(?=\S+$)", "", name)


def first_member(name: str) -> str:
    """Return the first member of a combination; a name of one drug stays unchanged.

    >>> first_member("prednisolone and antibiotics"), first_member("prednisolone")
    ('prednisolone', 'prednisolone')
    """
    return re.split(rf"\s(?:{_joins()})\s", name, maxsplit=1)[0]


def codes_of_route(description: str, concept_ids: Collection[str]) -> tuple[set[str], str]:
    """Return the ids, among ATC codes of one substance, that fit the route of a description, and the route.

    Without a route in the description these are the codes of its strength, else of systemic use. There are none if an
    id is not an ATC code, or if the route is local and has no code.
    """
    if not all(map(is_substance, concept_ids)):
        return set(), ""

    def starting(beginnings: Sequence[str]) -> set[str]:
        return {one for one in concept_ids if one.rpartition(":")[2].startswith(tuple(beginnings))}

    is_local = False
    for name, route in _raw()["routes"].items():
        cues = _cues().get(name)
        if cues and cues.search(description):
            if fitting := starting(route["codes"]):
                return fitting, name
            is_local |= route.get("only_local", False)
    if is_local:
        return set(), ""
    if of_strength := _codes_of_strength(description, concept_ids):
        return of_strength, "strength"
    return set(concept_ids) - starting(_raw()["local"]), "systemic"


def _codes_of_strength(description: str, concept_ids: Collection[str]) -> set[str]:
    """Return the ids whose usual strength a description has; a number without a unit counts as milligrams."""
    amounts = [float(m[1].replace(",", ".")) * _MILLIGRAMS[(m[2] or "").lower()] for m in _AMOUNT.finditer(description)]
    ranges = {one: _raw()["strengths"].get(one.rpartition(":")[2]) for one in concept_ids}
    return {one for one, own in ranges.items() if own and any(own[0] <= amount <= own[1] for amount in amounts)}


@cache
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = read_json(RESOURCES / "linking" / "routes.json")
    return raw


@cache
def _joins() -> str:
    return "|".join(map(re.escape, _raw()["joins"]))


@cache
def _forms() -> re.Pattern[str]:
    """A pattern of the forms of drugs and of all routes."""
    forms = "|".join(re.escape(form) for form in sorted(_raw()["forms"], key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?i:{forms})(?!\w)|" + "|".join(cues.pattern for cues in _cues().values()))


@cache
def _classes() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    """Patterns of a partner in a combination, with the text for its class in each language."""
    classes = []
    for entry in _raw()["classes"].values():
        members = "|".join(re.escape(name) for name in sorted(entry["members"], key=len, reverse=True))
        classes.append((re.compile(rf"(?i:\s*(?:[/+-]|\b(?:{_joins()})\b)\s*(?:{members})(?!\w))"), entry["text"]))
    return classes


@cache
def _cues() -> dict[str, re.Pattern[str]]:
    """Patterns of the cues of routes; AT and AS are eye drops and ointment, at and as are words."""

    def pattern(cue: str) -> str:
        start = r"(?<!\w)" if cue[0].isalnum() else ""  # 5%
        return start + (re.escape(cue) if len(cue) <= 2 else f"(?i:{re.escape(cue)})")

    cues = {name: list(map(pattern, entry["cues"])) for name, entry in _raw()["routes"].items()}
    return {name: re.compile(rf"(?:{'|'.join(own)})(?!\w)") for name, own in cues.items() if own}
