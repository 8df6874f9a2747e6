"""Texts and their target vectors, which a teacher makes: columns on disk, drawn in batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import atomic_folder
from medlink.records import Definition, Name
from medlink.training.data.batches import Batch, chunked

_ENTRIES, _DIGEST = "entries.arrow", "digest"
_TYPES = ("large_string", "int32", "float64", "float32")  # of the columns, as Arrow names them
_ENTRIES_PER_WRITE = 16_384
_DELETE = "delete it and run the phase again"


class ConceptTexts(NamedTuple):
    """The distinct names and definitions of one concept, in the order given."""

    concept_id: str
    names: tuple[str, ...]
    definitions: tuple[str, ...] = ()


class TextEntry(NamedTuple):
    """A text, the number of its target vector, its share in this vector, and its weight in the loss.

    The vector is the sum of ``share`` times the teacher's embedding over its texts.
    """

    text: str
    row: int
    share: float = 1.0
    weight: float = 1.0


def group_by_concept(names: Iterable[Name], *definitions: Iterable[Definition]) -> Iterator[ConceptTexts]:
    """Join names and definitions by concept; raises ConfigError unless all streams are in order of concepts.

    >>> next(group_by_concept([Name("A", "cold")], [Definition("A", "An infection."), Definition("B", "A loss.")]))
    ConceptTexts(concept_id='A', names=('cold',), definitions=('An infection.',))
    """
    streams: list[Iterable[Name | Definition]] = [names, *definitions]
    previous: str | None = None
    concept = attrgetter("concept_id")
    for concept_id, records in groupby(merge(*streams, key=concept), key=concept):
        if previous is not None and concept_id < previous:
            message = f"names or definitions are not in order of their concepts: {concept_id} after {previous}"
            raise ConfigError(message, remedy="sort each by concept_id")
        previous = concept_id
        texts: dict[str, bool] = {}  # names are before definitions
        for record in records:
            if record.text.strip():
                texts.setdefault(record.text, isinstance(record, Name))
        if texts:
            yield ConceptTexts(concept_id, tuple(t for t in texts if texts[t]), tuple(t for t in texts if not texts[t]))


class TextStore:
    """Entries in a folder that :meth:`build` filled: texts stay on disk, and memory holds 16 bytes for each entry.

    Raises EncoderError if the folder is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        import pyarrow as arrow

        self.path = folder
        try:
            table = arrow.ipc.open_file(arrow.memory_map(str(folder / _ENTRIES))).read_all()
            self.digest = (folder / _DIGEST).read_text("utf-8")
            self._texts = table["text"]
            self._rows, self._shares, self._weights = (table[name].to_numpy() for name in TextEntry._fields[1:])
        except (OSError, ValueError, LookupError, arrow.ArrowException) as error:
            raise EncoderError(f"the texts cannot be read: {error}", path=folder, remedy=_DELETE) from error
        self.rows = int(self._rows.max()) + 1

    @classmethod
    def build(cls, folder: Path, entries: Iterable[TextEntry]) -> TextStore:
        """Write entries to a folder, atomically; their row numbers begin at 0 and have no gaps.

        Raises ConfigError if there are no entries or the folder cannot be written, EncoderError if the disk is full.
        """
        import pyarrow as arrow

        digest, schema = hashlib.sha256(), arrow.schema(list(zip(TextEntry._fields, _TYPES, strict=True)))
        with atomic_folder(folder, "the texts") as draft:
            try:
                with arrow.ipc.new_file(str(draft / _ENTRIES), schema) as file:
                    is_empty = True
                    for part in chunked(entries, _ENTRIES_PER_WRITE):
                        columns = dict(zip(TextEntry._fields, zip(*part, strict=True), strict=True))
                        file.write(arrow.record_batch(columns, schema=schema))
                        # a weight is a cosine of the filter, whose last digits differ between machines
                        digest.update("".join(json.dumps(list(entry[:3])) for entry in part).encode())
                        is_empty = False
                (draft / _DIGEST).write_text(digest.hexdigest(), "utf-8")
            except OSError as error:
                remedy = "make room, or name a folder on another disk, and run again with resume=..."
                raise EncoderError(f"the texts cannot be written: {error}", path=folder, remedy=remedy) from error
            if is_empty:
                raise ConfigError("no texts to learn from", remedy="name a knowledge base that has names")
        return cls(folder)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        for part in self._texts.chunks:
            yield from part.to_pylist()

    def targets(self, entries: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the rows and weights of entries."""
        return self._rows[entries], self._weights[entries]

    def iter_teacher_texts(
        self, size: int
    ) -> Iterator[tuple[list[str], NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]]:
        """Yield the texts for the teacher, each once, shortest first, ``size`` at a time, with their m shares in
        target vectors: index of the text, row of the vector, and share, ``(m,)`` each.
        """
        from pyarrow import compute, table

        columns = {"length": compute.utf8_length(self._texts), "text": self._texts, "row": self._rows}
        keys = [(name, "ascending") for name in columns]
        order = compute.sort_indices(table(columns), sort_keys=keys).to_numpy()
        order = order[self._shares[order] > 0]
        by_text = groupby(order.tolist(), key=lambda entry: self._texts[entry].as_py())
        for part in chunked(((text, list(entries)) for text, entries in by_text), size):
            text_index = np.repeat(np.arange(len(part)), [len(entries) for _, entries in part])
            terms = np.concatenate([entries for _, entries in part])
            yield [text for text, _ in part], text_index, self._rows[terms], self._shares[terms]

    def parts(self, size: int) -> Iterator[tuple[list[str], NDArray[np.int32]]]:
        """Yield the texts and rows of all entries, ``size`` at a time."""
        for start, texts in zip(range(0, len(self), size), chunked(self, size), strict=True):
            yield texts, self._rows[start : start + size]


class TargetBatches:
    """Batches of texts with target vector and weight as labels ``(n, d + 1)``; an epoch has each entry once.

    Raises EncoderError if the ``.npy`` file ``targets`` is missing or damaged, or has another number of rows.
    """

    def __init__(self, store: TextStore, targets: Path, *, batch_size: int, seed: int) -> None:
        self.texts, self._path, self._size, self._seed = store, targets, batch_size, seed
        vectors = read_targets(targets)
        if len(vectors) != store.rows:
            remedy = "delete both and run the phase again"
            raise EncoderError(f"{len(vectors)} targets for {store.rows} rows", path=targets, remedy=remedy)
        self.digest = hashlib.sha256(json.dumps([store.digest, batch_size, seed]).encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """Return the number of batches; the last may be smaller."""
        return -(-len(self.texts) // self._size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield batches from number ``start`` on."""
        order = np.arange(len(self.texts), dtype=np.int32)
        np.random.default_rng([self._seed, epoch]).shuffle(order)
        vectors = read_targets(self._path)
        for at in range(start * self._size, len(order), self._size):
            entries = order[at : at + self._size]
            rows, weights = self.texts.targets(entries)
            yield Batch((entries,), np.column_stack([vectors[rows], weights]).astype(np.float32))


def read_targets(path: Path) -> NDArray[np.float32]:
    """Map a file of vectors ``(rows, d)``; raises EncoderError if it is missing, damaged or holds something else."""
    try:
        vectors: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if vectors.ndim != 2 or vectors.dtype != np.float32:
            raise ValueError(f"{vectors.shape} {vectors.dtype}, rows of float32 expected")
    except (OSError, ValueError, EOFError) as error:
        raise EncoderError(f"the targets cannot be read: {error}", path=path, remedy=_DELETE) from error
    return vectors
