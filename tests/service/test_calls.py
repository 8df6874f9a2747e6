"""The calls of ``medlink serve``, by a client over the loopback address."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fhir.resources.R4B.bundle import Bundle as FhirBundle
from openapi_pydantic import OpenAPI

from medlink import __version__, link_notes
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.demo import demo_notes
from medlink.notes.options import NoteOptions
from medlink.notes.reading import Note
from medlink.service import models
from medlink.service.options import FIXED, PER_REQUEST
from tests.cli.runner import json_lines, run

from .running import Running

pytestmark = pytest.mark.slow
NOTES = [{"id": f"{tag}.txt", "text": text, "language": tag} for tag, text in demo_notes().items()]
OPTIONS: dict[str, Any] = {"values": True, "threshold": 0.7, "k": 3, "prefer": ["Disease"]}


@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["defaults", "options"])
def test_links_are_those_of_the_command_line(
    service: Running, demo: Bundle, tmp_path: Path, options: dict[str, Any]
) -> None:
    notes = [Note(note["id"], note["text"], note["language"]) for note in NOTES]
    links, fhir = tmp_path / "links.jsonl", tmp_path / "links.fhir.ndjson"
    link_notes(demo, notes, out=links, **options)
    link_notes(demo, notes, out=fhir, **options)
    answer = service.post("/link", notes=NOTES, format="jsonl", **options)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    assert answer.text == links.read_text("utf-8")
    linked = models.LinkAnswer.model_validate_json(service.post("/link", notes=NOTES, **options).content)
    assert linked.bundle == demo.manifest["hash"]
    mentions = [mention for note in linked.notes for mention in note.mentions]
    assert [one.model_dump(mode="json") for one in mentions] == json_lines(links)

    answer = service.post("/link", notes=NOTES, format="fhir", **options)
    assert answer.headers["Content-Type"] == "application/fhir+ndjson"
    for line in answer.text.splitlines():
        FhirBundle.model_validate_json(line)
    found, wanted = (
        [[entry["resource"].get("code") for entry in json.loads(line)["entry"]] for line in text.splitlines()]
        for text in (answer.text, fhir.read_text("utf-8"))
    )
    assert found == wanted
    assert len(found) == len(NOTES)


def test_language_id_and_problems_of_notes(service: Running) -> None:
    texts = ("Seit Tagen Husten und Fieber, keine Atemnot.", "He has had a cough and a fever for days.")
    notes = [{"text": text} for text in texts] + [{"id": 7, "text": "x", "language": "klingon"}]
    answer = service.post("/link", notes=notes).json()
    assert [(note["note"], note["language"]) for note in answer["notes"]] == [("1", "de"), ("2", "en"), ("7", "")]
    assert [len(note["mentions"]) for note in answer["notes"]] == [3, 2, 0]
    assert answer["notes"][2]["problem"] == "unknown language 'klingon'"
    lines = service.refusal(service.post("/link", notes=notes, format="fhir"))
    assert lines == (422, "the note 7 has unknown language 'klingon': give a BCP 47 tag such as de, en or es.")
    dated = [{"text": "Pneumonia on 12/28/2002.", "date": day} for day in ("30.2.2026", "30.11.2026", "2026-11-30", "")]
    bad, *good = service.post("/link", notes=dated).json()["notes"]
    assert (bad["problem"], bad["remedy"]) == (
        "the field 'date' is not a date", "write it as 2026-11-30 or 30.11.2026, or leave it empty",
    )  # fmt: skip
    found = [note["mentions"][0]["temporality"] for note in good]
    assert found == ["historical", "historical", "current"]
    by_option = service.post("/link", notes=[{"text": "fever"}], language="de").json()["notes"][0]
    assert by_option["language"] == "de"


def test_mentions(service: Running, linker: Linker) -> None:
    given = [Mention("MS", "en"), Mention("Lungenentzündungen", "de"), Mention("Gartenmöbel", "de")]
    mentions = [{"text": one.text, "language": one.language} for one in given]
    answer = models.MentionsAnswer.model_validate_json(service.post("/mentions", mentions=mentions, k=4).content)
    assert [one.model_dump(mode="json") for one in answer.mentions] == [
        one.to_dict() for one in linker.link(given, k=4)
    ]
    context = "Echocardiography: mitral valve area 1.1 cm2, severe MS with an enlarged left atrium."
    mentions = [{"text": "MS", "context": context}]
    decided = service.post("/mentions", mentions=mentions, language="en").json()["mentions"]
    assert decided == [one.to_dict() for one in linker.link([Mention("MS", "en")], [context])]


def test_search_and_concepts(service: Running, demo_path: Path) -> None:
    found = service.client.get("/search", params={"text": "shortnes of breath", "language": "es", "limit": 3})
    answer = models.SearchAnswer.model_validate_json(found.content)
    assert len(answer.concepts) == 3
    assert (answer.concepts[0].concept_id, answer.concepts[0].preferred_name) == ("DEMO:0228", "disnea")
    first = service.client.get("/search", params={"text": "DEMO:0209"}).json()["concepts"][0]
    assert first["concept_id"] == "DEMO:0209"
    shown = service.client.get("/concepts/DEMO:0228", params={"language": "de"})
    models.ConceptAnswer.model_validate_json(shown.content)
    assert shown.json() == json.loads(run("kb", "show", demo_path, "DEMO:0228", "--language", "de", "--json").output)
    assert service.refusal(service.client.get("/concepts/no")) == (404, "The bundle has no concept with this id.")


def test_information(service: Running, demo: Bundle) -> None:
    info = models.InfoAnswer.model_validate_json(service.client.get("/info").content)
    assert (info.medlink, info.limits) == (__version__, {"bytes": 1_000_000, "seconds": 60, "requests": 64})
    (bundle,) = info.bundles
    assert (bundle.name, bundle.hash, bundle.versions) == ("bundle", demo.manifest["hash"], demo.versions)
    assert info.options == {name: NoteOptions().to_dict()[name] for name in PER_REQUEST}
    assert service.client.get("/health").json() == {"status": "ok"}


NOTE = [{"text": "fever"}]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("link", {}, "notes: field required; see /openapi.json."),
        ("link", {"notes": []}, "notes: list should have at least 1 item after validation, not 0; see /openapi.json."),
        ("link", {"notes": [{"text": 5}]}, "notes.0.text: input should be a valid string; see /openapi.json."),
        ("link", {"notes": [{"note": "x"}]}, "notes.0.text: field required; see /openapi.json."),
        ("link", {"notes": NOTE, "format": "csv"}, "format: input should be 'json', 'jsonl' or 'fhir'; see"),
        ("link", {"notes": NOTE, "treshold": 0.3}, "There is no field 'treshold': one of bundle, notes, format,"),
        ("link", {"notes": NOTE, "fever since Monday, 3": 1}, "There is no field of this name: one of bundle, notes,"),
        ("link", {"notes": NOTE, "threshold": 5}, "threshold is 5, at least 0 and at most 1 expected: leave"),
        ("link", {"notes": NOTE, "present_only": True, "qualifiers": False}, "present_only needs qualifiers, which"),
        ("link", {"notes": NOTE, "sources": ["X"]}, "no source 'X' in this index: "),
        ("link", {"notes": NOTE, "bundle": "x"}, "There is no bundle of this name: one of 'bundle' is expected."),
        ("link", {"notes": NOTE, "ranker": "http://x"}, "The option ranker is fixed when the service starts: leave"),
        ("link", {"notes": NOTE, "learned": "/etc/passwd"}, "The option learned is fixed when the service starts:"),
        ("mentions", {"mentions": [{"text": " "}]}, "mentions.0.text: is empty; see /openapi.json."),
        ("mentions", {"mentions": NOTE, "values": True}, "There is no field 'values': one of bundle, mentions"),
        ("mentions", {"mentions": [{"text": "x", "language": "klingon"}]}, "unknown language 'klingon': give a BCP"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request(service: Running, path: str, body: dict[str, Any], sentence: str) -> None:
    status, detail = service.refusal(service.post(f"/{path}", **body))
    assert (status, detail[: len(sentence)]) == (422, sentence)
    assert "\n" not in detail


def test_further_refusals(service: Running) -> None:
    get, refusal = service.client.get, service.refusal
    assert refusal(service.client.post("/link", content=b"{")) == (422, "the body: is not JSON; see /openapi.json.")
    assert refusal(get("/search")) == (422, "There is nothing to search: give text.")
    assert refusal(get("/search?text=x&limit=0")) == (422, "limit is a number from 1 to 100.")
    assert refusal(get("/search?text=x&language=zz-zz"))[0] == 422
    assert refusal(get("/nothing")) == (404, "Not Found")
    assert refusal(get("/link")) == (405, "Method Not Allowed")


def test_the_openapi_document(service: Running) -> None:
    document = service.client.get("/openapi.json").json()
    described = OpenAPI.model_validate(document)
    assert described.paths is not None
    assert set(described.paths) == {"/link", "/mentions", "/search", "/concepts/{concept_id}", "/info", "/health"}
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= schemas.keys()
    asked = schemas["LinkRequest"]
    assert set(asked["properties"]) == {"notes", "bundle", "format", *PER_REQUEST}
    assert asked["properties"]["threshold"] == {**NoteOptions.model_json_schema()["properties"]["threshold"]}
    assert set(PER_REQUEST) | set(FIXED) == set(NoteOptions.model_fields)
    operations = [getattr(item, method) for item in described.paths.values() for method in ("get", "post")]
    names = [operation.operationId for operation in operations if operation is not None]
    assert sorted(names) == ["concepts", "health", "info", "link", "mentions", "search"]
