"""Carry over the maps of an earlier release: decisions that still hold are kept; other codes get new proposals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from medlink.kb import KnowledgeBase
from medlink.kb.changes import classify_retirement
from medlink.mapping.codes import APPROVED, MAPS_TO, UNREVIEWED, CodeMapping, SourceCode, Target
from medlink.mapping.descriptions import ucum_code
from medlink.mapping.targets import Targets
from medlink.records import LINKED

KEPT, UNDECIDED, NEW, SOURCE, RENAMED, MERGED, RETIRED, EXCLUDED, GONE = (
    "kept", "undecided", "new", "source renamed", "target renamed", "target merged", "target retired",
    "target excluded", "gone",
)  # fmt: skip
RESULTS = (KEPT, SOURCE, RENAMED, MERGED, RETIRED, EXCLUDED, UNDECIDED, NEW, GONE)
"""Results for a map of an earlier release."""
_WORST = (RETIRED, EXCLUDED, MERGED, RENAMED, KEPT)


@dataclass(frozen=True, slots=True)
class CarryResult:
    """The result for an earlier map; ``instead`` holds the replacements of its targets, if all are certain."""

    result: str
    reason: str = ""
    before: CodeMapping | None = None
    instead: tuple[Target, ...] = ()


_Checked = tuple[str, str, Target | None]  # the result for a target, its reason, and what replaces the target


class EarlierMaps:
    """The maps of an earlier release; ``among`` are the targets allowed now, ``None`` for all."""

    def __init__(
        self, maps: Iterable[CodeMapping], kb: KnowledgeBase, among: Collection[str] | None, targets: Targets
    ) -> None:
        self._kb, self._among, self._targets, self._seen = kb, among, targets, set[str]()
        self._by_code = defaultdict[str, list[CodeMapping]](list)
        for earlier in maps:
            self._by_code[earlier.source.code].append(earlier)

    def carry_over(self, source: SourceCode) -> CarryResult:
        """Compare a code with its earlier map, preferably one with the same description."""
        maps = self._by_code.get(source.code)
        if maps is None:
            return CarryResult(NEW)
        self._seen.add(source.code)
        # a code without a description is its own description, as on the page of a review
        same = [earlier for earlier in maps if (earlier.source.name or source.code) == (source.name or source.code)]
        before = (same or maps)[0]
        if not before.decided:
            return CarryResult(UNDECIDED, "nobody had decided", before)
        if not same:
            return CarryResult(SOURCE, f"the description was: {before.source.name}", before)
        if before.source.unit and source.unit and _unit(before.source.unit) != _unit(source.unit):
            return CarryResult(SOURCE, f"the unit was: {before.source.unit}", before)
        checked = [self._check_target(target) for target in before.targets]
        result = min((found for found, _, _ in checked), key=_WORST.index, default=KEPT)
        reasons = "; ".join(reason for _, reason, _ in checked if reason)
        replaced = tuple(instead for *_, instead in checked if instead is not None)
        instead = replaced if len(replaced) == len(checked) and result != KEPT else ()
        return CarryResult(result, reasons, before, instead)

    def _check_target(self, target: Target) -> _Checked:
        concept_id, format_id = target.concept_id, self._targets.format_id
        if concept_id not in self._kb:
            gone = classify_retirement(concept_id, self._kb)
            successors = [successor for successor in gone.after.split(" | ") if successor]
            reason = f"{format_id(concept_id)} {target.name} is {gone.change}"
            if successors:
                reason += f" ({gone.how}): {', '.join(map(format_id, successors))}"
            if gone.change == "merged" and len(successors) == 1 and self._is_allowed(successors[0], target.kind):
                return MERGED, reason, self._targets.make_targets(successors, target.kind)[0]
            return RETIRED, reason, None
        if not self._is_allowed(concept_id, target.kind):
            return EXCLUDED, f"{format_id(concept_id)} {target.name} is not allowed as a target", None
        names = {" ".join(name.text.split()) for name in self._kb.names(concept_id) if name.preferred}
        if target.name and target.name not in names:
            now = self._targets.make_targets([concept_id], target.kind)[0]
            return RENAMED, f"{format_id(concept_id)} was called: {target.name}", now
        return KEPT, "", target

    def _is_allowed(self, concept_id: str, kind: str) -> bool:
        return kind != MAPS_TO or self._among is None or concept_id in self._among

    def iter_gone(self) -> Iterator[CodeMapping]:
        """Yield the maps of codes that the list no longer has, in file order."""
        for code, maps in self._by_code.items():
            if code not in self._seen:
                yield from maps


def _unit(written: str) -> str:
    return ucum_code(written) or written.casefold()


def annotate_proposal(carried: CarryResult, proposal: CodeMapping) -> CodeMapping:
    """Add the change of the earlier map to a proposal, and propose certain replacements of approved targets."""
    change = f"{carried.result}: {carried.reason}" if carried.reason else carried.result
    before = carried.before
    if before is None:
        return replace(proposal, change=change)
    if before.decided:
        change += f" (was {before.status}" + (f" by {before.set_by})" if before.set_by else ")")
    annotated = replace(proposal, comment=before.comment, reviewer=before.reviewer, change=change)
    if carried.instead and before.status == APPROVED:
        first = carried.instead[0].concept_id
        score = next((candidate.score for candidate in proposal.candidates if candidate.concept_id == first), 0.0)
        annotated = replace(
            annotated, targets=carried.instead, score=score, link=LINKED, evidence="approved before",
            equivalence=UNREVIEWED,
        )  # fmt: skip
    return annotated
