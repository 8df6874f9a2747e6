"""One part of an index, opened: names by form, by words and by embedding, complete in one folder."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.bundles.parts import Checked, read_checked
from medlink.errors import BundleError
from medlink.index.arrays import REBUILD, Strings, open_array
from medlink.index.dictionary import NameDictionary
from medlink.index.family_match import FamilyMatcher
from medlink.index.names import Keys, NameTable
from medlink.index.postings import Postings
from medlink.index.vectors import vector_index
from medlink.index.word_overlap import NameWords

FORMAT = 5
"""Version of the folder layout."""
MANIFEST = "index.json"


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
    ``near (rows, k)`` holds the nearest other names of each name by embedding, best first, -1 where there are fewer
    (it has no columns where the kind of index leaves them to a search); ``means (concepts, dimension)`` the unit mean
    of the embeddings of each concept's names. ``rows`` and ``concepts`` give the keys of both. What came later has
    ``places`` of its rows and concepts in the main part (:func:`places_among`).

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
        self.words = NameWords(folder)
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
    """What is numbered in one part, by keys that mean the same in both parts of an index, and sort alike.

    Args:
        count: how many there are.
        keys: ``(count,)`` their keys, ascending; without them the number is the key.
        new: how many the main part has not; all when left out.
    """

    def __init__(self, count: int, keys: Keys | None = None, new: int | None = None) -> None:
        self.count, self._keys, self.new = count, keys, count if new is None else new

    def keys(self, numbers: NDArray[np.int64]) -> Keys:
        return numbers if self._keys is None else self._keys[numbers]

    def numbers(self, keys: Keys) -> NDArray[np.int64]:
        """Numbers of keys, -1 where this part does not have them."""
        keys = np.asarray(keys, np.int64)
        if not self.count:
            return np.full(len(keys), -1)
        if self._keys is None:
            return np.where((keys >= 0) & (keys < self.count), keys, -1)
        at = np.minimum(np.searchsorted(self._keys, keys), self.count - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def key(self, number: int) -> int:
        return number if self._keys is None else int(self._keys[number])


def places_among(strings: Sequence[str] | Strings, main: Sequence[str] | Strings) -> NDArray[np.int64]:
    """Places ``(n,)`` of sorted strings among those, sorted as well, of the main part; ``~place`` where it has not the
    string, which belongs before the one at that place.

    >>> places_among(["a", "b", "c"], ["b"]).tolist()
    [-1, 0, -2]
    """
    found = [bisect_left(main, string) for string in strings]
    known = (place < len(main) and main[place] == one for place, one in zip(found, strings, strict=True))
    return np.array([place if is_known else ~place for place, is_known in zip(found, known, strict=True)], np.int64)


def number_both(count: int, places: NDArray[np.int64]) -> tuple[Numbering, Numbering]:
    """The numberings of ``count`` things of a main part, and of what came later with these ``places``: keys count up
    over both, in the order of their strings, and what both have has one key.

    >>> main, later = number_both(1, places_among(["a", "b", "c"], ["b"]))
    >>> main.keys(np.arange(1)).tolist(), later.keys(np.arange(3)).tolist(), later.numbers(np.array([2, 7])).tolist()
    ([1], [0, 1, 2], [2, -1])
    """
    new, place = places < 0, np.maximum(places, ~places)
    main = np.arange(count) + np.searchsorted(place[new], np.arange(count), side="right")
    later: Keys = place + np.cumsum(new) - new
    return Numbering(count, main), Numbering(len(places), later, int(np.count_nonzero(new)))
