"""Build one part of an index: its names, their words, their embeddings, and what is near to what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from medlink.errors import ConfigError
from medlink.files.folders import remove
from medlink.files.json import json_text
from medlink.index.arrays import Array, ArrayWriter, save_array
from medlink.index.dictionary import NameDictionary
from medlink.index.family_match import FamilyMatcher
from medlink.index.knn_graph import nearest
from medlink.index.names import NameTable
from medlink.index.postings import Postings
from medlink.index.segment import FORMAT, MANIFEST, Part, places_among
from medlink.index.vectors import choose, vector_index
from medlink.index.word_overlap import NameWords
from medlink.language.lexicon.forms import Forms, shipped_forms
from medlink.models import Encoder, StaticEncoder
from medlink.processes import working_ahead
from medlink.records import Name, SemanticType

NEAR = 8
"""Nearest other names that are kept for every name."""
SHARD = 1 << 15
"""Names that are embedded at a time, and lost at most when a build is killed."""
_CHUNK = 4096
_MEANS = 1 << 13  # concepts whose names are added up at a time
Progress = Callable[[str, int, int], None]


def build_part(
    folder: Path,
    names: Iterable[Name],
    encoder: Encoder,
    *,
    semantic_types: Iterable[SemanticType] = (),
    kind: str | None = None,
    memory: int | None = None,
    threads: int = 1,
    shards: Path | None = None,
    progress: Progress | None = None,
    main: Part | None = None,
    forms: Forms | None = None,
    known: Sequence[Part] = (),
) -> Part:
    """Build a part into an empty or new folder.

    Args:
        folder: where it goes.
        names: names of all its concepts.
        encoder: what embeds them; each distinct name is embedded once.
        semantic_types: all semantic types of its concepts, for filters.
        kind: ``flat`` (exact), ``hnsw`` (a graph, for many names), ``ivf`` or ``ivfpq`` (cells, for very many); chosen
            by size when not given.
        memory: bytes that the vectors of all names may take, by which a kind is chosen as well.
        threads: threads that build the graph or the cells. One gives the same index every time. With more than one a
            static encoder embeds many names in a process of its own, while this one reads their words.
        shards: folder where the embeddings of many names wait while the part is built; it stays, so that a build that
            was killed goes on there. The caller removes it.
        progress: called with what is being done, how much of it is done, and how much there is.
        main: the part that the names came after. Concepts that it knows and that got further semantic types are taken
            in as well; the mean of a concept is that of its names in both.
        forms: of the lexicon by which names are read; by default those of ``main``, else those that ship.
        known: parts of another index of the same encoder, from which embeddings are taken.

    Raises:
        ConfigError: there is no name to index, the kind is unknown, or both a kind and its memory are named, or no
            kind takes as little memory.
    """
    if kind is not None:
        vector_index(kind)  # refused before the work
        if memory is not None:
            raise ConfigError("both a kind of index and its memory are named", remedy="leave out one of them")
    types = list(semantic_types)
    also: set[str] = set()
    if main is not None:
        typed = sorted({t.concept_id for t in types})
        also.update(compress(typed, places_among(typed, main.names.concept_ids) >= 0))
    table = NameTable.build(folder, names, types, also)
    if not len(table) and main is None:
        raise ConfigError("no names to index", remedy="load a source first, or widen languages=...")
    kind = kind or choose(len(table), encoder.dimension, memory)
    made = vector_index(kind)(encoder.dimension, threads=threads)
    # those of few names are quickly made again
    waiting = folder / "embedded" if shards is None or len(table) <= SHARD else shards
    embed = partial(embedded, table, encoder, waiting, known, dtype=made.embedding_type)
    # torch does not bear a fork; where names are known, few are new
    is_ahead = threads > 1 and len(table) > SHARD and isinstance(encoder, StaticEncoder) and not known
    with working_ahead(embed, wanted=is_ahead) as is_at_work:
        NameDictionary.build(folder, table)
        languages = [table.languages[code] for code in table.language[table.rows.ends[:-1]].tolist()]
        known_forms = main.words.forms if main is not None else forms or shipped_forms()
        words = NameWords.build(folder, table.norms, languages, known_forms, None if main is None else main.words)
        Postings.build(folder, words, len(table))
        FamilyMatcher.build(folder, words, len(table))
        while is_at_work(1.0):
            if progress:
                size = encoder.dimension * np.dtype(made.embedding_type).itemsize
                done = sum(path.stat().st_size for path in waiting.glob("*.shards")) // size
                progress("names embedded", done, len(table))
    vectors = embed(progress=progress)
    graph, near = (partial(progress, what) if progress else None for what in ("graph", "nearest names"))
    made.add(vectors, graph)
    made.save(folder)
    nearby = nearest(vectors, NEAR, progress=near)[0] if made.keeps_near else np.zeros((len(table), 0))
    save_array(folder, "near", nearby.astype(np.int32))
    _save_means(folder, table, vectors, main)
    if main is not None:
        save_array(folder, "row_places", places_among(table.norms, main.names.norms))
        save_array(folder, "concept_places", places_among(table.concept_ids, main.names.concept_ids))
    del vectors, made
    remove(folder / "embedded")
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "metric": "inner_product",
        **({} if memory is None else {"memory": memory}),
        "bytes_per_name": vector_index(kind).bytes_per_name(encoder.dimension),
        "dimension": encoder.dimension,
        "encoder": encoder.fingerprint,
        "later": main is not None,
        "rows": len(table),
        "names": len(table.concept),
        "concepts": len(table.concept_ids),
        "files": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != MANIFEST},
    }
    (folder / MANIFEST).write_text(json_text(manifest), "utf-8")
    return Part(folder)


def embedded(
    table: NameTable,
    encoder: Encoder,
    folder: Path,
    known: Sequence[Part] = (),
    progress: Progress | None = None,
    dtype: DTypeLike = np.float32,
) -> Array:
    """Embeddings ``(rows, dimension)`` of names, memory-mapped, each as it is written in its first entry.

    They go into a file, a shard at a time: a build that is killed leaves it, and the next one of the same names with
    the same encoder continues after the last whole shard.

    Args:
        table: the names.
        encoder: what embeds them.
        folder: where the file is kept; what is there of other names, or of another encoder, is removed.
        known: older parts, of the same encoder. Embeddings of names that one writes in the same way are taken from it;
            where it keeps 16 bits for a weight, rounded to these.
        progress: called with what is being done, how many of the other names are done, and how many there are.
        dtype: of the file.
    """
    path = folder / f"{_hash(table, encoder, known, dtype)}.shards"
    for other in folder.glob("*.shards"):
        if other != path:
            remove(other)
    folder.mkdir(parents=True, exist_ok=True)
    same = [same_rows(table, part.names) for part in known]
    size = encoder.dimension * np.dtype(dtype).itemsize
    done = path.stat().st_size // size // SHARD * SHARD if path.exists() else 0
    left = np.all([rows < 0 for rows in same], axis=0) if same else np.ones(len(table), bool)
    embedded_now = int(np.count_nonzero(left[:done]))
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.truncate(done * size)
        file.seek(done * size)
        for start in range(done, len(table), SHARD):
            rows = np.arange(start, min(start + SHARD, len(table)))
            vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
            for part, others in zip(known[::-1], same[::-1], strict=True):  # the first that has a name is asked
                found = np.flatnonzero(others[rows] >= 0)
                vectors[found] = part.vectors.vectors(others[rows[found]])
            new = np.flatnonzero(left[rows])
            if len(new):
                vectors[new] = encoder.encode(table.texts.many(table.rows.ends[rows[new]]))
            file.write(vectors.astype(dtype, copy=False).data)
            file.flush()
            os.fsync(file.fileno())
            if progress and len(new):
                embedded_now += len(new)
                progress("names embedded", embedded_now, int(np.count_nonzero(left)))
    if not len(table):
        return np.zeros((0, encoder.dimension), dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=(len(table), encoder.dimension)).view(np.ndarray)


def _hash(table: NameTable, encoder: Encoder, known: Sequence[Part], dtype: DTypeLike) -> str:
    """Hash of all that embeddings depend on."""
    digest = blake2b(f"{encoder.fingerprint} {np.dtype(dtype).str} {len(table)}".encode(), digest_size=8)
    for part in known:
        # a file of an index is named by what it holds
        digest.update(f" {part.folder.resolve().name}".encode())
    for start in range(0, len(table), SHARD):
        rows = np.arange(start, min(start + SHARD, len(table)))
        digest.update("\0".join(table.texts.many(table.rows.ends[rows])).encode())
    return digest.hexdigest()


def same_rows(table: NameTable, other: NameTable) -> NDArray[np.int64]:
    """The row of another table ``(rows,)`` whose name is written as that of each row of one, -1 where there is none.

    Both are sorted by exact form, so that each is read once, from its beginning to its end.
    """
    found = np.full(len(table), -1, dtype=np.int64)
    others = _written(other)
    there = next(others, None)
    for row, norm, text in _written(table):
        while there is not None and there[1] < norm:
            there = next(others, None)
        if there is not None and there[1:] == (norm, text):
            found[row] = there[0]
    return found


def _written(table: NameTable) -> Iterator[tuple[int, str, str]]:
    for start in range(0, len(table), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(table)))
        yield from zip(rows.tolist(), table.norms.many(rows), table.texts.many(table.rows.ends[rows]), strict=True)


def _save_means(folder: Path, table: NameTable, vectors: Array, main: Part | None) -> None:
    """Write the unit mean of the embeddings ``(rows, d)`` of each concept's names, 16 bits for each weight.

    A concept has its names of both parts, what both have once.
    """
    from scipy.sparse import csr_matrix

    count = len(table.concept_ids)
    concept, row = table.rows_of(np.arange(count))
    older = older_row = np.zeros(0, np.int64)
    if main is not None:
        older, older_row = _older(table, main, concept, row)
    with ArrayWriter(folder, "concept_vectors", np.float16, vectors.shape[1]) as writer:
        for start in range(0, count, _MEANS):
            stop = min(start + _MEANS, count)
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
    rows = places_among(table.norms, main.names.norms)
    concepts = places_among(table.concept_ids, main.names.concept_ids)
    known = np.flatnonzero(concepts >= 0)
    older, older_row = main.names.rows_of(concepts[known])
    older = known[np.searchsorted(concepts[known], older)]
    both = set(zip(concept.tolist(), rows[row].tolist(), strict=True))
    once = [pair not in both for pair in zip(older.tolist(), older_row.tolist(), strict=True)]
    return older[np.array(once, bool)], older_row[np.array(once, bool)]
