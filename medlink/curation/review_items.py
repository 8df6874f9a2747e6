"""What there is to review: links of notes, codes of a code list, or clusters, as JSON lines that medlink writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from medlink.curation.page import LEAST, measured, short, unusual
from medlink.curation.review_page import FIELDS as CLUSTER_FIELDS
from medlink.curation.review_page import Kind, cluster_row
from medlink.errors import InputError
from medlink.files.escapes import visible
from medlink.files.folders import StrPath
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems, counted
from medlink.files.streams import LineFile
from medlink.kb import KnowledgeBase
from medlink.kb.decision_table import CODE, MENTION, clean
from medlink.kb.readers.common import is_id
from medlink.language.tags import language_tag
from medlink.notes.reading import Fields, Note, find_inputs, read_notes
from medlink.records import AMBIGUOUS, LINKED, NIL, Value

CLUSTER = "cluster"
_AGAIN = {
    MENTION: "give a file that link_notes() wrote",
    CODE: "give JSON lines of kind 'code' with id, text, language, concept_id, status and candidates",
    CLUSTER: "give a file that cluster_list(format=jsonl) wrote",
}
_CANDIDATE = ("concept_id", "preferred_name", "score", "source", "same_as", "name", "language", "route")
FIELDS = {
    **CLUSTER_FIELDS,
    "cluster": [*CLUSTER_FIELDS["cluster"], "item", "start", "end", "section", "said", "expanded", "types", "value"],
    "nearest": list(_CANDIDATE),
    "member": ["term", "frequency", "language", "id", "joined_score"],
}
"""What the rows of mentions and codes hold: those of a cluster of one member, and where it stands."""
_UNSAID: dict[str, Any] = {"source": "", "same_as": [], "name": "", "language": "", "route": "", "semantic_types": []}
_TEXTS = ("section", "expanded", "presence", "temporality", "experiencer")
"""What a link may say in a word, or leave out."""


@dataclass(slots=True)
class Work:
    """What there is to review: lines of one ``kind`` with their numbers, checked, and the notes of mentions.

    ``path`` is the file, for errors.
    """

    path: StrPath
    kind: Kind
    rows: list[tuple[int, dict[str, Any]]]
    notes: list[Note] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, list[str]]:
        """Names of what the rows of the page hold."""
        return CLUSTER_FIELDS if self.kind == CLUSTER else FIELDS

    @property
    def items(self) -> dict[str, Note]:
        """The notes by their ids as they stand in a table."""
        return {item_of(note.note_id): note for note in self.notes}

    @property
    def languages(self) -> dict[str, str]:
        """The language of each note, by its id: that of its mentions."""
        return {row["item"]: row["language"] for _, row in self.rows if self.kind == MENTION}

    def page_rows(self, kb: KnowledgeBase) -> Iterator[list[Any]]:
        """The rows of the page's data."""
        for number, (_, row) in enumerate(self.rows, 1):
            yield cluster_row(row, kb, None) if self.kind == CLUSTER else _placed(number, row)

    def note_rows(self) -> Iterator[list[Any]]:
        """The notes of the page's data."""
        languages = self.languages
        for item, note in self.items.items():
            yield [item, languages.get(item) or note.language or "", note.text, note.problem]

    def concepts(self) -> dict[tuple[str, str], None]:
        """Languages and ids of the concepts that the page offers, each once."""
        key = "nearest" if self.kind == CLUSTER else "candidates"
        found: dict[tuple[str, str], None] = {}
        for _, row in self.rows:
            language = row["members"][0]["language"] if self.kind == CLUSTER else row["language"]
            shown = (one["concept_id"] for one in row[key] if one["score"] >= LEAST or one is row[key][0])
            found.update(dict.fromkeys((language, concept_id) for concept_id in shown))
        return found


def item_of(note_id: str) -> str:
    """The id of a note as it stands in a table: on one line, and without what is not seen.

    >>> item_of(" a\\tb ")
    'a\\\\tb'
    """
    return visible(note_id.encode("utf-8", "backslashreplace").decode().strip())


