"""Names as CODER++ sees them: distinct terms, the concepts of each, and which terms share one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, needs_extra
from medlink.language.text import normalise
from medlink.records import Name
from medlink.training.data.batches import in_parts

Ids = NDArray[np.int64]
_PART = 100_000


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
    >>> terms.texts(np.arange(3)), [terms.concepts_of(i).tolist() for i in range(3)]
    (['Cold', 'coryza', 'low temperature'], [[0, 1], [1], [0]])
    """

    def __init__(self, names: Iterable[Name]) -> None:
        with needs_extra("train", "training"):
            import pyarrow as arrow  # type: ignore[import-untyped]  # ships no types
        from scipy.sparse import csr_matrix

        # as columns of bytes: objects of Python would take half a kilobyte for each name
        schema = arrow.schema([(name, arrow.large_string()) for name in ("concept", "text", "form")])
        tables = [schema.empty_table()]
        for part in in_parts(names, _PART):
            columns = ([n.concept_id for n in part], [n.text for n in part], [normalise(n.text) for n in part])
            tables.append(arrow.table(columns, schema=schema))
        given = arrow.concat_tables(tables).group_by(schema.names).aggregate([])
        del tables
        given = given.sort_by([("concept", "ascending"), ("text", "ascending")])
        self.names, digest = len(given), hashlib.sha256()
        for batch in given.to_batches(_PART):
            pairs = zip(batch["concept"].to_pylist(), batch["text"].to_pylist(), strict=True)
            digest.update("".join(f"{concept}\t{text}\n" for concept, text in pairs).encode())
        self.digest = digest.hexdigest()
        given = given.filter(arrow.compute.field("form") != "")
        given = given.set_column(0, "concept", _numbers(given["concept"]))
        given = given.sort_by([("form", "ascending"), ("text", "ascending")])
        columns, rows = given["concept"].to_numpy(), _numbers(given["form"]).to_numpy()
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        self._text = given["text"].combine_chunks().take(arrow.array(first))
        self.concepts = int(columns.max(initial=-1)) + 1
        del given
        arrow.default_memory_pool().release_unused()
        # a row for each term, and its transpose, a row for each concept; columns ascend in both
        shape = (len(first), self.concepts)
        self._concepts = csr_matrix((np.ones(len(rows), np.bool_), (rows, columns)), shape=shape)
        self._members = self._concepts.T.tocsr()
        if self.concepts < 2:
            remedy = "train on a terminology of several concepts"
            raise ConfigError("the names belong to fewer than two concepts", remedy=remedy)
        if np.diff(self._members.indptr).max() < 2:
            raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")

    def __len__(self) -> int:
        return len(self._text)

    def texts(self, terms: Ids) -> list[str]:
        """The texts of terms."""
        found: list[str] = self._text.take(terms).to_pylist()
        return found

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
        shared: NDArray[np.bool_] = (belongs @ belongs.T).toarray()
        return shared


def _numbers(column: Any) -> Any:
    """The values of a sorted column as numbers that count on with each new one."""
    return column.combine_chunks().dictionary_encode().indices


def _row(matrix: Any, row: int) -> Ids:
    columns: Ids = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
    return columns
