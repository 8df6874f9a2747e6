"""The means of concepts: of the embeddings of all names of each, in whatever part of an index they stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medlink.index.arrays import Array, ArrayWriter
from medlink.index.keys import keys_among
from medlink.index.names import NameTable

if TYPE_CHECKING:
    from medlink.index.part import Part

_TOGETHER = 1 << 13  # concepts whose names are added up at a time


def save_means(folder: Path, table: NameTable, vectors: Array, main: Part | None = None) -> None:
    """Write the unit mean of the embeddings of each concept's names, 16 bits for each weight.

    Args:
        folder: where it goes.
        table: the names.
        vectors: ``(rows, d)`` their embeddings.
        main: the part that these names came after: a concept has its names of both, what both have once.
    """
    from scipy.sparse import csr_matrix

    count = len(table.concept_ids)
    concept, row = table.rows_of(np.arange(count))
    older = older_row = np.zeros(0, np.int64)
    if main is not None:
        older, older_row = _older(table, main, concept, row)
    with ArrayWriter(folder, "concept_vectors", np.float16, vectors.shape[1]) as writer:
        for start in range(0, count, _TOGETHER):
            stop = min(start + _TOGETHER, count)
            own, others = (slice(*np.searchsorted(owners, [start, stop])) for owners in (concept, older))
            found = vectors[row[own]].astype(np.float32, copy=False)
            if main is not None:
                found = np.concatenate([found, main.vectors.vectors(older_row[others])])
            owner = np.concatenate([concept[own], older[others]])
            # added up one after the other
            order = np.argsort(owner, kind="stable")
            ends = np.searchsorted(owner[order], np.arange(start, stop + 1))
            sums = csr_matrix((np.ones(len(order), np.float32), order, ends), (stop - start, len(order))) @ found
            writer.append(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))


def _older(table: NameTable, main: Part, concept: Array, row: Array) -> tuple[Array, Array]:
    """Concepts, and the rows of their names in the main part that are no names of theirs here."""
    keys, concept_keys = (
        keys_among(table.norms, main.names.norms),
        keys_among(table.concept_ids, main.names.concept_ids),
    )
    older, older_row = main.names.rows_of(concept_keys[concept_keys % 1 == 0].astype(np.int64))
    older = np.searchsorted(concept_keys, older)
    both = set(zip(concept.tolist(), keys[row].tolist(), strict=True))
    once = [pair not in both for pair in zip(older.tolist(), older_row.tolist(), strict=True)]
    return older[np.array(once, bool)], older_row[np.array(once, bool)]
