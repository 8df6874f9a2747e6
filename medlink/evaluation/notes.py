"""Notes from end to end: what is found, linked and affirmed in texts, beside what people annotated in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from medlink.errors import InputError
from medlink.evaluation.measures import calibration_error
from medlink.evaluation.names import as_known, split_ids
from medlink.evaluation.task import Report, Row, Run, StrPath, Task, by_language
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.notes.gold import find_gold, read_gold
from medlink.notes.options import NoteOptions
from medlink.notes.reading import ending
from medlink.records import LINKED, Experiencer, Presence, Qualifiers, Temporality

if TYPE_CHECKING:
    from medlink.notes.pipeline import LinkedNote, NotePipeline
    from medlink.reading.status import StatusReader

Piece = tuple[int, int]
FIELDS: dict[str, tuple[str, ...]] = {
    "presence": get_args(Presence),
    "temporality": get_args(Temporality),
    "experiencer": get_args(Experiencer),
}
"""The values of each field, the usual one first."""
TOLD = frozenset(FIELDS)
"""What a gold may tell of a finding: fields of :class:`medlink.records.Qualifiers`."""
HEADING = "heading"
"""What is read as a part of a heading has no status."""
Said = dict[str, tuple[str, str]]
"""Value and cue of each field."""
Pairs = Counter[tuple[str, str]]
"""How often a value that is right is read as a value."""
SHARES = {"touched": "annotated", "exact": "annotated", "right": "coded"}
"""Counts of findings that are shares, and of which counts."""
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Finding:
    """An annotated finding: its pieces by characters and the right concepts, each empty where not known; its status."""

    pieces: tuple[Piece, ...]
    concepts: frozenset[str]
    said: Qualifiers = Qualifiers()  # noqa: RUF009  # it is frozen

    @property
    def span(self) -> Piece:
        """Where its first piece begins and its last one ends."""
        return min(self.pieces)[0], max(end for _, end in self.pieces)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether a part of the text reaches into its span."""
        return self.span[0] < end and start < self.span[1]


@dataclass(frozen=True, slots=True)
class GoldText:
    """A text with its findings.

    ``concepts`` are all right ones of the document, ``affirmed`` those that it affirms. ``complete`` says that every
    finding was annotated, ``placed`` that each has its place, so that what is found elsewhere is wrong. ``told`` are
    the fields of the status that the gold tells apart.
    """

    name: str
    language: str
    text: str
    findings: tuple[Finding, ...]
    concepts: frozenset[str]
    affirmed: frozenset[str]
    complete: bool = True
    placed: bool = True
    told: frozenset[str] = TOLD

    @classmethod
    def of(
        cls, name: str, language: str, text: str, findings: Sequence[Finding], *,
        complete: bool = True, placed: bool = True, told: frozenset[str] = TOLD,
    ) -> GoldText:  # fmt: skip
        """Make a gold text; findings without a place count for its concepts, not as spans."""
        every = frozenset(concept for one in findings for concept in one.concepts)
        affirmed = frozenset(concept for one in findings if is_affirmed(one.said, told) for concept in one.concepts)
        there = tuple(one for one in findings if one.pieces)
        return cls(name, language, text, there, every, affirmed, complete, placed, told)


class Linked(NamedTuple):
    """A mention with its best concept, whether the text affirms it, and whether it is linked."""

    start: int
    end: int
    concept: str
    affirmed: bool
    linked: bool
    score: float


def links(text: GoldText, note: LinkedNote) -> list[Linked]:
    """The mentions of a note with their best concepts."""
    found = []
    for one in note.mentions:
        if one.link.candidates:
            best = one.link.candidates[0]
            so = one.qualifiers is None or is_affirmed(one.qualifiers, text.told)
            ids = best.concept_id, *best.same_as
            concept = next((known for known in ids if known in text.concepts), best.concept_id)
            found.append(Linked(one.start, one.end, concept, so, one.link.status == LINKED, best.score))
    return found


def is_affirmed(said: Qualifiers, told: Collection[str]) -> bool:
    """Whether a finding counts as one that the patient has or had, by those fields that the gold tells apart."""
    return Qualifiers(**{field: getattr(said, field) for field in told}).is_present


