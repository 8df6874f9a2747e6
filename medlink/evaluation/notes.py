"""Notes end to end: the concepts found, linked and affirmed in texts, compared with annotations."""

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
from medlink.evaluation.names import match_ids, split_ids
from medlink.evaluation.task import Report, Row, Run, StrPath, Task, by_language
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.notes.gold import find_gold, read_gold
from medlink.notes.options import NoteOptions
from medlink.notes.reading import file_suffix
from medlink.records import LINKED, Experiencer, Presence, Qualifiers, Temporality

if TYPE_CHECKING:
    from medlink.notes.pipeline import LinkedNote, NotePipeline
    from medlink.reading.qualifiers import QualifierReader

Piece = tuple[int, int]
FIELDS: dict[str, tuple[str, ...]] = {
    "presence": get_args(Presence),
    "temporality": get_args(Temporality),
    "experiencer": get_args(Experiencer),
}
"""The values of each qualifier that a gold may annotate, the usual one first."""
HEADING = "heading"
"""Replaces the value of a finding in a heading, which has no status."""
ReadStatus = dict[str, tuple[str, str]]
"""Value and cue of each field."""
Pairs = Counter[tuple[str, str]]
"""Counts of pairs of gold value and read value."""
SHARES = {"touched": "annotated", "exact": "annotated", "right": "coded"}
"""Counts of findings that are reported as shares, each with the count for 100 %."""
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Finding:
    """An annotated finding: character offsets of its pieces, right concepts (empty if unknown), and qualifiers."""

    pieces: tuple[Piece, ...]
    concepts: frozenset[str]
    qualifiers: Qualifiers = Qualifiers()  # noqa: RUF009  # it is frozen

    @property
    def span(self) -> Piece:
        """The range from the start of the first piece to the end of the last piece."""
        return min(self.pieces)[0], max(end for _, end in self.pieces)

    def overlaps(self, start: int, end: int) -> bool:
        return self.span[0] < end and start < self.span[1]


@dataclass(frozen=True, slots=True)
class GoldText:
    """A text with its findings that have pieces; others count only for its ``concepts`` and ``affirmed`` concepts.

    In a ``complete`` text, every finding was annotated. With ``has_spans``, each finding has its pieces, so concepts
    found elsewhere are wrong. ``annotated_fields`` are the fields of the status that the gold has.
    """

    name: str
    language: str
    text: str
    findings: tuple[Finding, ...]
    concepts: frozenset[str]
    affirmed: frozenset[str]
    complete: bool = True
    has_spans: bool = True
    annotated_fields: frozenset[str] = frozenset(FIELDS)

    @classmethod
    def from_findings(
        cls, name: str, language: str, text: str, findings: Sequence[Finding], *,
        annotated_fields: frozenset[str] = frozenset(FIELDS), **kind: bool,
    ) -> GoldText:  # fmt: skip
        """Make a gold text; ``kind`` has the fields ``complete`` and ``has_spans``."""
        present = [finding for finding in findings if is_affirmed(finding.qualifiers, annotated_fields)]
        concepts, affirmed = (frozenset(one for f in own for one in f.concepts) for own in (findings, present))
        spans = tuple(finding for finding in findings if finding.pieces)
        return cls(name, language, text, spans, concepts, affirmed, annotated_fields=annotated_fields, **kind)


class BestConcept(NamedTuple):
    """The best concept of a mention."""

    start: int
    end: int
    concept: str
    affirmed: bool
    linked: bool
    score: float


def best_concepts(text: GoldText, note: LinkedNote) -> list[BestConcept]:
    """Return the best concept of each mention with candidates, by the id that the gold has."""
    concepts = []
    for mention in note.mentions:
        for best in mention.link.candidates[:1]:
            affirmed = mention.qualifiers is None or is_affirmed(mention.qualifiers, text.annotated_fields)
            ids = best.concept_id, *best.same_as
            concept = next((one for one in ids if one in text.concepts), best.concept_id)
            linked = mention.link.status == LINKED
            concepts.append(BestConcept(mention.start, mention.end, concept, affirmed, linked, best.score))
    return concepts


