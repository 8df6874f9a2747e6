"""``Linker``: mentions to ranked concepts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.index.dictionary import Match
from medlink.index.names import Selection
from medlink.linking.evidence import FEATURES, ROUTES, gather
from medlink.linking.join import Join, default_join
from medlink.linking.options import LinkOptions, known_tag
from medlink.records import Candidate, Link

_BATCH = 256
_WIDTH = 24  # names that the lexical and the dense route bring each, at least
_REMEMBERED = 8192  # distinct mentions whose concepts are kept for the next call
_SHOWN = 65_536  # concepts whose id, preferred name and types are kept, for each language
# How much likelier a shared name means the concept that prefers it than one that has it as a synonym.
_PREFERRED = 3.0
# How much the context decides between concepts that share a name (divisor of cosines; an abbreviation's senses
# usually differ by 0.1 to 0.3).
_CONTEXT_TEMPERATURE = 0.05


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text to link.

    ``expanded`` is the long form of an abbreviation where the text gives one: it is linked in place of ``text``.
    ``found`` is what :meth:`~medlink.index.ConceptIndex.find` found there: it is not looked up again.
    """

    text: str
    language: str | None = None
    expanded: str | None = None
    found: Match | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The best name of one concept for one mention, all in numbers of the index."""

    concept: int
    rank: float
    row: int
    entry: int
    preferred: bool
    route: int


# Number of a distinct mention, and how the concepts that share its name share the score.
_Wanted = tuple[int, tuple[tuple[int, float], ...]]
# Id, preferred name and semantic types of a concept.
_Shown = tuple[str, str | None, tuple[str, ...]]


class Linker:
    """Link mentions with a bundle: same bundle, same mentions, same result.

    Args:
        bundle: an opened bundle, or its folder.
        options: fields of :class:`~medlink.linking.options.LinkOptions`.

    Raises:
        ConfigError: an option is unknown, a value is out of range or not in the index.
    """

    def __init__(self, bundle: Bundle | str | Path, **options: Any) -> None:
        self.options = LinkOptions(**options)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.kb, self.index = self.bundle.kb, self.bundle.index
        self._selection: Selection | None = self.index.select(self.options.filter)
        self._remembered: dict[bytes, list[_Found]] = {}
        self._shown: dict[str | None, dict[int, _Shown]] = {}
        calibration = self.bundle.manifest["calibration"]
        self.join = Join.from_dict(calibration) if calibration else default_join()

    def link(
        self,
        mentions: Sequence[str | Mention],
        contexts: Sequence[str] | None = None,
        k: int | None = None,
    ) -> list[Link]:
        """Link mentions; each distinct one is embedded and searched once.

        Args:
            mentions: n mentions.
            contexts: n texts around them. A context decides between concepts that share the matched name; without
                one they share the score.
            k: candidates wanted for each, at least 1; that of the options when left out.

        Returns:
            n links, candidates best first, ties broken by ``concept_id``.

        Raises:
            ConfigError: k is below 1, or there are not as many contexts as mentions.
        """
        options = self.options if k is None else self.options.replace(k=k)
        k = options.k
        if contexts is not None and len(contexts) != len(mentions):
            raise ConfigError(f"{len(contexts)} contexts for {len(mentions)} mentions")
        if isinstance(mentions, str):
            raise ConfigError("a list of mentions is expected, not one string")
        asked = [m if isinstance(m, Mention) else Mention(m, options.language) for m in mentions]
        keys = [((m.expanded or m.text).strip(), known_tag(m.language) or options.language) for m in asked]
        distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        found = self._found(list(distinct), max(_WIDTH, 2 * k))
        shares = self._shares(keys, contexts, distinct, found)
        numbers = [distinct[key] for key in keys]
        # Mentions of one key differ in their candidates only where their contexts share out the score differently.
        wanted = {(n, tuple(shares.get(i, {}).items())): keys[i][1] for i, n in enumerate(numbers)}
        named = self._candidates({which: self._ordered(found[which[0]], dict(which[1]), k) for which in wanted}, wanted)
        links = []
        for i, mention in enumerate(asked):
            candidates = named[numbers[i], tuple(shares.get(i, {}).items())]
            nil = not candidates or candidates[0].score < options.threshold
            links.append(Link(mention.text, candidates, nil, mention.expanded))
        return links

    def _found(self, keys: list[tuple[str, str | None]], width: int) -> list[list[_Found]]:
        """Concepts of distinct mentions; those met lately are remembered.

        Under a hash: what is kept between calls are numbers of the index, no word of a note.
        """
        digests = [
            hashlib.blake2b(f"{width} {key[1]} {key[0]}".encode("utf-8", "surrogatepass")).digest() for key in keys
        ]
        found = {digest: self._remembered[digest] for digest in digests if digest in self._remembered}
        new = {digest: key for digest, key in zip(digests, keys, strict=True) if digest not in found}
        order = list(new)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            for digest, one in zip(batch, self._find([new[digest] for digest in batch], width), strict=True):
                found[digest] = one
                self._remembered[digest] = one
        while len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return [found[digest] for digest in digests]

    def _find(self, keys: Sequence[tuple[str, str | None]], width: int) -> list[list[_Found]]:
        """Concepts of each mention by their best name, best first."""
        texts, languages = [key[0] for key in keys], [key[1] for key in keys]
        evidence = gather(self.index, self.bundle.encoder, texts, languages, self._selection, width=width)
        rank = np.round(self.join.rank(evidence.features), 9)
        names = self.index.names
        position, entry = names.entries_of(evidence.row, self._selection)
        concept, code, preferred = names.columns(entry)
        mention = evidence.mention[position]
        exact = evidence.features[position, FEATURES.index("exact")] > 0
        bases = [language.partition("-")[0] for language in names.languages]
        same = np.array([[base == (la or "").partition("-")[0] for base in bases] for la in languages], dtype=bool)
        own = same[mention, code]
        # Of a concept's names the best counts; of equals one in the mention's language, then the preferred one. A name
        # to the letter stands before any other. Entries are ordered by name, concept id, language and text.
        order = np.lexsort((names.entry_order(entry), ~preferred, ~own, -rank[position], ~exact, mention))
        _, first = np.unique(mention[order] * (len(names.concept_ids) + 1) + concept[order], return_index=True)
        best = order[np.sort(first)]
        # equal ranks in the order of concept ids
        by_id = names.concept_order(concept[best])
        best = best[np.lexsort((by_id, -rank[position[best]], ~exact[best], mention[best]))]
        at = position[best]
        columns = (concept[best], rank[at], evidence.row[at], entry[best], preferred[best], evidence.route[at])
        found: list[list[_Found]] = [[] for _ in keys]
        for i, *values in zip(mention[best].tolist(), *(column.tolist() for column in columns), strict=True):
            found[i].append(_Found(*values))
        return found

    def _shares(
        self,
        keys: Sequence[tuple[str, str | None]],
        contexts: Sequence[str] | None,
        distinct: dict[tuple[str, str | None], int],
        found: list[list[_Found]],
    ) -> dict[int, dict[int, float]]:
        """For each mention whose best name belongs to several concepts: each concept's share of the score."""
        tied: dict[int, dict[int, float]] = {}
        for number, candidates in enumerate(found):
            holders = [c for c in candidates if c.row == candidates[0].row]
            if len(holders) > 1:
                # a name is first of all the name of the concept that prefers it
                weights = {c.concept: _PREFERRED if c.preferred else 1.0 for c in holders}
                tied[number] = {concept: weight / sum(weights.values()) for concept, weight in weights.items()}
        if not tied:
            return {}
        if contexts is None:
            return {i: tied[distinct[key]] for i, key in enumerate(keys) if distinct[key] in tied}
        wanted = [i for i, key in enumerate(keys) if distinct[key] in tied]
        # the mention itself says nothing about which of its concepts is meant
        around = self.bundle.encoder.encode([contexts[i].replace(keys[i][0], " ") for i in wanted])
        concepts = sorted({concept for same in tied.values() for concept in same})
        ids = [self.index.names.concept_ids[c] for c in concepts]
        languages = sorted({keys[i][1] or "" for i in wanted})
        labels: list[str] = []
        for language in languages:
            named = self.kb.preferred_names(ids, language or None)
            labels += [named.get(concept_id, concept_id) for concept_id in ids]
        places = [(language, concept) for language in languages for concept in concepts]
        vectors = dict(zip(places, self.bundle.encoder.encode(labels), strict=True))
        shares: dict[int, dict[int, float]] = {}
        for vector, i in zip(around, wanted, strict=True):
            same = tied[distinct[keys[i]]]
            likeness = np.array([float(vectors[keys[i][1] or "", c] @ vector) for c in same]) / _CONTEXT_TEMPERATURE
            weight = np.exp(likeness - likeness.max()) * np.array(list(same.values()))
            shares[i] = dict(zip(same, (weight / weight.sum()).tolist(), strict=True))
        return shares

    def _ordered(self, found: list[_Found], shares: dict[int, float], k: int) -> list[_Found]:
        """The best k: concepts that share the best name first, in the order of their shares; all others as they are."""
        if not shares:
            return found[:k]
        # those of one share stay as they are, which is in the order of their ids
        holders = sorted((f for f in found if f.concept in shares), key=lambda f: -shares[f.concept])
        return [*holders, *(f for f in found if f.concept not in shares)][:k]

    def _candidates(
        self, ordered: Mapping[_Wanted, list[_Found]], languages: Mapping[_Wanted, str | None]
    ) -> dict[_Wanted, tuple[Candidate, ...]]:
        """Candidates with their scores and names, of all wanted lists at once."""
        flat = [one for found in ordered.values() for one in found]
        names = self.index.names
        entries = np.array([one.entry for one in flat], dtype=np.int64)
        named = np.array([ROUTES[one.route] in ("exact", "inflected") for one in flat], dtype=bool)
        scores = self.join.score(np.array([one.rank for one in flat]), named).tolist()
        described = iter(zip(flat, scores, names.texts.many(entries), *names.origins(entries), strict=True))
        concepts: dict[str | None, set[int]] = {}
        for which, found in ordered.items():
            concepts.setdefault(languages[which], set()).update(one.concept for one in found)
        shown = {language: self._show(wanted, language) for language, wanted in concepts.items()}
        out: dict[_Wanted, tuple[Candidate, ...]] = {}
        for which, found in ordered.items():
            shares, show = dict(which[1]), shown[languages[which]]
            candidates, ceiling = [], 1.0
            for one, score, text, language, source in islice(described, len(found)):
                concept_id, preferred, types = show[one.concept]
                # what ranks lower is never the likelier link, however many concepts share the best name
                ceiling = min(score * shares.get(one.concept, 1.0), ceiling)
                candidates.append(
                    Candidate(
                        concept_id,
                        text if preferred is None else preferred,
                        round(ceiling, 6),
                        text,
                        language,
                        ROUTES[one.route],
                        source,
                        types,
                    )
                )
            out[which] = tuple(candidates)
        return out

    def _show(self, concepts: set[int], language: str | None) -> dict[int, _Shown]:
        """Id, preferred name and semantic types of concepts; those shown lately are remembered."""
        remembered = self._shown.setdefault(language, {})
        new = sorted(concepts - remembered.keys())
        if new:
            if len(remembered) + len(new) > _SHOWN:
                remembered = {c: remembered[c] for c in concepts & remembered.keys()}
                self._shown[language] = remembered
            names = self.index.names
            ids = names.concept_ids.many(np.array(new))
            preferred = self.kb.preferred_names(ids, language)
            for concept, concept_id in zip(new, ids, strict=True):
                remembered[concept] = concept_id, preferred.get(concept_id), names.concept_types(concept)
        return remembered
