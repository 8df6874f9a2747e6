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
_PART = 20_000


class Terms:
    """Distinct terms with their concepts.

    Names of one exact form (:func:`medlink.language.text.normalise`) are one term, whatever their case, accents or
    language; it belongs to all the concepts that any of them belongs to. Its text is the first of its spellings by code
    point.

    Raises:
        ConfigError: there are fewer than two concepts, or none has two terms.
    """

    def __init__(self, names: Iterable[Name]) -> None:
        from scipy.sparse import csr_matrix

        self.names, self.digest, self._text, rows, columns = _columns(names)
        self.concepts = int(columns.max(initial=-1)) + 1
        # a row for each term, and its transpose, a row for each concept; columns ascend in both
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


def _columns(names: Iterable[Name]) -> tuple[int, str, Any, Ids, Ids]:
    """How many names there are, their hash, the text of each term, and for each form of a concept both numbers.

    Names are columns of bytes here: as objects of Python each would take half a kilobyte.
    """
    with needs_extra("train", "training"):
        import pyarrow as arrow

    schema = arrow.schema([(name, arrow.large_string()) for name in ("concept", "text", "form")])
    tables = [schema.empty_table()]
    for part in in_parts(names, _PART):
        values = ([n.concept_id for n in part], [n.text for n in part], [normalise(n.text) for n in part])
        tables.append(arrow.table(values, schema=schema))
    given = arrow.concat_tables(tables)
    del tables
    given = given.sort_by([("concept", "ascending"), ("text", "ascending")])
    given = given.filter(arrow.array(_first(given["concept"]) | _first(given["text"])))
    count, digest = len(given), hashlib.sha256()
    for batch in given.to_batches(_PART):
        pairs = zip(batch["concept"].to_pylist(), batch["text"].to_pylist(), strict=True)
        digest.update("".join(f"{concept}\t{text}\n" for concept, text in pairs).encode())
    given = given.filter(arrow.compute.field("form") != "")
    numbers = np.cumsum(_first(given["concept"])) - 1
    given = given.set_column(0, "concept", arrow.array(numbers))
    given = given.sort_by([("form", "ascending"), ("text", "ascending")])
    first = _first(given["form"])
    text = given["text"].combine_chunks().take(arrow.array(np.flatnonzero(first)))
    return count, digest.hexdigest(), text, np.cumsum(first) - 1, given["concept"].to_numpy()


def _first(column: Any) -> NDArray[np.bool_]:
    from pyarrow import compute

    values = column.combine_chunks()
    first = np.ones(len(values), np.bool_)
    first[1:] = compute.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return first


def _row(matrix: Any, row: int) -> Ids:
    columns: Ids = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
    return columns
