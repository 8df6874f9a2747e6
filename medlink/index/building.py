"""Build one segment of an index: its names, their words, their embeddings, and the nearest names of each name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import compress
from operator import eq
from pathlib import Path
from typing import NamedTuple

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
from medlink.index.segment import FORMAT, MANIFEST, Segment, find_positions
from medlink.index.vectors import choose, vector_index
from medlink.index.word_overlap import NameFeatures
from medlink.language.lexicon.forms import LexiconForms, shipped_forms
from medlink.models import Encoder, StaticEncoder
from medlink.processes import background_process
from medlink.records import Name, SemanticType

NEAR = 8
"""Nearest other names stored for each name."""
SHARD = 1 << 15
"""Names embedded at a time; a killed build loses at most this many."""
_MEAN_BATCH = 1 << 13  # concepts whose mean vectors are computed at a time
Progress = Callable[[str, int, int], None]
"""Called with the name of a step, the number done, and the total."""


class BuildOptions(NamedTuple):
    """Storage of the vectors of a segment, and resources of its build.

    Attributes:
        kind: ``flat`` (exact), ``hnsw`` (a graph) or ``ivfpq`` (cells); by default chosen by size and memory.
        memory: bytes that the vectors may take.
        threads: threads that build the graph or the cells; a single thread gives the same index every time. With
            several, a static encoder embeds many names in a second process.
        progress: called during the build.
    """

    kind: str | None = None
    memory: int | None = None
    threads: int = 1
    progress: Progress | None = None


def build_segment(
    folder: Path, names: Iterable[Name], encoder: Encoder, *, semantic_types: Iterable[SemanticType] = (),
    options: BuildOptions = BuildOptions(),  # noqa: B008  # immutable
    shards: Path | None = None, main: Segment | None = None, forms: LexiconForms | None = None,
    known: Sequence[Segment] = (),
) -> Segment:  # fmt: skip
    """Build a segment of all ``names`` of its concepts, and all their semantic types, into an empty or new folder.

    Args:
        shards: folder for the embeddings of many names, which the caller removes. After a kill, the next build resumes
            from it.
        main: the main segment, if this segment is for later names. It then includes concepts of the main segment with
            new semantic types, and mean vectors cover the names of both segments.
        forms: lexicon forms for the analysis of names: by default those of ``main``, or the shipped forms.
        known: segments of another index with the same encoder, to reuse their embeddings.

    Raises:
        ConfigError: there is no name to index, the kind is unknown, a kind and its memory are both given, or no kind
            fits into the memory.
    """
    if options.kind is not None and options.memory is not None:
        raise ConfigError("both a kind of index and its memory are named", remedy="leave out one of them")
    types = list(semantic_types)
    also: set[str] = set()
    if main is not None:
        typed = sorted({t.concept_id for t in types})
        also.update(compress(typed, find_positions(typed, main.names.concept_ids) >= 0))
    table = NameTable.build(folder, names, types, also)
    if not len(table) and main is None:
        raise ConfigError("no names to index", remedy="load a source first, or widen languages=...")
    kind = options.kind or choose(len(table), encoder.dimension, options.memory)
    index = vector_index(kind)(encoder.dimension, threads=options.threads)
    progress = options.progress
    # the embeddings of few names are quickly computed again
    cache = folder / "embedded" if shards is None or len(table) <= SHARD else shards
    embed = partial(embed_names, table, encoder, cache, known, dtype=index.embedding_type)
    # torch does not survive a fork; with known segments few names are new
    ahead = options.threads > 1 and len(table) > SHARD and isinstance(encoder, StaticEncoder) and not known
    with background_process(embed, wanted=ahead) as is_at_work:
        _build_lookups(folder, table, main, forms)
        while is_at_work(1.0):
            if progress:
                size = encoder.dimension * np.dtype(index.embedding_type).itemsize
                done = sum(path.stat().st_size for path in cache.glob("*.shards")) // size
                progress("names embedded", done, len(table))
    vectors = embed(progress=progress)
    graph, nearby = (partial(progress, step) if progress else None for step in ("graph", "nearest names"))
    index.add(vectors, graph)
    index.save(folder)
    near = nearest(vectors, NEAR, progress=nearby)[0] if index.keeps_near else np.zeros((len(table), 0))
    save_array(folder, "near", near.astype(np.int32))
    _save_means(folder, table, vectors, main)
    if main is not None:
        save_array(folder, "row_places", find_positions(table.norms, main.names.norms))
        save_array(folder, "concept_places", find_positions(table.concept_ids, main.names.concept_ids))
    del vectors, index
    remove(folder / "embedded")
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "metric": "inner_product",
        **({} if options.memory is None else {"memory": options.memory}),
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
    return Segment(folder)


def _build_lookups(folder: Path, table: NameTable, main: Segment | None, forms: LexiconForms | None) -> None:
    languages = [table.languages[code] for code in table.language[table.rows.offsets[:-1]].tolist()]
    forms = main.words.forms if main is not None else forms or shipped_forms()
    NameDictionary.build(folder, table, forms)
    words = NameFeatures.build(folder, table.norms, languages, forms, None if main is None else main.words)
    Postings.build(folder, words, len(table))
    FamilyMatcher.build(folder, words, len(table))


def embed_names(
    table: NameTable, encoder: Encoder, folder: Path, known: Sequence[Segment] = (), progress: Progress | None = None,
    dtype: DTypeLike = np.float32,
) -> Array:  # fmt: skip
    """Embed each row's first spelling: ``(rows, dimension)``, memory-mapped.

    Writes the embeddings to a file, a shard at a time. After a kill, the next call for the same names and encoder
    resumes after the last whole shard.

    Args:
        folder: folder of the file; files of other names or encoders in it are deleted.
        known: older segments of the same encoder. A name with the same spelling gets its stored embedding, at the
            stored precision.
        progress: called with the step, the number of new names done, and their total.
        dtype: type of the numbers in the file.
    """
    digest = blake2b(f"{encoder.fingerprint} {np.dtype(dtype).str} {len(table)}".encode(), digest_size=8)
    for segment in known:
        digest.update(f" {segment.folder.resolve().name}".encode())  # a hash of its content
    first = table.rows.offsets[:-1]
    for start in range(0, len(table), SHARD):
        digest.update("\0".join(table.texts.take(first[start : start + SHARD])).encode())
    path = folder / f"{digest.hexdigest()}.shards"
    for stale in folder.glob("*.shards"):
        if stale != path:
            remove(stale)
    folder.mkdir(parents=True, exist_ok=True)
    same = [same_rows(table, segment) for segment in known]
    size = encoder.dimension * np.dtype(dtype).itemsize
    done = path.stat().st_size // size // SHARD * SHARD if path.exists() else 0
    is_new = np.all([rows < 0 for rows in same], axis=0) if same else np.ones(len(table), bool)
    count = int(np.count_nonzero(is_new[:done]))
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.truncate(done * size)
        file.seek(done * size)
        for start in range(done, len(table), SHARD):
            rows = np.arange(start, min(start + SHARD, len(table)))
            vectors = np.empty((len(rows), encoder.dimension), dtype=np.float32)
            for segment, others in zip(known[::-1], same[::-1], strict=True):  # the first segment writes last
                shared = np.flatnonzero(others[rows] >= 0)
                vectors[shared] = segment.vectors.vectors(others[rows[shared]])
            new = np.flatnonzero(is_new[rows])
            if len(new):
                vectors[new] = encoder.encode(table.texts.take(first[rows[new]]))
            file.write(vectors.astype(dtype, copy=False).data)
            file.flush()
            os.fsync(file.fileno())
            if progress and len(new):
                count += len(new)
                progress("names embedded", count, int(np.count_nonzero(is_new)))
    if not len(table):
        return np.zeros((0, encoder.dimension), dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=(len(table), encoder.dimension)).view(np.ndarray)


def same_rows(table: NameTable, segment: Segment) -> NDArray[np.int64]:
    """Find for each row ``(rows,)`` the row of a segment with the same spelling, or -1."""
    matches, reference = np.full(len(table), -1, dtype=np.int64), segment.names
    for start in range(0, len(table), SHARD):
        rows = np.arange(start, min(start + SHARD, len(table)))
        found = segment.dictionary.exact_rows(table.norms.take(rows))
        own, others = rows[found >= 0], found[found >= 0]
        texts = table.texts.take(table.rows.offsets[own]), reference.texts.take(reference.rows.offsets[others])
        same = np.fromiter(map(eq, *texts), bool, len(own))
        matches[own[same]] = others[same]
    return matches


def _save_means(folder: Path, table: NameTable, vectors: Array, main: Segment | None) -> None:
    """Write the unit mean of the embeddings ``(rows, d)`` of each concept's names, in float16.

    The names of both segments count; a name in both counts once.
    """
    from scipy.sparse import csr_matrix

    count = len(table.concept_ids)
    concept, row = table.rows_of(np.arange(count))
    older = older_row = np.zeros(0, np.int64)
    if main is not None:
        older, older_row = _older(table, main, concept, row)
    with ArrayWriter(folder, "concept_vectors", np.float16, vectors.shape[1]) as writer:
        for start in range(0, count, _MEAN_BATCH):
            stop = min(start + _MEAN_BATCH, count)
            own, others = (slice(*np.searchsorted(owners, [start, stop])) for owners in (concept, older))
            batch = vectors[row[own]].astype(np.float32, copy=False)
            if main is not None:
                batch = np.concatenate([batch, main.vectors.vectors(older_row[others])])
            owner = np.concatenate([concept[own], older[others]])
            # a sparse product adds in a fixed order
            order = np.argsort(owner, kind="stable")
            ends = np.searchsorted(owner[order], np.arange(start, stop + 1))
            sums = csr_matrix((np.ones(len(order), np.float32), order, ends), (stop - start, len(order))) @ batch
            writer.append(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))


def _older(table: NameTable, main: Segment, concept: Array, row: Array) -> tuple[Array, Array]:
    """Concepts of this segment with the rows of their names in the main segment, without those in ``row``."""
    rows = find_positions(table.norms, main.names.norms)
    concepts = find_positions(table.concept_ids, main.names.concept_ids)
    known = np.flatnonzero(concepts >= 0)
    older, older_row = main.names.rows_of(concepts[known])
    older = known[np.searchsorted(concepts[known], older)]
    both = set(zip(concept.tolist(), rows[row].tolist(), strict=True))
    new = np.array([pair not in both for pair in zip(older.tolist(), older_row.tolist(), strict=True)], bool)
    return older[new], older_row[new]
