"""Kinds of semantic types: which types name findings, substances, procedures and so on."""

from __future__ import annotations

import csv
from functools import cache, lru_cache
from typing import NamedTuple

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.text import normalise

DISORDER, DRUG, ANALYTE = "disorder", "drug", "analyte"
"""Subkinds: disorders among the findings; drugs, and what laboratories measure, among the substances."""
FINDING, SUBSTANCE, PROCEDURE, MEASUREMENT = "finding", "substance", "procedure", "measurement"
_NAMED_BY_WORDS = frozenset([FINDING, SUBSTANCE, PROCEDURE, MEASUREMENT])
_ENDINGS = ("", "s", "es", "n", "en", "e")  # of plurals
_LINKS = frozenset(["preposition", "article"])  # behind them, a type has no head: "Krankheiten der Haut"


class Kind(NamedTuple):
    kind: str
    subkind: str


@cache
def _table() -> dict[str, Kind]:
    """The kind of each semantic type; a leading hyphen marks a word that also ends compounds.

    The kinds follow the semantic groups of the UMLS (McCray et al. 2001, table 2) and the semantic tags of SNOMED CT
    (Editorial Guide, "Semantic tag"); attributes of a patient that are measured have a kind of their own. The last rows
    are words of tables of one's own, and the systems whose codes are all of one kind.
    """
    text = (RESOURCES / "linking" / "kinds.tsv").read_text("utf-8")
    table = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["semantic_type"].casefold(): Kind(row["kind"], row["subkind"]) for row in table}


def find_kind(name: str) -> Kind | None:
    """Return the kind of a semantic type that is a row of the table as a whole."""
    return _table().get(name.casefold()) or _table().get(f"-{name.casefold()}")


def kinds() -> frozenset[str]:
    return frozenset(row.kind for row in _table().values())


@lru_cache(maxsize=8192)
def all_kinds_of(semantic_types: tuple[str, ...], system: str = "") -> frozenset[str]:
    """Return the kinds and subkinds of semantic types of any words, else of a code system; empty if all are unknown.

    >>> sorted(all_kinds_of(("Enfermedad genética",))), sorted(all_kinds_of(("Zebra",), "ATC"))
    (['disorder', 'finding'], ['drug', 'substance'])
    """
    by_type = filter(None, (find_kind(name) or _read(name) for name in semantic_types))
    found = [*by_type] or filter(None, [find_kind(system)])
    return frozenset(part for row in found for part in row if part)


def _read(name: str) -> Kind | None:
    """The kind of the head of a semantic type: its last known word before a preposition, else the first after one."""
    words = normalise(name).split()
    end = next((at for at, word in enumerate(words) if at and word in _links()), len(words))
    found = map(_word_kind, (*reversed(words[:end]), *words[end:]))
    return next(filter(None, found), None)


@cache
def _links() -> frozenset[str]:
    table = rows(SHIPPED / "function_words.tsv", "word", "kind")
    return frozenset(normalise(row["word"]) for row in table if row["kind"] in _LINKS)


@cache
def _words() -> tuple[dict[str, Kind], dict[str, Kind]]:
    """The kinds of words, and of the ends of compounds, the longest first."""
    named = [(name, row) for name, row in _table().items() if row.kind in _NAMED_BY_WORDS]
    words = {normalise(name): row for name, row in named if " " not in normalise(name)}
    ends = {normalise(name): row for name, row in named if name.startswith("-")}
    return words, dict(sorted(ends.items(), key=lambda end: -len(end[0])))


def _word_kind(word: str) -> Kind | None:
    words, ends = _words()
    singular = [word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending)]
    whole = (words[one] for one in singular if one in words)
    return next(whole, None) or next((row for end, row in ends.items() for one in singular if one.endswith(end)), None)
