"""The material of training pairs: names, definitions and relations in words, as numbers, and their texts.

Descriptions are English, the language of relation names in UMLS, SNOMED CT and the open ontologies, and of the paper's
base models. A German or Spanish relative clause would have to agree with the gender of a name, which no terminology
states.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.training.data.ragged import Int32Array, Ragged
from medlink.training.data.view import TrainingView

LANGUAGE = "en"
_READ = 50_000  # texts read at a time
_CODE = re.compile(r"(?:[A-Za-z]+[:_])?\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def relation_words() -> dict[str, Any]:
    """Read the phrases and rules for relations; the file states their sources."""
    return {name: entry["value"] for name, entry in read_json(RESOURCES / "relations" / f"{LANGUAGE}.json").items()}


def relation_phrase(relation: str) -> str | None:
    """Return a relation type as the verb of a clause; ``None`` for a type that denies a relation, such as UMLS ``XR``.

    Types are those of a knowledge base: UMLS RELA or REL, names of SNOMED CT attributes, OBO types.
    """
    rules = relation_words()
    words = " ".join(_HUMP.sub(" ", relation).replace("_", " ").lower().split())
    if words in rules["left_out"]:
        return None
    if words in rules["phrases"]:
        return str(rules["phrases"][words])
    if _CODE.fullmatch(relation) or not words:
        return str(rules["fallback"])
    words = re.sub(rules["subjects"], "", words)
    if words.partition(" ")[0] in rules["verbs"]:
        return words
    return next(re.sub(pattern, to, words) for pattern, to in rules["rules"] if re.match(pattern, words))


def clause(phrase: str) -> str:
    """Return the clause between the two names of a description, with a leading blank.

    >>> clause("is a kind of")
    ' which is a kind of'
    """
    return str(relation_words()["template"]).format(generic="", relation=phrase, related="").rstrip()


class PairSources:
    """The parts of a knowledge base that pairs are made of, as integers, and their texts by number.

    The numbers of names are their positions in the view. After the names come the names at the end of descriptions,
    definitions (from ``first_definition``), semantic types (from ``first_type``), clauses (from ``first_clause``), and
    ``something``. A text that continues another begins with a blank.

    Attributes:
        names: positions of names in the view, by concept; ``english_names`` are those in the language of descriptions.
        related: tails of the relations that have words, by concept; ``related_types`` holds the type of each relation.
        clauses: distinct clauses between the two names of a description; ``type_clauses`` is the clause of each
            relation type, -1 for none.
        type_texts: words of each semantic type, and ``type_forms`` the numbers of their forms, -1 for none.
        is_hierarchy: ``(types,)`` whether a type leads from a concept to a parent.
        defined: concept of each definition whose concept has a name; ``definition_positions`` is the position of each
            among all definitions.
        related_concepts: concepts with a name and a relation.
        with_synonyms: concepts with names of two forms.
        shared_forms: numbers of the forms that a concept shares with another, by concept.
        digest: SHA-256 of the view and of all texts.
    """

    def __init__(self, view: TrainingView) -> None:
        self.view = view
        english = np.array([not tag or tag.partition("-")[0] == LANGUAGE for tag in view.languages], dtype=np.bool_)
        self.names = Ragged(view.names.offsets, np.arange(len(view.names.values), dtype=np.int32))
        self.english_names = self.names.where(english[view.name_languages])
        phrases = [relation_phrase(name) for name in view.types]
        self.clauses = tuple(dict.fromkeys(clause(phrase) for phrase in phrases if phrase is not None))
        numbers = [-1 if phrase is None else self.clauses.index(clause(phrase)) for phrase in phrases]
        self.type_clauses = np.array(numbers, dtype=np.int32)
        self.type_texts = [text.replace("_", " ").lower() for text in view.semantic_type_texts]
        self.type_forms = view.form_numbers(self.type_texts)
        self.is_hierarchy = np.array([name in relation_words()["hierarchy"] for name in view.types], dtype=np.bool_)
        concepts = np.arange(view.concepts, dtype=np.int32)
        named = view.names.sizes(concepts) > 0
        has_english_name = self.english_names.sizes(concepts) > 0
        usable = (self.type_clauses[view.relation_types] >= 0) & has_english_name[view.relations.values]
        self.related, self.related_types = view.relations.where(usable), view.relation_types[usable]
        self.related_concepts = concepts[named & (self.related.sizes(concepts) > 0)]
        owners = view.definitions.owners()
        self.definition_positions = np.flatnonzero(named[owners]).astype(np.int32)
        self.defined = owners[self.definition_positions]
        # each form of a concept once, ordered by form and concept
        count = max(1, view.concepts)
        form_and_owner = np.unique(view.name_forms.astype(np.int64) * count + view.names.owners())
        forms, owners = (part.astype(np.int32) for part in np.divmod(form_and_owner, count))
        numbers, counts = np.unique(forms, return_counts=True)
        common = np.isin(forms, numbers[counts > 1])
        self.shared_forms = Ragged.group(owners[common], forms[common], view.concepts)
        self.with_synonyms = np.flatnonzero(np.bincount(owners, minlength=view.concepts) > 1).astype(np.int32)
        rows = view.names.values
        self._related = np.unique(self.english_names.gather(np.unique(self.related.values))[0])
        self._rows = np.concatenate([rows, rows[self._related]])
        self._definition_rows = view.definitions.values[self.definition_positions]
        self._fragments: list[str] = [*self.type_texts, *self.clauses, relation_words()["open"]]
        self.first_definition = len(self._rows)
        self.first_type = self.first_definition + len(self._definition_rows)
        self.first_clause = self.first_type + len(self.type_texts)
        self.something = self.first_clause + len(self.clauses)
        self.digest = hashlib.sha256(f"{view.digest} {json.dumps(self._fragments)}".encode()).hexdigest()

    def __len__(self) -> int:
        return self.something + 1

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _READ):
            yield from self.take(np.arange(start, min(start + _READ, len(self))))

    def continuation(self, names: Int32Array) -> NDArray[np.int64]:
        """Return the numbers that English names have at the end of a description."""
        return len(self.view.names.values) + np.searchsorted(self._related, names)

    def take(self, numbers: NDArray[np.int64]) -> list[str]:
        names = self.view.name_texts(self._rows[numbers[numbers < self.first_definition]])
        is_definition = (numbers >= self.first_definition) & (numbers < self.first_type)
        definitions = self.view.definition_texts(self._definition_rows[numbers[is_definition] - self.first_definition])
        first_related = len(self.view.names.values)

        def text(number: int) -> str:
            if number >= self.first_type:
                return self._fragments[number - self.first_type]
            if number >= self.first_definition:
                return definitions[int(self._definition_rows[number - self.first_definition])]
            return " " * (number >= first_related) + names[int(self._rows[number])]

        return [text(number) for number in numbers.tolist()]
