"""The code systems that several formats speak of: one name, one kind of concept id, their addresses in FHIR.

So a code is the same concept whatever file brings it: ``A00.9`` of a ClaML file, of a table and of a FHIR resource is
``ICD10GM:A00.9``. SNOMED CT and the UMLS have ids that are the bare codes, as their own readers give them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

UNKNOWN = "urn:medlink:"
"""What the addresses that medlink gives to systems without one begin with; their codes are concept ids."""
NAME_TYPES = f"{UNKNOWN}name-type"
"""Address of the types of names that have no code of their own in FHIR."""
_NO_PREFIX = re.compile(r"[^A-Za-z0-9_.]+")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_ADDRESS_END = re.compile(r"[/:#]+")


@dataclass(frozen=True, slots=True)
class System:
    """A code system.

    ``name`` is that of its source and of mappings to it; ``prefix`` stands before the colon of its concept ids, and is
    empty where the ids are the codes. ``urls`` are its addresses in FHIR, the one to write first, ``called`` are other
    names that files have for it; ``whole`` says that its codes have the prefix too.
    """

    name: str
    prefix: str
    urls: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    whole: bool = False

    @property
    def url(self) -> str:
        """Its address in FHIR."""
        return self.urls[0] if self.urls else f"{UNKNOWN}{quote(self.name, safe='')}"

    def code(self, concept_id: str) -> str:
        """The code of a concept; of a system without an address in FHIR it is the id."""
        return concept_id.removeprefix(f"{self.prefix}:") if self.urls and not self.whole else concept_id

    def concept_id(self, code: str) -> str:
        """The concept id of a code; codes that have their prefix already (``HP:0001945``) stay as they are."""
        return code if not self.prefix or code.startswith(f"{self.prefix}:") else f"{self.prefix}:{code}"


_BFARM = "http://fhir.de/CodeSystem/bfarm/"
_SID = "http://hl7.org/fhir/sid/"
SYSTEMS = (
    System("SNOMEDCT", "", ("http://snomed.info/sct",), ("SNOMED", "SNOMED CT", "SNOMEDCT_US")),
    System("UMLS", "", ("http://www.nlm.nih.gov/research/umls",)),
    System("LOINC", "LOINC", ("http://loinc.org",), ("LNC",)),
    System("ICD-10-GM", "ICD10GM", (f"{_BFARM}icd-10-gm", "http://fhir.de/CodeSystem/dimdi/icd-10-gm")),
    System("ICD-10-CM", "ICD10CM", (f"{_SID}icd-10-cm",)),
    System("CIE-10-ES", "CIE10ES", (), ("CIE10", "ICD-10-ES")),
    System("ICD-10", "ICD10", (f"{_SID}icd-10",), ("ICD-10-WHO",)),
    System("ICD-O-3", "ICDO3", ("http://terminology.hl7.org/CodeSystem/icd-o-3", f"{_SID}icd-o-3")),
    System("OPS", "OPS", (f"{_BFARM}ops", "http://fhir.de/CodeSystem/dimdi/ops")),
    System("Alpha-ID", "ALPHAID", (f"{_BFARM}alpha-id",)),
    System("ATC", "ATC", (f"{_BFARM}atc", "http://www.whocc.no/atc", "http://fhir.de/CodeSystem/dimdi/atc")),
    System("Orphanet", "Orphanet", ("http://www.orpha.net",), ("ORPHA", "ORDO")),
    System("RxNorm", "RXNORM", ("http://www.nlm.nih.gov/research/umls/rxnorm",)),
    System(
        "HP",
        "HP",
        ("http://human-phenotype-ontology.org", "http://purl.obolibrary.org/obo/hp.owl"),
        ("HPO",),
        whole=True,
    ),
)
_BY_URL = {url: system for system in SYSTEMS for url in system.urls}
_BY_NAME = {
    _NO_LETTER.sub("", word.lower()): system
    for system in SYSTEMS
    for word in (system.name, system.prefix, *system.called)
    if word
}


def named(name: str) -> System:
    """The code system of a name; one that is not known has that name, and its letters and digits as prefix."""
    known = _BY_NAME.get(_NO_LETTER.sub("", name.lower()))
    return known or System(name, _NO_PREFIX.sub("", name) or "CODE")


def addressed(url: str, name: str = "") -> System:
    """The code system at an address; one that is not known has ``name``, or else the last part of the address."""
    if url.startswith(UNKNOWN):
        # written by medlink: the codes are concept ids
        return System(unquote(url.removeprefix(UNKNOWN).partition("|")[0]), "")
    known = _BY_URL.get(url.partition("|")[0].rstrip("/"))
    if known is not None:
        return known
    parts = [part for part in _ADDRESS_END.split(url.partition("|")[0]) if part]
    return named(name or next(reversed(parts), "") or "FHIR")
