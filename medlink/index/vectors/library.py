"""Faiss, imported at its first use."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import needs_extra

_COPIED = 1 << 18  # vectors copied to a GPU at a time


@cache
def faiss() -> Any:
    """Return the Faiss module, safe in forked processes.

    Raises:
        MissingLibraryError: neither the extra ``cpu`` nor ``gpu`` is installed.
    """
    # waiting threads would otherwise spin, and take the processor from others for ten times as long
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with needs_extra("cpu", "an index"):
        import faiss as library

    # OpenMP's threads do not survive a fork, and a child that starts them again hangs
    os.register_at_fork(after_in_child=lambda: library.omp_set_num_threads(1))
    return library


def gpu_count() -> int:
    """Return the number of GPUs that the installed Faiss can use, 0 for faiss-cpu."""
    return int(getattr(faiss(), "get_num_gpus", int)())


def new_cells(dimension: int, cells: int, seed: int) -> Any:
    """Return an untrained Faiss index of cells, with vectors compressed to four bits per two dimensions."""
    name = f"IVF{cells},PQ{compressed_parts(dimension)}x4fs"
    index = faiss().index_factory(dimension, name, faiss().METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.min_points_per_centroid = seed, 1
    return index


def compressed_parts(dimension: int) -> int:
    return dimension // 2 if dimension % 2 == 0 else dimension


def spread(count: int, wanted: int) -> NDArray[np.int64]:
    """Return at most ``wanted`` of ``count`` rows, evenly spread."""
    return np.unique(np.linspace(0, count - 1, num=min(count, wanted), dtype=np.int64))


def gpu_copy(vectors: Callable[[int, int], Any], count: int, dimension: int) -> Any:
    """Copy vectors to all GPUs, a share in 16 bits to each; return a Faiss index that searches all exhaustively.

    ``vectors(start, stop)`` gives a range of rows as float32. Fills the shares one by one, because Faiss adds to an
    index of several shares only once.
    """
    options = faiss().GpuClonerOptions()
    options.useFloat16 = True
    shares = faiss().IndexShards(dimension, True, True)  # searched in parallel, with successive row numbers
    bounds = np.linspace(0, count, gpu_count() + 1).astype(int).tolist()
    for gpu, (start, stop) in enumerate(pairwise(bounds)):
        flat = faiss().IndexFlatIP(dimension)
        share = faiss().index_cpu_to_gpu(faiss().StandardGpuResources(), gpu, flat, options)
        for at in range(start, stop, _COPIED):
            share.add(np.ascontiguousarray(vectors(at, min(stop, at + _COPIED)), dtype=np.float32))
        shares.add_shard(share)
    return shares
