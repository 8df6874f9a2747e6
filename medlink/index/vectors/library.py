"""Faiss, imported when it is needed."""

from __future__ import annotations

import os
from functools import cache
from typing import Any


@cache
def faiss() -> Any:
    """The Faiss module, safe to use in processes that are forked."""
    import faiss as library

    # OpenMP's threads do not survive a fork; a child that starts them again hangs.
    os.register_at_fork(after_in_child=lambda: library.omp_set_num_threads(1))
    return library


def gpu_count() -> int:
    """GPUs that the installed Faiss can use; 0 for faiss-cpu."""
    return int(getattr(faiss(), "get_num_gpus", int)())
