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
from medlink.index.dense import DenseIndex, JoinedDense, open_dense
from medlink.index.dictionary import NameDictionary
from medlink.index.joined import NONE, open_column
from medlink.index.lexical import LexicalIndex
from medlink.index.names import Filter, NameTable, Selection
from medlink.index.selfjoin import nearest
from medlink.models import Encoder
from medlink.records import Name, SemanticType

FORMAT = 2
"""Version of the folder layout."""
NEAR = 8
"""Nearest other names that are kept for every name."""
MANIFEST = "index.json"
CONCEPTS, NEAR_FILE = "concept_vectors", "near"
ADDED = "added"
"""Key of the manifest under which the added part stands, and the beginning of its folder's name."""
_CHUNK = 4096
_REBUILD = "build the index again with 'medlink index build'"


class ConceptIndex:
    """A saved index, opened by memory-mapping: nothing is parsed, and processes share its pages.

    One row per distinct name (after :func:`medlink.language.text.normalise`); a row belongs to one or more concepts.
    ``near (rows, NEAR)`` holds the nearest other names of each name by embedding, best first, -1 where there are fewer.

    Names that were added later (:func:`medlink.index.extend_bundle`) lie in a folder of their own beside the files of
    the main part, which stay as they are; both are seen as one.

    Args:
        folder: a folder written by :meth:`build`.

    Raises:
        BundleError: a file is missing, of another size than when it was written, or of another format version.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self._read_manifest(self.folder)
        self._check_files(self.folder, self.manifest["files"])
        added: Path | None = None
        if ADDED in self.manifest:
            added = self.folder / self.manifest[ADDED]["folder"]
            self._check_files(added, self.manifest[ADDED]["files"])
        self.names = NameTable(self.folder, added)
        self.dictionary = NameDictionary(self.folder, self.names, added)
        self.lexical = LexicalIndex(self.folder, added)
        self.dense = open_dense(self.folder, added)
        if not len(self.names) == len(self.dense) == self.manifest["rows"]:
            raise BundleError(
                f"{len(self.names)} names but {len(self.dense)} vectors", path=self.folder, remedy=_REBUILD
            )
        replaced = NONE if added is None else open_array(added, "concepts_replaced")
        self._concepts = open_column(self.folder, CONCEPTS, added, replaced)
        self.near = open_column(self.folder, NEAR_FILE, added)
        self._selections: dict[Filter, Selection | None] = {}

    def __reduce__(self) -> tuple[type[ConceptIndex], tuple[Path]]:
        # another process opens the files for itself and shares their pages
        return ConceptIndex, (self.folder.absolute(),)

    @staticmethod
    def _check_files(folder: Path, sizes: dict[str, int]) -> None:
        for name, size in sizes.items():
            path = folder / name
            if not path.exists():
                raise BundleError("a file of the index is missing", path=path, remedy=_REBUILD)
            if path.stat().st_size != size:
                raise BundleError(
                    f"a file of the index has {path.stat().st_size} bytes, {size} were written",
                    path=path,
                    remedy=_REBUILD,
                )

    @staticmethod
    def _read_manifest(folder: Path) -> dict[str, Any]:
        path = folder / MANIFEST
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
        LexicalIndex.build(folder, table.norms)
        vectors = embed(encoder, table, np.arange(len(table)), progress)
        kind = kind or DenseIndex.choose(len(table))
        DenseIndex.build(folder, vectors, kind, threads=threads)
        position, concept = table.concepts_of(np.arange(len(table)))
        pairs = np.unique(np.stack([concept, position], axis=1), axis=0)
        means = concept_vectors(
            pairs[:, 0], pairs[:, 1], vectors.__getitem__, len(table.concept_ids), encoder.dimension
        )
        save_array(folder, CONCEPTS, means)
        save_array(folder, NEAR_FILE, nearest(vectors, NEAR)[0].astype(np.int32))
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "metric": "inner_product",
            "dimension": encoder.dimension,
            "encoder": encoder.fingerprint,
            "rows": len(table),
            "names": table.entry_count,
            "concepts": len(table.concept_ids),
            "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != MANIFEST},
        }
        write_manifest(folder / MANIFEST, manifest)
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
            kept: NDArray[np.int64] = self.near[rows][:, :k].astype(np.int64)
            return kept
        return other_rows(self.dense, rows, k, selection)

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


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of an index."""
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def embed(
    encoder: Encoder, table: NameTable, rows: NDArray[np.int64], progress: Callable[[int, int], None] | None
) -> NDArray[np.float32]:
    """Embeddings ``(n, dimension)`` of names, given by row, as their first entry writes them."""
    vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK].tolist()
        vectors[start : start + _CHUNK] = encoder.encode([table.surface(row) for row in part])
        if progress:
            progress(start + len(part), len(rows))
    return vectors


def concept_vectors(
    concept: NDArray[np.int64],
    row: NDArray[np.int64],
    vectors: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    count: int,
    dimension: int,
) -> NDArray[np.float16]:
    """Unit mean of the embeddings of each concept's distinct names.

    Args:
        concept, row: ``(p,)`` pairs of a concept and a name of it, each once.
        vectors: gives the embeddings ``(n, dimension)`` of rows ``(n,)``.
        count: number of concepts.
        dimension: width of the embeddings.

    Returns:
        ``(count, dimension)``, zero where a concept has no name.

    >>> names = np.array([[1, 0], [0, 1]], dtype=np.float32)
    >>> means = concept_vectors(np.array([0, 0, 1]), np.array([0, 1, 1]), names.__getitem__, 2, 2)
    >>> np.rint(100 * means).tolist()
    [[71.0, 71.0], [0.0, 100.0]]
    """
    sums = np.zeros((count, dimension), dtype=np.float32)
    for start in range(0, len(row), _CHUNK):
        np.add.at(sums, concept[start : start + _CHUNK], vectors(row[start : start + _CHUNK]))
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return sums.astype(np.float16)


def other_rows(
    dense: DenseIndex | JoinedDense, rows: NDArray[np.int64], k: int, selection: Selection | None = None
) -> NDArray[np.int64]:
    """Up to k other rows ``(n, k)`` nearest to rows ``(n,)``, best first, -1 where there are fewer."""
    found = dense.search(dense.vectors(rows), k + 1, selection)[0]
    itself_last = np.argsort(found == rows[:, None], axis=1, kind="stable")
    return np.take_along_axis(found, itself_last, axis=1)[:, :k]
