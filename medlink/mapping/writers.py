"""Formats of maps: what the columns of each hold, and how they are written."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from medlink.files.escapes import as_cell, visible
from medlink.kb.export.sssom import curie, curie_of, mapping_set
from medlink.mapping.codes import (
    APPROVED,
    EQUAL,
    EQUIVALENT,
    IGNORED,
    INEXACT,
    MAPS_TO,
    NARROWER,
    WIDER,
    CodeMapping,
    Target,
)  # fmt: skip
from medlink.mapping.options import MapOptions, Shape
from medlink.mapping.reading import ADDED, OMOP, OWN, USAGI
from medlink.mapping.targets import NONE, Targets
from medlink.records import LINKED

SSSOM = (
    "subject_id", "subject_label", "predicate_id", "object_id", "object_label", "mapping_justification",
    "subject_source", "object_source", "confidence", "reviewer_label", "comment",
)  # fmt: skip
"""Columns of SSSOM."""
BETWEEN = " | "
"""What parts candidates in a cell of Usagi's file."""
_SOURCE = 4  # columns of Usagi's file that are of the code, before those that a list added
_NOBODY = Target("", "")
_FIRST, _LAST = "1970-01-01", "2099-12-31"  # between these days a map of OMOP's table holds
_PREDICATES = {
    EQUAL: "skos:exactMatch",
    EQUIVALENT: "skos:exactMatch",
    WIDER: "skos:broadMatch",
    NARROWER: "skos:narrowMatch",
    INEXACT: "skos:relatedMatch",
}
_JUSTIFIED = {
    "exact": "semapv:LexicalMatching",
    "inflected": "semapv:LexicalMatching",
    "words": "semapv:LexicalSimilarityThresholdMatching",
    "dense": "semapv:SemanticSimilarityThresholdMatching",
    "code": "semapv:MappingChaining",
}
_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")


