"""The items of a review: links of notes, codes of a code list, or clusters, from JSON lines that medlink wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat

from medlink.curation.page import MIN_SCORE, describe_value, round_score, unusual_qualifiers
from medlink.curation.review_page import FIELDS as CLUSTER_FIELDS
from medlink.curation.review_page import Kind, cluster_row
from medlink.errors import InputError
from medlink.files.escapes import escape_controls
from medlink.files.folders import StrPath
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems, pluralize
from medlink.files.streams import LineFile
from medlink.files.tables import read_first_line
from medlink.kb import KnowledgeBase
from medlink.kb.decision_table import CODE, MENTION, collapse_whitespace
from medlink.kb.readers.common import is_valid_id
from medlink.language.tags import language_tag
from medlink.notes.reading import Fields, Note, find_inputs, read_notes
from medlink.records import AMBIGUOUS, LINKED, NIL, Value

CLUSTER = "cluster"
_REMEDIES = {
    MENTION: "give a file that link_notes(format=jsonl) wrote",
    CODE: "give JSON lines of kind 'code' with id, text, language, concept_id, status and candidates",
    CLUSTER: "give a file that cluster_list(format=jsonl) wrote",
}
_CANDIDATE = ("concept_id", "preferred_name", "score", "source", "same_as", "name", "language", "route")
_LOCATION = ("item", "start", "end", "section", "qualifiers", "expanded", "types", "value")
FIELDS = {
    **CLUSTER_FIELDS,
    "cluster": [*CLUSTER_FIELDS["cluster"], *_LOCATION],
    "nearest": list(_CANDIDATE),
    "member": ["term", "frequency", "language", "id", "joined_score"],
}
"""Columns of mentions and codes: those of a cluster with one member, and its location."""


@dataclass(slots=True)
class ReviewItems:
    """Checked lines of one ``kind`` with their numbers, and the notes of mentions."""

    path: StrPath
    kind: Kind
    rows: list[tuple[int, dict[str, Any]]]
    notes: list[Note] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, list[str]]:
        """Columns of the rows of the page."""
        return CLUSTER_FIELDS if self.kind == CLUSTER else FIELDS

    @property
    def notes_by_id(self) -> dict[str, Note]:
        """Notes by their id, escaped as in tables."""
        return {escape_note_id(note.note_id): note for note in self.notes}

    @property
    def languages(self) -> dict[str, str]:
        """Languages of notes by id, taken from their mentions."""
        return {row["item"]: row["language"] for _, row in self.rows if self.kind == MENTION}

    def page_rows(self, kb: KnowledgeBase) -> Iterator[list[Any]]:
        for number, (_, row) in enumerate(self.rows, 1):
            yield cluster_row(row, kb, None) if self.kind == CLUSTER else _located_row(number, row)

    def note_rows(self) -> Iterator[list[Any]]:
        languages = self.languages
        for item, note in self.notes_by_id.items():
            yield [item, languages.get(item) or note.language or "", note.text, note.problem]

    def concepts(self) -> dict[tuple[str, str], None]:
        """Return the language and id of each concept that the page offers, without repetition."""
        key = "nearest" if self.kind == CLUSTER else "candidates"
        concepts: dict[tuple[str, str], None] = {}
        for _, row in self.rows:
            language = row["members"][0]["language"] if self.kind == CLUSTER else row["language"]
            offered = (near["concept_id"] for near in row[key] if near["score"] >= MIN_SCORE or near is row[key][0])
            concepts.update(dict.fromkeys((language, concept_id) for concept_id in offered))
        return concepts

    def warnings(self, kb: KnowledgeBase) -> Iterator[str]:
        """Yield warnings on concepts of the file that the bundle lacks."""
        ids = {row["concept_id"] for _, row in self.rows} - {None}
        unknown = ids - kb.sources_of(ids).keys()
        if unknown:
            yield f"{self.path}: {pluralize(len(unknown), 'concept')} that the bundle does not have"


def escape_note_id(note_id: str) -> str:
    """Escape the id of a note for a table: one line, no invisible characters."""
    return escape_controls(note_id.encode("utf-8", "backslashreplace").decode().strip())


def read_review_items(
    path: StrPath, notes: Sequence[str] = (), fields: Fields | None = None, encoding: str = "utf-8"
) -> ReviewItems:
    """Read the items of a review; the first line determines their kind.

    Arguments are those of :class:`medlink.curation.review.Review`.

    Raises:
        InputError: the file cannot be read, or a line is not of its kind or occurs twice; notes are missing, share an
            id, or differ from the links.
    """
    first_line = read_first_line(path).strip()
    if first_line and not first_line.startswith("{"):
        # a table of codes, of clusters, or of links
        remedies = {"sourcecode": "map_codes", "source_code": "map_codes", "cluster": "cluster_list"}
        wrote = next((call for word, call in remedies.items() if word in first_line.lower()), "link_notes")
        remedy = f"give the JSON lines that {wrote}(format=jsonl) writes"
        raise InputError("is not a file of JSON lines, which a review reads", path=path, remedy=remedy)
    rows: _Rows = []
    kind: Kind | None = None
    for line, row in read_json_lines(LineFile(path, Problems(0.0, adjustable=False))):
        kind = kind or ("code" if row.get("kind") == CODE else "cluster" if "members" in row else "mention")
        try:
            checked = _check(kind, row)
        except ValueError:
            raise InputError(f"not a {kind} to review", path=path, line=line, remedy=_REMEDIES[kind]) from None
        rows.append((line, checked))
    if kind is None:
        raise InputError("nothing to review", path=path, remedy="give a file with links")
    rows = _distinct_rows(path, kind, rows)
    items = ReviewItems(path, kind, rows)
    if kind == MENTION and not notes:
        raise InputError("a review of links needs their notes", path=path, remedy="name the notes that were linked")
    if kind != MENTION and notes:
        raise InputError(f"{kind}s do not belong to notes", path=path, remedy="leave notes out")
    if notes:
        items.notes = list(read_notes(find_inputs(notes)[0], fields, encoding))
        _check_notes(items)
    return items


_Rows = list[tuple[int, dict[str, Any]]]  # checked lines with their numbers


def _distinct_rows(path: StrPath, kind: Kind, rows: _Rows) -> _Rows:
    """Raise for an item that occurs twice.

    A description of a code is an item. If a code has it with several units, each unit is one, too, and the text names
    it. With several languages it is one item: a decision about it holds for all of them.
    """
    if kind == CODE:
        count = Counter((row["item"], collapse_whitespace(row["text"])) for _, row in rows)
        for _, row in rows:
            if count[row["item"], collapse_whitespace(row["text"])] > 1 and row.get("unit"):
                row["text"] = f"{row['text']} [{row['unit']}]"
    distinct: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    for line, row in rows:
        parts = [row[name] for name in ("item", "start", "end") if name in row] or [row["cluster"]]
        key = (*parts, collapse_whitespace(row["text"]) if kind == CODE else "")
        first, other = distinct.setdefault(key, (line, row))
        if first != line and not (kind == CODE and row["language"] != other["language"]):
            message, remedy = f"this {kind} is also in line {first}", "delete one of the two"
            raise InputError(message, path=path, line=line, remedy=remedy)
    return list(distinct.values())


def _check_notes(items: ReviewItems) -> None:
    notes = items.notes_by_id
    if len(notes) < len(items.notes):
        ids = [escape_note_id(note.note_id) for note in items.notes]
        second = next(note for at, note in enumerate(items.notes) if ids[at] in ids[:at])
        remedy = "give each note a unique id, and link them again"
        raise InputError("another note has the same id", path=second.location or second.note_id, remedy=remedy)
    for line, row in items.rows:
        note = notes.get(row["item"])
        if note is None:
            remedy = "name the notes as link_notes() was given them"
            raise InputError("the note of this link is missing", path=items.path, line=line, remedy=remedy)
        if note.text[row["start"] : row["end"]] != row["text"]:
            message, remedy = "the words at its offsets in the note differ", "link the notes again: they have changed"
            raise InputError(message, path=items.path, line=line, remedy=remedy)
    linked = {row["item"] for _, row in items.rows}
    # a note with links was readable then; its problem now concerns its text
    readable = [note for note in items.notes if note.problem is None or escape_note_id(note.note_id) in linked]
    items.notes = readable or items.notes


class _Checked(BaseModel, strict=True, extra="allow"): ...


class _Candidate(_Checked):
    concept_id: str
    preferred_name: str
    score: FiniteFloat
    source: str = ""
    same_as: list[str] = []
    name: str = ""
    language: str = ""
    route: str = ""
    semantic_types: list[str] = []


class _Value(_Checked):
    measure: str
    number: float
    unit: str
    reads: Literal["low", "high"]
    by: Literal["limit", "range", "flag"]
    limit: float | None
    source: str


def _check_language(tag: str | None) -> str:
    if (found := language_tag(tag) if tag else "") is None:
        raise ValueError
    return found


class _Link(_Checked):
    candidates: list[_Candidate]
    status: Literal["linked", "ambiguous", "nil"]
    concept_id: str | None = None
    text: Annotated[str, Field(pattern=r"\S")]
    language: Annotated[str | None, AfterValidator(_check_language)] = None
    section: str | None = None
    expanded: str | None = None
    presence: str | None = None
    temporality: str | None = None
    experiencer: str | None = None
    allergy: bool | None = None
    value: _Value | None = None

    def to_row(self, item: str, frequency: int = 1) -> dict[str, Any]:
        if self.concept_id is not None and not is_valid_id(self.concept_id):
            raise ValueError
        value = self.value
        text = "" if value is None else describe_value(Value(*(getattr(value, name) for name in _Value.model_fields)))
        own = {"item": escape_note_id(item), "frequency": frequency, "section": collapse_whitespace(self.section or "")}
        return {**self.model_dump(), "language": self.language or "", "value": text, **own}


class _Mention(_Link):
    note: str
    start: Annotated[int, Field(ge=0)]
    end: int


class _Code(_Link):
    id: str | int
    frequency: FiniteFloat | None = None


class _Member(_Checked):
    term: str
    frequency: int
    language: str
    id: str
    joined_to: str
    joined_by: str


class _Neighbour(_Checked):
    term: str
    cluster: int
    probability: FiniteFloat
    apart: str
    member: str


class _Cluster(_Checked):
    cluster: int
    representative: str
    concept_id: str | None
    broader: _Neighbour | None
    neighbours: list[_Neighbour]
    nearest: list[_Candidate]
    candidates: list[_Candidate]
    members: Annotated[list[_Member], Field(min_length=1)]


def _check(kind: Kind, row: dict[str, Any]) -> dict[str, Any]:
    """Return a line with its defaults; raises ValueError if it is not of its kind."""
    if kind == CLUSTER:
        if not set(CLUSTER_FIELDS["cluster"]) <= row.keys():
            raise ValueError
        return _Cluster.model_validate(row).model_dump()
    if kind == MENTION:
        mention = _Mention.model_validate(row)
        if mention.start >= mention.end:
            raise ValueError
        return mention.to_row(mention.note)
    # a code without a name is its own name
    code = _Code.model_validate({**row, "text": row.get("text") or str(row.get("id"))})
    if not str(code.id).strip():
        raise ValueError
    return code.to_row(str(code.id), int(code.frequency or 0))


def _located_row(number: int, row: dict[str, Any]) -> list[Any]:
    candidates, name = row["candidates"], collapse_whitespace(row["text"])
    best = next((candidate for candidate in candidates if candidate["concept_id"] == row["concept_id"]), None)
    offered = [candidate for candidate in candidates if candidate["score"] >= MIN_SCORE or candidate is best]
    first = best or (candidates[0] if candidates else None)
    return [
        *(number, name, row["concept_id"], (best or row).get("preferred_name") or ""),
        *(round_score(first and first["score"]), False, None, ""),
        [[round_score(candidate[name]) for name in _CANDIDATE] for candidate in offered],
        [[name, row["frequency"], row["language"], row["item"] if "start" not in row else "", None]],
        *([], None, {LINKED: "known", NIL: "new"}.get(row["status"], AMBIGUOUS)),
        *(row["item"], row.get("start"), row.get("end"), row["section"]),
        unusual_qualifiers(
            [*map(row.get, ("presence", "temporality", "experiencer")), "allergy" * bool(row.get("allergy"))]
        ),
        row.get("expanded"),
        first["semantic_types"] if first else [],
        row["value"],
    ]
