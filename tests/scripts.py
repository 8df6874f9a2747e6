"""The scripts of ``benchmarks``, which are no package, as modules."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import medlink

BENCHMARKS = Path(medlink.__file__).parents[1] / "benchmarks"


def benchmark(name: str) -> ModuleType:
    """A script with those that it imports."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
