"""The OpenAPI document of the service, from the models of its requests and answers."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from medlink import __version__
from medlink.notes.options import NoteOptions
from medlink.service import models

_TEMPLATE = "#/components/schemas/{model}"
_TOKEN = "token"


class _Call(NamedTuple):
    method: str
    path: str
    summary: str
    answer: type[BaseModel]
    request: type[models._Request] | None = None
    parameters: tuple[tuple[str, str, str, bool], ...] = ()  # name, place, description, whether it is required
    errors: tuple[int, ...] = (503,)
    has_token: bool = True
    other: tuple[str, ...] = ()  # further media types of the answer


_LANGUAGE = ("language", "query", "BCP 47 tag of the words, and of the names to show.", False)
_BUNDLE = ("bundle", "query", "Name of the bundle; by default the first.", False)
CALLS = (
    _Call(
        "post", "/link", "Link the mentions of notes to concepts.", models.LinkAnswer, models.LinkRequest,
        errors=(413, 422, 503), other=("application/x-ndjson", "application/fhir+ndjson"),
    ),
    _Call(
        "post", "/mentions", "Link mentions without their notes.", models.MentionsAnswer, models.MentionsRequest,
        errors=(413, 422, 503),
    ),
    _Call(
        "get", "/search", "Find concepts by id, name or description.", models.SearchAnswer,
        parameters=(
            ("text", "query", "Words or an id.", True), _LANGUAGE,
            ("limit", "query", "Number of concepts, 1 to 100.", False), _BUNDLE,
        ),
        errors=(422, 503),
    ),
    _Call(
        "get", "/concepts/{concept_id}", "Show a concept.", models.ConceptAnswer,
        parameters=(("concept_id", "path", "Id of the concept.", True), _LANGUAGE, _BUNDLE), errors=(404, 422, 503),
    ),
    _Call("get", "/info", "Show bundles, versions and limits.", models.InfoAnswer),
    _Call("get", "/health", "Tell whether the service answers.", models.HealthAnswer, has_token=False),
)  # fmt: skip


@cache
def openapi() -> dict[str, Any]:
    kinds = {call.answer for call in CALLS} | {call.request for call in CALLS if call.request} | {models.Problem}
    _, document = models_json_schema(
        [(kind, "validation") for kind in sorted(kinds, key=lambda kind: kind.__name__)], ref_template=_TEMPLATE
    )
    schemas: dict[str, Any] = document["$defs"]
    options = NoteOptions.model_json_schema(ref_template=_TEMPLATE)
    for call in CALLS:
        if call.request is not None:
            schema = schemas[call.request.__name__]
            schema["properties"] |= {name: options["properties"][name] for name in call.request.option_names()}
            schema["additionalProperties"] = False
    paths: dict[str, Any] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "medlink",
            "version": __version__,
            "description": "Link clinical text in English, German and Spanish to the concepts of a terminology.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {_TOKEN: {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: _Call) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _reference(call.answer)}}
    content |= {media: {"schema": {"type": "string"}} for media in call.other}
    refused = {"application/problem+json": {"schema": _reference(models.Problem)}}
    codes = (*((401,) if call.has_token else ()), 403, *call.errors)
    operation: dict[str, Any] = {
        "operationId": call.path.strip("/").partition("/")[0],
        "summary": call.summary,
        "responses": {"200": {"description": "Done.", "content": content}}
        | {str(code): {"description": "Refused.", "content": refused} for code in codes},
        # without a token on a loopback address
        "security": [{_TOKEN: []}, {}] if call.has_token else [{}],
    }
    if call.request is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _reference(call.request)}},
        }
    if call.parameters:
        operation["parameters"] = [
            {
                "name": name,
                "in": place,
                "description": text,
                "required": required,
                "schema": {"type": "integer" if name == "limit" else "string"},
            }
            for name, place, text, required in call.parameters
        ]
    return operation


def _reference(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _TEMPLATE.format(model=kind.__name__)}
