"""Names as CODER++ sees them: distinct terms, the concepts of each, and which terms share one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.text import normalise
from medlink.records import Name

Ids = NDArray[np.int64]


class Terms:
    """Distinct terms with their concepts.

    Names of one exact form (:func:`medlink.language.text.normalise`) are one term, whatever their case, accents or
    language; it belongs to all the concepts that any of them belongs to. Its text is the first of its spellings by code
    point.

    Args:
        names: names with their concepts.

    Raises:
        ConfigError: there are fewer than two concepts, or none has two terms.

    >>> terms = Terms([Name("A", "Cold"), Name("A", "low temperature"), Name("B", "cold"), Name("B", "coryza")])
    >>> terms.text, [terms.concepts_of(i).tolist() for i in range(3)]
    (['Cold', 'coryza', 'low temperature'], [[0, 1], [1], [0]])
    """

    def __init__(self, names: Iterable[Name]) -> None:
        given = sorted({(name.concept_id, name.text) for name in names})
        pairs = sorted((form, concept, text) for concept, text in given if (form := normalise(text)))
        forms: dict[str, int] = {}
        self.text: list[str] = []
        for form, _, text in pairs:
            if forms.setdefault(form, len(forms)) == len(self.text):
                self.text.append(text)
            elif text < self.text[-1]:
                self.text[-1] = text
        self.concept_ids = sorted({concept for _, concept, _ in pairs})
        number = {concept: i for i, concept in enumerate(self.concept_ids)}
        links = np.array(sorted({(forms[form], number[concept]) for form, concept, _ in pairs}), dtype=np.int64)
        links = links.reshape(-1, 2)
        self.names = len(given)
        self._concepts, self._concept_ends = links[:, 1], _ends(links[:, 0], len(self.text))
        by_concept = links[np.lexsort((links[:, 0], links[:, 1]))]
        self._members, self._member_ends = by_concept[:, 0], _ends(by_concept[:, 1], len(self.concept_ids))
        self.digest = hashlib.sha256("".join(f"{c}\t{t}\n" for c, t in given).encode()).hexdigest()
        if len(self.concept_ids) < 2:
            raise ConfigError(
                "the names belong to fewer than two concepts", remedy="train on a terminology of several concepts"
            )
        if np.diff(self._member_ends).max() < 2:
            raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")

    def __len__(self) -> int:
        return len(self.text)

    def concepts_of(self, term: int) -> Ids:
        """Numbers of the concepts that a term belongs to, ascending."""
        concepts: Ids = self._concepts[self._concept_ends[term] : self._concept_ends[term + 1]]
        return concepts

    def members_of(self, concept: int) -> Ids:
        """Terms of a concept, ascending."""
        members: Ids = self._members[self._member_ends[concept] : self._member_ends[concept + 1]]
        return members

    def positives(self, term: int, count: int, rng: np.random.Generator) -> Ids:
        """Up to ``count`` other terms that share a concept with a term, drawn without replacement."""
        concepts = self.concepts_of(term)
        found = self.members_of(int(concepts[0]))
        if len(concepts) > 1:
            found = np.unique(np.concatenate([self.members_of(int(concept)) for concept in concepts]))
        others = found[found != term]
        return others if len(others) <= count else rng.choice(others, count, replace=False, shuffle=False)

    def same(self, terms: Ids) -> NDArray[np.bool_]:
        """Whether each two of n terms share a concept: ``(n, n)``, true on the diagonal."""
        from scipy.sparse import csr_matrix

        lengths = self._concept_ends[terms + 1] - self._concept_ends[terms]
        starts = np.repeat(self._concept_ends[terms] - np.cumsum(lengths) + lengths, lengths)
        used, local = np.unique(self._concepts[starts + np.arange(len(starts))], return_inverse=True)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        belongs = csr_matrix((np.ones(len(local), np.int32), local, ends), shape=(len(terms), max(1, len(used))))
        shared = np.zeros((len(terms), len(terms)), dtype=np.bool_)
        shared[(belongs @ belongs.T).nonzero()] = True
        return shared


def _ends(rows: Ids, count: int) -> Ids:
    """Where the values of each of ``count`` rows begin and end, of rows in ascending order."""
    return np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