def read_work(path: StrPath, notes: Sequence[str] = (), fields: Fields | None = None, encoding: str = "utf-8") -> Work:
    """Read what there is to review; the first line says what the lines are.

    Arguments are those of :class:`medlink.curation.review.Review`.

    Raises:
        InputError: the file cannot be read, a line is none of its kind or there twice; there are no notes, two have one
            id, one is missing, or other words stand in them than the links say.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    kind: Kind | None = None
    places: dict[tuple[Any, ...], int] = {}
    for line, row in read_json_lines(LineFile(path, Problems(0.0, adjustable=False))):
        kind = kind or ("code" if row.get("kind") == CODE else "cluster" if "members" in row else "mention")
        checked = _CHECKS[kind](row)
        if checked is None:
            raise InputError(f"is no {kind} to review", path=path, line=line, remedy=_AGAIN[kind])
        place = tuple(checked[name] for name in ("item", "start", "end") if name in checked) or (row["cluster"],)
        first = places.setdefault(place, line)
        if first != line:
            remedy = "leave one of the two lines"
            raise InputError(f"this {kind} is in line {first}, too", path=path, line=line, remedy=remedy)
        rows.append((line, checked))
    if kind is None:
        raise InputError("there is nothing to review in it", path=path, remedy="give a file with links")
    work = Work(path, kind, rows)
    if kind == MENTION and not notes:
        message, remedy = "links cannot be reviewed without notes to show them in", "name the notes that were linked"
        raise InputError(message, path=path, remedy=remedy)
    if kind != MENTION and notes:
        raise InputError(f"{kind}s are of no note", path=path, remedy="leave notes out")
    if notes:
        work.notes = list(read_notes(find_inputs(notes)[0], fields, encoding))
        _compare(work)
    return work


def _compare(work: Work) -> None:
    items = work.items
    if len(items) < len(work.notes):
        ids = [item_of(note.note_id) for note in work.notes]
        again = next(note for at, note in enumerate(work.notes) if ids[at] in ids[:at])
        remedy = "give each note an id of its own, and link them again"
        raise InputError("another note has the same id", path=again.place or again.note_id, remedy=remedy)
    for line, row in work.rows:
        note = items.get(row["item"])
        if note is None:
            remedy = "name the notes as link_notes() was given them"
            raise InputError("its note is not among those that were named", path=work.path, line=line, remedy=remedy)
        if note.text[row["start"] : row["end"]] != row["text"]:
            said = "other words stand at its place in the note"
            raise InputError(said, path=work.path, line=line, remedy="link the notes again: they have changed")
    own = {row["item"] for _, row in work.rows}
    # a problem of a note that has links is one of its text
    work.notes = [note for note in work.notes if note.problem is None or item_of(note.note_id) in own] or work.notes


def _candidates(row: dict[str, Any], name: str = "candidates") -> list[dict[str, Any]] | None:
    """The candidates of a line, ``None`` where one is malformed; what one may leave out is empty."""
    found, given = [], row.get(name)
    if not isinstance(given, list):
        return None
    for one in given:
        match one:
            case {"concept_id": str(), "preferred_name": str(), "score": float() | int() as score} if isfinite(
                score
            ) and not isinstance(score, bool):
                whole = {**_UNSAID, **one}
            case _:
                return None
        lists = [*whole["same_as"], *whole["semantic_types"]] if _is_like(whole, _UNSAID) else [None]
        if not all(isinstance(part, str) for part in lists):
            return None
        found.append(whole)
    return found


def _is_like(row: Mapping[str, Any], example: Mapping[str, Any]) -> bool:
    return all(isinstance(row[name], type(value)) for name, value in example.items())


def _linked(row: dict[str, Any]) -> dict[str, Any] | None:
    candidates, tag = _candidates(row), row.get("language")
    status, concept_id, text = row.get("status"), row.get("concept_id"), row.get("text")
    if candidates is None or status not in (LINKED, AMBIGUOUS, NIL) or not isinstance(concept_id, str | None):
        return None
    if not isinstance(text, str) or not text.strip() or not isinstance(tag, str | None):
        return None
    language = language_tag(tag) if tag else ""
    if language is None or not all(isinstance(row.get(name), str | None) for name in _TEXTS):
        return None
    if concept_id is not None and not is_id(concept_id):
        return None
    section = clean(row.get("section") or "")
    value = _measured(row)
    if value is None:
        return None
    said = {"candidates": candidates, "language": language, "section": section, "value": value}
    return {**row, **said, "frequency": 1}


def _measured(row: dict[str, Any]) -> str | None:
    """The value of a link in words, empty where it has none; ``None`` where what is there is no value."""
    match row.get("value"):
        case None:
            return ""
        case {
            "measure": str() as measure, "number": float() | int() as number, "unit": str() as unit,
            "reads": "low" | "high" as reads, "by": "limit" | "range" | "flag" as by,
            "limit": None | float() | int() as limit, "source": str() as source,
        }:  # fmt: skip
            return measured(Value(measure, number, unit, reads, by, limit, source))
    return None


def _mention(row: dict[str, Any]) -> dict[str, Any] | None:
    match row:
        case {"note": str() as note, "start": int() as start, "end": int() as end} if 0 <= start < end and bool not in (
            type(start),
            type(end),
        ):
            found = _linked(row)
            return found and {**found, "item": item_of(note)}
    return None


def _code(row: dict[str, Any]) -> dict[str, Any] | None:
    code, frequency, text = row.get("id"), row.get("frequency") or 0, row.get("text")
    if not isinstance(code, str | int) or isinstance(code, bool) or not item_of(str(code)):
        return None
    if not isinstance(frequency, int | float) or not isfinite(frequency):
        return None
    # a code without a name is known by itself
    found = _linked({**row, "text": str(code) if text is None or text == "" else text})
    return found and {**found, "item": item_of(str(code)), "frequency": int(frequency)}


def _cluster(row: dict[str, Any]) -> dict[str, Any] | None:
    nearest, members = _candidates(row, "nearest"), row.get("members")
    match row:
        case {"cluster": int(), "representative": str(), "concept_id": str() | None, "neighbours": list()}:
            pass
        case _:
            return None
    if nearest is None or _candidates(row) is None or not isinstance(members, list) or not members:
        return None
    needed = {"term": str, "frequency": int, "language": str, "id": str, "joined_to": str, "joined_by": str}
    for one in members:
        if not isinstance(one, dict) or any(not isinstance(one.get(name), kind) for name, kind in needed.items()):
            return None
    near = [*row["neighbours"], *([] if row.get("broader") is None else [row["broader"]])]
    if not all(map(_is_neighbour, near)):
        return None
    known = {"doubtful", "status", "concept_name", "score", "parent_id", "parent_name", "broader"}
    return {**row, "nearest": nearest} if known <= row.keys() else None


def _is_neighbour(one: Any) -> bool:
    match one:
        case {
            "term": str(), "cluster": int(), "probability": float() | int() as probability, "apart": str(),
            "member": str(),
        }:  # fmt: skip
            return isfinite(probability)
    return False


_CHECKS = {"mention": _mention, "code": _code, "cluster": _cluster}


def _placed(number: int, row: dict[str, Any]) -> list[Any]:
    candidates, name = row["candidates"], clean(row["text"])
    best = next((one for one in candidates if one["concept_id"] == row["concept_id"]), None)
    shown = [one for one in candidates if one["score"] >= LEAST or one is best]
    first = best or (candidates[0] if candidates else None)
    return [
        *(number, name, row["concept_id"], (best or row).get("preferred_name") or "", short(first and first["score"])),
        *(False, None, ""),
        [[short(one[name]) for name in _CANDIDATE] for one in shown],
        [[name, row["frequency"], row["language"], row["item"] if "start" not in row else "", None]],
        *(
            [],
            None,
            {LINKED: "known", NIL: "new"}.get(row["status"], AMBIGUOUS),
            row["item"],
            row.get("start"),
            row.get("end"),
        ),
        row["section"],
        unusual(row.get(name) for name in ("presence", "temporality", "experiencer")),
        row.get("expanded"),
        first["semantic_types"] if first else [],
        row["value"],
    ]


def gaps(work: Work, kb: KnowledgeBase) -> Iterable[str]:
    """Sentences on what the work has and the bundle lacks."""
    ids = {row["concept_id"] for _, row in work.rows} - {None}
    unknown = ids - kb.sources_of(ids).keys()
    if unknown:
        yield f"{work.path}: {counted(len(unknown), 'concept')} that the bundle does not have"
