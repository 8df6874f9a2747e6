"""Cells of vectors with four bits per two dimensions: for millions of names, and for machines with little memory."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

from medlink.index.vectors.base import reporting_unreadable
from medlink.index.vectors.cells import CellsIndex
from medlink.index.vectors.library import faiss


class Index(CellsIndex):
    """Product quantisation (Jégou et al. 2011, section II), scanned in registers (André et al. 2015).

    The first search reads the compressed vectors. Each process has its own copy, except for processes forked after
    that.
    """

    kind = "ivfpq"
    _rescored = 8
    _codes_file: _File | None = None

    @staticmethod
    def _codes(dimension: int) -> str:
        return f"PQ{_parts(dimension)}x4fs"

    def _load(self, path: Path) -> None:
        self._open_exact(path.parent)
        self._index, self._codes_file, self._reading = None, _File(path), Lock()

    def _codes_index(self) -> Any:
        if self._index is None and self._codes_file is not None:
            with self._reading, reporting_unreadable(self._codes_file.path):
                if self._index is None:
                    self._hold(self._codes_file.index(), self._codes_file.path.parent)
        return self._index

    def prepare(self) -> None:
        self._codes_index()

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        return -(-_parts(dimension) // 2) + 8  # eight for the row number


class _File:
    """A file opened now and read later, even if moved or removed meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path, self._number = path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finalize(self, os.close, self._number)

    def index(self) -> Any:
        at = 0

        # with a position of its own: forked processes share that of the file
        def read(size: int) -> bytes:
            nonlocal at
            content = os.pread(self._number, size, at)
            at += len(content)
            return content

        return faiss().read_index(faiss().PyCallbackIOReader(read))


def _parts(dimension: int) -> int:
    return dimension // 2 if dimension % 2 == 0 else dimension
