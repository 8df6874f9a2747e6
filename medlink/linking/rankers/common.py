"""The protocol of re-rankers, and shared code: texts of candidates, new orders, and a cache of answers.

A re-ranker re-orders the first concepts of a mention after ranking and before the decision.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.tags import base
from medlink.linking.arrays import Floats
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import EXACT, Contexts, Mention
from medlink.linking.ranking import Ranked, RankedConcept, Rankings, compute_margins

CHOSEN_WEIGHT = 20.0
"""Factor by which the chosen concept is likelier than others with the same name."""
FILE = "rankings.sqlite"
_TIMEOUT = 30.0  # seconds to wait for another process that writes


class Reranker(Protocol):
    """Re-orders the first concepts of a mention.

    Attributes:
        uses_context: whether the order depends on the context; if so, the linker calls the re-ranker for each context.
        calibration: turns its rank scores into scores; ``None`` to keep the calibration of the bundle.
        fingerprint: hash of all data that determine the order.
        counts: statistics without text of a note; the counts of worker processes are added up.
    """

    @property
    def uses_context(self) -> bool: ...
    @property
    def calibration(self) -> Calibration | None: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def counts(self) -> Counter[str]: ...

    def rerank(self, mentions: Sequence[Mention], contexts: Contexts, ranked: Rankings) -> list[Ranked]:
        """Return the concepts of n mentions in a new order, or unchanged.

        Args:
            mentions: linked by their ``text``; mentions with a ``learned_id`` are already decided.
            contexts: n texts around them.
            ranked: the concepts of each mention, best first, each with its best name.
        """

    def warnings(self) -> list[str]:
        """Return messages about failures so far."""


@dataclass(frozen=True, slots=True)
class CandidateText:
    """Preferred name of a concept in the language of the mention, the name that matched, and a definition.

    >>> CandidateText("X:1", "atrial fibrillation", "Vorhofflimmern", "An arrhythmia.").text
    'Vorhofflimmern (atrial fibrillation): An arrhythmia.'
    """

    concept_id: str
    name: str
    matched: str
    definition: str = ""

    @property
    def text(self) -> str:
        both = self.matched if self.name == self.matched else f"{self.matched} ({self.name})"
        return f"{both}: {self.definition}" if self.definition else both


def candidate_texts(
    bundle: Bundle, ranked: Rankings, languages: Sequence[str | None], *, definitions: bool = False
) -> list[list[CandidateText]]:
    """Return the texts of the candidates of n mentions.

    With ``definitions`` each has the first definition in the language of the mention, else the first of any language.
    """
    flat = [(concept, language) for own, language in zip(ranked, languages, strict=True) for concept in own]
    ids = bundle.index.concept_ids(np.array([concept.concept for concept, _ in flat]))
    texts = bundle.index.describe(np.array([concept.entry for concept, _ in flat], dtype=np.int64))[0]
    by_language: dict[str | None, set[str]] = {}
    for concept_id, (_, language) in zip(ids, flat, strict=True):
        by_language.setdefault(language, set()).add(concept_id)
    preferred = {tag: bundle.kb.preferred_names(sorted(own), tag) for tag, own in by_language.items()}

    @cache
    def definition(concept_id: str, language: str) -> str:
        ordered = sorted(bundle.kb.definitions(concept_id), key=lambda row: base(row.language) != language)
        return " ".join(ordered[0].text.split()) if ordered else ""

    described = (
        CandidateText(id_, preferred[tag].get(id_, text), text, definition(id_, base(tag or "")) if definitions else "")
        for id_, text, (_, tag) in zip(ids, texts, flat, strict=True)
    )
    return [[next(described) for _ in own] for own in ranked]


def reorder_by_score(ranked: Ranked, scores: Floats) -> list[RankedConcept]:
    """Sort concepts by new scores ``(n,)``, which become their rank scores; ties keep their order.

    A name has the score of its best concept; the weight of each other concept is the exponential of the difference, as
    in a softmax. A name that equals the mention exactly stays first.
    """
    if not ranked:
        return []
    scores = np.round(scores, 6)
    names, inverse = np.unique([concept.name for concept in ranked], return_inverse=True)
    best = np.full(len(names), -np.inf)
    np.maximum.at(best, inverse, scores)
    of_name = best[inverse]
    margins = compute_margins(np.zeros(len(ranked), dtype=np.int64), of_name, names[inverse])
    order = np.lexsort((-of_name, np.array([concept.route != EXACT for concept in ranked]))).tolist()
    return _reorder(ranked, order, of_name.tolist(), margins.tolist(), np.exp(scores - of_name).tolist())


def move_to_front(ranked: Ranked, chosen: int, k: int) -> list[RankedConcept]:
    """Put the name of the chosen concept before the other names of the first k concepts.

    Each name takes over the rank score and the margin of its new position, which keeps the calibration valid. The
    chosen concept has the weight :data:`CHOSEN_WEIGHT` among the concepts of its name.
    """
    name, first = ranked[chosen].name, ranked[:k]
    order = [*sorted(range(len(first)), key=lambda at: first[at].name != name), *range(len(first), len(ranked))]
    # by name: the concepts of one name have one rank
    by_name = {concept.name: concept for concept in reversed(first)}
    before = list(dict.fromkeys(concept.name for concept in first))
    after = sorted(before, key=lambda own: own != name)
    replaced = {new: by_name[old] for new, old in zip(after, before, strict=True)}
    positions = [replaced.get(concept.name, concept) if name != ranked[0].name else concept for concept in ranked]
    weight = [concept.weight for concept in ranked]
    weight[chosen] *= CHOSEN_WEIGHT
    return _reorder(ranked, order, [place.rank for place in positions], [place.margin for place in positions], weight)


def _reorder(
    ranked: Ranked, order: Sequence[int], rank: list[float], margin: list[float], weight: list[float]
) -> list[RankedConcept]:
    top = ranked[0]
    concepts = [ranked[at]._replace(rank=rank[at], margin=margin[at], weight=weight[at], features=None) for at in order]
    concepts[0] = concepts[0]._replace(moved=concepts[0].name != top.name, features=top.features)
    return concepts


class RankerCache:
    """A cache that maps hashes to lists of numbers, in a file of a folder; several processes may share it.

    Raises:
        ConfigError: the file cannot be created or read, or is not such a cache.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"the cache of the ranker cannot be written: {error.strerror}"
            raise ConfigError(message, path=folder, remedy="name a folder that can be written to") from error
        with self._connect() as file:
            # IF NOT EXISTS: two processes may start at the same time
            columns = "key BLOB PRIMARY KEY, numbers TEXT NOT NULL"
            file.execute(f"CREATE TABLE IF NOT EXISTS answers ({columns}) WITHOUT ROWID")
            file.execute("SELECT key, numbers FROM answers LIMIT 1").fetchone()

    def get(self, keys: Sequence[bytes]) -> list[list[float] | None]:
        """Return the cached numbers of each key, ``None`` for a missing key."""
        with self._connect() as file:
            rows = [file.execute("SELECT numbers FROM answers WHERE key = ?", (key,)).fetchone() for key in keys]
            return [None if row is None else [float(number) for number in json.loads(row[0])] for row in rows]

    def put(self, numbers: dict[bytes, list[float]]) -> None:
        if numbers:
            with self._connect() as file:
                rows = [(key, json.dumps(values)) for key, values in numbers.items()]
                file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        # a new connection each time: it must not be carried into a worker process
        try:
            with closing(sqlite3.connect(self.path, timeout=_TIMEOUT)) as file, file:
                yield file
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            why = str(error) if isinstance(error, sqlite3.Error) else "a value is not a list of numbers"
            message = f"the cache of the ranker cannot be used: {why}"
            raise ConfigError(message, path=self.path, remedy="delete the file, or name another folder") from error


def cache_key(
    bundle: str, ranker: str, mention: str, language: str | None, context: str, candidates: Sequence[CandidateText]
) -> bytes:
    """Return the hash that identifies an answer of a ranker; ``bundle`` and ``ranker`` are hashes themselves."""
    parts = [bundle, ranker, mention, language, context, [[text.concept_id, text.text] for text in candidates]]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode("ascii")).digest()