def is_right(text: GoldText, start: int, end: int, concept: str, *, denied: bool) -> bool | None:
    """Whether a concept is right for a stretch of a text; ``None`` where that is not known.

    Where places are not known a concept is right anywhere, and what the text denies or doubts was not annotated.
    """
    if not text.placed:
        return True if concept in text.concepts else None if denied else False
    there = [one for one in text.findings if one.overlaps(start, end) and (text.complete or one.concepts)]
    if not text.complete and not there:
        return None
    return any(concept in one.concepts for one in there)


def judged(text: GoldText, found: Sequence[Linked]) -> list[tuple[float, bool]]:
    """Score, and whether the concept is right, of what was found where that is known."""
    right = (is_right(text, one.start, one.end, one.concept, denied=not one.affirmed) for one in found)
    return [(one.score, known) for one, known in zip(found, right, strict=True) if known is not None]


def count(text: GoldText, found: Sequence[Linked]) -> Counter[str]:
    """What is right, wrong and missed in a text.

    - ``documents right``, ``wrong`` and ``missed``: concepts that are affirmed; ``regardless ...`` where all that is
      found counts as affirmed.
    - ``mentions right``, ``wrong`` and ``missed``: affirmed mentions, each paired with at most one finding that it
      overlaps and whose concept it has, so that most are (SciPy's ``maximum_bipartite_matching``). A mention counts as
      wrong only where that is known.
    - of the ``annotated`` findings those that are ``touched``, found to the letter (``exact``); of the ``coded`` ones
      those that are linked ``right``, whatever their status.
    """
    linked = [one for one in found if one.linked]
    affirmed = [one for one in linked if one.affirmed]
    counts = Counter[str]()
    for name, kept in (("documents", affirmed), ("regardless", linked)):
        concepts, wanted = {one.concept for one in kept}, text.affirmed
        counts[f"{name} right"] = len(concepts & wanted)
        counts[f"{name} wrong"] = len(concepts - wanted)
        counts[f"{name} missed"] = len(wanted - concepts)
    for finding in text.findings:
        there = [one for one in linked if finding.overlaps(one.start, one.end)]
        counts["annotated"] += 1
        counts["coded"] += bool(finding.concepts)
        counts["touched"] += bool(there)
        counts["exact"] += any((one.start, one.end) == finding.span for one in there)
        counts["right"] += any(one.concept in finding.concepts for one in there)
    return counts + _count_mentions(text, affirmed)


def _count_mentions(text: GoldText, found: Sequence[Linked]) -> Counter[str]:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    gold = [one for one in text.findings if one.concepts and is_affirmed(one.said, text.told)]
    fits = [[g.overlaps(f.start, f.end) and f.concept in g.concepts for g in gold] for f in found]
    right = 0
    if found and gold:
        right = int((maximum_bipartite_matching(csr_array(np.array(fits, dtype=np.int8)), "column") >= 0).sum())
    known = [is_right(text, one.start, one.end, one.concept, denied=False) for one in found]
    wrong = sum(one is not None for one in known) - right if text.placed else known.count(False)
    return Counter({"mentions right": right, "mentions wrong": wrong, "mentions missed": len(gold) - right})


def rates(counts: Counter[str], name: str) -> tuple[float, float, float]:
    """Precision, recall and F1 of the counts ``right``, ``wrong`` and ``missed`` of a name, 0 where not defined."""
    right, wrong, missed = (counts[f"{name} {kind}"] for kind in ("right", "wrong", "missed"))
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def read_findings(reader: StatusReader, text: GoldText) -> list[Said]:
    """What a reader reads of each finding of a text; one in several pieces by the first that a cue speaks of.

    The places of the findings are given, so that only their status is measured.
    """
    note, pieces = reader.read(text.text), [piece for one in text.findings for piece in one.pieces]
    # of the whole note at once, for lists are made of mentions
    said, found = iter(zip(note.qualify(pieces), note.cues(pieces), strict=True)), list[Said]()
    for finding in text.findings:
        own, read = list(islice(said, len(finding.pieces))), Said()
        for field in FIELDS:
            ways = [(getattr(one, field) if one else HEADING, cues.get(field, "")) for one, cues in own]
            read[field] = next((way for way in ways if way[1]), ways[0])
        found.append(read)
    return found


