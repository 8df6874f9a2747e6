"""Link laboratory tests to tests only: of their component, specimen and property."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from medlink.language.text import normalise
from medlink.linking.profiles import kinds_of
from medlink.mapping.laboratory import is_full_name, is_ratio, may_be_ratio, traits
from medlink.mapping.laboratory_words import laboratory_words
from medlink.mapping.linkers import NAMED, lower
from medlink.records import AMBIGUOUS, LINKED, NIL, Candidate, Link

_TESTS = frozenset({"measurement", "procedure"})
"""Kinds of concepts that a laboratory test may mean, beside the types of concepts with a name of LOINC's form."""
_PER = re.compile(r"/(?=[^\W\d])(?![^\[]*\])")  # a name of a share or ratio; not a property in square brackets


def link_of_test(
    whole: Link, full: Sequence[Link], same_component: Callable[[str, str], bool] | None = None
) -> Link | None:
    """Return the likeliest link of a laboratory test, with concepts of tests alone: sodium in mmol/l is not a drug.

    ``None`` if the bundle has no names of LOINC's form. A candidate with such a name counts if a ``full`` name found
    it, because components are compared only then, or if it equals the ``whole`` description. A description without a
    unit leaves the property open: tests that differ only in it, as ``same_component`` tells of two names, are
    ambiguous. They share the score, in the order of the ``full`` names.
    """
    tests = [candidate for link in full for candidate in link.candidates if _is_test(candidate.name)]
    types = {kind for candidate in tests for kind in candidate.semantic_types}
    sources = {candidate.source for candidate in tests if not candidate.semantic_types}
    has_unit = same_component is None
    is_of_two = may_be_ratio(whole.mention) or any(is_ratio(normalise(link.mention)) for link in full)

    def fits(candidate: Candidate) -> bool:
        own = candidate.semantic_types
        return not types.isdisjoint(own) or not _TESTS.isdisjoint(kinds_of(own)) or candidate.source in sources

    def may_be(name: str) -> bool:
        return not _is_test(name) and (is_of_two or not is_ratio(normalise(name)))

    def is_share(name: str) -> bool:
        return has_unit and not (is_of_two or _is_test(name)) and _PER.search(name) is not None

    best: Link | None = None
    certain = dict[str, Candidate]()
    for link in (whole, *full) if tests else ():
        is_full = is_full_name(link.mention)
        kept = tuple(
            c
            for c in link.candidates
            if fits(c) and (c.route in NAMED or ((is_full or may_be(c.name)) and not is_share(c.name)))
        )
        status = link.status if kept[:1] == link.candidates[:1] else NIL
        if status == LINKED and _property(kept[0].name) == _property(link.mention) >= 0:
            certain.setdefault(kept[0].concept_id, kept[0])
        if best is None or (kept and (not best.candidates or kept[0].score > best.candidates[0].score)):
            best = replace(link, candidates=kept, status=status)
    if best is None or same_component is None or not best.candidates or best.candidates[0].concept_id not in certain:
        return best
    first = best.candidates[0]
    rivals = [one for one in certain.values() if _differ_in_property(one.name, first.name, same_component)]
    return _between(best, rivals) if len(rivals) > 1 else best


def lower_other_specimens(link: Link, full_names: Iterable[str]) -> Link:
    """Lower the tests of other specimens than those of the full names of a description that names its specimen.

    A specimen that no description names, such as *Specimen*, may be any.
    """
    own, unnamed = {_specimen(name) for name in full_names if _is_test(name)}, len(laboratory_words().specimens)
    others = set(range(unnamed)) - own if own else set()
    wrong = [one for one in link.candidates if _is_test(one.name) and _specimen(one.name) in others]
    return lower(link, wrong) if wrong else link


def _differ_in_property(one: str, other: str, same_component: Callable[[str, str], bool]) -> bool:
    """Return whether two names of tests are equal but for their property; true for equal names."""
    own, its = (traits(normalise(name))[1:] for name in (one, other))
    return own == its and same_component(one, other)


def _between(best: Link, rivals: Sequence[Candidate]) -> Link:
    share = round(max(one.score for one in rivals) / len(rivals), 6)
    ids = {one.concept_id for one in rivals}
    rest = (replace(c, score=min(c.score, share)) for c in best.candidates if c.concept_id not in ids)
    return replace(best, candidates=(*(replace(one, score=share) for one in rivals), *rest), status=AMBIGUOUS)


def _is_test(name: str) -> bool:
    return _property(name) >= 0


def _property(name: str) -> int:
    return _traits(name)[0]


def _specimen(name: str) -> int:
    return _traits(name)[1]


@lru_cache(1 << 14)
def _traits(name: str) -> tuple[int, int, int, int, int]:
    return traits(normalise(name))
