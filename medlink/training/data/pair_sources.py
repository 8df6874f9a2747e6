"""The material of training pairs: names, relations and definitions as numbers, and the texts that they number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from medlink.training.data.ragged import Int32Array, Ragged
from medlink.training.data.relations import LANGUAGE, clause, relation_phrase, relation_words
from medlink.training.data.view import TrainingView

_READ = 50_000  # texts read at a time


class PairSources:
    """The parts of a knowledge base that pairs are made of, as integers, and their texts by number.

    A text that continues another begins with a blank. The numbers of names are their positions in the view. After the
    names come the names at the end of descriptions, definitions (from ``first_definition``), semantic types (from
    ``first_type``), clauses (from ``first_clause``), and ``something``.

    Attributes:
        names: positions of names among all names of the view, by concept; ``english_names`` are those in the language
            of descriptions.
        related: tails of the relations that have words, by concept; ``related_types`` holds the type of each relation.
        clauses: distinct clauses between the two names of a description; ``type_clauses`` is the clause of each
            relation type, -1 for none.
        type_texts: words of each semantic type, and ``type_forms`` the numbers of their forms, -1 for none.
        is_hierarchy: ``(types,)`` whether a type leads from a concept to a parent.
        defined: ``(definitions,)`` concept of each definition whose concept has a name; ``definition_positions`` is the
            position of each among all definitions.
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
        self.is_hierarchy = np.array([name in relation_words().hierarchy for name in view.types], dtype=np.bool_)
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
        self._fragments = [*self.type_texts, *self.clauses, relation_words().open]
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
        """Return the texts with these numbers."""
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