def value_rates(pairs: Pairs, value: str) -> tuple[float, float, float, int, int]:
    """Precision, recall and F1 of a value, how often it is right, and how often it was read."""
    right = pairs[value, value]
    should, said = (sum(n for pair, n in pairs.items() if pair[at] == value) for at in (0, 1))
    return right / max(said, 1), right / max(should, 1), 2 * right / max(said + should, 1), should, said


def status_tables(pairs: Mapping[tuple[str, str], Pairs]) -> dict[str, list[Row]]:
    """Each value with its measures, and as what it was read, from the pairs of each language and field."""
    rates, confusion = list[Row](), list[Row]()
    for (language, field), own in sorted(pairs.items()):
        for value in FIELDS[field]:
            precision, recall, f1, should, said = value_rates(own, value)
            head = {"language": language, "field": field, "value": value}
            if should or said:
                rates.append({**head, "findings": should, "P": precision, "R": recall, "F1": f1})
            read = ((one, own[value, one]) for one in (*FIELDS[field], HEADING))
            confusion += [{**head, "read as": one, "findings": number} for one, number in read if number]
    return {"status": rates, "status as it was read": confusion}


class _Marked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pieces: tuple[Piece, ...] = ()
    concepts: tuple[str, ...] = ()
    presence: Presence = "present"
    temporality: Temporality = "current"
    experiencer: Experiencer = "patient"


class _Line(BaseModel):
    id: str | int
    text: str
    language: str = ""
    complete: bool = True
    findings: tuple[_Marked, ...]


_FIELDS = {*_Line.model_fields, *_Marked.model_fields}


def read_texts(paths: Sequence[StrPath], problems: Problems) -> list[GoldText]:
    """Annotated texts: JSON lines with the status of findings, or brat and PubTator without.

    A line has ``id``, ``text``, and where it is known ``language`` and ``complete``; ``findings`` have ``pieces``
    (pairs of characters), ``concepts``, ``presence``, ``temporality`` and ``experiencer``. What no finding of a file
    has the file does not tell. Where a finding has no pieces those of its text are not all known.

    Raises:
        InputError: a file cannot be read, too many lines are bad, or there is no finding.
    """
    files = find_gold([Path(one) for one in paths])[0]
    found = [
        text
        for path in files
        for text in (_read_lines if ending(path) in (".jsonl", ".ndjson") else _read_annotated)(path, problems)
    ]
    if not any(text.concepts for text in found):
        remedy = "give texts whose findings have concepts"
        raise InputError("there is no finding with a concept in it", path=", ".join(map(str, paths)), remedy=remedy)
    return found


def _read_annotated(path: Path, problems: Problems) -> Iterator[GoldText]:
    for note in read_gold(path, problems):
        if note.text is None:
            remedy = "write the texts with the decisions, by Review.write_gold(FILE)"
            raise InputError("has no texts of notes", path=path, remedy=remedy)
        marked = [Finding(one.pieces, frozenset(split_ids("|".join(one.concepts)))) for one in note.annotations]
        yield GoldText.of(note.note_id, note.language or "", note.text, marked, told=frozenset())


def _read_lines(path: Path, problems: Problems) -> Iterator[GoldText]:
    lines, texts = LineFile(path, problems), list[_Line]()
    for number, row in read_json_lines(lines):
        try:
            line = _Line.model_validate(row)
        except ValidationError as error:
            # what stands there may be a note, and so may a key that is no field
            place = [part for part in error.errors()[0]["loc"] if isinstance(part, int) or part in _FIELDS]
            lines.bad("no text with findings", number, ".".join(map(str, place)))
            continue
        if any(not 0 <= start < end <= len(line.text) for one in line.findings for start, end in one.pieces):
            lines.bad("a piece that lies outside its text", number)
        else:
            texts.append(line)
    told = TOLD & {field for line in texts for one in line.findings for field in one.model_fields_set}
    for line in texts:
        findings = [
            Finding(one.pieces, frozenset(one.concepts), Qualifiers(one.presence, one.temporality, one.experiencer))
            for one in line.findings
        ]
        known = {"complete": line.complete, "placed": all(one.pieces for one in findings)}
        yield GoldText.of(str(line.id), line.language, line.text, findings, told=told, **known)


