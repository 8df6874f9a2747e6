"""What kind of thing a concept is: semantic types of the UMLS and tags of SNOMED CT as a dozen kinds."""

from __future__ import annotations

import csv
from functools import cache, lru_cache
from importlib import resources

FINDING = "finding"


@cache
def _kinds() -> dict[str, str]:
    """The kind of each semantic type.

    The kinds follow the semantic groups of the UMLS (McCray et al. 2001, table 2) and the semantic tags of SNOMED CT
    (Editorial Guide, "Semantic tag"); attributes of a patient that are measured have a kind of their own.
    """
    text = resources.files("medlink").joinpath("resources/linking/kinds.tsv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["semantic_type"].casefold(): row["kind"] for row in rows}


def kinds() -> frozenset[str]:
    """All kinds."""
    return frozenset(_kinds().values())


@lru_cache(maxsize=8192)
def kinds_of(semantic_types: tuple[str, ...]) -> frozenset[str]:
    """The kinds of some semantic types; a type that no kind is known of stands for itself.

    >>> sorted(kinds_of(("Finding", "Disease or Syndrome"))), sorted(kinds_of(("Laboratory Procedure", "Zebra")))
    (['finding'], ['Zebra', 'measurement'])
    """
    known = _kinds()
    return frozenset(known.get(one.casefold(), one) for one in semantic_types)
