"""Known code systems: their names, prefixes of concept ids, and FHIR URLs.

A code gets the same concept id from every format: ``A00.9`` in a ClaML file, a table or a FHIR resource is
``ICD10GM:A00.9``. Concept ids of SNOMED CT and the UMLS are the bare codes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from medlink.files.json import read_toml
from medlink.files.resources import RESOURCES

UNKNOWN = "urn:medlink:"
"""Prefix of the URLs that medlink gives to systems without one; their codes are concept ids."""
NAME_TYPES = f"{UNKNOWN}name-type"
"""URL of name types without a FHIR code."""
_NO_PREFIX = re.compile(r"[^A-Za-z0-9_.]+")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_URL_SEPARATORS = re.compile(r"[/:#]+")


@dataclass(frozen=True, slots=True)
class System:
    """A code system; ``medlink/resources/kb/systems.toml`` lists the known ones and describes the fields."""

    name: str
    prefix: str
    urls: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    prefixed_codes: bool = False
    separators: tuple[str, str] | None = None

    @property
    def url(self) -> str:
        return self.urls[0] if self.urls else f"{UNKNOWN}{quote(self.name, safe='')}"

    def code(self, concept_id: str) -> str:
        """Return the code of a concept; in a system without a FHIR URL it is the concept id."""
        return concept_id.removeprefix(f"{self.prefix}:") if self.urls and not self.prefixed_codes else concept_id

    def usual_code(self, code: str) -> str:
        """Return a code of a ClaML file as its users write it.

        >>> system_by_name("ICD-O-3").usual_code("8140:0"), system_by_name("OPS").usual_code("5-470")
        ('8140/0', '5-470')
        """
        return code if self.separators is None else code.replace(*self.separators)

    def concept_id(self, code: str) -> str:
        """Return the concept id of a code; a code with the prefix (``HP:0001945``) is its own id."""
        return code if not self.prefix or code.startswith(f"{self.prefix}:") else f"{self.prefix}:{code}"


_ROWS: list[dict[str, Any]] = [
    {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    for row in read_toml(RESOURCES / "kb" / "systems.toml")["systems"]
]
SYSTEMS = tuple(System(**row) for row in _ROWS)
_BY_URL = {url: system for system in SYSTEMS for url in system.urls}
_BY_NAME = {
    _NO_LETTER.sub("", word.lower()): system
    for system in SYSTEMS
    for word in (system.name, system.prefix, *system.aliases)
    if word
}


@lru_cache(maxsize=4096)
def system_by_name(name: str) -> System:
    """Return a code system; for an unknown system the prefix is the letters and digits of its name."""
    known = _BY_NAME.get(_NO_LETTER.sub("", name.lower()))
    return known or System(name, _NO_PREFIX.sub("", name) or "CODE")


def system_by_url(url: str, name: str = "") -> System:
    """Return the code system at a FHIR URL; the name of an unknown system is ``name``, or the last part of the URL."""
    if url.startswith(UNKNOWN):
        # written by medlink, so its codes are concept ids
        return System(unquote(url.removeprefix(UNKNOWN).partition("|")[0]), "")
    known = _BY_URL.get(url.partition("|")[0].rstrip("/"))
    if known is not None:
        return known
    parts = [part for part in _URL_SEPARATORS.split(url.partition("|")[0]) if part]
    return system_by_name(name or next(reversed(parts), "") or "FHIR")
