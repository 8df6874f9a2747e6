"""Vector search among names: one module for each kind of index.

Each module with a class ``Index`` is a kind: see :class:`medlink.index.vectors.base.VectorIndex`.
"""

from __future__ import annotations

import importlib
import pkgutil

from medlink.errors import ConfigError
from medlink.index.vectors.base import VectorIndex

FLAT_LIMIT = 50_000
"""Names up to which :func:`choose` gives exact search."""
GRAPH_LIMIT = 500_000
"""Names up to which :func:`choose` gives a graph."""
_NO_KINDS = {"base", "library"}


def kinds() -> tuple[str, ...]:
    """The kinds of index; imports none of them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NO_KINDS))


def vector_index(kind: str) -> type[VectorIndex]:
    """The class of a kind; raises :class:`ConfigError` for an unknown kind."""
    if kind not in kinds():
        raise ConfigError(f"unknown kind of index {kind!r}", remedy=f"one of {', '.join(kinds())}")
    index: type[VectorIndex] = importlib.import_module(f"{__name__}.{kind}").Index
    return index


def choose(count: int, dimension: int = 256, memory: int | None = None) -> str:
    """Choose a kind of index by size: exact search for few names, a graph for more, cells for very many.

    If its vectors take more than ``memory`` bytes, chooses the next smaller kind that fits.

    Raises:
        ConfigError: no kind fits into the memory.
    """
    by_size = ("flat", "hnsw", "ivfpq")
    kind = by_size[(count > FLAT_LIMIT) + (count > GRAPH_LIMIT)]
    if memory is None:
        return kind
    for smaller in by_size[by_size.index(kind) :]:
        needed = count * vector_index(smaller).bytes_per_name(dimension)
        if needed <= memory:
            return smaller
    raise ConfigError(
        f"the vectors of {count:,} names take {needed:,} bytes of memory at least, and {memory:,} are allowed",
        remedy=f"name {-(-needed // 10**6)}M with memory=..., or more",
    )


__all__ = ["FLAT_LIMIT", "GRAPH_LIMIT", "VectorIndex", "choose", "kinds", "vector_index"]
