"""One part of an index: names by form, by n-grams and by embedding, complete in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from medlink.bundles.parts import Checked, read_checked
from medlink.errors import BundleError, ConfigError
from medlink.files.folders import remove
from medlink.files.json import json_text
from medlink.index.arrays import REBUILD, open_array, save_array
from medlink.index.dictionary import NameDictionary
from medlink.index.embedded import SHARD, embedded, on_disk
from medlink.index.family_match import FamilyMatcher
from medlink.index.keys import Numbering, keys_among
from medlink.index.means import save_means
from medlink.index.names import NameTable
from medlink.index.postings import Postings
from medlink.index.said import SaidNames
from medlink.index.selfjoin import nearest
from medlink.index.vectors import choose, vector_index
from medlink.language.lexicon.forms import Forms, shipped_forms
from medlink.models import Encoder, StaticEncoder
from medlink.processes import working_ahead
from medlink.records import Name, SemanticType

FORMAT = 5
"""Version of the folder layout."""
NEAR = 8
"""Nearest other names that are kept for every name."""
MANIFEST = "index.json"
Progress = Callable[[str, int, int], None]


class _Manifest(Checked):
    kind: str
    memory: int | None = None
    bytes_per_name: int = 0
    dimension: Annotated[int, Field(ge=1)]
    encoder: str
    later: bool
    rows: Annotated[int, Field(ge=0)]
    names: Annotated[int, Field(ge=0)]
    concepts: Annotated[int, Field(ge=0)]
    files: dict[str, int]


class Part:
    """A saved part, opened by memory-mapping: nothing is parsed, and processes share its pages.

    One row per distinct name (after :func:`medlink.language.text.normalise`); a row belongs to one or more concepts.
    ``near (rows, NEAR)`` holds the nearest other names of each name by embedding, best first, -1 where there are fewer
    (it has no columns where the kind of index leaves them to a search);
    ``means (concepts, dimension)`` the unit mean of the embeddings of each concept's names. ``rows`` and ``concepts``
    give the keys of both (:mod:`medlink.index.keys`).

    Args:
        folder: a folder written by :meth:`build`.

    Raises:
        BundleError: a file is missing, of another size than when it was written, or of another format version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_checked(folder / MANIFEST, "index", FORMAT, REBUILD, _Manifest)
        for name, size in self.manifest["files"].items():
            found = (folder / name).stat().st_size if (folder / name).exists() else None
            if found != size:
                what = "is missing" if found is None else f"has {found} bytes, {size} were written"
                raise BundleError(f"a file of the index {what}", path=folder / name, remedy=REBUILD)
        self.names = NameTable(folder)
        self.dictionary = NameDictionary(folder, self.names)
        self.said = SaidNames(folder)
        self.postings = Postings(folder, self.said)
        self.families = FamilyMatcher(folder, self.said, len(self.names))
        self.vectors = vector_index(self.manifest["kind"]).load(folder)
        if not len(self.names) == len(self.vectors) == self.manifest["rows"]:
            raise BundleError(f"{len(self.names)} names but {len(self.vectors)} vectors", path=folder, remedy=REBUILD)
        if self.vectors.dimension != self.manifest["dimension"]:
            raise BundleError(f"vectors of {self.vectors.dimension} dimensions", path=folder, remedy=REBUILD)
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
            kind: ``flat`` (exact), ``hnsw`` (a graph, for many names), ``ivf`` or ``ivfpq`` (cells, for very many);
                chosen by size when not given.
            memory: bytes that the vectors of all names may take, by which a kind is chosen as well.
            threads: threads that build the graph or the cells. One gives the same index every time. With more than one
                a static encoder embeds many names in a process of its own, while this one reads their words.
            shards: folder where the embeddings of many names wait while the part is built; it stays, so that a build
                that was killed goes on there. The caller removes it.
            progress: called with what is being done, how much of it is done, and how much there is.
            main: the part that the names came after. Concepts that it knows and that got further semantic types are
                taken in as well; the mean of a concept is that of its names in both.
            forms: of the lexicon by which names are read; those that ship when left out, those of ``main`` where there
                is one.
            known: parts of another index of the same encoder, from which the embeddings of names are taken that they
                write in the same way.

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
            also.update(compress(typed, keys_among(typed, main.names.concept_ids) % 1 == 0))
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
            said = None if main is None else main.said
            known_forms = said.forms if said else forms or shipped_forms()
            words = SaidNames.build(folder, table.norms, languages, known_forms, said)
            Postings.build(folder, words, len(table))
            FamilyMatcher.build(folder, words, len(table))
            while is_at_work(1.0):
                if progress:
                    progress("names embedded", on_disk(waiting, encoder.dimension, made.embedding_type), len(table))
        vectors = embed(progress=progress)
        graph, near = (partial(progress, what) if progress else None for what in ("graph", "nearest names"))
        made.add(vectors, graph)
        made.save(folder)
        nearby = nearest(vectors, NEAR, progress=near)[0] if made.keeps_near else np.zeros((len(table), 0))
        save_array(folder, "near", nearby.astype(np.int32))
        save_means(folder, table, vectors, main)
        if main is not None:
            save_array(folder, "row_keys", keys_among(table.norms, main.names.norms))
            save_array(folder, "concept_keys", keys_among(table.concept_ids, main.names.concept_ids))
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
        return cls(folder)