def is_affirmed(qualifiers: Qualifiers, fields: Collection[str]) -> bool:
    """Return whether the patient has or had a finding, according to the fields that the gold has."""
    return Qualifiers(**{field: getattr(qualifiers, field) for field in fields}).is_present


def is_right(text: GoldText, start: int, end: int, concept: str, *, denied: bool) -> bool | None:
    """Return whether a concept is right for a span of a text; ``None`` if unknown.

    In a text without spans, a concept is right anywhere, and denied or uncertain findings are unknown.
    """
    if not text.has_spans:
        return True if concept in text.concepts else None if denied else False
    overlapping = [f for f in text.findings if f.overlaps(start, end) and (text.complete or f.concepts)]
    if not text.complete and not overlapping:
        return None
    return any(concept in finding.concepts for finding in overlapping)


def scored_outcomes(text: GoldText, mentions: Sequence[BestConcept]) -> list[tuple[float, bool]]:
    """Return the score of each concept and whether it is right; leave out unknown concepts."""
    right = (is_right(text, m.start, m.end, m.concept, denied=not m.affirmed) for m in mentions)
    return [(mention.score, known) for mention, known in zip(mentions, right, strict=True) if known is not None]


def count(text: GoldText, mentions: Sequence[BestConcept]) -> Counter[str]:
    """Count the right, wrong and missed concepts and mentions of a text.

    - ``documents right``, ``wrong`` and ``missed``: affirmed concepts; ``regardless ...``: all concepts.
    - ``mentions right``, ``wrong`` and ``missed``: affirmed mentions. Each is paired with at most one finding that it
      overlaps and whose concept it has, with as many pairs as possible. Mentions that may be right are not wrong.
    - findings: ``annotated``: all; ``touched``: overlap a mention; ``exact``: have the span of a mention; ``coded``:
      have a concept; ``right``: overlap a mention with this concept, whatever its status.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    linked = [mention for mention in mentions if mention.linked]
    affirmed = [mention for mention in linked if mention.affirmed]
    counts = Counter[str]()
    for name, counted in (("documents", affirmed), ("regardless", linked)):
        concepts, wanted = {mention.concept for mention in counted}, text.affirmed
        counts[f"{name} right"] = len(concepts & wanted)
        counts[f"{name} wrong"] = len(concepts - wanted)
        counts[f"{name} missed"] = len(wanted - concepts)
    for finding in text.findings:
        overlapping = [mention for mention in linked if finding.overlaps(mention.start, mention.end)]
        counts["annotated"] += 1
        counts["coded"] += bool(finding.concepts)
        counts["touched"] += bool(overlapping)
        counts["exact"] += any((mention.start, mention.end) == finding.span for mention in overlapping)
        counts["right"] += any(mention.concept in finding.concepts for mention in overlapping)
    gold = [f for f in text.findings if f.concepts and is_affirmed(f.qualifiers, text.annotated_fields)]
    fits = [[f.overlaps(m.start, m.end) and m.concept in f.concepts for f in gold] for m in affirmed]
    right = 0
    if affirmed and gold:
        right = int((maximum_bipartite_matching(csr_array(np.array(fits, dtype=np.int8)), "column") >= 0).sum())
    known = [is_right(text, mention.start, mention.end, mention.concept, denied=False) for mention in affirmed]
    wrong = sum(correct is not None for correct in known) - right if text.has_spans else known.count(False)
    return counts + Counter({"mentions right": right, "mentions wrong": wrong, "mentions missed": len(gold) - right})


def rates(counts: Counter[str], name: str) -> tuple[float, float, float]:
    """Compute precision, recall and F1 from the counts ``NAME right``, ``wrong`` and ``missed``, 0 if undefined."""
    right, wrong, missed = (counts[f"{name} {kind}"] for kind in ("right", "wrong", "missed"))
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def read_status(reader: QualifierReader, text: GoldText) -> list[ReadStatus]:
    """Read the status of each finding at its annotated pieces; the first piece with a cue decides."""
    note, pieces = reader.read(text.text), [piece for finding in text.findings for piece in finding.pieces]
    # all pieces at once, since a list is recognised by its mentions
    qualified = iter(zip(note.qualify(pieces, acts=()), note.cues(pieces, acts=()), strict=True))
    statuses = list[ReadStatus]()
    for finding in text.findings:
        own, read = list(islice(qualified, len(finding.pieces))), ReadStatus()
        for field in FIELDS:
            values = [(getattr(status, field) if status else HEADING, cues.get(field, "")) for status, cues in own]
            read[field] = next(((value, cue) for value, cue in values if cue), values[0])
        statuses.append(read)
    return statuses


def value_rates(pairs: Pairs, value: str) -> tuple[float, float, float, int, int]:
    """Compute precision, recall and F1 of a value, and its counts among gold values and among read values."""
    right = pairs[value, value]
    gold, read = (sum(n for pair, n in pairs.items() if pair[at] == value) for at in (0, 1))
    return right / max(read, 1), right / max(gold, 1), 2 * right / max(read + gold, 1), gold, read


def status_tables(pairs: Mapping[tuple[str, str], Pairs]) -> dict[str, list[Row]]:
    """Tabulate measures of each value, and a confusion matrix, from the pairs of each language and field."""
    rates, confusion = list[Row](), list[Row]()
    for (language, field), own in sorted(pairs.items()):
        for value in FIELDS[field]:
            precision, recall, f1, gold, read = value_rates(own, value)
            head = {"language": language, "field": field, "value": value}
            if gold or read:
                rates.append({**head, "findings": gold, "P": precision, "R": recall, "F1": f1})
            counts = {other: own[value, other] for other in (*FIELDS[field], HEADING)}
            confusion += [{**head, "read as": other, "findings": number} for other, number in counts.items() if number]
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
    """Read annotated texts: JSON lines with the status of findings, or brat or PubTator without a status.

    A line has ``id``, ``text``, ``findings``, and if known ``language`` and ``complete``; a finding has ``pieces``
    (pairs of character offsets), ``concepts``, ``presence``, ``temporality`` and ``experiencer``. A file annotates the
    fields that any of its findings has. A text with a finding without pieces has no spans.

    Raises:
        InputError: a file cannot be read, too many lines are bad, or there is no finding.
    """
    files = find_gold([Path(path) for path in paths])[0]
    texts = list[GoldText]()
    for path in files:
        texts += (_read_lines if file_suffix(path) in (".jsonl", ".ndjson") else _read_annotated)(path, problems)
    if not any(text.concepts for text in texts):
        remedy = "give texts whose findings have concepts"
        raise InputError("there is no finding with a concept in it", path=", ".join(map(str, paths)), remedy=remedy)
    return texts


def _read_annotated(path: Path, problems: Problems) -> Iterator[GoldText]:
    for note in read_gold(path, problems):
        if note.text is None:
            remedy = "write the texts with the decisions, by Review.write_gold(FILE)"
            raise InputError("has no texts of notes", path=path, remedy=remedy)
        findings = [Finding(mark.pieces, frozenset(split_ids("|".join(mark.concepts)))) for mark in note.annotations]
        language, fields = note.language or "", frozenset[str]()
        yield GoldText.from_findings(note.note_id, language, note.text, findings, annotated_fields=fields)


def _read_lines(path: Path, problems: Problems) -> Iterator[GoldText]:
    lines, texts = LineFile(path, problems), list[_Line]()
    for number, row in read_json_lines(lines):
        try:
            line = _Line.model_validate(row)
        except ValidationError as error:
            # a value, and a key that is no field, may be text of a note
            location = [part for part in error.errors()[0]["loc"] if isinstance(part, int) or part in _FIELDS]
            lines.bad_row("no text with findings", number, ".".join(map(str, location)))
            continue
        if any(not 0 <= start < end <= len(line.text) for finding in line.findings for start, end in finding.pieces):
            lines.bad_row("a piece that lies outside its text", number)
        else:
            texts.append(line)
    annotated = FIELDS.keys() & {field for line in texts for mark in line.findings for field in mark.model_fields_set}
    for line in texts:
        findings = [
            Finding(m.pieces, frozenset(m.concepts), Qualifiers(m.presence, m.temporality, m.experiencer))
            for m in line.findings
        ]
        yield GoldText.from_findings(
            str(line.id), line.language, line.text, findings, annotated_fields=frozenset(annotated),
            complete=line.complete, has_spans=all(finding.pieces for finding in findings),
        )  # fmt: skip


_Row = tuple[GoldText, list[tuple[float, bool]], Counter[str]]
_PRF = ("P", "R", "F1")


class NotesTask(NoteOptions, Task):
    """Precision, recall and F1 of the findings that texts affirm, by documents and by mentions, and of their status.

    Links the texts of GOLD to BUNDLE, with the options of 'medlink link'. GOLD is JSON lines, with the status of
    findings, or brat or PubTator, without it.
    """

    inputs: ClassVar = ("bundle", "gold...")
    needs_encoder: ClassVar[bool] = False

    def measure(self, run: Run) -> Report:
        from medlink.notes.pipeline import NotePipeline
        from medlink.notes.reading import Note
        from medlink.reading.qualifiers import qualifier_reader

        options = {name: getattr(self, name) for name in NoteOptions.model_fields}
        pipeline = NotePipeline(Path(run.paths[0]), **options)
        texts = [_with_known_ids(text, pipeline) for text in read_texts(run.paths[1:], run.problems)]
        if not any(concept in pipeline.bundle.kb for text in texts for concept in text.concepts):
            remedy = "give a bundle of the terminology whose ids were annotated"
            raise InputError(f"none of its concepts is in {run.paths[0]}", path=run.paths[1], remedy=remedy)
        rows, status = list[_Row](), defaultdict[tuple[str, str], Pairs](Counter)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            notes = pipeline.link([Note(text.name, text.text, text.language or None) for text in batch])
            for text, note in zip(batch, notes, strict=True):
                if note.note.problem is not None:
                    run.problems.skipped["note that cannot be read"] += 1
                    continue
                known = replace(text, language=note.language)
                best = best_concepts(known, note)
                rows.append((known, scored_outcomes(known, best), count(known, best)))
                reader = qualifier_reader(note.language) if text.annotated_fields and text.findings else None
                read = [] if reader is None else read_status(reader, text)
                for finding, values in zip(text.findings, read, strict=bool(read)):
                    for field in text.annotated_fields:
                        status[note.language, field][getattr(finding.qualifiers, field), values[field][0]] += 1
            if run.progress is not None:
                run.progress("texts linked", min(start + _BATCH, len(texts)), len(texts))
        if not rows:
            remedy = "give texts of notes in a language that medlink reads"
            raise InputError("none of its texts could be read", path=run.paths[1], remedy=remedy)
        languages = by_language([text.language for text, *_ in rows])
        table = [_row(tag, [rows[row] for row in at]) for tag, at in languages.items()]
        columns = [f"{name} {kind}" for name in ("documents", "mentions") for kind in ("right", "wrong", "missed")]
        items = [{"note": text.name, "language": text.language} | {name: counts[name] for name in columns}
                 for text, _, counts in rows]  # fmt: skip
        head = f"{len(rows)} texts with {sum(len(text.findings) for text, *_ in rows)} findings at their places"
        return Report(head, table, items, run.problems, status_tables(status))


def _with_known_ids(text: GoldText, pipeline: NotePipeline) -> GoldText:
    def known(ids: frozenset[str]) -> frozenset[str]:
        return frozenset(match_ids(ids, pipeline.bundle.kb))

    findings = tuple(replace(finding, concepts=known(finding.concepts)) for finding in text.findings)
    return replace(text, findings=findings, concepts=known(text.concepts), affirmed=known(text.affirmed))


def _row(tag: str, rows: Sequence[_Row]) -> Row:
    total = sum((counts for *_, counts in rows), Counter[str]())
    scored = np.array([outcome for _, each, _ in rows for outcome in each], dtype=float).reshape(-1, 2)
    documents, mentions = (rates(total, name) for name in ("documents", "mentions"))
    return {
        **{"language": tag, "texts": len(rows)},
        **dict(zip(_PRF, documents, strict=True)),
        "status not read": rates(total, "regardless")[2],
        **{f"mention {name}": value for name, value in zip(_PRF, mentions, strict=True)},
        **{name: total[name] / max(total[of], 1) for name, of in SHARES.items()},
        "calibration": calibration_error(scored[:, 0], scored[:, 1] > 0) if len(scored) else None,
    }
