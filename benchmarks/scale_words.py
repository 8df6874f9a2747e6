"""The routes by words and by embeddings beside each other, and trigrams: what ``scale.py`` tells of them.

medlink's own, by the families of words (up to the number of names that have this route) and by embeddings, and what
either of the two finds; and the trigrams of SQLite's FTS5 over the same exact forms: a mention is asked for by all its
trigrams, and bm25 puts names into order. A mention counts as found where its concept has one of the first names.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scale_names import Mentioned

from medlink.index import Bundle
from medlink.index.postings import MOST_NAMES
from medlink.index.segment import Segment
from medlink.language.text import normalise

_FIRST = 10  # names among which one of the concept is looked for
_MOST = 1_000_000  # names up to which FTS5 is measured
_QUERIES = 50  # mentions of each sort that it is asked for: it takes seconds for each
_BLOCK = 1 << 16
_WORDS, _EMBEDDINGS, _EITHER, _TRIGRAMS = "words", "embeddings", "either of the two", "trigrams, SQLite FTS5"


def words_compared(
    bundle: Bundle, part: Segment, mentions: Mapping[str, Sequence[Mentioned]], work: Path
) -> dict[str, dict[str, float]]:
    """By route the share of mentions of each sort whose concept is among the first, ms for each mention, and bytes of
    each name. Mentions of concepts that the bundle lacks are left out."""
    mentions = {what: [one for one in some if one.concept_id in bundle.kb] for what, some in mentions.items()}
    queries = [one for some in mentions.values() for one in some]
    texts, languages = [one.mention for one in queries], [one.language for one in queries]
    count = len(part.names)

    began = time.perf_counter()
    place, row, _ = part.postings.search(part.words.read(texts, languages), np.arange(len(queries)), _FIRST)
    taken = (time.perf_counter() - began) / len(queries) * 1e3
    size = sum(path.stat().st_size for path in part.folder.glob("posting_*")) / count
    by_words = _found(part, queries, place, row)
    found = {_WORDS: {**_shares(mentions, by_words), "ms": taken, "bytes": size}}

    began = time.perf_counter()
    rows, _ = part.vectors.search(bundle.encoder.encode(texts), _FIRST)
    taken = (time.perf_counter() - began) / len(queries) * 1e3
    place, column = np.nonzero(rows >= 0)
    by_embeddings, size = _found(part, queries, place, rows[place, column]), part.manifest["bytes_per_name"]
    found[_EMBEDDINGS] = {**_shares(mentions, by_embeddings), "ms": taken, "bytes": size}
    if count > MOST_NAMES:
        return {_EMBEDDINGS: found[_EMBEDDINGS]}
    both = {what: found[_WORDS][what] + found[_EMBEDDINGS][what] for what in ("ms", "bytes")}
    found[_EITHER] = {**_shares(mentions, by_words | by_embeddings), **both}
    if count <= _MOST:
        few = {what: some[:_QUERIES] for what, some in mentions.items()}
        found[_TRIGRAMS] = _trigrams(part, few, work)
    return found


def _found(
    part: Segment, queries: Sequence[Mentioned], place: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which mentions have a name of their concept among rows that were found, given with the place of the mention."""
    at, entry = part.names.entries_of(row)
    concepts = part.names.concept_ids.take(part.names.concept[entry])
    found = np.zeros(len(queries), bool)
    for number, concept_id in zip(place[at].tolist(), concepts, strict=True):
        found[number] |= concept_id == queries[number].concept_id
    return found


def _shares(mentions: Mapping[str, Sequence[Mentioned]], found: NDArray[np.bool_]) -> dict[str, float]:
    """The share of each sort of mentions that was found."""
    ends = np.cumsum([len(some) for some in mentions.values()])[:-1]
    return {what: float(some.mean()) for what, some in zip(mentions, np.split(found, ends), strict=True)}


def _trigrams(part: Segment, mentions: Mapping[str, Sequence[Mentioned]], work: Path) -> dict[str, float]:
    """The same of the first names of each mention by FTS5."""
    queries = [one for some in mentions.values() for one in some]
    path = work / "trigrams.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file:
        file.execute("CREATE VIRTUAL TABLE name USING fts5(norm, tokenize='trigram', content='', columnsize=1)")
        for start in range(0, len(part.names), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(part.names)))
            pairs = zip(rows.tolist(), part.names.norms.take(rows), strict=True)
            file.executemany("INSERT INTO name (rowid, norm) VALUES (?, ?)", pairs)
        file.commit()
        size = path.stat().st_size
        began = time.perf_counter()
        hits: list[tuple[int, int]] = []
        for number, one in enumerate(queries):
            form = normalise(one.mention)
            grams = dict.fromkeys(form[at : at + 3] for at in range(len(form) - 2))
            words = " OR ".join('"' + gram + '"' for gram in grams)
            ranked = file.execute(
                "SELECT rowid FROM name WHERE name MATCH ? ORDER BY rank LIMIT ?", (words or '""', _FIRST)
            )
            hits += [(number, row) for (row,) in ranked]
        taken = (time.perf_counter() - began) / len(queries) * 1e3
    file.close()
    path.unlink()
    place, row = np.array(hits, np.int64).reshape(-1, 2).T
    return {**_shares(mentions, _found(part, queries, place, row)), "ms": taken, "bytes": size / len(part.names)}
