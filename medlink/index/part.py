"""One part of an index: names by form, by n-grams and by embedding, complete in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.files.json import json_text, read_json
from medlink.index.arrays import Strings, open_array, save_array
from medlink.index.dictionary import NameDictionary
from medlink.index.keys import Numbering, keys_among
from medlink.index.lexical import LexicalIndex
from medlink.index.names import NameTable
from medlink.index.selfjoin import nearest
from medlink.index.vectors import choose, open_vectors, vector_index
from medlink.models import Encoder
from medlink.records import Name, SemanticType

FORMAT = 3
"""Version of the folder layout."""
NEAR = 8
"""Nearest other names that are kept for every name."""
MANIFEST = "index.json"
Progress = Callable[[int, int], None]
_CHUNK = 4096
_REBUILD = "build the index again with 'medlink index build'"


class Part:
    """A saved part, opened by memory-mapping: nothing is parsed, and processes share its pages.

    One row per distinct name (after :func:`medlink.language.text.normalise`); a row belongs to one or more concepts.
    ``near (rows, NEAR)`` holds the nearest other names of each name by embedding, best first, -1 where there are fewer;
    ``means (concepts, dimension)`` the unit mean of the embeddings of each concept's names. ``rows`` and ``concepts``
    give the keys of both (:mod:`medlink.index.keys`).

    Args:
        folder: a folder written by :meth:`build`.

    Raises:
        BundleError: a file is missing, of another size than when it was written, or of another format version.
    """

    def __init__(self, folder: Path) -> None:
        self.manifest = _read_manifest(folder)
        _check_files(folder, self.manifest["files"])
        self.names = NameTable(folder)
        self.dictionary = NameDictionary(folder, self.names)
        self.lexical = LexicalIndex(folder)
        self.vectors = open_vectors(folder, self.manifest["kind"])
        if not len(self.names) == len(self.vectors) == self.manifest["rows"]:
            raise BundleError(f"{len(self.names)} names but {len(self.vectors)} vectors", path=folder, remedy=_REBUILD)
        self.means, self.near = open_array(folder, "concept_vectors"), open_array(folder, "near")
        later = bool(self.manifest["later"])
        self.rows = Numbering(len(self.names), open_array(folder, "row_keys") if later else None)
        self.concepts = Numbering(len(self.names.concept_ids), open_array(folder, "concept_keys") if later else None)

    @classmethod
    def build(
        cls,
        folder: Path,
        names: Iterable[Name],
        encoder: Encoder,
        *,
        semantic_types: Iterable[SemanticType] = (),
        kind: str | None = None,
        threads: int = 1,
        progress: Progress | None = None,
        main: Part | None = None,
    ) -> Part:
        """Build a part into an empty or new folder; see :meth:`medlink.index.ConceptIndex.build`.

        Args:
            folder: where it goes.
            names: names of all its concepts.
            encoder: what embeds them; each distinct name is embedded once.
            semantic_types: all semantic types of its concepts.
            kind: kind of its vectors; chosen by size when not given.
            threads: threads that build the graph of ``hnsw``.
            progress: called with names embedded so far and their total.
            main: the part that the names came after. Concepts that it knows and that got further semantic types are
                taken in as well; the mean of a concept is that of its names in both.
        """
        if kind is not None:
            vector_index(kind)  # refused before the work
        types = list(semantic_types)
        also = {t.concept_id for t in types if main is not None and _has(main.names.concept_ids, t.concept_id)}
        table = NameTable.build(folder, names, types, also)
        if not len(table) and main is None:
            raise ConfigError("no names to index", remedy="load a source first, or widen --languages")
        NameDictionary.build(folder, table)
        LexicalIndex.build(folder, table.norms)
        vectors = np.empty((len(table), encoder.dimension), dtype=np.float32)
        for start in range(0, len(table), _CHUNK):
            stop = min(start + _CHUNK, len(table))
            vectors[start:stop] = encoder.encode([table.surface(row) for row in range(start, stop)])
            if progress:
                progress(stop, len(table))
        kind = kind or choose(len(table))
        index = vector_index(kind)(encoder.dimension, threads=threads)
        index.add(vectors)
        index.save(folder)
        save_array(folder, "near", nearest(vectors, NEAR)[0].astype(np.int32))
        concept, row = table.rows_of(np.arange(len(table.concept_ids)))
        sums = np.zeros((len(table.concept_ids), encoder.dimension), dtype=np.float32)
        _add_up(sums, concept, row, vectors.__getitem__)
        if main is not None:
            keys = keys_among(table.norms, main.names.norms)
            concept_keys = keys_among(table.concept_ids, main.names.concept_ids)
            save_array(folder, "row_keys", keys)
            save_array(folder, "concept_keys", concept_keys)
            known = np.flatnonzero(concept_keys % 1 == 0)
            older, older_row = main.names.rows_of(concept_keys[known].astype(np.int64))
            older = known[np.searchsorted(concept_keys[known], older)]
            # a name that both parts have counts once
            both = set(zip(concept.tolist(), keys[row].tolist(), strict=True))
            pairs = zip(older.tolist(), older_row.tolist(), strict=True)
            once = np.array([i for i, pair in enumerate(pairs) if pair not in both], dtype=np.int64)
            _add_up(sums, older[once], older_row[once], main.vectors.vectors)
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        save_array(folder, "concept_vectors", sums.astype(np.float16))
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "metric": "inner_product",
            "dimension": encoder.dimension,
            "encoder": encoder.fingerprint,
            "later": main is not None,
            "rows": len(table),
            "names": table.entry_count,
            "concepts": len(table.concept_ids),
            "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != MANIFEST},
        }
        (folder / MANIFEST).write_text(json_text(manifest), "utf-8")
        return cls(folder)


def _add_up(
    sums: NDArray[np.float32],
    concept: NDArray[np.int64],
    row: NDArray[np.int64],
    vectors: Callable[[NDArray[np.int64]], NDArray[np.float32]],
) -> None:
    """Add the embeddings of names ``row (p,)`` to the sums of their concepts ``concept (p,)``."""
    for start in range(0, len(row), _CHUNK):
        np.add.at(sums, concept[start : start + _CHUNK], vectors(row[start : start + _CHUNK]))


def _has(strings: Strings, wanted: str) -> bool:
    """Whether a string is among sorted ones."""
    return bool(keys_among([wanted], strings)[0] % 1 == 0)


def _check_files(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        path = folder / name
        if not path.exists():
            raise BundleError("a file of the index is missing", path=path, remedy=_REBUILD)
        if path.stat().st_size != size:
            raise BundleError(
                f"a file of the index has {path.stat().st_size} bytes, {size} were written", path=path, remedy=_REBUILD
            )


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = read_json(path)
        version = manifest["format"]
    except FileNotFoundError:
        raise BundleError("no index here", path=folder, remedy=_REBUILD) from None
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"not the manifest of an index: {error}", path=path, remedy=_REBUILD) from error
    if version != FORMAT:
        raise BundleError(f"index of format {version}, this medlink reads {FORMAT}", path=path, remedy=_REBUILD)
    return manifest
