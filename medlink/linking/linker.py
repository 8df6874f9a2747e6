"""``Linker``: mentions to ranked concepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index import Bundle, Filter
from medlink.index.names import Entry, Selection
from medlink.linking.evidence import Evidence, gather
from medlink.linking.join import Join, default_join
from medlink.records import Candidate, Link

DEFAULT_THRESHOLD = 0.5
_BATCH = 256
# How much the context decides between concepts that share a name (divisor of cosines; an abbreviation's senses
# usually differ by 0.1 to 0.3).
_CONTEXT_TEMPERATURE = 0.05


# number of a distinct mention, and the shares of the concepts of its name
_Key = tuple[int, tuple[tuple[int, float], ...]]


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text to link.

    ``expanded`` is the long form of an abbreviation where the text gives one: it is linked in place of ``text``.
    """

    text: str
    language: str | None = None
    expanded: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The best name of one concept for one mention."""

    concept: int
    rank: float
    entry: Entry
    route: str


class Linker:
    """Link mentions with a bundle: same bundle, same mentions, same result.

    Args:
        bundle: an opened bundle, or its folder.
        threshold: score below which a mention is NIL, in [0, 1].
        language: language of mentions that name none, BCP 47; preferred names are shown in it.
        languages, sources, semantic_types: restrict the names that may be candidates.

    Raises:
        ConfigError: a value is out of range or not in the index.
    """

    def __init__(
        self,
        bundle: Bundle | str | Path,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        language: str | None = None,
        languages: Sequence[str] = (),
        sources: Sequence[str] = (),
        semantic_types: Sequence[str] = (),
    ) -> None:
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold {threshold} is outside [0, 1]")
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.kb, self.index = self.bundle.kb, self.bundle.index
        self.threshold = threshold
        self.language = language
        self._selection: Selection | None = self.index.select(
            Filter(tuple(sorted(languages)), tuple(sorted(sources)), tuple(sorted(semantic_types)))
        )
        calibration = self.bundle.manifest["calibration"]
        self.join = Join.from_dict(calibration) if calibration else default_join()

    def link(
        self,
        mentions: Sequence[str | Mention],
        contexts: Sequence[str] | None = None,
        k: int = 5,
    ) -> list[Link]:
        """Link mentions; each distinct one is embedded and searched once.

        Args:
            mentions: n mentions.
            contexts: n texts around them. A context decides between concepts that share the matched name; without
                one they share the score.
            k: candidates wanted for each, at least 1.

        Returns:
            n links, candidates best first, ties broken by ``concept_id``.

        Raises:
            ConfigError: k is below 1, or there are not as many contexts as mentions.
        """
        if k < 1:
            raise ConfigError(f"k is {k}, at least 1 expected")
        if contexts is not None and len(contexts) != len(mentions):
            raise ConfigError(f"{len(contexts)} contexts for {len(mentions)} mentions")
        asked = [m if isinstance(m, Mention) else Mention(m, self.language) for m in mentions]
        keys = [((m.expanded or m.text).strip(), m.language or self.language) for m in asked]
        distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        found: list[list[_Found]] = []
        ordered = list(distinct)
        for start in range(0, len(ordered), _BATCH):
            found += self._find(ordered[start : start + _BATCH])
        shares = self._shares(keys, contexts, distinct, found)
        numbers = [distinct[key] for key in keys]
        # Mentions of one key differ in their candidates only where their contexts share out the score differently.
        wanted = {(n, tuple(shares.get(i, {}).items())): i for i, n in enumerate(numbers)}
        ranked = {which: self._candidates(found[which[0]], dict(which[1]), k) for which in wanted}
        named = self._preferred_names({which: keys[i][1] for which, i in wanted.items()}, ranked)
        links = []
        for i, mention in enumerate(asked):
            candidates = named[numbers[i], tuple(shares.get(i, {}).items())]
            nil = not candidates or candidates[0].score < self.threshold
            links.append(Link(mention.text, candidates, nil, mention.expanded))
        return links

    def _find(self, keys: Sequence[tuple[str, str | None]]) -> list[list[_Found]]:
        """Concepts of each mention by their best name, best first."""
        texts, languages = [key[0] for key in keys], [key[1] for key in keys]
        evidence = gather(self.index, self.bundle.encoder, texts, languages, self._selection)
        rank = self.join.rank(evidence.features)
        ends = np.searchsorted(evidence.mention, np.arange(len(keys) + 1))
        return [self._best(evidence, rank, int(ends[i]), int(ends[i + 1]), languages[i]) for i in range(len(keys))]

    def _best(
        self, evidence: Evidence, rank: NDArray[np.float64], start: int, end: int, language: str | None
    ) -> list[_Found]:
        best: dict[int, _Found] = {}
        for i in sorted(range(start, end), key=lambda i: (-rank[i], evidence.row[i])):
            entries = self.index.names.entries(int(evidence.row[i]), self._selection)
            for entry in sorted(entries, key=lambda e: (e.language != language, not e.preferred, e.text, e.source)):
                best.setdefault(entry.concept, _Found(entry.concept, float(rank[i]), entry, evidence.route[i]))
        # concept numbers are in the order of concept ids
        return sorted(best.values(), key=lambda f: (-round(f.rank, 9), f.concept))

    def _shares(
        self,
        keys: Sequence[tuple[str, str | None]],
        contexts: Sequence[str] | None,
        distinct: dict[tuple[str, str | None], int],
        found: list[list[_Found]],
    ) -> dict[int, dict[int, float]]:
        """For each mention whose best name belongs to several concepts: each concept's share of the score."""
        tied: dict[int, list[int]] = {}
        for number, candidates in enumerate(found):
            same = [c.concept for c in candidates if c.entry.row == candidates[0].entry.row]
            if len(same) > 1:
                tied[number] = same
        if not tied:
            return {}
        if contexts is None:
            return {
                i: {concept: 1 / len(tied[number]) for concept in tied[number]}
                for i, key in enumerate(keys)
                if (number := distinct[key]) in tied
            }
        wanted = [i for i, key in enumerate(keys) if distinct[key] in tied]
        # the mention itself says nothing about which of its concepts is meant
        around = self.bundle.encoder.encode([contexts[i].replace(keys[i][0], " ") for i in wanted])
        concepts = sorted({concept for same in tied.values() for concept in same})
        ids = [self.index.names.concept_ids[c] for c in concepts]
        labels: dict[int, str] = {}
        for language in sorted({keys[i][1] or "" for i in wanted}):
            named = self.kb.preferred_names(ids, language or None)
            labels.update({c: named.get(i, i) for c, i in zip(concepts, ids, strict=True)})
        vectors = dict(zip(concepts, self.bundle.encoder.encode([labels[c] for c in concepts]), strict=True))
        shares: dict[int, dict[int, float]] = {}
        for vector, i in zip(around, wanted, strict=True):
            same = tied[distinct[keys[i]]]
            likeness = np.array([float(vectors[c] @ vector) for c in same]) / _CONTEXT_TEMPERATURE
            weight = np.exp(likeness - likeness.max())
            shares[i] = dict(zip(same, (weight / weight.sum()).tolist(), strict=True))
        return shares

    def _candidates(self, found: list[_Found], shares: dict[int, float], k: int) -> list[Candidate]:
        """The best k concepts with their scores; preferred names are filled in later, for all mentions at once."""
        names = self.index.names
        # Concepts that share the best name stand first, in the order of their shares; all others keep their rank.
        ordered = sorted(
            found[: max(k, len(shares))],
            key=lambda f: (-round(f.rank, 9), -shares.get(f.concept, 0), f.concept),
        )[:k]
        scores = self.join.score(np.array([one.rank for one in ordered])).tolist()
        out: list[Candidate] = []
        for one, score in zip(ordered, scores, strict=True):
            shared = score * shares.get(one.concept, 1.0)
            out.append(
                Candidate(
                    concept_id=names.concept_ids[one.concept],
                    preferred_name="",
                    # what ranks lower is never the likelier link, however many concepts share the best name
                    score=round(min(shared, out[-1].score if out else 1.0), 6),
                    name=one.entry.text,
                    language=one.entry.language,
                    route=one.route,
                    source=one.entry.source,
                    semantic_types=names.concept_types(one.concept),
                )
            )
        return out

    def _preferred_names(
        self, languages: dict[_Key, str | None], ranked: dict[_Key, list[Candidate]]
    ) -> dict[_Key, tuple[Candidate, ...]]:
        """Candidates with their preferred names, one query per language for all of them."""
        ids: dict[str | None, set[str]] = {}
        for which, candidates in ranked.items():
            ids.setdefault(languages[which], set()).update(c.concept_id for c in candidates)
        named = {language: self.kb.preferred_names(sorted(wanted), language) for language, wanted in ids.items()}
        return {
            which: tuple(
                replace(c, preferred_name=named[languages[which]].get(c.concept_id, c.name)) for c in candidates
            )
            for which, candidates in ranked.items()
        }
