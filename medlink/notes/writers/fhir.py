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
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention, OutputFormat
from medlink.notes.writers.rows import note_name, row
from medlink.notes.writers.text import TextWriter

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
        """The line of one note; none where it has no mention."""
        if not mentions:
            return
        name = note_name(note)
        entries = []
        for number, mention in enumerate(mentions):
            made = uuid5(NAMESPACE_URL, f"{UNKNOWN}{self.bundle}/{name}/{self.written + number}/{mention.start}")
            entries.append({"fullUrl": made.urn, "resource": self._resource(note, language, mention, name, str(made))})
        bundle = {
            "resourceType": "Bundle",
            "identifier": {"system": f"{UNKNOWN}note", "value": name},
            "type": "collection",
            "entry": entries,
        }
        yield json.dumps(bundle, ensure_ascii=False)

    def _resource(self, note: Note, language: str, mention: LinkedMention, name: str, identity: str) -> dict[str, Any]:
        """The resource of one mention."""
        q, link = mention.qualifiers, mention.link
        best = None if link.nil else link.candidates[0]
        types = {kind.lower() for kind in best.semantic_types} if best else set()
        is_condition = q is not None and bool(types & _DISORDERS) and q.experiencer == "patient"
        is_condition = is_condition and q is not None and q.temporality != "hypothetical"
        codings = [] if best is None else [_coding(best.source, best.concept_id, best.preferred_name)]
        codings += [{"system": named(one.system).url, "code": one.code} for one in mention.codes]
        code = {**({"coding": codings} if codings else {}), "text": link.mention}
        common = {
            "resourceType": "Condition" if is_condition else "Observation",
            "id": identity,
            "language": language,
            "extension": [self._said(note, language, mention)],
        }
        subject = {"display": f"patient of the note {name}"}
        if is_condition and q is not None:
            # a condition that was refuted has no clinical status
            clinical = "inactive" if q.temporality == "historical" else "active"
            return {
                **common,
                **({} if q.presence == "absent" else {"clinicalStatus": _status("clinical", clinical)}),
                "verificationStatus": _status("ver-status", _VERIFIED[q.presence]),
                "code": code,
                "subject": subject,
            }
        of_another = q is not None and q.experiencer != "patient"
        value = {} if q is None or q.presence == "uncertain" else {"valueBoolean": q.presence == "present"}
        return {
            **common,
            "status": "preliminary",
            "code": code,
            "subject": subject,
            **({"focus": [{"display": q.experiencer}]} if of_another and q is not None else {}),
            **value,
        }

    def _said(self, note: Note, language: str, mention: LinkedMention) -> dict[str, Any]:
        """All that medlink says of a mention, as an extension; lists are JSON."""
        parts = []
        for key, value in row(note, language, mention, self.bundle).items():
            if isinstance(value, list):
                value = json.dumps(value, ensure_ascii=False) if value else None  # noqa: PLW2901 # as FHIR has it
            if value is not None:
                parts.append({"url": key, _KINDS[type(value)]: value})
        return {"url": f"{UNKNOWN}mention", "extension": parts}


def _coding(source: str, concept_id: str, display: str) -> dict[str, str]:
    system = named(source)
    return {"system": system.url, "code": system.code(concept_id), "display": display}


def _status(kind: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{_STATUS}{kind}", "code": code}]}


FORMAT = OutputFormat((".fhir.ndjson",), lambda out, options: FhirWriter(out))
