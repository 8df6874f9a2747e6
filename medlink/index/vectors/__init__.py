"""Vectors of names and the search among them: one file for each kind of index.

Every module here with a class ``Index`` is a kind of that name: see :class:`medlink.index.vectors.base.VectorIndex`.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from medlink.errors import ConfigError
from medlink.index.vectors.base import VectorIndex

FLAT_LIMIT = 50_000
"""Names up to which exact search is chosen."""
_NO_KINDS = {"base", "gpu", "library"}


def kinds() -> tuple[str, ...]:
    """Kinds of index, by listing; none of them is imported.

    >>> kinds()
    ('flat', 'hnsw')
    """
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NO_KINDS))


def vector_index(kind: str) -> type[VectorIndex]:
    """The class of a kind.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in kinds():
        raise ConfigError(f"unknown kind of index {kind!r}", remedy=f"one of {', '.join(kinds())}")
    found: type[VectorIndex] = importlib.import_module(f"{__name__}.{kind}").Index
    return found


def choose(count: int) -> str:
    """Kind for so many names: exact search while it is quick, a graph above."""
    return "flat" if count <= FLAT_LIMIT else "hnsw"


def open_vectors(folder: Path, kind: str) -> VectorIndex:
    """The vectors that a folder holds, searched on the GPU where the installed Faiss sees one.

    Raises:
        BundleError: the file is missing or damaged.
        ConfigError: there is no such kind.
    """
    from medlink.index.vectors.gpu import OnGpu
    from medlink.index.vectors.library import gpu_count

    index = vector_index(kind).load(folder)
    return OnGpu(index) if gpu_count() else index


__all__ = ["FLAT_LIMIT", "VectorIndex", "choose", "kinds", "open_vectors", "vector_index"]