_Row = tuple[GoldText, list[tuple[float, bool]], Counter[str]]


class NotesTask(NoteOptions, Task):
    """Precision, recall and F1 of the findings that texts affirm, by documents and by mentions, and of their status.

    BUNDLE is what the texts are linked to. GOLD are annotated texts: JSON lines with the status of findings, brat or
    PubTator without; the options are those of 'medlink link'.
    """

    inputs: ClassVar = ("bundle", "gold...")
    encodes: ClassVar[bool] = False

    def measure(self, run: Run) -> Report:
        from medlink.notes.pipeline import NotePipeline
        from medlink.notes.reading import Note
        from medlink.reading.status import status_reader

        options = {name: getattr(self, name) for name in NoteOptions.model_fields}
        pipeline = NotePipeline(Path(run.paths[0]), **options)
        texts = [_with_known_ids(text, pipeline) for text in read_texts(run.paths[1:], run.problems)]
        if not any(concept in pipeline.bundle.kb for text in texts for concept in text.concepts):
            remedy = "give a bundle of the terminology whose ids were annotated"
            raise InputError(f"none of its concepts is in {run.paths[0]}", path=run.paths[1], remedy=remedy)
        rows, status = list[_Row](), defaultdict[tuple[str, str], Counter[tuple[str, str]]](Counter)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            notes = pipeline.link([Note(text.name, text.text, text.language or None) for text in batch])
            for text, note in zip(batch, notes, strict=True):
                if note.note.problem is not None:
                    run.problems.skipped["note that cannot be read"] += 1
                    continue
                known = replace(text, language=note.language)
                found = links(known, note)
                rows.append((known, judged(known, found), count(known, found)))
                reader = status_reader(note.language) if text.told and text.findings else None
                read = [] if reader is None else read_findings(reader, text)
                for finding, said in zip(text.findings, read, strict=bool(read)):
                    for field in text.told:
                        status[note.language, field][getattr(finding.said, field), said[field][0]] += 1
            if run.progress is not None:
                run.progress("texts linked", min(start + _BATCH, len(texts)), len(texts))
        if not rows:
            remedy = "give texts of notes in a language that medlink reads"
            raise InputError("none of its texts could be read", path=run.paths[1], remedy=remedy)
        languages = by_language([text.language for text, *_ in rows])
        table = [_row(tag, [rows[one] for one in at]) for tag, at in languages.items()]
        kept = [f"{name} {kind}" for name in ("documents", "mentions") for kind in ("right", "wrong", "missed")]
        items = [
            {"note": text.name, "language": text.language} | {name: counts[name] for name in kept}
            for text, _, counts in rows
        ]
        head = f"{len(rows)} texts with {sum(len(text.findings) for text, *_ in rows)} findings at their places"
        return Report(head, table, items, run.problems, status_tables(status))


def _with_known_ids(text: GoldText, pipeline: NotePipeline) -> GoldText:

    def spelt(ids: frozenset[str]) -> frozenset[str]:
        return frozenset(as_known(ids, pipeline.bundle.kb))

    findings = tuple(replace(one, concepts=spelt(one.concepts)) for one in text.findings)
    return replace(text, findings=findings, concepts=spelt(text.concepts), affirmed=spelt(text.affirmed))


def _row(tag: str, found: Sequence[_Row]) -> Row:
    total = sum((counts for *_, counts in found), Counter[str]())
    scored = np.array([one for _, each, _ in found for one in each], dtype=float).reshape(-1, 2)
    documents, mentions = (rates(total, name) for name in ("documents", "mentions"))
    return {
        "language": tag,
        "texts": len(found),
        **dict(zip(("P", "R", "F1"), documents, strict=True)),
        "status not read": rates(total, "regardless")[2],
        **dict(zip(("mention P", "mention R", "mention F1"), mentions, strict=True)),
        **{name: total[name] / max(total[of], 1) for name, of in SHARES.items()},
        "calibration": calibration_error(scored[:, 0], scored[:, 1] > 0) if len(scored) else None,
    }
