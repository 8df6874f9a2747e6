"""Wider concepts: that of a residual class (*Asthma, unspecified*, *o.n.A.*, *SAI*), and the nearest certain parent."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.kb import KnowledgeBase
from medlink.language.tags import base
from medlink.records import Candidate

BROADER = "broader"
"""Route of a candidate that is a parent of candidates."""
_STEPS = 2  # from the first candidate to its parent
_EDGES = " ,;:-–/(["
_EMPTY = re.compile(r"[(\[]\s*[)\]]|\s*,(?=\s*,)|\s+(?=,)")


def class_above(description: str, language: str | None) -> str:
    """Return a description without the marks of a residual class, ``""`` if it has none; no language reads all."""
    left, count = _marks(base(language or "")).subn(" ", description)
    left = " ".join(_EMPTY.sub("", left).split()).strip(_EDGES) if count else ""
    return left if any(map(str.isalpha, left)) else ""


@cache
def _marks(language: str) -> re.Pattern[str]:
    raw = read_json(RESOURCES / "mapping" / "residual.json")
    tags = [language] if language in raw["words"] else list(raw["words"])
    words = "|".join(pattern for tag in tags for pattern in raw["words"][tag])
    # an abbreviation alone, or at the beginning, is a name
    short = "|".join(sorted({re.escape(form) for tag in tags for form in raw["abbreviations"][tag]}, reverse=True))
    return re.compile(rf"(?<!\w)(?i:{words})(?!\w)|(?<=[ ,(\[])(?:{short})(?=[)\]]|[ ,;]|$)")


def nearest_parent(
    kb: KnowledgeBase, candidates: Sequence[Candidate], threshold: float, allowed: Collection[str] | None
) -> tuple[str, float] | None:
    """Return the nearest certain parent, with its score; ``None`` without one.

    A parent is the first candidate itself, or at most two steps above it. Its score is the sum of the scores of the
    candidates at or below it, minus the scores of the other candidates. A concept without parents counts only if it is
    a candidate, because it says too little.
    """
    inside, steps = defaultdict[str, float](float), dict[str, int]()
    named = {candidate.concept_id for candidate in candidates}
    for candidate in reversed(candidates):
        steps = {candidate.concept_id: 0, **dict(kb.ancestors(candidate.concept_id, _STEPS))}
        for concept_id in steps:
            inside[concept_id] += candidate.score
    whole = sum(candidate.score for candidate in candidates)
    for concept_id in sorted(steps, key=lambda one: (steps[one], -inside[one], one)):
        score = round(min(inside[concept_id], 1.0) - (whole - inside[concept_id]), 6)
        if (
            score >= threshold
            and (allowed is None or concept_id in allowed)
            and (concept_id in named or kb.parents(concept_id))
        ):
            return concept_id, score
    return None
