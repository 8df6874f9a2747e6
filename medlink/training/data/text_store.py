"""Texts with the vectors they are to be embedded by: kept on disk, drawn in batches.

Three phases of BioLORD regress texts on vectors of a teacher: self-distillation, cross-lingual distillation and the
static student. What they differ in is which texts belong to which vector, and that is what an :class:`Entry` says.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import scratch_folder
from medlink.files.whole import put_in_place
from medlink.records import Definition, Name
from medlink.training.data.batches import Batch, in_parts

Entries = tuple[list[str], NDArray[np.int64], NDArray[np.float32]]
"""Texts, rows and weights of some entries."""
_FETCHED = 16_384
_ROOM = "make room, or name a folder on another disk, and run again with --resume"


@dataclass(frozen=True, slots=True)
class ConceptTexts:
    """The distinct names and definitions of one concept, in the order in which they were given."""

    concept_id: str
    names: tuple[str, ...]
    definitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A text and the number of its vector, ``row``.

    ``share`` is what the teacher's embedding of the text adds to the vector; ``weight`` is what its error counts.
    """

    text: str
    row: int
    share: float = 1.0
    weight: float = 1.0


def concept_texts(names: Iterable[Name], *definitions: Iterable[Definition]) -> Iterator[ConceptTexts]:
    """Join names and definitions by concept, one concept at a time; all streams are in ascending order of concepts.

    Raises:
        ConfigError: a stream is out of order.

    >>> stroke = [Name("B", "stroke"), Name("B", "apoplexy")]
    >>> for one in concept_texts([Name("A", "cold"), *stroke], [Definition("B", "A sudden loss of function.")]):
    ...     print(one.concept_id, one.names, one.definitions)
    A ('cold',) ()
    B ('stroke', 'apoplexy') ('A sudden loss of function.',)
    """
    streams: list[Iterable[Name | Definition]] = [names, *definitions]
    seen: str | None = None
    concept = attrgetter("concept_id")
    for concept_id, records in groupby(merge(*streams, key=concept), key=concept):
        if seen is not None and concept_id < seen:
            message = f"names or definitions are not in order of their concepts: {concept_id} after {seen}"
            raise ConfigError(message, remedy="sort each by concept_id")
        seen = concept_id
        given = list(records)
        texts = dict.fromkeys(r.text for r in given if isinstance(r, Name) and r.text.strip())
        about = dict.fromkeys(r.text for r in given if isinstance(r, Definition) and r.text.strip())
        if texts or about:
            yield ConceptTexts(concept_id, tuple(texts), tuple(text for text in about if text not in texts))


