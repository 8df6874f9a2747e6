"""The routes by letters and words beside each other, on mentions with a typing error: what ``scale.py`` tells of them.

medlink's own, by the families of words and by embeddings, and the trigrams of SQLite's FTS5 over the same exact forms:
a mention is asked for by all its trigrams, and bm25 puts names into order.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scale_names import Asked

from medlink.index import Bundle
from medlink.index.part import Part
from medlink.language.text import normalise

_FIRST = 10  # names among which the right one is looked for
_MOST = 1_000_000  # names up to which FTS5 is measured
_ASKED = 50  # mentions that it is asked for: it takes seconds for each
_BLOCK = 1 << 16


def words_compared(bundle: Bundle, part: Part, asked: Sequence[Asked], work: Path) -> dict[str, dict[str, float]]:
    """Share of mentions whose name is among the first, ms for each, and bytes of each name, by route."""
    texts, languages = [one.mention for one in asked], [one.language for one in asked]
    count = len(part.names)

    def told(found: Sequence[Sequence[str]], seconds: float, size: float) -> dict[str, float]:
        wanted = [normalise(one.name) for one in asked[: len(found)]]
        right = np.mean([name in names[:_FIRST] for name, names in zip(wanted, found, strict=True)])
        return {"found": float(right), "ms": seconds / len(found) * 1e3, "bytes": size / count}

    def rows_of(place: np.ndarray, row: np.ndarray) -> list[list[str]]:
        names: list[list[str]] = [[] for _ in asked]
        for at, name in zip(place.tolist(), part.names.norms.many(row), strict=True):
            names[at].append(name)
        return names

    began = time.perf_counter()
    slots = part.said.read(texts, languages)
    place, row, _ = part.postings.search(slots, np.arange(len(asked)), _FIRST)
    taken = time.perf_counter() - began
    size = sum(path.stat().st_size for path in part.folder.glob("posting_*"))
    found = {"words, medlink": told(rows_of(place, row), taken, size)}

    began = time.perf_counter()
    rows, _ = part.vectors.search(bundle.encoder.encode(texts), _FIRST)
    taken = time.perf_counter() - began
    place, column = np.nonzero(rows >= 0)
    bytes_of = part.manifest["bytes_per_name"]
    found["embeddings, medlink"] = told(rows_of(place, rows[place, column]), taken, bytes_of * count)
    if count <= _MOST:
        found["trigrams, SQLite FTS5"] = told(*_trigrams(part, texts[:_ASKED], work))
    return found


def _trigrams(part: Part, texts: Sequence[str], work: Path) -> tuple[list[list[str]], float, float]:
    """The first names of each mention by FTS5, seconds, and bytes of the file."""
    path = work / "trigrams.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file:
        file.execute("CREATE VIRTUAL TABLE name USING fts5(norm, tokenize='trigram', content='', columnsize=1)")
        for start in range(0, len(part.names), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(part.names)))
            pairs = zip(rows.tolist(), part.names.norms.many(rows), strict=True)
            file.executemany("INSERT INTO name (rowid, norm) VALUES (?, ?)", pairs)
        file.commit()
        size = path.stat().st_size
        began = time.perf_counter()
        found = []
        for text in texts:
            form = normalise(text)
            grams = dict.fromkeys(form[at : at + 3] for at in range(len(form) - 2))
            asked = " OR ".join('"' + gram + '"' for gram in grams)
            rows = file.execute(
                "SELECT rowid FROM name WHERE name MATCH ? ORDER BY rank LIMIT ?", (asked or '""', _FIRST)
            )
            found.append(part.names.norms.many(np.array([row for (row,) in rows], np.int64)))
        taken = time.perf_counter() - began
    file.close()
    path.unlink()
    return found, taken, size
