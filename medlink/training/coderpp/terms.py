"""Terms of CODER++: distinct names with their concepts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, needs_extra
from medlink.language.text import normalise
from medlink.records import Name
from medlink.training.data.batches import chunked

Ids = NDArray[np.int64]
_PART = 20_000


class Terms:
    """Distinct terms with their concepts.

    Names of one exact form (:func:`medlink.language.text.normalise`) are one term, in any languages, with the concepts
    of all these names. Its text is the first spelling by code point.

    Raises:
        ConfigError: there are fewer than two concepts, or none has two terms.
    """

    def __init__(self, names: Iterable[Name]) -> None:
        from scipy.sparse import csr_matrix

        self.names, self.digest, self._text, rows, columns = _columns(names)
        self.concepts = int(columns.max(initial=-1)) + 1
        # one row for each term, and the transpose; columns ascend in both
        shape = (len(self._text), self.concepts)
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
        texts: list[str] = self._text.take(terms).to_pylist()
        return texts

    def concepts_of(self, term: int) -> Ids:
        """Return the numbers of the concepts of a term, ascending."""
        return _row(self._concepts, term)

    def members_of(self, concept: int) -> Ids:
        """Return the terms of a concept, ascending."""
        return _row(self._members, concept)

    def positives(self, term: int, count: int, rng: np.random.Generator) -> Ids:
        """Draw up to ``count`` other terms that share a concept with a term, without replacement."""
        by_concept = [self.members_of(int(concept)) for concept in self.concepts_of(term)]
        members = np.unique(np.concatenate(by_concept)) if len(by_concept) > 1 else by_concept[0]
        others = members[members != term]
        return others if len(others) <= count else rng.choice(others, count, replace=False, shuffle=False)

    def share_concept(self, terms: Ids) -> NDArray[np.bool_]:
        """Return whether each two of n terms share a concept: ``(n, n)``, true on the diagonal."""
        concepts = self._concepts[terms]
        shared: NDArray[np.bool_] = (concepts @ concepts.T).toarray()
        return shared


def _columns(names: Iterable[Name]) -> tuple[int, str, Any, Ids, Ids]:
    """Number of names, their hash, the text of each term, and the columns term and concept of all pairs of the two.

    Names are Arrow columns here: as Python objects each would take half a kilobyte.
    """
    with needs_extra("train", "training"):
        import pyarrow as arrow

    schema = arrow.schema([(name, arrow.large_string()) for name in ("concept", "text", "form")])
    tables = [schema.empty_table()]
    for part in chunked(names, _PART):
        values = ([n.concept_id for n in part], [n.text for n in part], [normalise(n.text) for n in part])
        tables.append(arrow.table(values, schema=schema))
    table = arrow.concat_tables(tables)
    del tables
    table = table.sort_by([("concept", "ascending"), ("text", "ascending")])
    table = table.filter(arrow.array(_differs_from_previous(table["concept"]) | _differs_from_previous(table["text"])))
    count, digest = len(table), hashlib.sha256()
    for batch in table.to_batches(_PART):
        pairs = zip(batch["concept"].to_pylist(), batch["text"].to_pylist(), strict=True)
        digest.update("".join(f"{concept}\t{text}\n" for concept, text in pairs).encode())
    table = table.filter(arrow.compute.field("form") != "")
    numbers = np.cumsum(_differs_from_previous(table["concept"])) - 1
    table = table.set_column(0, "concept", arrow.array(numbers))
    table = table.sort_by([("form", "ascending"), ("text", "ascending")])
    first = _differs_from_previous(table["form"])
    text = table["text"].combine_chunks().take(arrow.array(np.flatnonzero(first)))
    return count, digest.hexdigest(), text, np.cumsum(first) - 1, table["concept"].to_numpy()


def _differs_from_previous(column: Any) -> NDArray[np.bool_]:
    from pyarrow import compute

    values = column.combine_chunks()
    first = np.ones(len(values), np.bool_)
    first[1:] = compute.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return first


def _row(matrix: Any, row: int) -> Ids:
    columns: Ids = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
    return columns
