"""Maps of an earlier release carried over: what holds is kept, what does not is proposed anew, with a reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from medlink.kb import KnowledgeBase
from medlink.kb.changes import what_became_of
from medlink.mapping.codes import APPROVED, MAPS_TO, CodeMapping, SourceCode, Target
from medlink.mapping.targets import Targets
from medlink.records import LINKED

KEPT, UNDECIDED, NEW, SOURCE, RENAMED, MERGED, RETIRED, EXCLUDED, GONE = (
    "kept", "undecided", "new", "source renamed", "target renamed", "target merged", "target retired",
    "target excluded", "gone",
)  # fmt: skip
RESULTS = (KEPT, SOURCE, RENAMED, MERGED, RETIRED, EXCLUDED, UNDECIDED, NEW, GONE)
"""What becomes of a map of an earlier release."""
_WORST = (RETIRED, EXCLUDED, MERGED, RENAMED, KEPT)


@dataclass(frozen=True, slots=True)
class Carried:
    """What becomes of one map.

    ``reason`` says why in words. ``instead`` are targets in place of the earlier ones, if each of these has one that
    certainly replaces it.
    """

    result: str
    reason: str = ""
    before: CodeMapping | None = None
    instead: tuple[Target, ...] = ()


class Before:
    """Maps of an earlier release, for the present knowledge base; ``among`` may be targets now, ``None`` for all."""

    def __init__(
        self, maps: Iterable[CodeMapping], kb: KnowledgeBase, among: Collection[str] | None, targets: Targets
    ) -> None:
        self._kb, self._among, self._targets = kb, among, targets
        self._by_code: defaultdict[str, list[CodeMapping]] = defaultdict(list)
        for one in maps:
            self._by_code[one.source.code].append(one)
        self._met = set[str]()

    def of(self, source: SourceCode) -> Carried:
        """What becomes of the map of a code. Of several maps of one code that of the same description counts."""
        known = self._by_code.get(source.code)
        if known is None:
            return Carried(NEW)
        self._met.add(source.code)
        same = [one for one in known if one.source.name == source.name]
        before = (same or known)[0]
        if not before.decided:
            return Carried(UNDECIDED, "nobody had decided", before)
        if not same:
            return Carried(SOURCE, f"the description was: {before.source.name}", before)
        held = [self._held(one) for one in before.targets]
        result = min((one for one, _, _ in held), key=_WORST.index, default=KEPT)
        reason = "; ".join(words for _, words, _ in held if words)
        sure = all(target is not None for *_, target in held)
        instead = tuple(target for *_, target in held if target is not None) if sure and result != KEPT else ()
        return Carried(result, reason, before, instead)

    def _held(self, target: Target) -> tuple[str, str, Target | None]:
        concept_id, written = target.concept_id, self._targets.written
        if concept_id not in self._kb:
            gone = what_became_of(concept_id, self._kb)
            stands = [one for one in gone.after.split(" | ") if one]
            words = f"{written(concept_id)} {target.name} is {gone.change}"
            if stands:
                words += f" ({gone.how}): {', '.join(map(written, stands))}"
            if gone.change == "merged" and len(stands) == 1 and self._may(stands[0], target.kind):
                return MERGED, words, self._targets.made(stands, target.kind)[0]
            return RETIRED, words, None
        if not self._may(concept_id, target.kind):
            return EXCLUDED, f"{written(concept_id)} {target.name} is not allowed as a target", None
        names = {" ".join(one.text.split()) for one in self._kb.names(concept_id) if one.preferred}
        if target.name and target.name not in names:
            now = self._targets.made([concept_id], target.kind)[0]
            return RENAMED, f"{written(concept_id)} was called: {target.name}", now
        return KEPT, "", target

    def _may(self, concept_id: str, kind: str) -> bool:
        return kind != MAPS_TO or self._among is None or concept_id in self._among

    def gone(self) -> Iterator[CodeMapping]:
        """The maps of codes that were not asked for, in the order of their file."""
        for code, known in self._by_code.items():
            if code not in self._met:
                yield from known


def kept_map(before: CodeMapping, source: SourceCode) -> CodeMapping:
    """A map of before that holds, for the code as the list has it now."""
    return replace(before, source=replace(source, assigned=before.source.assigned), change=KEPT)


def proposed_map(what: Carried, proposal: CodeMapping) -> CodeMapping:
    """A proposal with what is said of the map of before; where concepts stand for its targets they are proposed."""
    change = f"{what.result}: {what.reason}" if what.reason else what.result
    before = what.before
    if before is None:
        return replace(proposal, change=change)
    if before.decided:
        change += f" (was {before.status}" + (f" by {before.set_by})" if before.set_by else ")")
    found = replace(proposal, comment=before.comment, reviewer=before.reviewer, change=change)
    if what.instead and before.status == APPROVED:
        first = what.instead[0].concept_id
        score = next((one.score for one in proposal.candidates if one.concept_id == first), 0.0)
        found = replace(found, targets=what.instead, score=score, link=LINKED, evidence="approved before")
    return found