def as_text(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula, in one line; a number stays as it is.

    >>> as_text("=1+1"), as_text("-12"), as_text("a\\nb")
    ("'=1+1", '-12', 'a b')
    """
    text = visible(_BLANKS.sub(" ", text)).strip()
    return text if _NUMBER.fullmatch(text) else as_cell(text)


@dataclass(frozen=True, slots=True)
class Context:
    """What writers know of a run.

    ``added`` are the names of the list's further columns, ``carried`` says whether there are maps of an earlier
    release, and ``set_id`` stands for list, bundle and options.
    """

    targets: Targets
    options: MapOptions
    added: tuple[str, ...] = ()
    carried: bool = False
    set_id: str = ""


def _write_usagi(file: TextIO, context: Context, maps: Iterable[CodeMapping]) -> None:
    """A row for each target, one row for a code without any, with what medlink says in columns of its own."""
    own = ["status", "evidence", "candidates", *(["change"] if context.carried else [])]
    titles = [*context.added, *(f"{OWN}{title}" for title in own)]
    table, written = csv.writer(file, lineterminator="\n"), context.targets.written
    further = [as_text(f"{ADDED}{title}") for title in ("unit", "language", *titles)]
    table.writerow([*USAGI[:_SOURCE], *further, *USAGI[_SOURCE:]])
    for one in maps:
        source, added = one.source, dict(one.source.added)
        ranked = BETWEEN.join(f"{written(c.concept_id)} {c.preferred_name} ({c.score:.2f})" for c in one.candidates)
        link = one.link if one.candidates or not one.decided else ""
        said = [link, one.evidence, ranked, *([one.change] if context.carried else [])]
        frequency = str(-1 if source.frequency is None else source.frequency)
        first = [as_text(source.code), as_text(source.name), frequency, ";".join(source.assigned)]
        first += map(as_text, (source.unit, source.language, *(added.get(title, "") for title in context.added), *said))
        first += [f"{one.score:g}", one.status, one.equivalence, as_text(one.set_by), str(one.set_on)]
        for target in one.targets or (_NOBODY,):
            named = map(as_text, (written(target.concept_id), target.name, target.domain))
            made = target.kind, as_text(one.comment), as_text(target.created_by), str(target.created_on)
            table.writerow([*first, *named, *made, as_text(one.reviewer)])


def _write_omop(file: TextIO, context: Context, maps: Iterable[CodeMapping]) -> None:
    """A row for each concept that a code maps to.

    What is approved is written, and what is proposed where the options say so. The table has no place for the concepts
    of values and units, which are left out.
    """
    options, table = context.options, csv.writer(file, lineterminator="\n")
    days = (options.day.isoformat() if options.day else _FIRST), _LAST
    table.writerow(OMOP)
    for one in maps:
        if one.status == APPROVED or (options.unreviewed and not one.decided):
            for target, vocabulary in _with_vocabularies(one, context):
                of_code = as_text(one.source.code), NONE, options.vocabulary, as_text(one.source.name)
                concept = as_text(context.targets.written(target.concept_id)), as_text(vocabulary)
                table.writerow([*of_code, *concept, *days, ""])


def _write_sssom(file: TextIO, context: Context, maps: Iterable[CodeMapping]) -> None:
    """A row for each concept that a code maps to, but for what was ignored; the header has the prefixes of all ids.

    An approved map is curated by hand; of a proposal the route of its candidate is the justification, and its score
    the confidence. Where nobody said how a target is to its code the predicate is ``skos:closeMatch``.
    """
    vocabulary, rows = context.options.vocabulary, []
    for one in maps:
        routes = {candidate.concept_id: candidate.route for candidate in one.candidates}
        by_hand = one.status == APPROVED
        for target, source in _with_vocabularies(one, context) if one.status != IGNORED else ():
            justified = _JUSTIFIED.get(routes.get(target.concept_id, ""), "semapv:UnspecifiedMatching")
            rows.append((
                curie(vocabulary, one.source.code), one.source.name,
                _PREDICATES.get(one.equivalence, "skos:closeMatch"),
                curie_of(source or "OTHER", target.concept_id), target.name,
                "semapv:ManualMappingCuration" if by_hand else justified, vocabulary, source,
                "" if by_hand else f"{one.score:g}", one.set_by if by_hand else "", one.comment or one.evidence,
            ))  # fmt: skip
    prefixes = {one.partition(":")[0] for row in rows for one in (row[0], row[3])}
    write = mapping_set(file, SSSOM, prefixes, f"codes:{context.set_id}", f"{vocabulary} to concepts")
    for row in rows:
        write(row)


def _write_jsonl(file: TextIO, context: Context, maps: Iterable[CodeMapping]) -> None:
    """Code, description, target and candidates as the page of reviews reads them, then what Usagi's file says."""
    for one in maps:
        source, target = one.source, one.target
        shown = next((c for c in one.candidates if target is not None and c.concept_id == target.concept_id), None)
        line = {
            "kind": "code",
            "id": source.code,
            "text": source.name,
            "language": source.language or context.options.language or "",
            "frequency": source.frequency,
            "concept_id": target.concept_id if target else None,
            "preferred_name": shown.preferred_name if shown else target.name if target else None,
            "score": one.score,
            "status": LINKED if target and one.decided else one.link,
            "candidates": [candidate.to_dict() for candidate in one.candidates],
            "unit": source.unit,
            "targets": [{"concept_id": t.concept_id, "name": t.name, "kind": t.kind} for t in one.targets],
            "mapping_status": one.status,
            "equivalence": one.equivalence,
            "evidence": one.evidence,
            "change": one.change,
            "comment": one.comment,
            "added": dict(source.added),
        }
        file.write(visible(json.dumps(line, ensure_ascii=False)) + "\n")


def _with_vocabularies(one: CodeMapping, context: Context) -> Iterator[tuple[Target, str]]:
    """The concepts that a code means, with their vocabularies."""
    targets = [target for target in one.targets if target.kind == MAPS_TO]
    vocabularies = context.targets.vocabularies(target.concept_id for target in targets)
    return ((target, vocabularies.get(target.concept_id, "")) for target in targets)


WRITERS: dict[Shape, Callable[[TextIO, Context, Iterable[CodeMapping]], None]] = {
    "usagi": _write_usagi,
    "source-to-concept-map": _write_omop,
    "sssom": _write_sssom,
    "jsonl": _write_jsonl,
}
"""What writes maps to a file, in the order of the work list."""
