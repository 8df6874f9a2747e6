"""Relations in words: the middle of "[more generic] which [relation] [related]" (Remy et al. 2022, section 3.1).

Phrases and rules are in ``resources/relations/en.json``, each with its source. Descriptions are English, the language
of relation names in UMLS, SNOMED CT and the open ontologies, and of the paper's base models. A German or Spanish
relative clause would have to agree with the gender of a name, which no terminology states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES

LANGUAGE = "en"
_CODE = re.compile(r"(?:[A-Za-z]+[:_])?\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class RelationWords:
    template: str
    open: str
    hierarchy: frozenset[str]
    left_out: frozenset[str]
    fallback: str
    phrases: dict[str, str]
    subjects: re.Pattern[str]
    verbs: frozenset[str]
    rules: tuple[tuple[re.Pattern[str], str], ...]


@cache
def relation_words() -> RelationWords:
    """Read the file of phrases and rules for relations.

    >>> relation_words().open
    'something'
    """
    raw = {name: entry["value"] for name, entry in read_json(RESOURCES / "relations" / f"{LANGUAGE}.json").items()}
    sets = {name: frozenset(raw[name]) for name in ("hierarchy", "left_out", "verbs")}
    rules = tuple((re.compile(pattern), to) for pattern, to in raw["rules"])
    return RelationWords(**{**raw, **sets, "subjects": re.compile(raw["subjects"]), "rules": rules})


def relation_phrase(relation: str) -> str | None:
    """Return a relation type as the verb of a clause; ``None`` for a type that denies a relation, such as UMLS ``XR``.

    Types are those of a knowledge base: UMLS RELA or REL, names of SNOMED CT attributes, OBO types.
    """
    rules = relation_words()
    words = " ".join(_HUMP.sub(" ", relation).replace("_", " ").lower().split())
    if words in rules.left_out:
        return None
    if words in rules.phrases:
        return rules.phrases[words]
    if _CODE.fullmatch(relation) or not words:
        return rules.fallback
    words = rules.subjects.sub("", words)
    if words.partition(" ")[0] in rules.verbs:
        return words
    return next(pattern.sub(to, words) for pattern, to in rules.rules if pattern.match(words))


def clause(phrase: str) -> str:
    """Return the clause between the two names of a description, with a leading blank.

    >>> clause("is a kind of")
    ' which is a kind of'
    """
    return relation_words().template.format(generic="", relation=phrase, related="").rstrip()
