"""Requests and answers of the service, and the OpenAPI document made of them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from pydantic.json_schema import models_json_schema

from medlink import __version__
from medlink.files.tables import TITLE_WORD
from medlink.linking.options import LinkOptions
from medlink.notes.options import NoteOptions
from medlink.records import AttributeKind, Candidate, Experiencer, Presence, Status, Temporality, Value
from medlink.service.options import FIXED, PER_REQUEST
from medlink.settings import option
from medlink.web.guard import Refusal

_TEMPLATE = "#/components/schemas/{model}"
_TOKEN = "token"
_T = TypeVar("_T", bound="_Request")
_REASONS = {"json_invalid": "is not JSON", "string_too_short": "is empty"}


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class NoteInput(_Part):
    """A note to link."""

    text: Annotated[str, Field(description="Text of the note.")]
    id: str | int | None = option(None, "Id of the note; by default its number, from 1.")
    language: str | None = option(None, "BCP 47 tag of its language; by default that of the request, else detected.")
    date: str | None = option(None, "Day on which it was written, such as 2026-11-30 or 30.11.2026.")


class MentionInput(_Part):
    """A mention without its note."""

    text: Annotated[
        str, StringConstraints(strip_whitespace=True), Field(description="Words of the mention.", min_length=1)
    ]
    language: str | None = option(None, "BCP 47 tag; by default that of the request.")
    context: str = option("", "Text around it, which decides between concepts with the same name.")


class _Request(BaseModel):
    """Base of requests; the options of linking named by ``option_names`` are extra fields."""

    model_config = ConfigDict(strict=True, extra="allow")

    option_names: ClassVar[Collection[str]] = ()
    bundle: str | None = option(None, "Name of the bundle; by default the first.")

    @property
    def options(self) -> dict[str, Any]:
        return self.model_extra or {}


class LinkRequest(_Request):
    """Notes to link, with any options of linking."""

    option_names: ClassVar = PER_REQUEST
    notes: Annotated[list[NoteInput], Field(min_length=1, description="Notes to link.")]
    format: Literal["json", "jsonl", "fhir"] = option(
        "json",
        "json: a list of notes. jsonl: a line for each mention, as 'medlink link' writes it. fhir: a "
        "FHIR R4 Bundle in a line for each note with mentions.",
    )


class MentionsRequest(_Request):
    """Mentions to link, with any options of linking."""

    option_names: ClassVar = tuple(name for name in LinkOptions.model_fields if name in PER_REQUEST)
    mentions: Annotated[list[MentionInput], Field(min_length=1, max_length=1000, description="Mentions to link.")]


class PageRequest(_Request):
    """A note on the page."""

    text: str
    language: str | None = None


class DecisionRequest(_Request):
    """A decision about a mention, made on the page; an empty decision revokes the earlier decision."""

    item: Annotated[str, Field(pattern=r"^note-[0-9a-f]{16}$")]
    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=1)]
    name: str
    language: str
    section: str
    proposed: str
    decision: Literal["", "accept", "none", "reject"]
    concept_id: str


def _answer(name: str, doc: str, /, **fields: Any) -> Any:
    """Make a model of an answer from the types of its fields; ``None`` is an optional list of words."""
    kinds: dict[str, Any] = {field: (list[str], []) if kind is None else (kind, ...) for field, kind in fields.items()}
    return create_model(name, __base__=_Part, __doc__=doc, **kinds)


AttributeOutput: Any = _answer(
    "AttributeOutput", "A word that describes a finding.",
    start=int, end=int, text=str, kind=AttributeKind, concept_id=str | None, name=str | None,
)  # fmt: skip
CodeOutput: Any = _answer(
    "CodeOutput", "A code of a concept in a system of the option ``map``.", system=str, code=str, type=str
)
MentionOutput: Any = _answer(
    "MentionOutput", "A linked mention, as a line of 'medlink link'.",
    note=str, start=int, end=int, text=str, language=str, concept_id=str | None, preferred_name=str | None,
    score=float | None, nil=bool, status=Status, presence=Presence | None, temporality=Temporality | None,
    experiencer=Experiencer | None, section=str | None, relative=str | None, onset_age=int | None,
    allergy=bool | None, attributes=list[AttributeOutput] | None, value=Value | None, same_as=list[str],
    presumed=list[str], expanded=str | None, codes=list[CodeOutput], candidates=list[Candidate],
    versions=dict[str, Any], bundle=str,
)  # fmt: skip
NoteOutput: Any = _answer(
    "NoteOutput",
    "A note with its mentions, or with the reason why it was not linked (``problem``) and what to do (``remedy``).",
    note=str, language=str, problem=str | None, remedy=str | None, mentions=list[MentionOutput],
)  # fmt: skip
LinkAnswer: Any = _answer(
    "LinkAnswer", "The linked notes; ``bundle`` is the hash of the bundle that linked them.",
    bundle=str, notes=list[NoteOutput],
)  # fmt: skip
BareLink: Any = _answer(
    "BareLink", "A linked mention with its candidates.",
    mention=str, concept_id=str | None, nil=bool, status=Status, expanded=str | None, candidates=list[Candidate],
)  # fmt: skip
MentionsAnswer: Any = _answer(
    "MentionsAnswer", "The linked mentions, in the order of the request.", bundle=str, mentions=list[BareLink]
)
Hit: Any = _answer(
    "Hit", "A concept that a search found; if linking found it, with the ``score`` and the name that matched.",
    concept_id=str, preferred_name=str, score=float | None, name=str, language=str, route=str, source=str,
    same_as=list[str], semantic_types=None, presumed=None,
)  # fmt: skip
SearchAnswer: Any = _answer("SearchAnswer", "Concepts that a search found, best first.", concepts=list[Hit])
Ancestor: Any = _answer(
    "Ancestor", "A concept above another concept.", concept_id=str, depth=int, preferred_name=str | None
)
ConceptName: Any = _answer("ConceptName", "A name of a concept.", text=str, language=str, type=str, preferred=bool)
ConceptDefinition: Any = _answer("ConceptDefinition", "A definition of a concept.", text=str, language=str)
ConceptType: Any = _answer("ConceptType", "A semantic type of a concept.", semantic_type=str, code=str)
ConceptAnswer: Any = _answer(
    "ConceptAnswer", "A concept, as 'medlink kb show --json' prints it.",
    concept_id=str, source=str, preferred_name=str, ancestors=list[Ancestor], names=list[ConceptName],
    definitions=list[ConceptDefinition], semantic_types=list[ConceptType], mappings=list[CodeOutput],
)  # fmt: skip
BundleInfo: Any = _answer(
    "BundleInfo", "A bundle that is served.", name=str, hash=str, languages=list[str], versions=dict[str, Any]
)
InfoAnswer: Any = _answer(
    "InfoAnswer",
    "The bundles that are served, the options of linking that a request may change, and the limits of a request.\n\n"
    "``decisions`` says whether the page keeps corrections.",
    medlink=str, decisions=bool, bundles=list[BundleInfo], options=dict[str, Any], limits=dict[str, int],
)  # fmt: skip
HealthAnswer: Any = _answer("HealthAnswer", "The service is available.", status=Literal["ok"])
Problem: Any = _answer("Problem", "The reason for a refused request (RFC 9457).", title=str, status=int, detail=str)


def parse_request(kind: type[_T], body: bytes) -> _T:
    """Check a request; the refusal states the place of the first problem and quotes nothing."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        reason = _REASONS.get(first["type"], first["msg"].partition(": ")[0])
        raise Refusal(422, f"{place}: {reason[:1].lower()}{reason[1:]}; see /openapi.json.") from None
    for name in request.options:
        if name in FIXED:
            raise Refusal(422, f"The option {name} is fixed when the service starts: leave it out.")
        if name not in request.option_names:
            known = (*kind.model_fields, *request.option_names)
            named = repr(name) if TITLE_WORD.fullmatch(name) else "of this name"
            raise Refusal(422, f"There is no field {named}: one of {', '.join(known)} is expected.")
    return request


