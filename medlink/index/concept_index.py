"""``ConceptIndex``: every name of a terminology by form, by n-grams and by embedding, in one folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.arrays import open_array, save_array
from medlink.index.dense import DenseIndex
from medlink.index.dictionary import NameDictionary
from medlink.index.lexical import LexicalIndex
from medlink.index.names import Filter, NameTable, Selection
from medlink.index.selfjoin import nearest
from medlink.models import Encoder
from medlink.records import Name, SemanticType

FORMAT = 2
"""Version of the folder layout."""
NEAR = 8
"""Nearest other names that are kept for every name."""
_MANIFEST = "index.json"
_CONCEPTS = "concept_vectors"
_NEAR = "near"
_CHUNK = 4096
_REBUILD = "build the index again with 'medlink index build'"


class ConceptIndex:
    """A saved index, opened by memory-mapping: nothing is parsed, and processes share its pages.

    One row per distinct name (after :func:`medlink.text.normalise`); a row belongs to one or more concepts. ``near
    (rows, NEAR)`` holds the nearest other names of each name by embedding, best first, -1 where there are fewer.

    Args:
        folder: a folder written by :meth:`build`.

    Raises:
        BundleError: a file is missing, of another size than when it was written, or of another format version.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self._read_manifest(self.folder)
        for name, size in self.manifest["files"].items():
            path = self.folder / name
            if not path.exists():
                raise BundleError("a file of the index is missing", path=path, remedy=_REBUILD)
            if path.stat().st_size != size:
                raise BundleError(
                    f"a file of the index has {path.stat().st_size} bytes, {size} were written",
                    path=path,
                    remedy=_REBUILD,
                )
        self.names = NameTable(self.folder)
        self.dictionary = NameDictionary(self.folder, self.names)
        self.lexical = LexicalIndex(self.folder)
        self.dense = DenseIndex(self.folder)
        if not len(self.names) == len(self.dense) == self.manifest["rows"]:
            raise BundleError(
                f"{len(self.names)} names but {len(self.dense)} vectors", path=self.folder, remedy=_REBUILD
            )
        self._concepts = open_array(self.folder, _CONCEPTS)
        self.near = open_array(self.folder, _NEAR)
        self._selections: dict[Filter, Selection | None] = {}

    def __reduce__(self) -> tuple[type[ConceptIndex], tuple[Path]]:
        # another process opens the files for itself and shares their pages
        return ConceptIndex, (self.folder.absolute(),)

    @staticmethod
    def _read_manifest(folder: Path) -> dict[str, Any]:
        path = folder / _MANIFEST
        try:
            manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
            version = manifest["format"]
        except FileNotFoundError:
            raise BundleError("no index here", path=folder, remedy=_REBUILD) from None
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"not the manifest of an index: {error}", path=path, remedy=_REBUILD) from error
        if version != FORMAT:
            raise BundleError(f"index of format {version}, this medlink reads {FORMAT}", path=path, remedy=_REBUILD)
        return manifest

    @classmethod
    def build(
        cls,
        folder: str | Path,
        names: Iterable[Name],
        encoder: Encoder,
        *,
        semantic_types: Iterable[SemanticType] = (),
        kind: str | None = None,
        threads: int = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> ConceptIndex:
        """Build an index into an empty or new folder.

        Args:
            folder: where it goes.
            names: names of all concepts.
            encoder: what embeds them; each distinct name is embedded once.
            semantic_types: semantic types of the concepts, for filters.
            kind: ``flat`` (exact) or ``hnsw`` (a graph, for many names); chosen by size when not given.
            threads: threads that build the graph. One gives the same graph every time.
            progress: called with names embedded so far and their total.

        Returns:
            The index, opened.

        Raises:
            ConfigError: there is no name to index, or the kind is unknown.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table = NameTable.build(folder, names, semantic_types)
        if not len(table):
            raise ConfigError("no names to index", remedy="load a source first, or widen --languages")
        NameDictionary.build(folder, table)
        LexicalIndex.build(folder, table)
        vectors = np.empty((len(table), encoder.dimension), dtype=np.float32)
        for start in range(0, len(table), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(table)))
            vectors[start : start + _CHUNK] = encoder.encode([table.surface(row) for row in rows])
            if progress:
                progress(rows.stop, len(table))
        kind = kind or DenseIndex.choose(len(table))
        DenseIndex.build(folder, vectors, kind, threads=threads)
        save_array(folder, _CONCEPTS, _concept_vectors(table, vectors))
        save_array(folder, _NEAR, nearest(vectors, NEAR)[0].astype(np.int32))
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "metric": "inner_product",
            "dimension": encoder.dimension,
            "encoder": encoder.fingerprint,
            "rows": len(table),
            "names": table.entry_count,
            "concepts": len(table.concept_ids),
            "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != _MANIFEST},
        }
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return cls(folder)

    def __len__(self) -> int:
        """Number of distinct names."""
        return len(self.names)

    def select(self, wanted: Filter) -> Selection | None:
        """Work out a filter once and keep it."""
        if wanted not in self._selections:
            self._selections[wanted] = self.names.select(wanted)
        return self._selections[wanted]

    def concept_cosines(
        self,
        rows: NDArray[np.int64],
        vectors: NDArray[np.float32],
        selection: Selection | None = None,
    ) -> NDArray[np.float32]:
        """Cosine of queries with the concepts of names; of a name with several concepts the best one counts.

        Args:
            rows: ``(p,)`` rows.
            vectors: ``(p, dimension)`` unit vectors, the query that each row is compared with.
            selection: names whose concepts count.

        Returns:
            ``(p,)`` cosines.
        """
        position, concept = self.names.concepts_of(rows, selection)
        means = self._concepts[concept].astype(np.float32)
        cosines = np.einsum("ij,ij->i", means, vectors[position])
        out = np.full(len(rows), -1, dtype=np.float32)
        np.maximum.at(out, position, cosines)
        return out

    def nearest(self, rows: NDArray[np.int64], k: int, selection: Selection | None = None) -> NDArray[np.int64]:
        """The nearest other names of names, by embedding.

        Args:
            rows: ``(n,)`` rows.
            k: rows wanted for each.
            selection: rows that may come back.

        Returns:
            ``(n, k)`` or fewer columns, best first, -1 where there are fewer: kept ones where they are enough, else
            searched for.
        """
        if selection is None and k <= NEAR:
            kept: NDArray[np.int64] = self.near[rows, :k].astype(np.int64)
            return kept
        found = self.dense.search(self.dense.vectors(rows), k + 1, selection)[0]
        itself_last = np.argsort(found == rows[:, None], axis=1, kind="stable")
        return np.take_along_axis(found, itself_last, axis=1)[:, :k]

    def search(
        self, vectors: NDArray[np.float32], k: int = 10, wanted: Filter | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Names by embedding.

        Args:
            vectors: ``(n, dimension)`` unit vectors.
            k: rows wanted for each.
            wanted: restricts languages, sources and semantic types inside the search.

        Returns:
            ``(n, k)`` row numbers (-1 where there are fewer) and ``(n, k)`` inner products, best first.
        """
        return self.dense.search(vectors, k, self.select(wanted or Filter()))


def _concept_vectors(table: NameTable, vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Unit mean of the embeddings of each concept's distinct names, ``(concepts, dimension)``."""
    position, concept = table.concepts_of(np.arange(len(table)))
    pairs = np.unique(np.stack([concept, position], axis=1), axis=0)
    sums = np.zeros((len(table.concept_ids), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(pairs), _CHUNK):
        part = pairs[start : start + _CHUNK]
        np.add.at(sums, part[:, 0], vectors[part[:, 1]])
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return sums.astype(np.float16)