class TextStore:
    """Entries in a file that :meth:`build` wrote, read by number: memory does not grow with them.

    Raises:
        EncoderError: the file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as connection:
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        try:
            self.entries, self.rows, self.digest = int(meta["entries"]), int(meta["rows"]), str(meta["digest"])
        except (KeyError, ValueError) as error:
            remedy = "delete it and run the phase again"
            raise EncoderError("the file of texts is damaged", path=path, remedy=remedy) from error

    @classmethod
    def build(cls, path: Path, entries: Iterable[Entry]) -> TextStore:
        """Write entries, whose rows begin at 0 and leave none out, to a file that appears whole and replaces another.

        Raises:
            ConfigError: there are none, or the file cannot be written.
            EncoderError: the disk is full.
        """
        digest, rows, count = hashlib.sha256(), 0, 0
        with scratch_folder(path, "the file of texts") as folder:
            draft = folder / path.name
            try:
                # no journal: a file that was not finished is never read
                with closing(sqlite3.connect(draft)) as connection:
                    connection.executescript(
                        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                        "CREATE TABLE entry (id INTEGER PRIMARY KEY, text TEXT, row INTEGER, share REAL, weight REAL);"
                        "CREATE TABLE meta (key TEXT PRIMARY KEY, value);"
                    )
                    for entry in entries:
                        values = (count, entry.text, entry.row, entry.share, entry.weight)
                        connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", values)
                        # a weight is a cosine of the filter, whose last digits differ from one machine to the other
                        digest.update(json.dumps(values[1:4]).encode())
                        rows, count = max(rows, entry.row + 1), count + 1
                    meta = {"entries": count, "rows": rows, "digest": digest.hexdigest()}
                    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                    connection.commit()
            except sqlite3.Error as error:
                raise EncoderError(f"the texts cannot be written: {error}", path=path, remedy=_ROOM) from error
            if not count:
                raise ConfigError("no texts to learn from", remedy="name a knowledge base that has names")
            put_in_place(draft, path, "the file of texts")
        return cls(path)

    def __len__(self) -> int:
        return self.entries

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each use, so that a store may be handed to other processes."""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                yield connection
        except sqlite3.Error as error:
            # sorting takes room as well
            remedy = _ROOM if "full" in str(error) else "delete the file and run the phase again"
            raise EncoderError(f"the texts cannot be read: {error}", path=self.path, remedy=remedy) from error

    def taught(
        self, size: int
    ) -> Iterator[tuple[list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """The texts that make the vectors, each once, shortest first, and what they add to which.

        Yields:
            Up to ``size`` texts, and for each of m additions the number of its text among these, its row and its share,
            each ``(m,)``.
        """
        query = "SELECT text, row, share FROM entry WHERE share > 0 ORDER BY length(text), text, row"
        with self._open() as connection:
            of_texts = ((text, list(of)) for text, of in groupby(connection.execute(query), key=itemgetter(0)))
            for part in in_parts(of_texts, size):
                additions = [(i, row, share) for i, (_, of) in enumerate(part) for _, row, share in of]
                numbers, rows, shares = zip(*additions, strict=True)
                yield [text for text, _ in part], np.array(numbers), np.array(rows), np.array(shares, dtype=np.float64)

    def read(self, numbers: Sequence[int]) -> Entries:
        """Entries by number, in the order asked for: texts, rows ``(n,)`` and weights ``(n,)``."""
        statement = "SELECT id, text, row, weight FROM entry WHERE id IN (SELECT value FROM json_each(?))"
        with self._open() as connection:
            found = {record[0]: record[1:] for record in connection.execute(statement, (json.dumps(list(numbers)),))}
        texts, rows, weights = zip(*(found[number] for number in numbers), strict=True)
        return list(texts), np.array(rows, dtype=np.int64), np.array(weights, dtype=np.float32)

    def batches(self, order: NDArray[np.int32], size: int) -> Iterator[Entries]:
        """Entries in a given order, ``size`` at a time, read many batches at a time."""
        step = size * max(1, _FETCHED // size)
        for start in range(0, len(order), step):
            texts, rows, weights = self.read(order[start : start + step].tolist())
            for i in range(0, len(texts), size):
                yield texts[i : i + size], rows[i : i + size], weights[i : i + size]


class TargetBatches:
    """Batches of texts with their vectors and weights as labels: each entry once per epoch.

    Args:
        store: the texts.
        targets: an ``.npy`` file of float32 ``(rows, d)``, read by mapping it.
        batch_size: texts in a batch.
        seed: of the order, which is another one each epoch.

    Raises:
        EncoderError: the file of targets is missing, damaged or of another number of rows.
    """

    def __init__(self, store: TextStore, targets: Path, *, batch_size: int, seed: int) -> None:
        self._store, self._path, self._size, self._seed = store, targets, batch_size, seed
        vectors = read_targets(targets)
        if len(vectors) != store.rows:
            remedy = "delete it and run again"
            raise EncoderError(f"{len(vectors)} targets for {store.rows} rows", path=targets, remedy=remedy)
        settings = json.dumps([store.digest, batch_size, seed])
        self.digest = hashlib.sha256(settings.encode()).hexdigest()

    def batches_per_epoch(self) -> int:
        """How many there are, the last of which may be a small one."""
        return -(-len(self._store) // self._size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one on: a column of n texts; labels ``(n, d + 1)``, vector and then weight."""
        # 4 bytes for each entry are all that grows with their number
        order = np.arange(len(self._store), dtype=np.int32)
        np.random.default_rng([self._seed, epoch]).shuffle(order)
        vectors = read_targets(self._path)
        for texts, rows, weights in self._store.batches(order[start * self._size :], self._size):
            yield Batch((texts,), np.column_stack([vectors[rows], weights]).astype(np.float32))


def read_targets(path: Path) -> NDArray[np.float32]:
    """Map a file of vectors ``(rows, d)``; nothing of it is read before it is used.

    Raises:
        EncoderError: the file is missing, damaged or holds something else.
    """
    try:
        vectors: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
        if vectors.ndim != 2 or vectors.dtype != np.float32:
            raise ValueError(f"{vectors.shape} {vectors.dtype}, rows of float32 expected")
    except (OSError, ValueError, EOFError) as error:
        remedy = "delete the file and run the phase again"
        raise EncoderError(f"the targets cannot be read: {error}", path=path, remedy=remedy) from error
    return vectors