class _Call(NamedTuple):
    method: str
    path: str
    summary: str
    answer: type[BaseModel]
    request: type[_Request] | None = None
    parameters: tuple[tuple[str, str, str, bool], ...] = ()  # name, place, description, whether it is required
    errors: tuple[int, ...] = (503,)
    has_token: bool = True
    other: tuple[str, ...] = ()  # further media types of the answer


_LANGUAGE = ("language", "query", "BCP 47 tag of the words, and of the names to show.", False)
_BUNDLE = ("bundle", "query", "Name of the bundle; by default the first.", False)
CALLS = (
    _Call(
        "post", "/link", "Link the mentions of notes to concepts.", LinkAnswer, LinkRequest,
        errors=(413, 422, 503), other=("application/x-ndjson", "application/fhir+ndjson"),
    ),
    _Call(
        "post", "/mentions", "Link mentions without their notes.", MentionsAnswer, MentionsRequest,
        errors=(413, 422, 503),
    ),
    _Call(
        "get", "/search", "Find concepts by id, name or description.", SearchAnswer,
        parameters=(
            ("text", "query", "Words or an id.", True), _LANGUAGE,
            ("limit", "query", "Number of concepts, 1 to 100.", False), _BUNDLE,
        ),
        errors=(422, 503),
    ),
    _Call(
        "get", "/concepts/{concept_id}", "Show a concept.", ConceptAnswer,
        parameters=(("concept_id", "path", "Id of the concept.", True), _LANGUAGE, _BUNDLE), errors=(404, 422, 503),
    ),
    _Call("get", "/info", "Show bundles, versions and limits.", InfoAnswer),
    _Call("get", "/health", "Tell whether the service answers.", HealthAnswer, has_token=False),
)  # fmt: skip


@cache
def openapi() -> dict[str, Any]:
    """Make the OpenAPI document of the service."""
    kinds = {call.answer for call in CALLS} | {call.request for call in CALLS if call.request} | {Problem}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, document = models_json_schema([(kind, "validation") for kind in ordered], ref_template=_TEMPLATE)
    schemas: dict[str, Any] = document["$defs"]
    options = NoteOptions.model_json_schema(ref_template=_TEMPLATE)
    for call in CALLS:
        if call.request is not None:
            schema = schemas[call.request.__name__]
            schema["properties"] |= {name: options["properties"][name] for name in call.request.option_names}
            schema["additionalProperties"] = False
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "medlink",
            "version": __version__,
            "description": "Link clinical text in English, German and Spanish to the concepts of a terminology.",
        },
        "paths": {call.path: {call.method: _operation(call)} for call in CALLS},
        "components": {"schemas": schemas, "securitySchemes": {_TOKEN: {"type": "http", "scheme": "bearer"}}},
    }


def _operation(call: _Call) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _reference(call.answer)}}
    content |= {media: {"schema": {"type": "string"}} for media in call.other}
    refused = {"application/problem+json": {"schema": _reference(Problem)}}
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
        body = {"application/json": {"schema": _reference(call.request)}}
        operation["requestBody"] = {"required": True, "content": body}
    if call.parameters:
        kind = {"limit": "integer"}
        operation["parameters"] = [
            {"name": name, "in": place, "description": text, "required": required,
             "schema": {"type": kind.get(name, "string")}}
            for name, place, text, required in call.parameters
        ]  # fmt: skip
    return operation


def _reference(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _TEMPLATE.format(model=kind.__name__)}
