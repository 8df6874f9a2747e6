"""The added part of an index: names that came after the main part was built.

It has the files of the main part, made from the later names alone. What it says of things of the main part stands in
for what the main part says: the entries of a name that got further ones, the types of a concept that got further ones,
the mean vector of a concept with further names. Nothing of the main part is written, encoded or indexed again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from medlink.index.arrays import Strings, save_array, save_groups
from medlink.index.concept_index import CONCEPTS, NEAR, NEAR_FILE, concept_vectors, embed, other_rows
from medlink.index.dense import DenseIndex, open_dense
from medlink.index.dictionary import NameDictionary
from medlink.index.joined import JoinedStrings, Order
from medlink.index.lexical import LexicalIndex
from medlink.index.names import EntryKey, NameTable, save_entries, save_norms, sorted_entries
from medlink.models import Encoder
from medlink.records import Name, SemanticType

_CHUNK = 4096


def build_added(
    folder: Path,
    out: Path,
    names: Iterable[Name],
    types: Iterable[SemanticType],
    encoder: Encoder,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Build the added part of an index from all names and semantic types that its main part does not hold.

    Args:
        folder: the saved index; its main part alone is read.
        out: an empty or new folder for the added part.
        names: names that came later, of concepts old and new.
        types: semantic types that came later; all of them for concepts that the main part does not have.
        encoder: the encoder of the main part.
        progress: called with names embedded so far and their total.

    Returns:
        What the manifest of the index says of the part: ``rows``, ``names`` and ``concepts`` that it brings, and the
        sizes of its files.
    """
    out.mkdir(parents=True, exist_ok=True)
    main = NameTable(folder)
    rows = _build_names(main, out, names, types)
    table = NameTable(folder, out)
    NameDictionary(folder, main).build_added(out, table, rows)
    new = np.arange(len(main), len(table))
    LexicalIndex(folder).build_added(out, table.norms.many(new))
    vectors = embed(encoder, table, new, progress)
    if DenseIndex(folder).kind == "hnsw":
        # rounded as those of the main part: names that are embedded alike stay so
        vectors = vectors.astype(np.float16).astype(np.float32)
    DenseIndex.build(out, vectors, DenseIndex.choose(len(new)))
    dense = open_dense(folder, out)
    entries = np.arange(main.entry_count, table.entry_count)
    concepts = np.unique(table.columns(entries)[0])
    concept, row = table.rows_of(concepts)
    means = concept_vectors(np.searchsorted(concepts, concept), row, dense.vectors, len(concepts), encoder.dimension)
    save_array(out, CONCEPTS, means)
    save_array(out, "concepts_replaced", concepts[concepts < len(main.concept_ids)])
    near = np.full((len(new), NEAR), -1, dtype=np.int32)
    for start in range(0, len(new), _CHUNK):
        found = other_rows(dense, new[start : start + _CHUNK], NEAR)
        near[start : start + _CHUNK, : found.shape[1]] = found
    save_array(out, NEAR_FILE, near)
    return {
        "rows": len(new),
        "names": len(entries),
        "concepts": len(table.concept_ids) - len(main.concept_ids),
        "files": {path.name: path.stat().st_size for path in sorted(out.iterdir())},
    }


def _build_names(main: NameTable, out: Path, names: Iterable[Name], types: Iterable[SemanticType]) -> list[int]:
    """Write the table of the added names; returns the rows that are new or have new entries."""
    entries = sorted_entries(names)
    new_ids = sorted({entry[1] for entry in entries if not _find(main.concept_ids, entry[1])[1]})
    number = {concept_id: len(main.concept_ids) + i for i, concept_id in enumerate(new_ids)}
    Strings.save(out, "concepts", new_ids)
    save_array(out, "concept_order", Order.between([_find(main.concept_ids, one)[0] for one in new_ids]))
    _save_types(main, out, types, number)
    number.update((entry[1], _find(main.concept_ids, entry[1])[0]) for entry in entries if entry[1] not in number)
    save_entries(out, entries, number, main.languages, main.sources)
    replaced: dict[int, list[int]] = {}
    added: list[list[int]] = []
    norms: list[str] = []
    places: list[int] = []
    for norm, group in groupby(entries, key=lambda entry: entry[0]):
        row, known = _find(main.norms, norm)
        there = main.numbers(row) if row < len(main) else (main.entry_count,)
        keys = [_key(main, row, n) for n in there] if known else []
        own = [there[0] + bisect_left(keys, entry) for entry in group]
        numbers = range(main.entry_count + len(places), main.entry_count + len(places) + len(own))
        places += own
        if known:
            # an added entry stands before the one of the main part whose number is its place
            merged = [*((n, 1, n) for n in there), *((place, 0, n) for place, n in zip(own, numbers, strict=True))]
            replaced[row] = [n for _, _, n in sorted(merged)]
        else:
            added.append(list(numbers))
            norms.append(norm)
    save_array(out, "entry_order", Order.between(places))
    save_norms(out, norms)
    save_array(out, "rows_replaced", np.array(list(replaced), dtype=np.int64))
    save_groups(out, "row_entries", [*replaced.values(), *added])
    return [*replaced, *range(len(main), len(main) + len(added))]


def _save_types(main: NameTable, out: Path, types: Iterable[SemanticType], new: dict[str, int]) -> None:
    """Write the semantic types of concepts that are new or got further ones."""
    given: dict[str, set[str]] = {concept_id: set() for concept_id in new}
    for semantic_type in types:
        given.setdefault(semantic_type.concept_id, set()).add(semantic_type.semantic_type)
    replaced: dict[int, set[str]] = {}
    for concept_id in sorted(given.keys() - new.keys()):
        concept, known = _find(main.concept_ids, concept_id)
        # a concept without a name in the index has no place for its types
        if known and given[concept_id].difference(main.concept_types(concept)):
            replaced[concept] = given[concept_id].union(main.concept_types(concept))
    groups = [*replaced.values(), *(given[concept_id] for concept_id in new)]
    labels = sorted(set().union(*groups).difference(main.semantic_types))
    code = {label: i for i, label in enumerate([*main.semantic_types, *labels])}
    Strings.save(out, "semantic_types", labels)
    save_array(out, "types_replaced", np.array(list(replaced), dtype=np.int64))
    save_groups(out, "concept_types", [[code[label] for label in sorted(group)] for group in groups])


def _find(strings: Strings | JoinedStrings, wanted: str) -> tuple[int, bool]:
    """Where a string stands in sorted ones, or would stand, and whether it is there."""
    place = bisect_left(strings, wanted)
    return place, place < len(strings) and strings[place] == wanted


def _key(names: NameTable, row: int, number: int) -> EntryKey:
    """An entry as it sorts."""
    entry = names.entry(row, number)
    concept_id = names.concept_ids[entry.concept]
    return names.norms[row], concept_id, entry.language, entry.text, entry.source, entry.preferred
