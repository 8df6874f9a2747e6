"""Writers of maps, one for each format."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from medlink.files.escapes import escape_cell, escape_controls
from medlink.files.json import json_line
from medlink.kb.export.sssom import concept_curie, curie, write_sssom_header
from medlink.mapping import codes as usagi
from medlink.mapping.codes import CodeMapping, Target
from medlink.mapping.options import MapOptions, Shape
from medlink.mapping.reading import ADD_INFO, MEDLINK_PREFIX, OMOP, SOURCE_CONCEPT, USAGI
from medlink.mapping.targets import NONE, Targets
from medlink.records import LINKED

SSSOM = (
    "subject_id", "subject_label", "predicate_id", "object_id", "object_label", "mapping_justification",
    "subject_source", "object_source", "confidence", "reviewer_label", "comment", "other",
)  # fmt: skip
"""Columns of SSSOM."""
NUMBERS = ("sourceFrequency", "matchScore", "statusSetOn", "createdOn")
"""Columns of Usagi that are numbers in a workbook."""
BETWEEN = " | "
"""Separator of candidates in a cell of Usagi's file."""
_SOURCE = 4  # columns of the code in Usagi's file, which precede added ones
_FIRST, _LAST = "1970-01-01", "2099-12-31"  # validity of a map in OMOP's table
_PREDICATES = {
    usagi.EQUAL: "skos:exactMatch", usagi.EQUIVALENT: "skos:exactMatch", usagi.WIDER: "skos:broadMatch",
    usagi.NARROWER: "skos:narrowMatch", usagi.INEXACT: "skos:relatedMatch",
}  # fmt: skip
_JUSTIFIED = {
    "exact": "semapv:LexicalMatching",
    "inflected": "semapv:LexicalMatching",
    "words": "semapv:LexicalSimilarityThresholdMatching",
    "dense": "semapv:SemanticSimilarityThresholdMatching",
    "code": "semapv:MappingChaining",
    "broader": "semapv:BackgroundKnowledgeBasedMatching",
}
_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")


