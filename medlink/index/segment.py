"""An opened segment of an index: names by form, by words and by embedding, complete in one folder."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.bundles.parts import StrictModel, read_manifest_file
from medlink.errors import BundleError
from medlink.index.arrays import REBUILD, StringArray, open_array
from medlink.index.dictionary import NameDictionary
from medlink.index.family_match import FamilyMatcher
from medlink.index.names import Keys, NameTable
from medlink.index.postings import Postings
from medlink.index.vectors import vector_index
from medlink.index.word_overlap import NameFeatures

FORMAT = 5
"""Version of the folder layout."""
MANIFEST = "index.json"
# errors of operations on damaged arrays
_DAMAGE = (LookupError, ValueError, ArithmeticError, RuntimeError, MemoryError)
_T = TypeVar("_T")


def reporting_damage(cls: type[_T]) -> type[_T]:
    """Make the methods of a class with a ``folder`` raise :class:`BundleError` for damaged arrays."""

    def wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def checked(self: Any, *args: Any, **options: Any) -> Any:
            try:
                return method(self, *args, **options)
            except _DAMAGE as error:
                # without its text, which may quote a note
                message = f"the files of the index do not fit together ({type(error).__name__})"
                remedy = "run verify_bundle(), which names the damaged file"
                raise BundleError(message, path=self.folder, remedy=remedy) from error

        return checked

    for name, method in list(vars(cls).items()):
        if callable(method) and (name == "__init__" or name[0] != "_"):
            setattr(cls, name, wrapped(method))
    return cls


class _Manifest(StrictModel):
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


class Segment:
    """A saved segment, opened by memory-mapping: nothing is parsed, and processes share its pages.

    Each distinct name (after :func:`medlink.language.text.normalise`) has one row, which belongs to one or more
    concepts. ``near (rows, k)`` holds the nearest other names of each name by embedding, best first, -1 where there are
    fewer; it has no columns if the kind of index searches for them instead. ``means (concepts, dimension)`` holds the
    unit mean of the embeddings of each concept's names. ``rows`` and ``concepts`` map row numbers to keys. A segment of
    later names has the ``places`` of its rows and concepts in the main segment (:func:`find_positions`).

    Raises:
        BundleError: a file is missing, has changed in size, or is of another format version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest_file(folder / MANIFEST, "index", FORMAT, REBUILD, _Manifest)
        for name, size in self.manifest["files"].items():
            actual = (folder / name).stat().st_size if (folder / name).exists() else None
            if actual != size:
                problem = "is missing" if actual is None else f"has {actual} bytes, {size} were written"
                raise BundleError(f"a file of the index {problem}", path=folder / name, remedy=REBUILD)
        self.names = NameTable(folder)
        self.dictionary = NameDictionary(folder, self.names)
        self.words = NameFeatures(folder)
        self.postings = Postings(folder, self.words)
        self.families = FamilyMatcher(folder, self.words, len(self.names))
        self.vectors = vector_index(self.manifest["kind"]).load(folder)
        if not len(self.names) == len(self.vectors) == self.manifest["rows"]:
            raise BundleError(f"{len(self.names)} names but {len(self.vectors)} vectors", path=folder, remedy=REBUILD)
        if self.vectors.dimension != self.manifest["dimension"]:
            raise BundleError(f"vectors of {self.vectors.dimension} dimensions", path=folder, remedy=REBUILD)
        self.means, self.near = open_array(folder, "concept_vectors"), open_array(folder, "near")
        self.rows, self.concepts = Numbering(len(self.names)), Numbering(len(self.names.concept_ids))
        if self.manifest["later"]:
            self.places = open_array(folder, "row_places"), open_array(folder, "concept_places")


class Numbering:
    """Map the row numbers of one segment to keys, which both segments of an index share, and back.

    ``keys (count,)`` ascend; by default a row number is its own key. ``new`` is the number of rows that the main
    segment lacks, by default all.
    """

    def __init__(self, count: int, keys: Keys | None = None, new: int | None = None) -> None:
        self.count, self._keys, self.new = count, keys, count if new is None else new

    def keys(self, numbers: NDArray[np.int64]) -> Keys:
        return numbers if self._keys is None else self._keys[numbers]

    def numbers(self, keys: Keys) -> NDArray[np.int64]:
        """Return the row numbers of keys, -1 where this segment lacks the key."""
        keys = np.asarray(keys, np.int64)
        if self._keys is None or not self.count:
            return np.where((keys >= 0) & (keys < self.count), keys, -1)
        at = np.minimum(np.searchsorted(self._keys, keys), self.count - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def key(self, number: int) -> int:
        return number if self._keys is None else int(self._keys[number])


def find_positions(strings: Sequence[str] | StringArray, main: Sequence[str] | StringArray) -> NDArray[np.int64]:
    """Find the positions ``(n,)`` of sorted strings among the sorted strings of the main segment.

    A missing string gets ``~position``, with the position at which to insert it.

    >>> find_positions(["a", "b", "c"], ["b"]).tolist()
    [-1, 0, -2]
    """
    positions = []
    for string in strings:
        at = bisect_left(main, string)
        positions.append(at if at < len(main) and main[at] == string else ~at)
    return np.array(positions, np.int64)


def number_both(count: int, places: NDArray[np.int64]) -> tuple[Numbering, Numbering]:
    """Number the ``count`` rows of a main segment together with the later rows, given their ``places``.

    Keys ascend over both in the order of the strings; a string in both has one key.

    >>> main, later = number_both(1, find_positions(["a", "b", "c"], ["b"]))
    >>> main.keys(np.arange(1)).tolist(), later.keys(np.arange(3)).tolist(), later.numbers(np.array([2, 7])).tolist()
    ([1], [0, 1, 2], [2, -1])
    """
    new, place = places < 0, np.maximum(places, ~places)
    main = np.arange(count) + np.searchsorted(place[new], np.arange(count), side="right")
    later: Keys = place + np.cumsum(new) - new
    return Numbering(count, main), Numbering(len(places), later, int(np.count_nonzero(new)))
