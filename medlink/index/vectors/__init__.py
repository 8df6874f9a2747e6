"""Vectors of names and the search among them: one file for each kind of index.

Every module here with a class ``Index`` is a kind of that name: see :class:`medlink.index.vectors.base.VectorIndex`.
"""

from __future__ import annotations

import importlib
import pkgutil

from medlink.errors import ConfigError
from medlink.index.vectors.base import VectorIndex

FLAT_LIMIT = 50_000
"""Names up to which exact search is chosen."""
_NO_KINDS = {"base", "library"}


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


__all__ = ["FLAT_LIMIT", "VectorIndex", "choose", "kinds", "vector_index"]
