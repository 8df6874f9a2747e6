"""Names as CODER++ sees them: distinct terms, the concepts of each, and which terms share one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

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
        from scipy.sparse import csr_matrix

        given = sorted({(name.concept_id, name.text) for name in names})
        pairs = sorted((form, concept, text) for concept, text in given if (form := normalise(text)))
        self.text: list[str] = []
        forms: dict[str, int] = {}
        for form, same in groupby(pairs, key=itemgetter(0)):
            forms[form] = len(forms)
            self.text.append(min(text for _, _, text in same))
        self.concept_ids = sorted({concept for _, concept, _ in pairs})
        number = {concept: i for i, concept in enumerate(self.concept_ids)}
        links = sorted({(forms[form], number[concept]) for form, concept, _ in pairs})
        rows, columns = zip(*links, strict=True) if links else ((), ())
        self.names = len(given)
        shape = (len(self.text), len(self.concept_ids))
        # a row for each term, and its transpose, a row for each concept; columns ascend in both
        self._concepts = csr_matrix((np.ones(len(links), np.int32), (rows, columns)), shape=shape)
        self._members = self._concepts.T.tocsr()
        self.digest = hashlib.sha256("".join(f"{c}\t{t}\n" for c, t in given).encode()).hexdigest()
        if len(self.concept_ids) < 2:
            remedy = "train on a terminology of several concepts"
            raise ConfigError("the names belong to fewer than two concepts", remedy=remedy)
        if np.diff(self._members.indptr).max() < 2:
            raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")

    def __len__(self) -> int:
        return len(self.text)

    def concepts_of(self, term: int) -> Ids:
        """Numbers of the concepts of a term, ascending."""
        return _row(self._concepts, term)

    def members_of(self, concept: int) -> Ids:
        """Terms of a concept, ascending."""
        return _row(self._members, concept)

    def positives(self, term: int, count: int, rng: np.random.Generator) -> Ids:
        """Up to ``count`` other terms that share a concept with a term, drawn without replacement."""
        found = [self.members_of(int(concept)) for concept in self.concepts_of(term)]
        members = np.unique(np.concatenate(found)) if len(found) > 1 else found[0]
        others = members[members != term]
        return others if len(others) <= count else rng.choice(others, count, replace=False, shuffle=False)

    def same(self, terms: Ids) -> NDArray[np.bool_]:
        """Whether each two of n terms share a concept: ``(n, n)``, true on the diagonal."""
        belongs = self._concepts[terms]
        shared: NDArray[np.bool_] = (belongs @ belongs.T).toarray() > 0
        return shared


def _row(matrix: Any, row: int) -> Ids:
    columns: Ids = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
    return columns
