"""Decide between the ATC codes of one substance by the route or form in its description.

ATC has a code for each use of a substance: prednisolone alone has fifteen. Where a description names no route, the
codes of systemic use are meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES

_SUBSTANCE = re.compile(r"[A-V]\d{2}[A-Z]{2}\d{2}")


@dataclass(frozen=True, slots=True)
class _Route:
    name: str
    codes: tuple[str, ...]
    cues: re.Pattern[str] | None


def codes_of_route(description: str, concept_ids: Collection[str]) -> tuple[set[str], str]:
    """Return the ids, among ATC codes of one substance, that fit the route of a description, and the route.

    Without a route in the description these are the codes of systemic use. The set is empty where an id is no ATC code.

    >>> ids = ["ATC:H02AB06", "ATC:S01BA04", "ATC:D07AA03"]
    >>> codes_of_route("Prednisolon 20 mg", ids), codes_of_route("Prednisolon AT 1 %", ids)
    (({'ATC:H02AB06'}, 'systemic'), ({'ATC:S01BA04'}, 'eye'))
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


def _starting(codes: Mapping[str, str], beginnings: tuple[str, ...]) -> set[str]:
    return {concept_id for concept_id, code in codes.items() if code.startswith(beginnings)}


@cache
def _routes() -> tuple[list[_Route], tuple[str, ...]]:
    raw = read_json(RESOURCES / "mapping" / "routes.json")
    routes = []
    for name, entry in raw["routes"].items():
        # AT and AS are eye drops and ointment, at and as are words
        cues = [re.escape(cue) if len(cue) <= 2 else f"(?i:{re.escape(cue)})" for cue in entry["cues"]]
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(cues)})(?!\w)") if cues else None
        routes.append(_Route(name, tuple(entry["codes"]), pattern))
    return routes, tuple(raw["local"])
