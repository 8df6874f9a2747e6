"""Terms of CODER++: distinct names with their concepts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, needs_extra
from medlink.language.text import normalise
from medlink.records import Name
from medlink.training.data.batches import chunked
from medlink.training.data.ragged import Ragged

Ids = NDArray[np.int64]
_PART = 20_000


class Terms:
    """Distinct terms with their concepts.

    Names with the same exact form (:func:`medlink.language.text.normalise`) are one term, whatever their language, with
    the concepts of all these names. Its text is the first spelling by code point. Terms are numbered by their form.
    Raises ConfigError if there are fewer than two concepts, or none has two terms.
    """

    def __init__(self, names: Iterable[Name]) -> None:
        self.names, self.digest, self._text, rows, columns = _columns(names)
        self.concepts = int(columns.max(initial=-1)) + 1
        # spellings of one form belong to a concept once
        rows, columns = np.divmod(np.unique(rows * self.concepts + columns), max(1, self.concepts))
        self._concepts = Ragged.group(rows, columns, len(self._text))
        self._members = Ragged.group(columns, rows, self.concepts)
        if self.concepts < 2:
            remedy = "train on a terminology of several concepts"
            raise ConfigError("the names belong to fewer than two concepts", remedy=remedy)
        if np.diff(self._members.offsets).max() < 2:
            raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")

    def __len__(self) -> int:
        return len(self._text)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _PART):
            yield from self._text[start : start + _PART].to_pylist()

    def concepts_of(self, terms: Ids) -> tuple[Ids, Ids]:
        """Return the concepts of n terms, each with the index of its term."""
        concepts, counts = self._concepts.gather(terms)
        return np.repeat(np.arange(len(terms)), counts), concepts.astype(np.int64)

    def positives(self, terms: Ids, count: int, rng: np.random.Generator) -> Ids:
        """Draw for each of n terms up to ``count`` others that share a concept with it, without replacement."""
        owner, concepts = self.concepts_of(terms)
        members, counts = self._members.gather(concepts)
        owner = np.repeat(owner, counts)
        is_other = members != terms[owner]
        # each once, though it may share several concepts
        owner, members = np.divmod(np.unique(owner[is_other] * len(self) + members[is_other]), len(self))
        order = np.lexsort((rng.random(len(owner)), owner))
        owner = owner[order]
        rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
        drawn: Ids = members[order[rank < count]]
        return drawn


def _columns(names: Iterable[Name]) -> tuple[int, str, Any, Ids, Ids]:
    """Number of names, their hash, the text of each term, and columns with the term and the concept of all pairs.

    Names are Arrow columns here: as Python objects each would take half a kilobyte.
    """
    with needs_extra("train", "training"):
        import pyarrow as arrow

    schema = arrow.schema([(name, arrow.large_string()) for name in ("concept", "text", "form")])
    rows = ([(n.concept_id, n.text, normalise(n.text)) for n in part] for part in chunked(names, _PART))
    tables = [arrow.table([*zip(*part, strict=True)], schema=schema) for part in rows]
    table = arrow.concat_tables([schema.empty_table(), *tables])
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