def clean_text(text: str) -> str:
    """Make a one-line cell that no spreadsheet takes for a formula; a number stays unchanged.

    >>> clean_text("=1+1"), clean_text("-12"), clean_text("a\\nb")
    ("'=1+1", '-12', 'a b')
    """
    text = escape_controls(_BLANKS.sub(" ", text)).strip()
    return text if _NUMBER.fullmatch(text) else escape_cell(text)


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Facts of a run for its writer: names of further columns of the list, whether there are maps of an earlier
    release, and a hash of list, bundle and options."""

    targets: Targets
    options: MapOptions
    added: tuple[str, ...] = ()
    carried: bool = False
    set_id: str = ""


def _write_usagi(file: TextIO, context: WriterContext, maps: Iterable[CodeMapping]) -> None:
    """Write a row for each target, or for a code without targets, with further columns of medlink."""
    own = ["status", "evidence", "candidates", "qualifiers", *["change"] * context.carried]
    titles = [*context.added, *(f"{MEDLINK_PREFIX}{title}" for title in own)]
    table, written = csv.writer(file, lineterminator="\n"), context.targets.format_id
    further = [clean_text(f"{ADD_INFO}{title}") for title in ("unit", "language", *titles)]
    table.writerow([*USAGI[:_SOURCE], *further, *USAGI[_SOURCE:]])
    for mapping in maps:
        source, added = mapping.source, dict(mapping.source.added)
        ranked = BETWEEN.join(f"{written(c.concept_id)} {c.preferred_name} ({c.score:.2f})" for c in mapping.candidates)
        link = mapping.link if mapping.candidates or not mapping.decided else ""
        qualifiers = ", ".join(mapping.qualifiers.unusual) if mapping.qualifiers else ""
        # a run on the written file reads each row in its language, whatever its options
        language = source.language or context.options.language or ""
        extra = [source.unit, language, *(added.get(title, "") for title in context.added)]
        extra += [link, mapping.evidence, ranked, qualifiers, *[mapping.change] * context.carried]
        frequency = str(-1 if source.frequency is None else source.frequency)
        first = [clean_text(source.code), clean_text(source.name), frequency, ";".join(source.assigned)]
        first += [*map(clean_text, extra), f"{mapping.score:g}", mapping.status, mapping.equivalence]
        first += [clean_text(mapping.set_by), str(mapping.set_on)]
        for target in mapping.targets or (Target("", ""),):
            named = map(clean_text, (written(target.concept_id), target.name, target.domain))
            details = target.kind, clean_text(mapping.comment), clean_text(target.created_by), str(target.created_on)
            table.writerow([*first, *named, *details, clean_text(mapping.reviewer)])


def _write_omop(file: TextIO, context: WriterContext, maps: Iterable[CodeMapping]) -> None:
    """Write a row for each concept of an approved map, and of a proposal if the options include them.

    The table has no column for concepts of values and units.
    """
    options, table = context.options, csv.writer(file, lineterminator="\n")
    days = (options.day.isoformat() if options.day else _FIRST), _LAST
    table.writerow(OMOP)
    for mapping in maps:
        if mapping.status == usagi.APPROVED or (options.unreviewed and not mapping.decided):
            for target, vocabulary in _with_vocabularies(mapping, context):
                own = clean_text(_own_concept(mapping)) or NONE
                of_code = clean_text(mapping.source.code), own, options.vocabulary, clean_text(mapping.source.name)
                concept = clean_text(context.targets.format_id(target.concept_id)), clean_text(vocabulary)
                table.writerow([*of_code, *concept, *days, ""])


def _write_sssom(file: TextIO, context: WriterContext, maps: Iterable[CodeMapping]) -> None:
    """Write a row for each concept that a code maps to, without ignored maps; the header has all prefixes of ids.

    Approved maps are justified as manual curation, proposals by the route of the candidate, with its score as
    confidence. The predicate of an unreviewed map is ``skos:closeMatch``.
    """
    vocabulary, rows = context.options.vocabulary, []
    for mapping in maps:
        routes = {candidate.concept_id: candidate.route for candidate in mapping.candidates}
        by_hand, own = mapping.status == usagi.APPROVED, _own_concept(mapping)
        for target, source in _with_vocabularies(mapping, context) if mapping.status != usagi.IGNORED else ():
            justified = _JUSTIFIED.get(routes.get(target.concept_id, ""), "semapv:UnspecifiedMatching")
            rows.append((
                curie(vocabulary, mapping.source.code), mapping.source.name,
                _PREDICATES.get(mapping.equivalence, "skos:closeMatch"),
                concept_curie(source or "OTHER", target.concept_id), target.name,
                "semapv:ManualMappingCuration" if by_hand else justified, vocabulary, source,
                "" if by_hand else f"{mapping.score:g}", mapping.set_by if by_hand else "",
                mapping.comment or mapping.evidence, f"{SOURCE_CONCEPT}={own}" if own else "",
            ))  # fmt: skip
    prefixes = {identifier.partition(":")[0] for row in rows for identifier in (row[0], row[3])}
    write = write_sssom_header(file, SSSOM, prefixes, f"codes:{context.set_id}", f"{vocabulary} to concepts")
    for row in rows:
        write(row)


def _write_jsonl(file: TextIO, context: WriterContext, maps: Iterable[CodeMapping]) -> None:
    """Write the fields of the review page: code, description, target, candidates; then those of Usagi's file."""
    for mapping in maps:
        source, target, qualifiers = mapping.source, mapping.target, mapping.qualifiers
        names = {candidate.concept_id: candidate.preferred_name for candidate in mapping.candidates}
        line = {
            "kind": "code", "id": source.code, "text": source.name,
            "language": source.language or context.options.language or "", "frequency": source.frequency,
            "concept_id": target and target.concept_id,
            "preferred_name": target and names.get(target.concept_id, target.name), "score": mapping.score,
            "status": LINKED if target and mapping.decided else mapping.link,
            "candidates": [candidate.to_dict() for candidate in mapping.candidates],
            **{name: qualifiers and getattr(qualifiers, name) for name in ("presence", "temporality", "experiencer")},
            "unit": source.unit,
            "targets": [{"concept_id": t.concept_id, "name": t.name, "kind": t.kind} for t in mapping.targets],
            "mapping_status": mapping.status, "equivalence": mapping.equivalence, "evidence": mapping.evidence,
            "change": mapping.change, "comment": mapping.comment, "added": dict(source.added),
        }  # fmt: skip
        file.write(json_line(line))


def _own_concept(mapping: CodeMapping) -> str:
    """Return the site's own concept for the code, ``""`` for none."""
    own = dict(mapping.source.added).get(SOURCE_CONCEPT, "")
    return "" if own == NONE else own


def _with_vocabularies(mapping: CodeMapping, context: WriterContext) -> Iterator[tuple[Target, str]]:
    """Return the concepts that a code means, with their vocabularies."""
    targets = [target for target in mapping.targets if target.kind == usagi.MAPS_TO]
    vocabularies = context.targets.vocabularies(target.concept_id for target in targets)
    return ((target, vocabularies.get(target.concept_id, "")) for target in targets)


WRITERS: dict[Shape, Callable[[TextIO, WriterContext, Iterable[CodeMapping]], None]] = {
    "usagi": _write_usagi, "source-to-concept-map": _write_omop, "sssom": _write_sssom, "jsonl": _write_jsonl,
}  # fmt: skip
"""The writer of each format."""
