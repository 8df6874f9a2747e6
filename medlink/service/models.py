"""Requests and answers of the service, for validation and for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from medlink.files.tables import TITLE_WORD
from medlink.linking.options import LinkOptions
from medlink.records import AttributeKind, Candidate, Experiencer, Presence, Status, Temporality, Value
from medlink.service.options import FIXED, PER_REQUEST
from medlink.web.guard import Refusal

_T = TypeVar("_T", bound="_Request")
_REASONS = {"json_invalid": "is not JSON", "string_too_short": "is empty"}
_OF_MENTIONS = tuple(name for name in LinkOptions.model_fields if name in PER_REQUEST)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class NoteInput(_Part):
    """A note to link."""

    text: Annotated[str, Field(description="Text of the note.")]
    id: Annotated[str | int | None, Field(description="Id of the note; by default its number, from 1.")] = None
    language: Annotated[
        str | None, Field(description="BCP 47 tag of its language; by default that of the request, else detected.")
    ] = None
    date: Annotated[str | None, Field(description="Day on which it was written, such as 2026-11-30 or 30.11.2026.")] = (
        None
    )


class MentionInput(_Part):
    """A mention without its note."""

    text: Annotated[
        str, StringConstraints(strip_whitespace=True), Field(description="Words of the mention.", min_length=1)
    ]
    language: Annotated[str | None, Field(description="BCP 47 tag; by default that of the request.")] = None
    context: Annotated[str, Field(description="Text around it, which decides between concepts with the same name.")] = (
        ""
    )


class _Request(BaseModel):
    """Fields of a request beside the options of linking, which are extra fields here."""

    model_config = ConfigDict(strict=True, extra="allow")

    bundle: Annotated[str | None, Field(description="Name of the bundle; by default the first.")] = None

    @classmethod
    def option_names(cls) -> Collection[str]:
        return PER_REQUEST

    @property
    def options(self) -> dict[str, Any]:
        """The options of linking in the request."""
        return self.model_extra or {}


class LinkRequest(_Request):
    """Notes to link, with any options of linking."""

    notes: Annotated[list[NoteInput], Field(min_length=1, description="Notes to link.")]
    format: Annotated[
        Literal["json", "jsonl", "fhir"],
        Field(
            description="json: a list of notes. jsonl: a line for each mention, as 'medlink link' writes it. fhir: a "
            "FHIR R4 Bundle in a line for each note with mentions."
        ),
    ] = "json"


class MentionsRequest(_Request):
    """Mentions to link, with any options of linking."""

    mentions: Annotated[list[MentionInput], Field(min_length=1, max_length=1000, description="Mentions to link.")]

    @classmethod
    def option_names(cls) -> Collection[str]:
        return _OF_MENTIONS


class PageRequest(_Request):
    """A note that was written or pasted on the page."""

    text: str
    language: str | None = None

    @classmethod
    def option_names(cls) -> Collection[str]:
        return ()


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

    @classmethod
    def option_names(cls) -> Collection[str]:
        return ()


class AttributeOutput(_Part):
    """A word that describes a finding."""

    start: int
    end: int
    text: str
    kind: AttributeKind
    concept_id: str | None
    name: str | None


class CodeOutput(_Part):
    """A code of a concept in a system of the option ``map``."""

    system: str
    code: str
    type: str


class MentionOutput(_Part):
    """A linked mention, as a line of 'medlink link'."""

    note: str
    start: int
    end: int
    text: str
    language: str
    concept_id: str | None
    preferred_name: str | None
    score: float | None
    nil: bool
    status: Status
    presence: Presence | None
    temporality: Temporality | None
    experiencer: Experiencer | None
    section: str | None
    relative: str | None
    onset_age: int | None
    allergy: bool | None
    attributes: list[AttributeOutput] | None
    value: Value | None
    same_as: list[str]
    presumed: list[str]
    expanded: str | None
    codes: list[CodeOutput]
    candidates: list[Candidate]
    versions: dict[str, Any]
    bundle: str


class NoteOutput(_Part):
    """A note with its mentions, or with the reason why it was not linked (``problem``) and what to do (``remedy``)."""

    note: str
    language: str
    problem: str | None
    remedy: str | None
    mentions: list[MentionOutput]


class LinkAnswer(_Part):
    """The linked notes; ``bundle`` is the hash of the bundle that linked them."""

    bundle: str
    notes: list[NoteOutput]


class BareLink(_Part):
    """A linked mention with its candidates."""

    mention: str
    concept_id: str | None
    nil: bool
    status: Status
    expanded: str | None
    candidates: list[Candidate]


class MentionsAnswer(_Part):
    """The linked mentions, in the order of the request."""

    bundle: str
    mentions: list[BareLink]


class Hit(_Part):
    """A concept that a search found; if linking found it, with the ``score`` and the name that matched."""

    concept_id: str
    preferred_name: str
    score: float | None
    name: str
    language: str
    route: str
    source: str
    same_as: list[str]
    semantic_types: list[str] = []
    presumed: list[str] = []


class SearchAnswer(_Part):
    """Concepts that a search found, best first."""

    concepts: list[Hit]


class Ancestor(_Part):
    """A concept above another concept."""

    concept_id: str
    depth: int
    preferred_name: str | None


class ConceptName(_Part):
    """A name of a concept."""

    text: str
    language: str
    type: str
    preferred: bool


class ConceptDefinition(_Part):
    """A definition of a concept."""

    text: str
    language: str


class ConceptType(_Part):
    """A semantic type of a concept."""

    semantic_type: str
    code: str


class ConceptAnswer(_Part):
    """A concept, as 'medlink kb show --json' prints it."""

    concept_id: str
    source: str
    preferred_name: str
    ancestors: list[Ancestor]
    names: list[ConceptName]
    definitions: list[ConceptDefinition]
    semantic_types: list[ConceptType]
    mappings: list[CodeOutput]


class BundleInfo(_Part):
    """A bundle that is served."""

    name: str
    hash: str
    languages: list[str]
    versions: dict[str, Any]


class InfoAnswer(_Part):
    """The bundles that are served, the options of linking that a request may change, and the limits of a request.

    ``decisions`` says whether the page keeps corrections.
    """

    medlink: str
    decisions: bool
    bundles: list[BundleInfo]
    options: dict[str, Any]
    limits: dict[str, int]


class HealthAnswer(_Part):
    """The service is available."""

    status: Literal["ok"]


class Problem(_Part):
    """The reason for a refused request (RFC 9457)."""

    title: str
    status: int
    detail: str


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
        if name not in request.option_names():
            known = (*kind.model_fields, *request.option_names())
            named = repr(name) if TITLE_WORD.fullmatch(name) else "of this name"
            raise Refusal(422, f"There is no field {named}: one of {', '.join(known)} is expected.")
    return request
