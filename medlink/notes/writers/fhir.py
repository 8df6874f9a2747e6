"""FHIR R4 as NDJSON: for each note with a mention one Bundle (https://hl7.org/fhir/R4/bundle.html) of its mentions.

A disorder of the patient is a Condition, whether present, past, doubtful or denied. Anything else is an Observation: a
finding, a drug, a procedure, what a relative has, what may come. Semantic types tell which concepts are disorders. A
note does not say who the patient is, so ``subject`` names the note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from medlink.kb.systems import UNKNOWN, named
from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note
from medlink.notes.writers.base import TextWriter, note_name
from medlink.notes.writers.rows import flat, row

_DISORDERS = frozenset(
    {
        "disorder", "disease", "condition", "disease or syndrome", "neoplastic process", "pathologic function",
        "mental or behavioral dysfunction", "injury or poisoning", "congenital abnormality", "acquired abnormality",
        "anatomical abnormality", "cell or molecular dysfunction",
    }
)  # fmt: skip
_STATUS = "http://terminology.hl7.org/CodeSystem/condition-"
_VERIFIED = {"present": "confirmed", "uncertain": "unconfirmed", "absent": "refuted"}
_KINDS = {int: "valueInteger", float: "valueDecimal", str: "valueString"}


class FhirWriter(TextWriter):
    """One Bundle of type ``collection`` a line."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        if not mentions:
            return
        name = note_name(note)
        entries = []
        for number, mention in enumerate(mentions, self.written):
            made = uuid5(NAMESPACE_URL, f"{UNKNOWN}{self.bundle}/{name}/{number}/{mention.start}")
            said = row(note, language, mention, self.bundle)
            entries.append({"fullUrl": made.urn, "resource": _resource(said, mention, str(made))})
        identifier = {"system": f"{UNKNOWN}note", "value": name}
        bundle = {"resourceType": "Bundle", "identifier": identifier, "type": "collection", "entry": entries}
        yield json.dumps(bundle, ensure_ascii=False)


def _resource(said: dict[str, Any], mention: LinkedMention, identity: str) -> dict[str, Any]:
    q, link = mention.qualifiers, mention.link
    codings: list[dict[str, str]] = []
    types = set[str]()
    if not link.nil:
        best, system = link.candidates[0], named(link.candidates[0].source)
        types = {kind.lower() for kind in best.semantic_types}
        codings.append({"system": system.url, "code": system.code(best.concept_id), "display": best.preferred_name})
    codings += [{"system": named(one.system).url, "code": one.code} for one in mention.codes]
    common = {"id": identity, "language": said["language"], "extension": [_extension(said)]}
    of_what = {
        "code": {**({"coding": codings} if codings else {}), "text": link.mention},
        "subject": {"display": f"patient of the note {said['note']}"},
    }
    if types & _DISORDERS and q is not None and q.experiencer == "patient" and q.temporality != "hypothetical":
        clinical = _status("clinical", "inactive" if q.temporality == "historical" else "active")
        return {
            "resourceType": "Condition",
            **common,
            # a condition that was refuted has no clinical status
            **({} if q.presence == "absent" else {"clinicalStatus": clinical}),
            "verificationStatus": _status("ver-status", _VERIFIED[q.presence]),
            **of_what,
        }
    observation = {"resourceType": "Observation", **common, "status": "preliminary", **of_what}
    if q is not None and q.experiencer != "patient":
        observation["focus"] = [{"display": q.experiencer}]
    if q is not None and q.presence != "uncertain":
        observation["valueBoolean"] = q.presence == "present"
    return observation


def _extension(said: dict[str, Any]) -> dict[str, Any]:
    held = flat({key: value for key, value in said.items() if value not in (None, [])})
    parts = [{"url": key, _KINDS[type(value)]: value} for key, value in held.items()]
    return {"url": f"{UNKNOWN}mention", "extension": parts}


def _status(kind: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{_STATUS}{kind}", "code": code}]}
