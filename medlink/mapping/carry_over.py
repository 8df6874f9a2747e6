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


def decision_of(mapping: CodeMapping) -> tuple[str, frozenset[str]]:
    """Return the status of a decided map and the ids of its targets."""
    return mapping.status, frozenset(target.concept_id for target in mapping.targets)


def description_of(source: SourceCode) -> tuple[str, str]:
    """Return a code and its description, which is the code if it has none, as on the page of a review."""
    return source.code, source.name or source.code


class EarlierMaps:
    """The maps of earlier releases; ``among`` are the targets allowed now, ``None`` for all.

    If several ``files`` have a description, the last that decided about it counts. ``contradictions`` counts
    descriptions about which an earlier file decided otherwise.
    """

    def __init__(
        self,
        files: Iterable[Iterable[CodeMapping]],
        kb: KnowledgeBase,
        among: Collection[str] | None,
        targets: Targets,
    ) -> None:
        self._kb, self._among, self._targets, self._seen = kb, among, targets, set[str]()
        self.contradictions = 0
        merged: dict[tuple[str, str], list[CodeMapping]] = {}
        for maps in files:
            of_file = defaultdict[tuple[str, str], list[CodeMapping]](list)
            for earlier in maps:
                of_file[description_of(earlier.source)].append(earlier)
            for description, own in of_file.items():
                before, now = (
                    {decision_of(one) for one in some if one.decided} for some in (merged.get(description, ()), own)
                )
                self.contradictions += bool(before and now) and before.isdisjoint(now)
                if now or not before:
                    merged[description] = own
        self._by_code = defaultdict[str, list[CodeMapping]](list)
        for (code, _), own in merged.items():
            self._by_code[code] += own

    def carry_over(self, source: SourceCode) -> CarryResult:
        """Compare a code with its earlier map, preferably one with the same description."""
        maps = self._by_code.get(source.code)
        if maps is None:
            return CarryResult(NEW)
        self._seen.add(source.code)
        same = [earlier for earlier in maps if description_of(earlier.source) == description_of(source)]
        # a code with several units has them in the review of its descriptions
        marked = f"{source.name or source.code} [{source.unit}]"
        same = [one for one in maps if one.source.name == marked] or sorted(
            same, key=lambda one: bool(one.source.unit) and _unit(one.source.unit) != _unit(source.unit)
        )
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
