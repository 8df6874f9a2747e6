"""What re-rankers have in common: what they see of a candidate, the order that they give, a cache of their answers.

A re-ranker looks at the first concepts of a mention once more, by their names and definitions, between the ranking of
names by their evidence and the decision what is linked.
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
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.tags import base
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import EXACT, Mention
from medlink.linking.ranking import Ranked, margins

CHOSEN = 20.0
"""How much likelier the concept that was chosen is than another one that has the same name."""
FILE = "rankings.sqlite"
_WAIT = 30.0  # seconds for another process that writes


class Reranker(Protocol):
    """What orders the first concepts of a mention anew.

    Attributes:
        uses_context: whether the text around a mention changes the order: the linker then asks anew in each context.
        calibration: what turns the new rank scores into scores; ``None`` where the curves of the bundle hold.
        fingerprint: hash of all that decides the order.
        counts: what it met, without words of a note; those of other processes are added.
    """

    @property
    def uses_context(self) -> bool: ...
    @property
    def calibration(self) -> Calibration | None: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def counts(self) -> Counter[str]: ...

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Sequence[Ranked]]:
        """The concepts of n mentions in their new order; what it has nothing to say of stays as it is.

        The ``text`` of a mention is what is linked; one that is ``taught`` is known already. ``contexts`` are n texts
        around them, ``ranked`` the concepts of each, best first, each by its best name.
        """

    def said(self) -> list[str]:
        """Sentences, by the counts, on what did not go as it should; none where all went well."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A concept by its preferred name in the language of the mention, the name that was found, and a definition.

    >>> Shown("X:1", "atrial fibrillation", "Vorhofflimmern", "An arrhythmia.").text
    'Vorhofflimmern (atrial fibrillation): An arrhythmia.'
    """

    concept_id: str
    name: str
    matched: str
    definition: str = ""

    @property
    def text(self) -> str:
        """All of it as one text."""
        both = self.matched if self.name == self.matched else f"{self.matched} ({self.name})"
        return f"{both}: {self.definition}" if self.definition else both


def shown(
    bundle: Bundle, ranked: Sequence[Sequence[Ranked]], languages: Sequence[str | None], *, definitions: bool = False
) -> list[list[Shown]]:
    """Candidates of n mentions as they are shown; ``definitions`` adds those of the knowledge base.

    Of several definitions the first in the language of the mention is shown, else the first.
    """
    flat = [(one, language) for some, language in zip(ranked, languages, strict=True) for one in some]
    ids = bundle.index.concept_ids(np.array([one.concept for one, _ in flat]))
    texts = bundle.index.describe(np.array([one.entry for one, _ in flat], dtype=np.int64))[0]
    wanted: dict[str | None, set[str]] = {}
    for concept_id, (_, language) in zip(ids, flat, strict=True):
        wanted.setdefault(language, set()).add(concept_id)
    preferred = {language: bundle.kb.preferred_names(sorted(some), language) for language, some in wanted.items()}

    @cache
    def definition(concept_id: str, language: str) -> str:
        found = sorted(bundle.kb.definitions(concept_id), key=lambda one: base(one.language) != language)
        return " ".join(found[0].text.split()) if found else ""

    told = (
        Shown(one, preferred[tag].get(one, text), text, definition(one, base(tag or "")) if definitions else "")
        for one, text, (_, tag) in zip(ids, texts, flat, strict=True)
    )
    return [[next(told) for _ in some] for some in ranked]


def by_ranks(ranked: Sequence[Ranked], ranks: NDArray[np.float64]) -> list[Ranked]:
    """Concepts in the order of new rank scores ``(n,)``; of equals the earlier stays first.

    The rank score of a name is that of its best concept. The difference says how much less likely another concept
    of the name is, as in a softmax over rank scores. A name to the letter stays before any other.
    """
    if not ranked:
        return []
    ranks = np.round(ranks, 6)
    names, which = np.unique([one.name for one in ranked], return_inverse=True)
    best = np.full(len(names), -np.inf)
    np.maximum.at(best, which, ranks)
    of_name = best[which]
    away = margins(np.zeros(len(ranked), dtype=np.int64), of_name, names[which])
    order = np.lexsort((-of_name, np.array([one.route != EXACT for one in ranked]))).tolist()
    return _in_order(ranked, order, of_name.tolist(), away.tolist(), np.exp(ranks - of_name).tolist())


def chosen_first(ranked: Sequence[Ranked], chosen: int, k: int) -> list[Ranked]:
    """Concepts with the name of the chosen one before the other names of the first k, all others as they were.

    Each takes over the rank score and the margin of the place where it then stands, so that these mean what they meant
    to a calibration. Among the concepts of its name the chosen one has the weight :data:`CHOSEN`.
    """
    name, first = ranked[chosen].name, ranked[:k]
    order = [*sorted(range(len(first)), key=lambda at: first[at].name != name), *range(len(first), len(ranked))]
    # by names: the concepts of one name have one rank
    places = {one.name: one for one in reversed(first)}
    before = list(dict.fromkeys(one.name for one in first))
    after = sorted(before, key=lambda one: one != name)
    given = {now: places[then] for now, then in zip(after, before, strict=True)}
    stands = [given.get(one.name, one) if name != ranked[0].name else one for one in ranked]
    weight = [one.weight for one in ranked]
    weight[chosen] *= CHOSEN
    return _in_order(ranked, order, [one.rank for one in stands], [one.margin for one in stands], weight)


def _in_order(
    ranked: Sequence[Ranked], order: Sequence[int], rank: list[float], margin: list[float], weight: list[float]
) -> list[Ranked]:
    top = ranked[0]
    found = [ranked[at]._replace(rank=rank[at], margin=margin[at], weight=weight[at], measures=None) for at in order]
    found[0] = found[0]._replace(moved=found[0].name != top.name, measures=top.measures)
    return found


class RankerCache:
    """Lists of numbers under hashes, in one file of a folder that several processes may use.

    Raises:
        ConfigError: it cannot be made or read, or is none of this kind.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"the cache of the ranker cannot be written: {error.strerror}"
            raise ConfigError(message, path=folder, remedy="name a folder that can be written to") from error
        with self._open() as file:
            # two processes may begin at one time
            file.execute("CREATE TABLE IF NOT EXISTS said (key BLOB PRIMARY KEY, numbers TEXT NOT NULL) WITHOUT ROWID")
            file.execute("SELECT key, numbers FROM said LIMIT 1").fetchone()

    def get(self, keys: Sequence[bytes]) -> list[list[float] | None]:
        """What is kept under each of the keys."""
        with self._open() as file:
            rows = [file.execute("SELECT numbers FROM said WHERE key = ?", (key,)).fetchone() for key in keys]
            return [None if row is None else [float(one) for one in json.loads(row[0])] for row in rows]

    def put(self, said: dict[bytes, list[float]]) -> None:
        """Keep numbers under keys."""
        if said:
            with self._open() as file:
                rows = [(key, json.dumps(numbers)) for key, numbers in said.items()]
                file.executemany("INSERT OR REPLACE INTO said VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # opened each time: a connection must not be carried into a worker process
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT)) as file, file:
                yield file
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            why = str(error) if isinstance(error, sqlite3.Error) else "a value is no list of numbers"
            remedy = "delete the file, or name another folder"
            raise ConfigError(
                f"the cache of the ranker cannot be used: {why}", path=self.path, remedy=remedy
            ) from error


def key_of(bundle: str, ranker: str, mention: str, language: str | None, context: str, shown: Sequence[Shown]) -> bytes:
    """The hash under which the answer of a ranker is kept; ``bundle`` and ``ranker`` are hashes, too."""
    told = [bundle, ranker, mention, language, context, [[one.concept_id, one.text] for one in shown]]
    return hashlib.sha256(json.dumps(told, ensure_ascii=True).encode("ascii")).digest()
