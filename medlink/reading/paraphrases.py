"""Spans that become a name of the index in another wording.

That is a member of a list with the word that it lacks, a subject with its predicate, a name in inverted order, and an
abbreviation in full with its neighbours. A span counts if its wording equals a name of the index by word families.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from cachetools import LRUCache

from medlink.index import ConceptIndex
from medlink.index.family_match import entry_features
from medlink.index.names import Selections
from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.scan import Place, ScannedText, Scanner
from medlink.language.scope_rules import ScopeRules
from medlink.reading.candidates import Paraphrase, headword
from medlink.reading.coordination import members
from medlink.reading.inversion import inversions
from medlink.reading.predicates import predicates

_CACHE_SIZE = 1 << 14  # wordings
_USUAL = 0.5  # share of the uses of an abbreviation with the meaning that its neighbours complete
_BESIDE = 2  # most words on either side of an abbreviation


class ParaphraseReader:
    """Finds such spans in texts of one language, whose joining words and predicates ``rules`` have.

    Without ``shorthand``, abbreviations stay as they are.
    """

    def __init__(
        self,
        rules: ScopeRules,
        scanner: Scanner,
        index: ConceptIndex,
        selection: Selections | None,
        shorthand: AbbreviationTable | None = None,
    ) -> None:
        self._rules, self._shorthand, self._scanner = rules, shorthand, scanner
        self._index, self._selection = index, selection
        self._is_name = lru_cache(_CACHE_SIZE)(lambda text: bool(index.lookup(text, scanner.language, selection)))
        self._headword = lru_cache(_CACHE_SIZE)(self._find_headword)
        # word features by completed text, None if it is no name
        self._known: LRUCache[str, tuple[int, ...] | None] = LRUCache(_CACHE_SIZE)

    def read(self, texts: Sequence[ScannedText]) -> list[list[Paraphrase]]:
        """Find the spans of n texts that are a name of the index in other words, each with these words."""
        found = [list(dict.fromkeys(self._candidates(text))) for text in texts]
        self._look_up({completed for own in found for _, completed in own})
        return [self._select(own) for own in found]

    def _candidates(self, text: ScannedText) -> Iterator[Paraphrase]:
        yield from members(text, self._rules.joins)
        yield from predicates(text, self._rules)
        for place, orders, sure, opening in inversions(text):
            phrases = (
                self._headword(order)
                for order, (first, second) in zip(orders, opening, strict=True)
                if self._scanner.opens_phrase(first.entry, second.entry)
            )
            name = next(filter(self._is_name, chain(orders, filter(None, phrases))), None)
            # "Pneumonia, aspiration" is one finding, "seizures, fever" are two
            if name is not None or sure:
                yield place, name or orders[self._rules.head_first]
        if self._shorthand is not None:
            yield from _abbreviations(text, self._shorthand)

    def _find_headword(self, wording: str) -> str | None:
        text = self._scanner.scan(wording)
        return headword(text, (0, len(text.words)), self._index.forms, self._scanner.language)

    def _look_up(self, readings: set[str]) -> None:
        new = sorted(readings - self._known.keys())
        scanned = self._scanner.scan_all(new)
        unknown, names = len(self._index.forms.names), self._index.match_families(scanned, self._selection)
        for reading, text, whole in zip(new, scanned, names, strict=True):
            content = [at for at, word in enumerate(text.words) if not word.function]
            is_name = bool(content) and (content[0], content[-1] + 1) in whole
            features = (feature for at in content for feature in entry_features(text.words[at].entry, unknown))
            self._known[reading] = tuple(features) if is_name else None

    def _select(self, spans: Collection[Paraphrase]) -> list[Paraphrase]:
        longest: dict[tuple[Place, tuple[int, ...]], Paraphrase] = {}
        for span in spans:
            features = self._known.get(span[1])
            if features is not None:
                # the longest text includes function words
                key = span[0], features
                longest[key] = max(longest.get(key, span), span, key=lambda candidate: len(candidate[1]))
        return list(longest.values())


def _abbreviations(text: ScannedText, shorthand: AbbreviationTable) -> Iterator[Paraphrase]:
    """Abbreviations in full, with their neighbours: *inkompletter RSB*, *sek. HPT*, *RCA-Verschluss*."""
    words = text.words
    for at, usual, _ in shorthand.abbreviations(text):
        if usual.weight < _USUAL:
            continue
        for first in range(max(0, at - _BESIDE), at + 1):
            for stop in range(at + 1, min(len(words), at + _BESIDE + 1) + 1):
                own = words[first:stop]
                if stop - first < 2 or own[0].function or own[-1].function or own[0].clause != own[-1].clause:
                    continue
                before = text.written((first, at)) if first < at else ""
                behind = text.written((at + 1, stop)) if at + 1 < stop else ""
                yield (first, stop), " ".join([*before.split(), usual.long, *behind.split()])
