"""``SssomWriter``: maps as SSSOM, with the header and the ids of :mod:`medlink.kb.export.sssom`."""

from __future__ import annotations

from typing import TextIO

from medlink.kb.export.sssom import curie, curie_of, mapping_set
from medlink.mapping.codes import APPROVED, EQUAL, EQUIVALENT, IGNORED, INEXACT, MAPS_TO, NARROWER, WIDER, CodeMapping
from medlink.mapping.writers.protocol import Context

COLUMNS = (
    "subject_id", "subject_label", "predicate_id", "object_id", "object_label", "mapping_justification",
    "subject_source", "object_source", "confidence", "reviewer_label", "comment",
)  # fmt: skip
_PREDICATES = {
    EQUAL: "skos:exactMatch",
    EQUIVALENT: "skos:exactMatch",
    WIDER: "skos:broadMatch",
    NARROWER: "skos:narrowMatch",
    INEXACT: "skos:relatedMatch",
}
_UNSAID = "skos:closeMatch"
_CURATED, _UNSPECIFIED = "semapv:ManualMappingCuration", "semapv:UnspecifiedMatching"
_JUSTIFIED = {
    "exact": "semapv:LexicalMatching",
    "inflected": "semapv:LexicalMatching",
    "words": "semapv:LexicalSimilarityThresholdMatching",
    "dense": "semapv:SemanticSimilarityThresholdMatching",
    "code": "semapv:MappingChaining",
}


class SssomWriter:
    """A row for each concept that a code maps to, but for what was ignored; all are kept until the end.

    An approved map is curated by hand; of a proposal the route of its candidate is the justification, and its score
    the confidence. Where nobody said how a target is to its code the predicate is ``skos:closeMatch``.
    """

    def __init__(self, file: TextIO, context: Context) -> None:
        self._file, self._context = file, context
        self._rows: list[tuple[str, ...]] = []

    def write(self, one: CodeMapping) -> None:
        """The rows of a code."""
        targets = [target for target in one.targets if target.kind == MAPS_TO]
        if one.status == IGNORED or not targets:
            return
        routes = {candidate.concept_id: candidate.route for candidate in one.candidates}
        vocabulary = self._context.options.vocabulary
        sources = self._context.targets.vocabularies(target.concept_id for target in targets)
        for target in targets:
            by_hand = one.status == APPROVED
            source = sources.get(target.concept_id, "")
            self._rows.append(
                (
                    curie(vocabulary, one.source.code),
                    one.source.name,
                    _PREDICATES.get(one.equivalence, _UNSAID),
                    curie_of(source or "OTHER", target.concept_id),
                    target.name,
                    _CURATED if by_hand else _JUSTIFIED.get(routes.get(target.concept_id, ""), _UNSPECIFIED),
                    vocabulary,
                    source,
                    "" if by_hand else f"{one.score:g}",
                    one.set_by if by_hand else "",
                    one.comment or one.evidence,
                )
            )

    def close(self) -> None:
        """Header and rows."""
        prefixes = {one.partition(":")[0] for row in self._rows for one in (row[0], row[3])}
        title = f"{self._context.options.vocabulary} to concepts"
        write = mapping_set(self._file, COLUMNS, prefixes, f"codes:{self._context.set_id}", title)
        for row in self._rows:
            write(row)
