"""FHIR R4 as NDJSON: one Bundle (https://hl7.org/fhir/R4/bundle.html) for each note with mentions.

A disorder of the patient is a Condition, whether present, past, uncertain or absent. So is what is gone, unless it is a
substance, a procedure or a measurement: only a Condition can be resolved. A finding or disorder that a relative has or
had is a FamilyMemberHistory, and so is a concept of an unknown type. A substance that the patient is allergic to is an
AllergyIntolerance, and a drug of the patient is a MedicationStatement. Other mentions are Observations: findings,
procedures, disorders that relatives do not have, and hypothetical disorders. Only those of the patient have a value.
Semantic types determine which concepts are disorders or drugs. A note does not identify the patient, so ``subject``
names the note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from medlink.kb.systems import UNKNOWN, system_by_name
from medlink.linking.kinds import ANALYTE, DISORDER, DRUG, FINDING, MEASUREMENT, PROCEDURE, SUBSTANCE, all_kinds_of
from medlink.notes.reading import Note
from medlink.notes.writers.base import TextWriter, note_name
from medlink.notes.writers.rows import flatten, mention_row
from medlink.records import LinkedMention, Qualifiers

_ROLES, _UCUM = "http://terminology.hl7.org/CodeSystem/v3-RoleCode", "http://unitsofmeasure.org"
_STATUS = "http://terminology.hl7.org/CodeSystem/"
_VERIFIED = {"present": "confirmed", "uncertain": "unconfirmed", "absent": "refuted"}
_NEVER_RESOLVED = (SUBSTANCE, PROCEDURE, MEASUREMENT)
_TAKEN = {"current": "active", "historical": "stopped", "hypothetical": "intended"}
_KINDS = {int: "valueInteger", float: "valueDecimal", str: "valueString", bool: "valueBoolean"}


class FhirWriter(TextWriter):
    """One Bundle of type ``collection`` in each line."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        if not mentions:
            return
        name = note_name(note)
        entries = []
        for number, mention in enumerate(mentions, self.written):
            uuid = uuid5(NAMESPACE_URL, f"{UNKNOWN}{self.bundle}/{name}/{number}/{mention.start}")
            row = mention_row(note, language, mention, self.bundle)
            entries.append({"fullUrl": uuid.urn, "resource": _resource(row, mention, str(uuid), note.date)})
        identifier = {"system": f"{UNKNOWN}note", "value": name}
        bundle = {"resourceType": "Bundle", "identifier": identifier, "type": "collection", "entry": entries}
        yield json.dumps(bundle, ensure_ascii=False)


def _resource(row: dict[str, Any], mention: LinkedMention, identity: str, day: date | None) -> dict[str, Any]:
    q, link = mention.qualifiers, mention.link
    codings: list[dict[str, str]] = []
    kinds = frozenset[str]()
    if not link.nil:
        best, system = link.candidates[0], system_by_name(link.candidates[0].source)
        kinds = all_kinds_of(best.semantic_types, system.name)
        codings.append({"system": system.url, "code": system.code(best.concept_id), "display": best.preferred_name})
    codings += [{"system": system_by_name(mapping.system).url, "code": mapping.code} for mapping in mention.codes]
    common = {"id": identity, "language": row["language"], "extension": [_extension(row)]}
    content = {
        "code": {**({"coding": codings} if codings else {}), "text": link.mention},
        "subject": {"display": f"patient of the note {row['note']}"},
    }
    is_own = q is not None and q.experiencer == "patient" and q.temporality != "hypothetical"
    if q is not None and is_own and q.allergy and FINDING not in kinds:
        return {"resourceType": "AllergyIntolerance", **common, **_allergy(q, content), **_at("recordedDate", day)}
    if q is not None and q.experiencer == "patient" and mention.value is None and _is_drug(kinds, q):
        return {"resourceType": "MedicationStatement", **common, **_statement(q, content), **_at("dateAsserted", day)}
    gone = q is not None and q.presence == "absent" and q.temporality == "historical"
    if q is not None and is_own and (DISORDER in kinds or (gone and kinds.isdisjoint(_NEVER_RESOLVED))):
        clinical = "resolved" if gone else "inactive" if q.temporality == "historical" else "active"
        status = _status("condition-clinical", clinical)
        return {
            "resourceType": "Condition",
            **common,
            # a refuted condition has no clinical status
            **({} if q.presence == "absent" and not gone else {"clinicalStatus": status}),
            "verificationStatus": _status("condition-ver-status", "confirmed" if gone else _VERIFIED[q.presence]),
            **content,
            **_at("recordedDate", day),
        }
    if q is not None and q.experiencer == "family" and q.is_affirmed and (FINDING in kinds or not kinds):
        return {"resourceType": "FamilyMemberHistory", **common, **_family_history(q, content), **_at("date", day)}
    observation = {"resourceType": "Observation", **common, "status": "preliminary", **content}
    if q is not None and q.temporality == "current":
        observation |= _at("effectiveDateTime", day)
    if q is not None and q.experiencer != "patient":
        observation["focus"] = [{"display": q.experiencer}]
    if q is not None and is_own and q.presence != "uncertain":
        observation["valueBoolean"] = q.presence == "present"
    return observation


def _at(field: str, day: date | None) -> dict[str, str]:
    return {} if day is None else {field: day.isoformat()}


def _family_history(q: Qualifiers, content: dict[str, Any]) -> dict[str, Any]:
    """Fields of a FamilyMemberHistory (https://hl7.org/fhir/R4/familymemberhistory.html) about one finding."""
    age = {"value": q.onset_age, "unit": "a", "system": _UCUM, "code": "a"}
    return {
        "status": "partial",
        "patient": content["subject"],
        "relationship": {"coding": [{"system": _ROLES, "code": q.relative or "FAMMEMB"}]},
        "condition": [{"code": content["code"], **({} if q.onset_age is None else {"onsetAge": age})}],
    }


def _is_drug(kinds: frozenset[str], q: Qualifiers) -> bool:
    """Whether a concept is a drug; a substance that laboratories measure is a drug only in a list of drugs."""
    if q.section == "medication":
        return SUBSTANCE in kinds
    return q.section != "results" and DRUG in kinds and ANALYTE not in kinds


def _statement(q: Qualifiers, content: dict[str, Any]) -> dict[str, Any]:
    """Fields of a MedicationStatement (https://hl7.org/fhir/R4/medicationstatement.html) about one drug."""
    taken = _TAKEN[q.temporality]
    return {
        "status": {"absent": "not-taken", "uncertain": "unknown", "present": taken}[q.presence],
        "medicationCodeableConcept": content["code"],
        "subject": content["subject"],
    }


def _allergy(q: Qualifiers, content: dict[str, Any]) -> dict[str, Any]:
    """Fields of an AllergyIntolerance (https://hl7.org/fhir/R4/allergyintolerance.html) about one substance."""
    clinical = "inactive" if q.presence == "absent" or q.temporality == "historical" else "active"
    return {
        "clinicalStatus": _status("allergyintolerance-clinical", clinical),
        "verificationStatus": _status("allergyintolerance-verification", _VERIFIED[q.presence]),
        "code": content["code"],
        "patient": content["subject"],
    }


def _extension(row: dict[str, Any]) -> dict[str, Any]:
    values = flatten({key: value for key, value in row.items() if value not in (None, [])})
    parts = [{"url": key, _KINDS[type(value)]: value} for key, value in values.items()]
    return {"url": f"{UNKNOWN}mention", "extension": parts}


def _status(kind: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{_STATUS}{kind}", "code": code}]}
